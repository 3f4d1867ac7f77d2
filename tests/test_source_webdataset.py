"""Tar files of samples, as WebDataset and tar itself write them: grouped, without being extracted, damage found."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.sources import table_files
from tasks.sources.kinds.tables import WebdatasetSource
from tests.support.rows import everything

COLUMNS = {"jpg": "image", "cls": "category", "json.size": "number", "json.by.name": "text"}
Files = list[tuple[str, bytes | tarfile.TarInfo]]


def tar(files: Files, form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, content in files:
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def sample(number: int, folder: str = "a") -> Files:
    json = b'{"size": %d, "by": {"name": "ann"}}' % number
    name = f"{folder}/{number:04d}"
    return [(f"{name}.jpg", b"\xff" * number), (f"{name}.cls", b"%d\n" % (number % 2)), (f"{name}.json", json)]


def source(path: Path, columns: dict[str, str] = COLUMNS, **more: Any) -> WebdatasetSource:
    return WebdatasetSource.model_validate({"path": str(path), "columns": columns, **more})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., WebdatasetSource]:
    def written(*files: tuple[str, bytes | tarfile.TarInfo], columns: dict[str, str] = COLUMNS) -> WebdatasetSource:
        (tmp_path / "x.tar").write_bytes(tar(list(files)))
        return source(tmp_path / "x.tar", columns)

    return written


def link(name: str, kind: bytes = tarfile.SYMTYPE) -> tuple[str, tarfile.TarInfo]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return name, info


def test_files_of_one_name_are_an_example(write: Callable) -> None:
    folder, hidden = link("a", tarfile.DIRTYPE), ("a/._0002.jpg", b"x")
    read = everything(write(folder, *sample(1), ("README", b"x"), hidden, ("./a/0002.JPG", b"p"), ("__m__.json", b"?")))
    assert read.columns == {"jpg": [b"\xff", b"p"], "cls": ["1", None], "json.size": [1, None]} | {
        "json.by.name": ["ann", None]
    }
    assert (read.keys, read.places[1]) == (["x.tar:a/0001", "x.tar:a/0002"], "x.tar a/0002")


def test_examples_become_records(tmp_path: Path, bench: Workbench) -> None:
    columns = {"txt": "text", "cls": "category"}
    for part, suffix in enumerate(("tar", "tgz")):
        files: Files = []
        for number in range(part, 60, 2):
            files += [(f"{number}.txt", b"text %d" % number), (f"{number}.cls", b"%d" % (number % 2))]
        (tmp_path / f"x.{suffix}").write_bytes(tar(files) if suffix == "tar" else gzip.compress(tar(files)))
    outcome = conversion.build(bench, source(tmp_path, columns, label="cls"), RecordsConfig())
    assert outcome.counts["examples"] == 60
    assert outcome.features["cls"]["classes"] == ["0", "1"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tgz", "tar.zst", "tar.bz2"])
def test_every_form_and_compression(tmp_path: Path, form: int, suffix: str) -> None:
    long = "é" * 60 if form == tarfile.USTAR_FORMAT else "é" * 300
    content = tar([*sample(5, long), *sample(700)], form)
    kind = {"gz": "gzip", "tgz": "gzip", "zst": "zstd", "bz2": "bz2"}.get(suffix.rpartition(".")[2])
    path = tmp_path / f"x.{suffix}"
    if kind:
        with pa.OSFile(str(path), "wb") as file, pa.CompressedOutputStream(file, kind) as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    read = everything(source(tmp_path))
    assert read.keys == [f"x.{suffix}:{long}/0005", f"x.{suffix}:a/0700"]
    assert read.columns["jpg"][1] == b"\xff" * 700


def test_pieces_are_ranges_of_a_file(write: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(*(file for number in range(50) for file in sample(number)))
    whole = everything(config)
    monkeypatch.setattr(table_files, "PARTITION_BYTES", 20_000)
    monkeypatch.setattr(table_files, "BATCH_ROWS", 3)
    assert 4 < len(config.open().partitions()) < 20
    assert everything(config, backwards=True) == whole
    assert len(whole.keys) == 50 and not whole.bad


def test_each_bad_sample_is_named(write: Callable) -> None:
    read = everything(
        write(
            *sample(0),
            ("b1.cls", b"0"),
            link("b1.jpg"),
            ("b2.cls", b"0"),
            link("b2.jpg", tarfile.CHRTYPE),
            ("b3.cls", b"\xff"),
            ("b4.cls", b"0"),
            ("b4.cls", b"0"),
            ("b5.seg.png", b"0"),
            ("b6.json", b'{"size": 1, "shoe": 2}'),
            ("b7.json", b"{"),
            ("b8.json", b"[1]"),
            ("b9\udcff\n.cls", b"0"),
            ("b10.json", b'{"by": {"name": "\\ud83d"}}'),
            ("../../up.cls", b"0"),
            ("./a/../up.cls", b"0"),
            ("a..b/c.cls", b"0"),
        )
    )
    assert read.keys == ["x.tar:a/0000", "x.tar:a..b/c"]
    assert read.places == ["x.tar a/0000", "x.tar a..b/c"], "of what is left"
    assert read.bad == {
        "x.tar b1": "jpg: a symbolic link, and not a file",
        "x.tar b2": "jpg: a device, and not a file",
        "x.tar b3": "cls: byte 0 (0xff) is not UTF-8",
        "x.tar b4": "cls: two files",
        "x.tar b5": "'seg.png', which source.columns does not name",
        "x.tar b6": "'json.shoe', which source.columns does not name",
        "x.tar b7": "json: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "x.tar b8": "json: not a JSON object",
        "x.tar b10": "json: half of a surrogate pair",
        "x.tar ../../up": "a name with .., which leads out of its folder",
        "x.tar a/../up": "a name with .., which leads out of its folder",
        "x.tar b9\\udcff\\n": "'b9\\udcff\\n': an unprintable name",
    }


class Trap:
    """What makes a folder where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.mkdir, (self.path,)


