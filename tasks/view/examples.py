"""Examples and predictions as pictures and rows: of a split, of an augmented batch, of evaluations."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

from tasks.artifacts import Artifact
from tasks.config.inputs import IMAGE, SOUND
from tasks.config.task import UNTAGGED
from tasks.errors import Refused
from tasks.feed import open_snapshot
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter, input_kinds
from tasks.models.features import TOKENS, classes, model_inputs, targets
from tasks.records.reading import RecordsReader
from tasks.sources.features import EPOCH, MICROSECOND, NO_TIME, Feature
from tasks.training.samples import FILE, read
from tasks.view import seeds
from tasks.view.facts import Facts
from tasks.view.judgement import data_uri

CHARACTERS = 300
"""Characters of a text that are shown."""
VALUES = 12
"""Values of an array that are shown."""
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
                yield from _value(name, _plain(feature, example[name]), colours)


def _plain(feature: Feature, values: Any) -> Any:
    """Return the value of a feature as a person reads it."""
    match feature.kind:
        case "label":
            return (feature.classes or ())[int(values[0])]
        case "time":
            moment = int(values[0])
            return "missing" if moment == NO_TIME else (EPOCH + moment * MICROSECOND).isoformat()
        case "image":
            return _pixels(bytes(values[0]))
        case "audio":
            return f"{len(values[0]):,} bytes of sound"
        case "number":
            return np.asarray(values)
        case "words":
            return " ".join(bytes(word).decode(errors="replace") for word in values)
        case "tags":
            return " ".join((feature.classes or ())[int(number)] for number in values)
    return bytes(values[0]).decode(errors="replace")


def _pixels(payload: bytes) -> Any:
    if not payload:
        return "missing"
    with Image.open(io.BytesIO(payload)) as image:
        return np.asarray(image.convert("RGB"))


def _of_snapshot(path: Path, split: str, count: int, colours: bool) -> Iterator[str]:
    snapshot = open_snapshot(path)
    texts = Texts(path)
    for row in range(min(count, _checked(split, snapshot.counts))):
        yield f"{split} {row}"
        for name, array in sorted(snapshot.arrays(split).items()):
            feature, value = snapshot.features[name], np.asarray(array[row])
            if "vocabulary" in feature:
                yield from _value(name, texts.decoded(name, value), colours)
            elif "names" in feature:
                named = zip(feature["names"], value.ravel().tolist(), strict=True)
                yield from _value(name, ", ".join(f"{each} {number:.4g}" for each, number in named), colours)
            elif "classes" in feature:
                real = np.atleast_1d(value)[np.atleast_1d(value) >= 0]
                yield from _value(name, " ".join(feature["classes"][number] for number in real.tolist()), colours)
            else:
                yield from _value(name, value, colours)


class Texts:
    """Turns tokens of a snapshot back to text."""

    def __init__(self, path: Path) -> None:
        description = path / "transform" / "transform.json"
        table = json.loads(description.read_bytes()) if description.is_file() else {"layout": [], "transforms": {}}
        columns = {place["array"]: place["column"] for place in table["layout"]}
        self._transforms = {array: table["transforms"][column] for array, column in columns.items()}
        self._folder = path / "transform"

    def decoded(self, name: str, tokens: NDArray[Any]) -> str:
        """Return the text of tokens; ids where it cannot be had."""
        if name not in self._transforms:  # of a language model
            from tasks.snapshots.text import Codec

            return Codec.open(self._folder).decode(tokens).decode(errors="replace")
        state, ids = self._transforms[name], (tokens[tokens > 0].astype(np.int64) - 1).tolist()
        if state["kind"] == "words":
            return " ".join(["?", *state["values"]][number] for number in ids)
        if state.get("method") == "bytes":
            return bytes(ids).decode(errors="replace")
        if "file" not in state:
            return f"ids {ids[:VALUES]}"
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str((self._folder / state["file"]).read_text(encoding="utf-8"))
        return str(tokenizer.decode(ids))


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


SHOWN_OF_BATCH = 8
"""Examples side by side."""
SIDE = 96
"""Pixels of an example's longer side, about; one is enlarged by a whole number."""
GAP = 4


def augmented(facts: Facts) -> list[dict[str, str]]:
    """Return for each input that `train.augment` changes a title and a picture, as the address of a PNG."""
    model, snapshot = facts.model, facts.one("snapshot")
    made_by = None if model is None else model.trained_by
    if made_by is None or snapshot is None:
        return []
    configs = TypeAdapter(tuple[AugmentConfig, ...]).validate_json(json.dumps(made_by["train"].get("augment", [])))
    if not configs:
        return []
    opened = open_snapshot(snapshot.path)
    order = made_by["train"].get("order", "shuffled")
    reader = opened.reader("train", made_by["train"]["batch_size"], seed=made_by["seed"], order=order)
    before = {name: values[:, :SHOWN_OF_BATCH] for name, values in reader.read(0, 1).items()}
    epochs = reader.epochs_of(0, 1)[:, :SHOWN_OF_BATCH]
    after = Augmenter(configs, opened.features, reader.arrays, made_by["seed"])(before, epochs)
    pictures = []
    for name, kind in sorted(input_kinds(opened.features).items()):
        if kind in (IMAGE, SOUND) and not np.array_equal(before[name], after[name]):
            rows = [[_as_pixels(kind, values) for values in of[name][0]] for of in (before, after)]
            pictures.append({"title": f"{name}: as stored, and below as the model saw it", "uri": _grid(rows)})
    return pictures


