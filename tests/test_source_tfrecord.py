"""Foreign TFRecord files: any writer's examples, compressed or not, and each bad one named."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.sources import encoding, table_files
from tasks.sources.kinds.tables import TfrecordSource
from tasks.sources.record_files import decode, masked
from tests.support.rows import everything

COLUMNS = {"name": "text", "age": "number", "box": "number[2, 2]", "class": "category", "photo": "image"}


def field(number: int, content: bytes) -> bytes:
    return encoding.varint(number << 3 | 2) + encoding.varint(len(content)) + content


def feature(values: Any, packed: bool = True) -> bytes:
    """A serialised Feature of a list of bytes, integers or floats."""
    if not values or isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values)) if values else b""
    integers = isinstance(values[0], int)
    each = [encoding.varint(v % 2**64) if integers else np.float32(v).tobytes() for v in values]
    tag = b"\x08" if integers else b"\x0d"
    inner = field(1, b"".join(each)) if packed else b"".join(tag + value for value in each)
    return field(3 if integers else 2, inner)


def example(packed: bool = True, **features: Sequence[Any]) -> bytes:
    entries = (
        field(1, field(1, name.rstrip("_").encode()) + field(2, feature(list(values), packed)))
        for name, values in features.items()
    )
    return field(1, b"".join(entries))


def person(number: int, **more: Sequence[Any]) -> bytes:
    given = {"name": [f"n{number}".encode()], "age": [number], "box": [0.5, 1, 2, 3], "class_": [number % 2]}
    return example(**{**given, "photo": [b"\xff"], **more})


def framed(payloads: list[bytes]) -> bytes:
    return bytes(encoding.framed(pa.array(payloads, pa.large_binary()))[0])


def source(path: Path, columns: dict[str, str] = COLUMNS, **more: Any) -> TfrecordSource:
    return TfrecordSource.model_validate({"path": str(path), "columns": columns, **more})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., TfrecordSource]:
    def written(*payloads: bytes, **columns: str) -> TfrecordSource:
        (tmp_path / "people.tfrecord").write_bytes(framed(list(payloads)))
        return source(tmp_path / "people.tfrecord", columns or COLUMNS)

    return written


def test_values_of_scalars_and_arrays(write: Callable) -> None:
    read = everything(write(person(1), person(2, age=[2.5], class_=[b"x"], photo=[]), example(name=[b"\xc3\xa9"])))
    assert read.columns == {
        "name": ["n1", "n2", "é"],
        "age": [1, 2.5, None],
        "box": [[0.5, 1, 2, 3], [0.5, 1, 2, 3], None],
        "class": ["1", "x", None],
        "photo": [b"\xff", None, None],
    }
    assert (read.keys[2], read.places[2], read.bad) == ("people.tfrecord:000000002", "people.tfrecord row 3", {})


def test_pieces_are_ranges_of_a_file(write: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(*(person(number) for number in range(100)))
    whole = everything(config)
    monkeypatch.setattr(table_files, "PARTITION_BYTES", 2000)
    monkeypatch.setattr(table_files, "BATCH_ROWS", 3)
    assert 4 < len(config.open().partitions()) < 20
    assert everything(config, backwards=True) == whole
    assert len(whole.keys) == 100


def test_examples_become_records(tmp_path: Path, bench: Workbench) -> None:
    for part in range(2):
        payloads = [example(name=[b"%d" % number], age=[number]) for number in range(part, 60, 2)]
        (tmp_path / f"people.tfrecord-0000{part}-of-00002").write_bytes(framed(payloads))
    outcome = conversion.build(bench, source(tmp_path, {"name": "text", "age": "number"}), RecordsConfig())
    assert outcome.counts["examples"] == 60


def test_what_tensorflow_writes(tmp_path: Path, tf: Any) -> None:
    train = tf.train

    def numbers(*values: int) -> Any:
        return train.Feature(int64_list=train.Int64List(value=values))

    features = {
        "name": train.Feature(bytes_list=train.BytesList(value=["é".encode()])),
        "age": numbers(-(2**63)),
        "box": train.Feature(float_list=train.FloatList(value=[1, 2, 3, 4])),
        "class": numbers(2**63 - 1),
    }
    payload = train.Example(features=train.Features(feature=features)).SerializeToString()
    for compression in ("", "GZIP"):
        path = str(tmp_path / f"people{compression}.tfrecord")
        with tf.io.TFRecordWriter(path, compression) as writer:
            for _ in range(3):
                writer.write(payload)
    read = everything(source(tmp_path))
    assert read.rows == [("é", -(2**63), [1, 2, 3, 4], 2**63 - 1, None)] * 6


VALUES = st.lists(st.integers(-(2**63), 2**63 - 1)) | st.lists(st.floats(width=32, allow_nan=False))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "é"]), VALUES), st.booleans())
def test_lists_are_the_same_packed_or_not(features: dict[str, list[Any]], packed: bool) -> None:
    decoded = decode(example(packed, **features))
    assert {name: [v.item() for v in values] for name, values in decoded.items()} == features  # type: ignore[union-attr]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_changed_example_is_read_or_refused(data: st.DataObject) -> None:
    payload = bytearray(person(300, age=[2**40]))
    for position in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=3)):
        payload[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    with suppress(ValueError):
        decode(bytes(payload[:cut]))


@pytest.mark.parametrize("octets", [b"\x80", b"\x01\xff", b"\xff" * 10 + b"\x01"])
def test_an_integer_that_is_cut_or_too_long_is_none(octets: bytes) -> None:
    entry = field(1, b"a") + field(2, field(3, field(1, octets)))
    with pytest.raises(ValueError, match="an integer that is cut"):
        decode(field(1, field(1, entry)))


def test_fields_of_others_are_passed_over() -> None:
    """A feature list beside a large field number, a varint, and numbers of fixed size, as later versions may have."""
    unknown = field(99, b"x") + b"\x38\xac\x02" + b"\x39" + b"8 octets" + b"\x3d" + b"four"
    payload = field(1, field(1, field(1, b"a") + unknown + field(2, feature([7]))))
    assert decode(payload)["a"] == [7]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("parts", "values"),
    [
        (([1, 2], [3]), [1, 2, 3]),
        (([0.5], [1.5]), [0.5, 1.5]),
        (([b"a"], [b"b"]), [b"a", b"b"]),
        (([1], [b"b"]), [b"b"]),
    ],
    ids=("integers", "floats", "bytes", "the last kind"),
)
def test_parts_of_a_list_are_joined_as_protobuf_does(parts: tuple[Any, Any], values: list[Any], packed: bool) -> None:
    """A message may come in parts, whose lists follow each other; of several kinds of lists the last one is meant."""
    one, other = (feature(part, packed) for part in parts)
    for entry in (field(2, one + other), field(2, one) + field(2, other)):
        assert list(decode(field(1, field(1, field(1, b"a") + entry)))["a"]) == values


def test_each_bad_example_is_named(write: Callable) -> None:
    read = everything(
        write(
            person(0),
            person(1, age=[1, 2]),
            person(2, box=[1.0]),
            person(3, box=[b"a"] * 4),
            person(4, photo=[5]),
            person(5, name=[b"\xff"]),
            person(6, shoe=[1]),
            person(7)[:-1],
            person(7)[:-3],
            person(8) + field(2, b""),
            person(9),
        )
    )
    assert [int(key[-9:]) for key in read.keys] == [0, 10]
    assert list(read.bad.values()) == [
        "age: 2 values, not 1",
        "box: 1 values, not 4",
        "box: bytes, and the column is of type number[2, 2]",
        "photo: a number, and an image is the bytes of its file",
        "name: byte 0 (0xff) is not UTF-8",
        "a feature 'shoe' that source.columns does not name",
        *["not a tf.train.Example: a field that is cut, or of no wire type"] * 2,
        "not a tf.train.Example: a SequenceExample, or another message",
    ]
    assert "people.tfrecord row 2" in read.bad


def test_the_first_example_says_which_features_there_are(write: Callable) -> None:
    with pytest.raises(Refused, match="shoe of people.tfrecord row 1 is not named"):
        write(person(0, shoe=[1])).open()
    assert everything(write()).keys == []


@pytest.mark.parametrize("name", ["people.tfrecord", "people.tfrecord.gz", "people.tfrecords-00000-of-00001.gz"])
def test_a_compressed_file_by_its_name_or_its_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(framed([person(n) for n in range(5)])))
    (tmp_path / "people.tfrecord.bak").write_bytes(b"x")
    assert everything(source(tmp_path)).keys[-1] == f"{name}:000000004"


def cut_and_changed(content: bytes) -> Iterator[tuple[bytes, str]]:
    half = len(content) // 2
    yield content[:-3], "must be whole"
    yield content[:half] + b"?" + content[half + 1 :], "must be whole|CRC-32C"


def test_a_damaged_file_ends_the_run(write: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(*(person(number) for number in range(10)))
    path = tmp_path / "people.tfrecord"
    plain = path.read_bytes()
    for whole in (plain, gzip.compress(plain)):
        for damaged, message in cut_and_changed(whole):
            path.write_bytes(damaged)
            with pytest.raises(Failed, match=f"people.tfrecord.*({message})"):
                everything(config)
    path.write_bytes(plain)
    opened = config.open()
    partitions = opened.partitions()
    path.write_bytes(plain + framed([person(11)]))
    with pytest.raises(Failed, match="changed while it was read"):
        list(opened.read(partitions[0]))


def test_damage_in_a_range_of_a_file_is_named_by_its_place_in_the_file(write: Callable, tmp_path: Path) -> None:
    people = [person(number, name=[b"x" * (9 + number)]) for number in range(4)]
    opened: Any = write(*people).open()
    begins = [len(framed(people[:number])) for number in range(5)]
    content = bytearray(framed(people))
    content[begins[2] + 20] ^= 1
    (tmp_path / "people.tfrecord").write_bytes(content)
    with pytest.raises(Failed, match=rf"at byte {begins[2]}: a payload that is cut or has another CRC-32C"):
        list(opened.rows("people.tfrecord", (begins[1], begins[4], 1), ["name"], False))
    assert [len(rows.keys) for rows in opened.rows("people.tfrecord", (begins[0], begins[2], 0), ["name"], True)] == [2]


def test_a_length_that_is_not_true_takes_no_memory(write: Callable, tmp_path: Path) -> None:
    length = (2**50).to_bytes(8, "little")
    head = length + masked(google_crc32c.value(length))
    path = tmp_path / "people.tfrecord"
    for content in (head + b"x", gzip.compress(head + b"x" * (3 << 20))):
        path.write_bytes(content)
        with pytest.raises(Failed, match="at byte 0: a payload that is cut"):
            everything(source(path))
    path.write_bytes(gzip.compress(head + bytes(70 << 20)))
    with pytest.raises(Failed, match=r"over \d+ MiB in .* bytes"):
        everything(source(path))
