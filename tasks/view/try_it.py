"""The commands that a run names at its end: they work when pasted, with a program and an input that are there."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tasks.reader.cast import EPOCH, MICROSECOND
from tasks.reader.values import NO_TIME
from tasks.records.reading import RecordsReader
from tasks.runs.home import find_home, local_home
from tasks.sources.features import Feature
from tasks.store.files import write
from tasks.view.facts import Facts
from tasks.view.words import raw_input

NAME = "example"
"""The file in the folder of the run, with the ending of its form."""

ROWS = 3
"""Rows of an example, at most."""

SOUNDS = {b"fLaC": ".flac", b"OggS": ".ogg", b"ID3": ".mp3"}
"""Endings of sounds by how the file begins; others are WAV files."""


def short(path: Path) -> Path:
    """Return a path relative to the working directory, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def command(*words: str | Path) -> str:
    """Return a command line of Millrace: with the path of its program where the shell would not find it, and with the
    home where the working directory does not lead to it."""
    home = find_home().root
    named = "" if home == local_home().root else f"MILLRACE_HOME={shlex.quote(str(home))} "
    return f"{named}{program()} {' '.join(shlex.quote(str(word)) for word in words)}"


def program() -> str:
    """Return how a shell calls Millrace: by name where that finds the one of this environment, else by its path."""
    own, found = Path(sys.prefix) / "bin" / "millrace", shutil.which("millrace")
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m flows"
    known = found is not None and Path(found).samefile(own)
    return "millrace" if known else shlex.quote(str(short(own)))


def example_of(run: Path) -> Path | None:
    """Return the example that a run wrote; None where it wrote none."""
    return next(iter(sorted(run.glob(f"{NAME}.*"))), None)


def write_example(facts: Facts) -> None:
    """Write raw test examples in a form that `millrace predict` reads; none where rows name files of their own."""
    export, records = facts.one("export"), facts.one("records")
    description = None if export is None else export.path / "transform" / "transform.json"
    if records is None or description is None or not description.is_file():
        return
    reader = RecordsReader(records.path)
    if not reader.counts.get("test"):
        return
    columns = json.loads(description.read_bytes())["columns"]
    rows = [reader.example("test", row) for row in range(min(ROWS, reader.counts["test"]))]
    if (made := raw(columns, reader.features, rows, raw_input(facts.config))) is not None:
        ending, content = made
        write(facts.run.folder / f"{NAME}{ending}", content)


def raw(
    columns: list[dict[str, Any]], features: Mapping[str, Feature], rows: list[Any], usual: str
) -> tuple[str, bytes] | None:
    """Return the ending and the content of a file with these rows of records, as a source would have them.

    Args:
        columns: those that the model reads, as in `transform.json`.
        usual: a file that the source has, by way of example: a text alone is a file where it is one there.
    """
    kinds = {column["kind"] for column in columns}
    if len(columns) == 1 and kinds <= {"image", "audio", "text"}:
        payload = bytes(rows[0][columns[0]["name"]][0])
        ending = ending_of(columns[0]["kind"], payload)
        if kinds != {"text"} or usual.endswith(ending):
            return (ending, payload) if payload else None
    if kinds & {"image", "audio"} or any("file" in column or _shifted(column) for column in columns):
        return None
    lines = [
        {column["name"]: cell(column, features[column["name"]], row[column["name"]]) for column in columns}
        for row in rows
    ]
    return ".jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def ending_of(kind: str, payload: bytes) -> str:
    """Return the ending of a file by its first bytes."""
    if kind == "text":
        return ".txt"
    if kind == "image":
        return ".png" if payload.startswith(b"\x89PNG") else ".jpg"
    return next((ending for begin, ending in SOUNDS.items() if payload.startswith(begin)), ".wav")


def cell(column: Mapping[str, Any], feature: Feature, values: Any) -> Any:
    """Return a value of a record as its source has it, as JSON; None for a missing one."""
    if feature.kind == "number":
        numbers = [None if np.isnan(value) else float(str(value)) for value in np.asarray(values, np.float32).ravel()]
        return np.array(numbers, object).reshape(feature.shape).tolist() if feature.shape else numbers[0]
    if feature.kind == "time":
        if int(values[0]) == NO_TIME:
            return None
        moment = EPOCH + int(values[0]) * MICROSECOND
        written = column.get("format", {}).get("date")
        return moment.strftime(written) if written else moment.replace(tzinfo=None).isoformat()
    if feature.kind == "words":
        return [bytes(word).decode() for word in values]
    return bytes(values[0]).decode() or None


def _shifted(column: Mapping[str, Any]) -> bool:
    """Return whether a number is written with an offset, which would be subtracted once more."""
    return bool(column.get("format", {}).get("offset"))