def picture(values: NDArray[np.uint8]) -> str:
    """Return an image [height, width, channels] as the address of a PNG."""
    return _grid([[_as_pixels(IMAGE, values)]])


def _as_pixels(kind: str, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an example as uint8 [height, width, 3]; a sound with time to the right and high bands above."""
    if kind == SOUND:
        span = float(np.ptp(values)) or 1.0
        values = (255 * (values.T[::-1, :, None] - values.min()) / span).astype(np.uint8)
    return np.broadcast_to(values, (*values.shape[:2], 3)).astype(np.uint8)


def _grid(rows: list[list[NDArray[np.uint8]]]) -> str:
    height, width = rows[0][0].shape[:2]
    scale = max(1, SIDE // max(height, width))
    height, width = height * scale, width * scale
    page = Image.new("RGB", (len(rows[0]) * (width + GAP) - GAP, len(rows) * (height + GAP) - GAP), "white")
    for line, row in enumerate(rows):
        for number, pixels in enumerate(row):
            enlarged = Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)
            page.paste(enlarged, (number * (width + GAP), line * (height + GAP)))
    buffer = io.BytesIO()
    page.save(buffer, "PNG")
    return data_uri(buffer.getvalue())


STEPS = 6
"""Evaluations that are shown: the first, the last, and some between."""
CHARACTERS_OF_SAMPLE = 160

Arrays = dict[str, NDArray[Any]]
Cell = tuple[str, bool | None]
"""A prediction as text, and whether it is right; None where that is no question of yes or no."""


def samples(facts: Facts) -> dict[str, Any] | None:
    """Return steps, and for each example its picture or text, the right answer, and a prediction for each step."""
    folder, snapshot = seeds.own_folder(facts), facts.one("snapshot")
    if folder is None or snapshot is None or not (taken := read(folder / FILE)):
        return None
    reader, texts = open_snapshot(snapshot.path), Texts(snapshot.path)
    right, predicted = SHOWN[facts.config.model.task]
    numbers = {*np.linspace(0, len(taken) - 1, STEPS).round().astype(int).tolist()}
    chosen = [taken[number] for number in sorted(numbers)]
    rows = []
    for number in range(len(chosen[0][1])):
        arrays = {name: np.asarray(array[number]) for name, array in reader.arrays("validation").items()}
        cells = [predicted(predictions[number], arrays, reader.features, texts) for _, predictions in chosen]
        rows.append({**inputs(arrays, reader.features, texts), "right": right(arrays, reader.features), "cells": cells})
    return {"steps": [step for step, _ in chosen], "rows": rows}


def inputs(arrays: Arrays, features: dict[str, Any], texts: Texts) -> dict[str, Any]:
    """Return the address of an example's picture, and its text, where it has them."""
    shown: dict[str, Any] = {"picture": None, "text": ""}
    for each in model_inputs(features):
        values = arrays[each.name]
        if values.ndim == 3 and values.dtype == np.uint8:
            shown["picture"] = picture(values)
        elif "vocabulary" in features[each.name]:
            shown["text"] = shortened(texts.decoded(each.name, values))
    return shown


def _class(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    (best, probability), *_ = predicted
    return f"{classes(features)[best]} {probability:.0%}", best == int(arrays["label"])


def _labels(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    names = targets(features)
    return ", ".join(f"{names[number]} {probability:.0%}" for number, probability in predicted), None


def _values(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    return ", ".join(f"{value:.4g}" for value in predicted), None


def _text(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    return shortened(texts.decoded(TOKENS, np.array(predicted))), None


def _tags(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    return shortened(_named(np.array(predicted), arrays, features)), None


def _named(numbers: NDArray[Any], arrays: Arrays, features: dict[str, Any]) -> str:
    """Return the classes of the tokens of an example."""
    return " ".join(classes(features)[number] for number in numbers[arrays["label"] != UNTAGGED].tolist())


def _right_labels(arrays: Arrays, features: dict[str, Any]) -> str:
    names = targets(features)
    return ", ".join(names[number] for number in np.flatnonzero(arrays["target"])) or "none"


SHOWN: dict[str, tuple[Callable[[Arrays, dict[str, Any]], str], Callable[..., Cell]]] = {
    "classification": (lambda arrays, features: classes(features)[int(arrays["label"])], _class),
    "multilabel": (_right_labels, _labels),
    "anomaly": (_right_labels, _labels),
    "ranking": (_right_labels, _labels),
    "regression": (lambda arrays, features: ", ".join(f"{value:.4g}" for value in arrays["target"].ravel()), _values),
    "language_model": (lambda arrays, features: "", _text),
    "tagging": (lambda arrays, features: shortened(_named(arrays["label"], arrays, features)), _tags),
}
"""What is shown of the right answer and of a prediction, by `model.task`."""


def shortened(text: str) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS_OF_SAMPLE else f"{line[:CHARACTERS_OF_SAMPLE]}…"
