"""Samples of files of rows and of databases, for `millrace init`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.errors import Refused
from tasks.guess import examples, forms
from tasks.guess.column import payload_kind
from tasks.guess.forms import Form
from tasks.guess.splits import listed
from tasks.sources import Bad, Partition, Rows
from tasks.sources.features import KEY
from tasks.sources.files import find
from tasks.sources.kinds.columns import OtherColumns
from tasks.sources.tfrecord import is_shard
from tasks.sources.values import is_octets
from tasks.sources.webdataset import is_webdataset

SAMPLED = 10_000
"""Rows of a sample, about, from the beginning, the middle and the end."""
SAMPLED_BYTES = 32 << 20
"""Bytes of each of these three, about, from which they are enough."""
DATABASES = {".db", ".sqlite", ".sqlite3"}
COMPRESSED = ("", ".gz", ".zst", ".bz2")
ENDINGS = {
    "csv": (".csv", ".tsv"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet",),
    "tfrecord": (".tfrecord",),
    "webdataset": (".tar", ".tgz"),
}
"""Endings of files of rows by `source.kind`; those of text may be followed by that of a compression."""
FORMS: dict[str, Callable[[Path], Form]] = {
    "csv": forms.csv,
    "jsonl": forms.jsonl,
    "parquet": forms.parquet,
    "tfrecord": examples.tfrecord,
    "webdataset": examples.webdataset,
}
"""By `source.kind`, from a first file to its form."""


@dataclass(frozen=True)
class Sample:
    """Some raw rows of a source."""

    source: dict[str, Any]
    """The section `source` without the types of columns."""
    columns: dict[str, pa.Array]
    rows: int
    """Rows of the whole source, about; exact where the sample is all of it."""
    exact: bool
    root: Path
    """The folder to which paths in cells are relative."""
    form: Form


def kind_of_file(name: str) -> str | None:
    """Return the `source.kind` that reads a file by its name; None for another file."""
    if is_shard(name) or is_webdataset(name):
        return "tfrecord" if is_shard(name) else "webdataset"
    for kind in ("csv", "jsonl", "parquet"):
        compressed = ("",) if kind == "parquet" else COMPRESSED
        if name.lower().endswith(tuple(ending + packed for ending in ENDINGS[kind] for packed in compressed)):
            return kind
    return None


def sample_files(path: Path, kind: str, name: str) -> Sample:
    """Read some rows of a file, or of a folder's files of this kind; raises `Refused` where they are not of it."""
    if path.is_file():
        first, source = path, {"kind": kind, "name": name, "path": str(path)}
    else:
        names = [each for each in find(path, "**/*", ()) if kind_of_file(each) == kind]
        ending = max(ENDINGS[kind], key=lambda end: sum(end in each.lower() for each in names))
        first = path / names[0]
        source = {"kind": kind, "name": name, "path": str(path), "glob": f"**/*{ending}*"}
    form = FORMS[kind](first)
    return sampled({**source, **form.settings}, form, path.parent if path.is_file() else path)


