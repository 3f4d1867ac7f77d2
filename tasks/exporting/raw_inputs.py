"""From raw files to predictions, by the kind of snapshot: for `predict`, and as text and code of an export's README."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.data.images import prepare, read
from tasks.data.tables import read_rows
from tasks.errors import Failed
from tasks.evaluation.language_model import METRICS
from tasks.evaluation.sampling import sample
from tasks.exporting.answers import ANSWERS
from tasks.exporting.raw import TextSplit, predictions_of_texts
from tasks.exporting.run import Runner
from tasks.exporting.transform import codec
from tasks.models.forward import predict_batches

CONTINUATION, TEMPERATURE = 60, 0.7
"""Tokens of a text's continuation, and the sampling temperature."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class RawInputs:
    """The raw files of a kind of snapshot."""

    predict: Callable[[str, Path, dict[str, Any], Runner], Rows]
    """From a file's name, the export's folder, its transform and the model to predictions."""

    title: str
    """Title of the README's section."""

    packages: str
    """Packages that its code imports besides NumPy and the runtime."""

    about: str
    """Describes the input, with the fields that `readme` fills."""

    golden: str
    """Describes the golden inputs, by their shape."""

    imports: tuple[str, ...]
    """Import statements of the code."""

    code: str
    """Computes `outputs` from a raw file."""


def _image(name: str, export: Path, transform: dict[str, Any], run: Runner) -> Rows:
    pixels = prepare(read(Path(name)), transform, name)
    return [_row(name, predict_batches(run, pixels[None])[0], transform)]


def _table(name: str, export: Path, transform: dict[str, Any], run: Runner) -> Rows:
    outputs = predict_batches(run, np.stack(read_rows(Path(name), transform["columns"])))
    names = [f"{name}:{number}" if len(outputs) > 1 else name for number in range(1, len(outputs) + 1)]
    return [_row(*row, transform) for row in zip(names, outputs, strict=True)]


def _row(name: str, outputs: npt.NDArray[np.float32], transform: dict[str, Any]) -> dict[str, Any]:
    row = ANSWERS[transform["task"]].row
    assert row is not None
    return {"input": name, **row(outputs.astype(np.float64), transform)}


def _text(name: str, export: Path, transform: dict[str, Any], run: Runner) -> Rows:
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


RAW_INPUTS = {
    "image": RawInputs(
        _image,
        "From image files",
        "pillow",
        "Input `$input`: uint8 [batch, $shape]. An image file is decoded, turned as its EXIF orientation says, put on "
        "white\nwhere it is transparent, converted to $colour, and resized (bilinear, antialiased).",
        "{0} test inputs",
        ("from PIL import Image, ImageOps",),
        """\
image = ImageOps.exif_transpose(Image.open("example.png"))  # any image file
white = Image.new("RGBA", image.size, "white")
image = Image.alpha_composite(white, image.convert("RGBA")).convert("$mode")
image = image.resize(($width, $height), Image.Resampling.BILINEAR)
outputs = predict(np.asarray(image, np.uint8).reshape(1, $shape))
""",
    ),
    "table": RawInputs(
        _table,
        "From a CSV file",
        "",
        "Input `$input`: float32 [batch, $shape], the columns $columns.\nThey are standardised inside of the model.",
        "{0} test inputs",
        ("import csv", "import json"),
        """\
columns = json.load(open("transform/table.json"))["columns"]
with open("example.csv", newline="") as file:  # with a header
    rows = [[float(row[name]) for name in columns] for row in csv.DictReader(file)]
outputs = predict(np.array(rows, np.float32))
""",
    ),
    "tokens": RawInputs(
        _text,
        "From text to text",
        "tokenizers",
        "Input `$input`: int32 [batch, length], any length; it was trained on $block tokens at a time. Text becomes "
        "tokens by\n`transform/tokenizer.json`, a file of the package `tokenizers`, byte for byte and without special "
        "tokens.",
        "{0} rows of {1} test tokens",
        ("from tokenizers import Tokenizer",),
        """\
tokenizer = Tokenizer.from_file("transform/tokenizer.json")
random = np.random.default_rng(0)
tokens = [$bos] + tokenizer.encode("import ", add_special_tokens=False).ids  # a document begins with $bos
for _ in range(30):
    logits = predict(np.array([tokens], np.int32))[0, -1].astype("f8") / 0.8  # the temperature
    chances = np.exp(logits - logits.max())
    tokens.append(int(random.choice(len(chances), p=chances / chances.sum())))
    if tokens[-1] == $bos:
        break
print(tokenizer.decode([token for token in tokens if token != $bos]))
""",
    ),
}
"""By the kind of snapshot."""