def test_arrays_whole_json_and_ignored_files(write: Callable, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(4, dtype=np.int16).reshape(2, 2))
    pickled = io.BytesIO()
    np.save(pickled, np.array([Trap(tmp_path / "trapped")], object), allow_pickle=True)
    columns = {"npy": "number[2, 2]", "json": "text", "v.json": "number[2]", "bin": "ignore"}
    files = [("a.npy", buffer.getvalue()), ("a.json", b'{"b": 1}'), ("a.v.json", b"[1, 2]"), ("a.bin", b"\xff")]
    read = everything(write(*files, ("b.npy", pickled.getvalue()), columns=columns))
    assert read.rows == [([0, 1, 2, 3], '{"b": 1}', [1, 2])]
    assert read.bad == {"x.tar b": "npy: not an array of numbers"}
    for header in (b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,)}\n", b"{'a':"):
        broken = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        assert list(everything(write(("a.npy", broken), columns=columns)).bad.values()) == [
            "npy: not an array of numbers"
        ]
    assert not (tmp_path / "trapped").exists()


def test_the_first_sample_says_which_files_there_are(write: Callable) -> None:
    with pytest.raises(Refused, match="json.shoe of x.tar a is not named"):
        write(("a.json", b'{"shoe": 1}')).open()
    with pytest.raises(Refused, match="png of x.tar a is not named"):
        write(("a.png", b"")).open()
    assert everything(write()).keys == []


def test_a_sample_whose_files_are_apart_ends_the_run(write: Callable) -> None:
    with pytest.raises(Failed, match=r"further files of a/0001.*tar --sort=name"):
        everything(write(*sample(1), *sample(2), ("a/0001.txt", b"")))


def header_at(content: bytes, number: int) -> int:
    """The offset of a file's header."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.getmembers()[number].offset


@pytest.mark.parametrize("compress", [lambda content: content, gzip.compress], ids=["plain", "gzip"])
def test_a_damaged_file_ends_the_run(write: Callable, tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Python's tarfile reads each of them in silence, short."""
    write(*sample(600), *sample(2), *sample(3))
    content = (tmp_path / "x.tar").read_bytes()
    third = header_at(content, 3)
    damaged = {
        "the file ends": content[:third],
        "bad checksum": content[: third + 3] + b"?" + content[third + 4 :],
        "at byte 0: the file ends": content[:700],
        "an end with more behind it": content + content,
    }
    for saw, changed in damaged.items():
        path = tmp_path / "y.tar.gz" if compress is gzip.compress else tmp_path / "y.tar"
        path.write_bytes(compress(changed))
        with pytest.raises(Failed, match=f"y.tar.* at byte .*{saw.rpartition(': ')[2]}"):
            everything(source(path))


def test_a_cut_compression_and_a_bomb_end_the_run(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(tar(sample(1)))[:-9])
    with pytest.raises(Failed, match="x.tar.gz: .*must be whole"):
        everything(source(path))
    path.write_bytes(gzip.compress(tar([("a.jpg", bytes(70 << 20))])))
    with pytest.raises(Failed, match=r"over \d+ MiB in .* bytes"):
        everything(source(path))
    info = tarfile.TarInfo("a.jpg")
    info.size = 2**50
    path = tmp_path / "y.tar"
    path.write_bytes(info.tobuf())
    with pytest.raises(Failed, match="y.tar at byte 1536: the file ends"):
        everything(source(path))


def test_a_file_that_changes_ends_the_run(write: Callable, tmp_path: Path) -> None:
    opened = write(*sample(1)).open()
    [partition] = opened.partitions()
    (tmp_path / "x.tar").write_bytes(tar(sample(2)))
    with pytest.raises(Failed, match="changed while it was read"):
        list(opened.read(partition))