def sample_database(url: str, table: str | None, name: str) -> Sample:
    """Read some rows of a table of a database; raises `Refused` where none, or not one, can be chosen."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        inspector = inspect(create_engine(url))
        tables = inspector.get_table_names()
        if table is None and len(tables) != 1:
            rule = "a preset reads one table"
            remedy = f"add --table {tables[0]}" if tables else "name another database"
            raise Refused("PATH", f"tables {', '.join(tables) or 'none'}", rule, remedy)
        chosen = table or tables[0]
        if chosen not in tables:
            raise Refused("--table", chosen, f"must be one of {', '.join(tables)}", "correct it")
        columns = [column["name"] for column in inspector.get_columns(chosen)]
        keys = inspector.get_pk_constraint(chosen)["constrained_columns"]
    except SQLAlchemyError as error:
        saw = str(error).splitlines()[0]
        raise Refused("PATH", saw, "must be a database that can be read", "correct the URL") from None
    if len(keys) != 1:
        rule = "rows are read in the order of a key of one column"
        raise Refused("PATH", f"table {chosen} with the primary key {keys or 'none'}", rule, "write a preset by hand")
    source = {"kind": "sql", "name": name, "url": url, "query": chosen, "key": keys[0]}
    form = Form(dict.fromkeys(columns, "text"), said=(f"table {chosen}, ordered by {keys[0]}",))
    return sampled(source, form, Path())


def sampled(source: dict[str, Any], form: Form, root: Path) -> Sample:
    """Read rows of the first, middle and last partition of a source, or of all partitions of a small one."""
    if not set(form.types.values()) - {"ignore"}:
        seen = "; ".join(f"{name} is ignored, {why}" for name, why in form.unread.items())
        raise Refused("PATH", seen, "a source has a column that is read", "name another, or write a preset by hand")
    key = source.get("key") or (KEY if KEY in form.types else None)
    types = {**form.types, **({key: "category"} if key else {})}
    columns = [name for name, kind in types.items() if kind != "ignore"]
    section = {**source, "key": key, "columns": types}
    if source["kind"] == "csv":  # other cells may mean a missing value, or a class: `guess_columns` sees
        section["missing"] = [""]
    with _one_table(form):
        opened = listed(section)
        partitions = opened.partitions()
    small = sum(partition.bytes for partition in partitions) <= SAMPLED_BYTES
    chosen = (
        partitions
        if small
        else [partitions[number] for number in sorted({0, len(partitions) // 2, len(partitions) - 1})]
    )
    read, bad, complete = dict[str, list[pa.Array]](), list[Bad](), len(chosen) == len(partitions)
    for partition in chosen:
        with _one_table(form):
            rows, whole = _rows(opened.read, partition, SAMPLED // len(chosen))
        complete &= whole
        for batch in rows:
            bad += batch.bad
            for name, values in batch.columns.items():
                parts = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
                read.setdefault(name, []).extend(parts)
    joined = {name: _decoded(_joined(read.get(name, []))) for name in columns}
    count = len(next(iter(joined.values()), []))
    if not count:
        raise Refused("PATH", f"{source.get('path', source.get('url'))}: no rows", "a table has rows", "name another")
    if not complete:
        count = max(count, _estimate(joined, count, sum(partition.bytes for partition in partitions)))
    if bad:
        seen = f"{len(bad):,} of the rows cannot be read, as {bad[0].place}: {bad[0].reason}"
        form = replace(form, said=(*form.said, f"{seen}; correct them, or raise records.bad_budget"))
    return Sample(source, joined, count, complete, root, form)


@contextmanager
def _one_table(form: Form) -> Iterator[None]:
    """Refuse files whose columns are not those of the first one, of which the form is."""
    try:
        yield
    except OtherColumns as other:
        rule = f"the tables of a folder have the same columns, as {', '.join(form.types)}"
        raise Refused("PATH", other.has, rule, "name one of the files, or move them to folders of their own") from None


def _rows(read: Callable[[Partition], Any], partition: Partition, most: int) -> tuple[list[Rows], bool]:
    """Return rows of a partition until there are enough, and whether these are all."""
    batches: list[Rows] = []
    count = size = 0
    for batch in read(partition):
        batches.append(batch)
        count += len(batch.keys)
        size += sum(values.nbytes for values in batch.columns.values())
        if count >= most or size >= SAMPLED_BYTES:
            return batches, False
    return batches, True


def _joined(parts: list[pa.Array]) -> pa.Array:
    types = {part.type for part in parts if not pa.types.is_null(part.type)}
    if len(types) > 1:
        return pa.array([None if v is None else str(v) for part in parts for v in part.to_pylist()], pa.string())
    wanted = next(iter(types), pa.string())
    return pa.concat_arrays([part.cast(wanted) for part in parts]) if parts else pa.array([], wanted)


def _decoded(values: pa.Array) -> pa.Array:
    """Return bytes that are text as such; all other values as they are."""
    if not is_octets(values.type):
        return values
    if payload_kind(values.drop_null().slice(0, 100).to_pylist()) != "ignore":
        return values
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return values


def _estimate(columns: dict[str, pa.Array], rows: int, size: int) -> int:
    """Return about how many rows so many bytes are."""
    held = sum(values.nbytes for values in columns.values())
    return int(size * rows / max(held, 1))
