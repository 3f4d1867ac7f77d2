"""The worst examples of a report as the source has them: categories by name, times as times, texts and images."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from tasks.feed import open_snapshot
from tasks.records.reading import RecordsReader
from tasks.sources.features import Feature
from tasks.training.board import WORST, written_in
from tasks.training.event_file import EventFile
from tasks.view.columns import moment
from tasks.view.examples import data_uri
from tasks.view.facts import Facts
from tasks.view.report_rows import Missed, Sequence, Wrong

COLUMNS = 12
"""Columns that are shown, at most: those with the closest association with what is predicted."""

CHARACTERS = 160
"""Characters of a text that are shown, at most."""

SIDE = 96
"""Pixels of the longer side of an image, about; a smaller one is enlarged by a whole number."""

SHOWN = ("input", "group", "time", "weight")
"""The roles of the columns that are shown."""


@dataclass(frozen=True)
class Example:
    """An example of a report: its key, the cells of its answer, and its cells by column."""

    key: str
    answers: list[str]
    image: str = ""
    """The address of its picture; empty without one."""
    cells: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Worst:
    """The worst examples, and the titles of their cells."""

    titles: list[str]
    columns: list[str]
    left_out: int
    examples: list[Example]

    @property
    def pictured(self) -> bool:
        """Whether they are images."""
        return any(example.image for example in self.examples)


def worst(facts: Facts) -> Worst | None:
    """Return the worst examples of the test split; None where the report names none."""
    test = facts.test
    named: tuple[tuple[Wrong | Missed | Sequence, ...], list[str]]
    if test.most_wrong:
        named = test.most_wrong, ["label", "predicted", "#confidence"]
    elif test.furthest:
        named = test.furthest, [title for name in test.targets for title in (f"#{name}", "#predicted")]
    elif test.sequences:
        named = test.sequences, ["#tokens that are wrong", "#tokens"]
    else:
        return None
    rows, titles = named
    columns, left_out, content = _contents(facts)
    shown = [Example(row.key, row.answers, *content(row.row)) for row in rows]
    return Worst(titles, columns, left_out, shown)


Content = Callable[[int | None], tuple[str, list[str]]]


def _contents(facts: Facts) -> tuple[list[str], int, Content]:
    """Return the columns to show, the number of others, and a function that returns picture and cells of a test row."""
    snapshot, records = facts.one("snapshot"), facts.one("records")
    if snapshot is None or records is None:
        return [], 0, lambda row: ("", [])
    reader, rows = RecordsReader(records.path), open_snapshot(snapshot.path)
    profile = records.manifest["statistics"].get("profile", {}).get("columns", {})
    inputs = {name: each for name, each in reader.features.items() if each.role in SHOWN}
    images = [name for name, each in inputs.items() if each.kind == "image"]
    closest = sorted(inputs.keys() - images, key=lambda name: (-profile.get(name, {}).get("association", 0), name))
    columns = closest[:COLUMNS]

    def content(row: int | None) -> tuple[str, list[str]]:
        if row is None:
            return "", []
        example = reader.example("test", int(rows.pieces("test", row)[0, 0]))
        picture = thumbnail(bytes(example[images[0]][0])) if images else ""
        return picture, [cell(inputs[name], example[name]) for name in columns]

    return columns, len(closest) - len(columns), content


def cell(feature: Feature, values: Any) -> str:
    """Return the value of a column of a record as text, shortened; empty for a missing one."""
    text = plain(feature, values)
    if not isinstance(text, str):
        numbers = np.asarray(text).ravel()
        listed = ["" if np.isnan(each) else f"{each:.6g}" for each in numbers[:COLUMNS].tolist()]
        text = ", ".join(listed) + (", …" if numbers.size > COLUMNS else "")
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…"


def plain(feature: Feature, values: Any) -> Any:
    """Return the value of a feature of a record as a person reads it: a text, or of numbers an array."""
    match feature.kind:
        case "label":
            return (feature.classes or ())[int(values[0])]
        case "time":
            return moment(int(values[0]))
        case "audio":
            return f"{len(values[0]):,} bytes of sound"
        case "number":
            return np.asarray(values)
        case "words":
            return " ".join(bytes(word).decode(errors="replace") for word in values)
        case "tags":
            return " ".join((feature.classes or ())[int(number)] for number in values)
    return bytes(values[0]).decode(errors="replace")


def on_board(facts: Facts) -> None:
    """Write the worst examples for TensorBoard, as images and as a table, where its training wrote something."""
    folder, shown = written_in(facts.run.folder), worst(facts)
    if folder is None or shown is None or facts.model is None:
        return
    step, events = facts.model.manifest["counts"]["steps"], EventFile(folder / WORST, anew=True)
    for example in shown.examples:
        if example.image:
            content = base64.b64decode(example.image.partition(",")[2])
            with Image.open(io.BytesIO(content)) as image:
                size = image.size
            answer = ", ".join(map(": ".join, zip(map(_untitled, shown.titles), example.answers, strict=True)))
            events.images(step, f"worst test examples/{example.key}", [content], *size, about=answer)
    events.text(step, "worst test examples", "\n".join(_markdown(shown)))
    events.close()


def _markdown(shown: Worst) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    titles = ["key", *map(_untitled, shown.titles), *shown.columns]
    rows = ([each.key, *each.answers, *each.cells] for each in shown.examples)
    for row in (titles, ["---"] * len(titles), *rows):
        yield f"| {' | '.join(text.replace('|', '/') for text in row)} |"


def _untitled(title: str) -> str:
    return title.removeprefix("#")


def thumbnail(payload: bytes) -> str:
    """Return an image file as the address of a small PNG; empty for a missing one."""
    if not payload:
        return ""
    with Image.open(io.BytesIO(payload)) as image:
        scale = SIDE / max(image.size)
        enlarged = scale >= 1
        scale = float(int(scale)) if enlarged else scale
        width, height = (max(1, round(side * scale)) for side in image.size)
        how = Image.Resampling.NEAREST if enlarged else Image.Resampling.LANCZOS
        small = image.convert("RGB").resize((width, height), how)
    buffer = io.BytesIO()
    small.save(buffer, "PNG")
    return data_uri(buffer.getvalue())
