"""From raw files to predictions, by the kind of snapshot: for `predict`, and as text and code of an export's README."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.data.images import prepare, read
from tasks.errors import Failed
from tasks.evaluation.language_model import METRICS
from tasks.evaluation.sampling import sample
from tasks.exporting.answers import ANSWERS, CONTINUATION, TEMPERATURE
from tasks.exporting.csv_rows import read_rows
from tasks.exporting.raw import TextSplit, predictions_of_texts
from tasks.exporting.transform import codec
from tasks.models.forward import Batch, Call, predict_batches

COLOURS = {1: ("grey", "L"), 3: ("RGB", "RGB")}
"""Colour and Pillow mode by the number of channels."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class RawInputs:
    """The raw files of a kind of snapshot."""

    predict: Callable[[str, Path, dict[str, Any], Call], Rows]
    """From a file's name, the export's folder, its transform and the model to predictions."""

    title: str
    """Title of the README's section."""

    fields: Callable[[dict[str, Any]], dict[str, Any]]
    """From the transform to further fields of the description and the code."""

    about: str
    """Describes the input, with the fields that `readme` fills."""

    golden: str
    """Describes the golden inputs, by their shape."""

    packages: tuple[str, ...]
    """Packages that the code imports besides NumPy and the runtime."""

    imports: tuple[str, ...]
    """Import statements of the code."""

    code: str
    """Makes `inputs` from a raw file."""


def _image(name: str, export: Path, transform: dict[str, Any], run: Call) -> Rows:
    pixels = prepare(read(Path(name)), transform, name)
    return [_row(name, predict_batches(run, Batch({"image": pixels[None]}))[0], transform)]


def _table(name: str, export: Path, transform: dict[str, Any], run: Call) -> Rows:
    outputs = predict_batches(run, Batch({"numbers": np.stack(read_rows(Path(name), transform["columns"]))}))
    names = [f"{name}:{number}" if len(outputs) > 1 else name for number in range(1, len(outputs) + 1)]
    return [_row(*row, transform) for row in zip(names, outputs, strict=True)]


def _row(name: str, outputs: npt.NDArray[np.float32], transform: dict[str, Any]) -> dict[str, Any]:
    row = ANSWERS[transform["task"]].row
    assert row is not None
    return {"input": name, **row(outputs.astype(np.float64), transform)}


def _text(name: str, export: Path, transform: dict[str, Any], run: Call) -> Rows:
    content = Path(name).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        saw = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        raise Failed(name, saw, "text must be UTF-8", "convert it") from error
    row: dict[str, Any] = {"input": name, "bytes": len(content), "bits_per_byte": None}
    if content:
        predictions = predictions_of_texts(TextSplit(export, transform, [name], [content]), run)
        row["bits_per_byte"] = METRICS["bits_per_byte"](predictions)
    continuation = sample(
        run, codec(export), text[-8 * transform["block"] :], CONTINUATION, TEMPERATURE, transform["block"]
    )
    return [{**row, "continuation": continuation}]


def _colour(transform: dict[str, Any]) -> dict[str, Any]:
    colour, mode = COLOURS[transform["channels"]]
    return {"colour": colour, "mode": mode}


RAW_INPUTS = {
    "image": RawInputs(
        _image,
        "From image files",
        _colour,
        "Input `$input`: uint8 [batch, $height, $width, $channels]. An image file is decoded (of 16 bits the upper 8), "
        "rotated by\nits EXIF orientation, composited on white if it is transparent, converted to $colour, and resized "
        "(bilinear,\nantialiased). In training TensorFlow decoded and resized the images; the code below uses Pillow, "
        "whose pixels differ\nby a few levels of 255.",
        "{0} test inputs",
        ("pillow",),
        ("from PIL import Image, ImageOps",),
        """\
image = ImageOps.exif_transpose(Image.open("example.png"))  # any image file
if image.mode.startswith("I"):  # 16 bits
    image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
white = Image.new("RGBA", image.size, "white")
image = Image.alpha_composite(white, image.convert("RGBA")).convert("$mode")
image = image.resize(($width, $height), Image.Resampling.BILINEAR)
inputs = {"image": np.asarray(image, np.uint8).reshape(1, $height, $width, $channels)}
""",
    ),
    "table": RawInputs(
        _table,
        "From a CSV file",
        lambda transform: {"width": len(transform["columns"]), "columns": ", ".join(transform["columns"])},
        "Input `$input`: float32 [batch, $width], the columns $columns.\nThe model standardises them itself.",
        "{0} test inputs",
        (),
        ("import csv", "import json"),
        """\
columns = json.load(open("transform/table.json", "rb"))["columns"]
with open("example.csv", newline="", encoding="utf-8-sig") as file:  # its first line has the names of the columns
    rows = [[float(row[name]) for name in columns] for row in csv.DictReader(file)]
inputs = {"numbers": np.array(rows, np.float32)}
""",
    ),
    "tokens": RawInputs(
        _text,
        "From text to text",
        lambda transform: {},
        "Input `$input`: int32 [batch, length], of any length; the model was trained on $block tokens at a time. Text "
        "becomes\ntokens by `transform/tokenizer.json`, a file of the package `tokenizers`, without special tokens.",
        "{0} rows of {1} test tokens",
        ("tokenizers",),
        ("from tokenizers import Tokenizer",),
        """\
encoding = Tokenizer.from_file("transform/tokenizer.json").encode("The ", add_special_tokens=False)  # any text
inputs = {"tokens": np.array([[$bos, *encoding.ids]], np.int32)}
""",
    ),
}
"""By the kind of snapshot."""
