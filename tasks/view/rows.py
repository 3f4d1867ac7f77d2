"""Rows of records and snapshots in the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.artifacts import Artifact
from tasks.errors import Refused
from tasks.feed import open_snapshot
from tasks.records.reading import RecordsReader
from tasks.sources.features import Feature
from tasks.view.examples import VALUES, Texts
from tasks.view.words import columns_of
from tasks.view.worst import plain

CHARACTERS = 300
"""Characters of a text that are shown."""
COLUMNS = 32
"""Width of a picture in characters; one has two pixels, one above the other."""


def examples(artifact: Artifact, split: str, count: int, colours: bool) -> Iterator[str]:
    """Yield lines with the first examples of a split.

    Args:
        colours: whether images are drawn in colours of 24 bits; else their size is named.

    Raises:
        Refused: the artifact is neither records nor a snapshot, or has no such split.
    """
    if artifact.kind == "records":
        yield from _of_records(artifact.path, split, count, colours)
    elif artifact.kind == "snapshot":
        yield from _of_snapshot(artifact.path, split, count, colours)
    else:
        rule = "records and snapshots have rows"
        raise Refused("--rows", f"an artifact of kind {artifact.kind}", rule, "see `millrace list`")


def _of_records(path: Path, split: str, count: int, colours: bool) -> Iterator[str]:
    reader = RecordsReader(path)
    for row in range(min(count, _checked(split, reader.counts))):
        example = reader.example(split, row)
        yield f"{split} {row}: {bytes(example['key'][0]).decode()}"
        for name, feature in sorted(reader.features.items()):
            if feature.kind != "key":
                yield from _value(name, _content(feature, example[name]), colours)


def _content(feature: Feature, values: Any) -> Any:
    return _pixels(bytes(values[0])) if feature.kind == "image" else plain(feature, values)


def _pixels(payload: bytes) -> Any:
    if not payload:
        return "missing"
    with Image.open(io.BytesIO(payload)) as image:
        return np.asarray(image.convert("RGB"))


def _of_snapshot(path: Path, split: str, count: int, colours: bool) -> Iterator[str]:
    snapshot = open_snapshot(path)
    texts, columns = Texts(path), columns_of(path)
    for row in range(min(count, _checked(split, snapshot.counts))):
        yield f"{split} {row}"
        for name, array in sorted(snapshot.arrays(split).items()):
            feature, value, title = snapshot.features[name], np.asarray(array[row]), columns.get(name, name)
            if "vocabulary" in feature:
                yield from _value(title, texts.decoded(name, value), colours)
            elif "names" in feature:
                named = zip(feature["names"], value.ravel().tolist(), strict=True)
                yield from _value(title, ", ".join(f"{each} {number:.4g}" for each, number in named), colours)
            elif "classes" in feature:
                real = np.atleast_1d(value)[np.atleast_1d(value) >= 0]
                yield from _value(title, " ".join(feature["classes"][number] for number in real.tolist()), colours)
            else:
                yield from _value(title, value, colours)


def _checked(split: str, counts: dict[str, int]) -> int:
    if split not in counts:
        raise Refused("--split", split, f"must be one of {', '.join(counts)}", "correct it")
    return counts[split]


def _value(name: str, value: Any, colours: bool) -> Iterator[str]:
    """Yield the lines of a value."""
    if isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype == np.uint8:
        yield f"  {name}: {' x '.join(map(str, value.shape))} pixels"
        if colours:
            yield from _drawn(value)
        return
    if isinstance(value, np.ndarray):
        shown = ", ".join(
            "missing" if np.isnan(number) else f"{number:.5g}" for number in value.ravel()[:VALUES].tolist()
        )
        yield f"  {name}: {shown}{', …' if value.size > VALUES else ''}"
        return
    text = " ".join(str(value).split()) or "missing"
    yield f"  {name}: {text[:CHARACTERS]}{'…' if len(text) > CHARACTERS else ''}"


def _drawn(pixels: NDArray[np.uint8]) -> Iterator[str]:
    """Yield an image as half blocks: the colour of the character above, that of its background below."""
    image = Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).convert("RGB")
    width = min(COLUMNS, image.width)
    height = max(2, round(image.height * width / image.width / 2) * 2)
    small = np.asarray(image.resize((width, height)))
    for top in range(0, height, 2):
        cells = zip(small[top].tolist(), small[top + 1].tolist(), strict=True)
        blocks = "".join(f"\x1b[38;2;{a};{b};{c};48;2;{d};{e};{f}m▀" for (a, b, c), (d, e, f) in cells)
        yield f"    {blocks}\x1b[0m"
