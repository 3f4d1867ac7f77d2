"""Examples and predictions as the page shows them: of an augmented batch, of evaluations, of a report."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

from tasks.config.task import IMAGE, SOUND
from tasks.feed import open_snapshot
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter, input_kinds
from tasks.feed.snapshot_reader import document_of_targets
from tasks.models.features import TOKENS, model_inputs
from tasks.snapshots.text import Codec
from tasks.training.samples import FILE, SAMPLES, Cell, read
from tasks.view import trainings
from tasks.view.facts import Facts
from tasks.view.words import columns_of

VALUES = 12
"""Values of an array that are shown."""


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


SHOWN_OF_BATCH = 8
"""Examples side by side."""
SIDE = 96
"""Pixels of an example's longer side, about; one is enlarged by a whole number."""
GAP = 4


@dataclass(frozen=True)
class Picture:
    """A picture, as the address of a PNG."""

    title: str
    uri: str
    caption: str = ""


def augmented(facts: Facts) -> list[Picture]:
    """Return a picture of each input that `train.augment` changes."""
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
            title = columns_of(snapshot.path).get(name, name)
            pictures.append(Picture(f"{title}: as stored, and below as the model saw it", _grid(rows)))
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


@dataclass(frozen=True)
class Sampled:
    """An example: the address of its picture, and its text, where it has them, the right answer, and a prediction for
    each step."""

    picture: str | None
    text: str
    right: str
    cells: list[Cell]


def samples(facts: Facts) -> tuple[list[int], list[Sampled]] | None:
    """Return the steps of evaluations, and the examples with their predictions at these."""
    folder, snapshot = trainings.own_folder(facts), facts.one("snapshot")
    if folder is None or snapshot is None or not (taken := read(folder / FILE)):
        return None
    reader, texts = open_snapshot(snapshot.path), Texts(snapshot.path)
    sample = SAMPLES[facts.config.model.task]
    numbers = {*np.linspace(0, len(taken) - 1, STEPS).round().astype(int).tolist()}
    chosen = [taken[number] for number in sorted(numbers)]
    rows = []
    for number in range(len(chosen[0][1])):
        arrays = {name: np.asarray(array[number]) for name, array in reader.arrays("validation").items()}
        cells = [sample.cell(kept[number], arrays, reader.features, texts.decoded) for _, kept in chosen]
        shown = inputs(arrays, reader.features, texts)
        right = shortened(sample.right(arrays, reader.features))
        rows.append(Sampled(*shown, right, [(shortened(text), correct) for text, correct in cells]))
    return [step for step, _ in chosen], rows


def inputs(arrays: Arrays, features: dict[str, Any], texts: Texts) -> tuple[str | None, str]:
    """Return the address of an example's picture, and its text, where it has them."""
    address, text = None, ""
    for each in model_inputs(features):
        values = arrays[each.name]
        if values.ndim == 3 and values.dtype == np.uint8:
            address = picture(values)
        elif "vocabulary" in features[each.name]:
            text = shortened(texts.decoded(each.name, values))
    return address, text


def shortened(text: str) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS_OF_SAMPLE else f"{line[:CHARACTERS_OF_SAMPLE]}…"


PICTURES = {
    "confusion": "Rows are labels, columns predictions.",
    "reliability": "Accuracy by confidence.",
    "curves": "Precision against recall, and true positive rate against false positive rate: of two classes those of "
    "the positive one, of several of each against the others, of more than 20 their mean. The titles have average "
    "precision and area; of several classes the macro average, in which each class counts the same.",
    "bits_by_size": "Bits per byte of each file by its size; lines are the totals of all files.",
    "loss_by_position": "Mean loss by position in the row, which begins without context.",
    "labels": "Predicted probability of each label, for examples with and without it.",
    "predicted": "Predictions against targets, and the distribution of the errors.",
}
PASSAGES, WINDOW = 3, 160
"""Number of passages that are shown, and their length in tokens."""

READABLE = 20_000_000
"""Tokens of a split, at most, in which passages are searched."""

SURPRISES = (1.0, 2.5, 4.0, 6.0)
"""Losses in nats from which a token has the next shade of red."""


def pictures(facts: Facts) -> list[Picture]:
    """Return the plots in the report."""
    report = facts.one("report")
    folder = report.path / "pictures" if report else Path("nowhere")
    known = [folder / f"{name}.png" for name in PICTURES]
    # the page draws these itself: a matrix whose names can be read, and the examples with all of their columns
    own = {folder / f"{name}.png" for name, of in (("confusion", facts.test.confusion), ("most_wrong", True)) if of}
    others = sorted(set(folder.glob("*.png")) - set(known) - own) if report else []
    return [
        Picture(path.stem.replace("_", " "), data_uri(path.read_bytes()), PICTURES.get(path.stem, ""))
        for path in [*known, *others]
        if path.exists() and path not in own
    ]


def data_uri(png: bytes) -> str:
    """Return a PNG as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


@dataclass(frozen=True)
class Passage:
    """A passage of a file: its tokens as text, with a shade each."""

    key: str
    bits_per_byte: float
    begins: str
    tokens: list[tuple[str, int]]


def passages(facts: Facts) -> list[Passage]:
    """Return the passage with the highest loss of each of the worst files."""
    snapshot, report, worst = facts.one("snapshot"), facts.one("report"), facts.test.worst
    if snapshot is None or report is None or not worst or worst[0].row is None:
        return []
    nats = np.load(report.path / "predictions" / "test.npy", mmap_mode="r")
    if nats.size > READABLE:
        return []
    reader, codec = open_snapshot(snapshot.path), Codec.open(snapshot.path / "transform")
    tokens = np.asarray(reader.arrays("test")[TOKENS][:])[:, 1:].ravel()
    document, nats = document_of_targets(reader, "test").ravel(), np.asarray(nats).ravel()
    rows = []
    for row in worst[:PASSAGES]:
        own = np.flatnonzero((document == row.row) & (tokens != codec.bos))
        begin = _hardest(nats[own])
        shown = own[begin : begin + WINDOW]
        marked = _marked(codec, tokens[shown], np.searchsorted(SURPRISES, nats[shown], side="right"))
        rows.append(Passage(row.key, row.bits_per_byte, "…" if begin else "", marked))
    return rows


def _hardest(nats: NDArray[Any]) -> int:
    """Return the start of the window of tokens with the highest loss."""
    if len(nats) <= WINDOW:
        return 0
    sums = np.cumsum(np.concatenate([[0.0], nats], dtype=np.float64))
    return int(np.argmax(sums[WINDOW:] - sums[:-WINDOW]))


def _marked(codec: Codec, tokens: NDArray[Any], shades: NDArray[Any]) -> list[tuple[str, int]]:
    """Return texts and their shades; tokens that are bytes of one character are joined and get their highest shade."""
    marked: list[tuple[str, int]] = []
    pending, reddest = b"", 0
    for token, shade in zip(tokens.tolist(), shades.tolist(), strict=True):
        pending, reddest = pending + codec.decode([token]), max(reddest, shade)
        try:
            marked.append((pending.decode(), reddest))
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":  # the next token has the rest of the character
                continue
            marked.append((pending.decode(errors="replace"), reddest))
        pending, reddest = b"", 0
    return marked + ([(pending.decode(errors="replace"), reddest)] if pending else [])
