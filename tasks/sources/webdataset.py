"""Examples in tar files as WebDataset writes them: the files whose names are the same up to the first dot."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import Failed
from tasks.sources import Bad, Rows, not_utf8
from tasks.sources.hashes import bytes_of, hashes_of
from tasks.sources.kinds.columns import check_columns
from tasks.sources.streams import Stream, TarEntry, compression_of, members, open_stream
from tasks.sources.table_files import Part, Tables, batches
from tasks.sources.values import NOT_NUMBERS, columns_of, names_in, value

ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2")
JSON = "json"


@dataclass
class Sample:
    """The files of an example."""

    name: str
    begin: int
    end: int = 0
    content: dict[str, bytes] = field(default_factory=dict)
    """By ending; without those that are ignored, where rows have no hash."""
    bad: str | None = None


class Webdataset(Tables):
    """Has a column for each of the config; a file or a field that a sample lacks is null.

    A sample with a file or a field that the config does not name is bad, also one with a link. Files without an ending,
    hidden ones and those named `__*__` are no samples. A key is the name of the tar file and that of the sample.
    """

    def check(self, path: str) -> None:
        with self._opened(path) as stream:
            for sample in grouped(members(stream, path, self._wanted), path):
                try:
                    names = list(names_in(self._objects(sample), set(self.config.columns)))
                except ValueError:  # a row that is bad
                    return
                names += [ending for ending in sample.content if not is_json(ending)]
                check_columns(self.config, {**self.config.columns, **dict.fromkeys(names)}, f"{path} {sample.name}")
                return

    def parts(self, path: str, target: int) -> Iterator[Part]:
        if _compression(path):
            yield Part(path, (self.root / path).stat().st_size)
            return
        begin = end = 0
        with self._opened(path) as stream:
            for sample in grouped(members(stream, path, lambda name: False), path):
                if end - begin >= target:
                    yield Part(path, end - begin, (begin, end))
                    begin = end
                end = sample.end
        if end > begin:
            yield Part(path, end - begin, (begin, end))

    def rows(self, path: str, where: tuple[Any, ...], columns: list[str], hashed: bool) -> Iterator[Rows]:
        begin, end = where or (0, None)
        wanted = _everything if hashed else self._wanted
        with self._opened(path) as stream:
            if begin:
                stream.seek(begin)  # type: ignore[attr-defined]
            found = grouped(members(stream, path, wanted, begin, end), path)
            for batch in batches(found, lambda sample: sum(map(len, sample.content.values()))):
                yield self._rows(path, batch, columns, hashed)

    def _wanted(self, name: str) -> bool:
        """Return whether a file is read: all but those that are ignored."""
        return self.config.columns.get(_parts(name)[1]) != "ignore"

    def _rows(self, path: str, samples: list[Sample], names: list[str], hashed: bool) -> Rows:
        types = {name: self.config.columns[name] for name in names}
        columns, bad = columns_of(samples, types, lambda item: self._fitting(item, names))
        good = [row for row in range(len(samples)) if row not in bad]
        if bad:
            columns = {name: column.take(pa.array(good, pa.int64())) for name, column in columns.items()}
        shown = [ascii(s.name)[1:-1] if not s.name.isprintable() else s.name for s in samples]
        left_out = [Bad(f"{path}:{shown[row]}", reason, f"{path} {shown[row]}") for row, reason in sorted(bad.items())]
        keys = pa.array([f"{path}:{shown[row]}" for row in good], pa.string())
        hashes = hashes_of([bytes_of(samples[row].content) for row in good]) if hashed else None
        return Rows(columns, keys, lambda row: f"{path} {shown[good[row]]}", bad=left_out, hashes=hashes)

    def _fitting(self, sample: Sample, names: list[str]) -> dict[str, Any]:
        """Return the values of a sample; raises `ValueError` where they are not as the config says."""
        if sample.bad:
            raise ValueError(sample.bad)
        objects, known = self._objects(sample), self.config.columns
        for name in (*(ending for ending in sample.content if not is_json(ending)), *names_in(objects, set(known))):
            if name not in known:
                raise ValueError(f"{name!r}, which source.columns does not name")
        return {
            name: self._value(name, sample.content[name]) if name in sample.content else self._field(name, objects)
            for name in names
        }

    def _objects(self, sample: Sample) -> dict[str, Any]:
        """Return the content of JSON files that are no columns themselves, by ending."""
        objects = {}
        for ending, content in sample.content.items():
            if is_json(ending) and ending not in self.config.columns:
                try:
                    objects[ending] = json.loads(content.decode())
                    if b"\\u" in content:
                        json.dumps(objects[ending], ensure_ascii=False).encode()
                except UnicodeEncodeError:
                    raise ValueError(f"{ending}: half of a surrogate pair") from None
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"{ending}: not JSON: {error}") from None
                if not isinstance(objects[ending], dict):
                    raise ValueError(f"{ending}: not a JSON object")
        return objects

    def _field(self, name: str, objects: dict[str, Any]) -> Any:
        found = value(objects, name)
        if found is not None and name in self.files:
            raise ValueError(f"{name}: a field of JSON, and an {self.config.columns[name]} is a file")
        return found

    def _value(self, name: str, content: bytes) -> Any:
        """Return the content of a file as its column needs it; raises `ValueError` where it does not fit."""
        column_type = self.config.columns[name]
        if name in self.files:
            return content
        if column_type.startswith("number["):
            return _array(name, content)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: {not_utf8(error)}") from None
        return text if column_type == "text" else text.strip()

    @contextmanager
    def _opened(self, path: str) -> Iterator[Stream]:
        with open_stream(self.root, path, _compression(path)) as stream:
            yield stream

    def _is_table(self, name: str) -> bool:
        return is_webdataset(name)


def grouped(files: Iterable[TarEntry], path: str) -> Iterator[Sample]:
    """Yield files grouped by their names up to the first dot of the last part."""
    sample: Sample | None = None
    seen = set()
    for file in files:
        name, ending = _parts(file.name)
        if not ending:
            continue
        if sample is None or sample.name != name:
            if sample is not None:
                yield sample
            sample = Sample(name, file.begin)
            if name in seen:
                rule, remedy = (
                    "the files of a sample follow each other",
                    "make it again, each name once: tar --sort=name",
                )
                raise Failed(f"{path} at byte {file.begin}", f"further files of {name}", rule, remedy)
            seen.add(name)
        sample.end = file.end
        if not name.isprintable():
            sample.bad = f"{name!a}: an unprintable name"
        elif ".." in name.split("/"):
            sample.bad = "a name with .., which leads out of its folder"
        elif file.reason:
            sample.bad = f"{ending}: {file.reason}, and not a file"
        elif ending in sample.content:
            sample.bad = f"{ending}: two files"
        elif file.content is not None:
            sample.content[ending] = file.content
    if sample is not None:
        yield sample


def samples(root: Path, path: str) -> Iterator[Sample]:
    """Yield the samples of a file below a folder with all their content."""
    with open_stream(root, path, _compression(path)) as stream:
        yield from grouped(members(stream, path, _everything), path)


def is_webdataset(name: str) -> bool:
    """Return whether a name is that of a tar file."""
    return name.lower().endswith(ENDINGS)


def _everything(name: str) -> bool:
    return True


def _compression(path: str) -> str | None:
    return "gzip" if path.lower().endswith(".tgz") else compression_of(path)


def _parts(name: str) -> tuple[str, str]:
    """Return the name of a file's sample, and the file's ending in lower case; none of what is in no sample."""
    folder, slash, base = name.removeprefix("./").rpartition("/")
    stem, _, ending = base.partition(".")
    return f"{folder}{slash}{stem}", ending.lower() if stem and not (stem[:2] == stem[-2:] == "__") else ""


def is_json(ending: str) -> bool:
    return ending.rpartition(".")[2] == JSON


def _array(name: str, content: bytes) -> Any:
    """Return an array from a file of NumPy's, or of JSON."""
    try:
        if name.endswith("npy"):
            return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        return json.loads(content.decode())
    except (ValueError, RecursionError, MemoryError, TokenError):  # of a header that is broken, or not true
        raise ValueError(f"{name}: {NOT_NUMBERS}") from None
