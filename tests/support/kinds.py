"""A column for every kind of transform, and raw rows of them."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from PIL import Image

from tasks.snapshots.transforms import categories, function, media, numbers, texts, times
from tests.support.tables import feature

RNG = np.random.default_rng(0)
ROWS = 40

FEATURES = {
    **{f"number_{kind}": feature("number") for kind in ("standardise", "log", "keep", "quantile", "bucketize")},
    "array": feature("number", shape=(2, 3)),
    "array_log": feature("number", shape=(2, 3)),
    **{name: feature("category") for name in ("town", "street")},
    **{name: feature("time") for name in ("when", "circle")},
    **{f"text_{kind}": feature("text") for kind in ("bpe", "wordpiece", "bytes", "counts", "ids")},
    "sentence": feature("words", shape=(-1,)),
    **{name: feature("image") for name in ("photo", "cut")},
    "sound": feature("audio"),
    "own": feature("category"),
    "own_array": feature("number"),
    "label": feature("label", classes=("no", "yes")),
}

OWN = """
import numpy as np
from .lengths import length

def single(values):
    if "!" in values:
        raise KeyError("!")
    return [length(value) for value in values]

def several(values):
    return np.stack([[value, value ** 2] for value in np.nan_to_num(values)])
"""


def transforms(folder: Path) -> dict[str, Any]:
    package = folder / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "own.py").write_text(OWN)
    (package / "lengths.py").write_text("def length(text):\n    return len(text)\n")
    return {
        "number_log": numbers.Log(missing=numbers.Missing(fill="median")),
        "number_keep": numbers.Keep(missing=numbers.Missing(fill=-7.0, indicator=False)),
        "number_quantile": numbers.Quantile(quantiles=10),
        "number_bucketize": numbers.Bucketize(buckets=4),
        "array_log": numbers.Log(),
        "town": categories.Vocabulary(min_count=3),
        "street": categories.Hash(buckets=50),
        "circle": times.TimeParts(cyclical=True, parts=("month", "hour")),
        "text_bpe": texts.Tokens(vocabulary=300, length=12),
        "text_wordpiece": texts.Tokens(method="wordpiece", vocabulary=258, length=12, lowercase=True),
        "text_bytes": texts.Tokens(method="bytes", length=12),
        "text_counts": texts.HashWords(buckets=32),
        "text_ids": texts.HashWords(buckets=32, output="ids", length=6),
        "sentence": texts.Words(vocabulary=6, length=5, lowercase=True),
        "photo": media.Image(height=8, width=6),
        "cut": media.Image(height=5, width=5, channels=1, fit="crop"),
        "sound": media.LogMel(rate=8000, seconds=0.2, mels=12),
        "own": function.Function(function="mine.own:single", folder=str(folder)),
        "own_array": function.Function(function="mine.own:several", folder=str(folder)),
    }


def raw_row(number: int, folder: Path) -> dict[str, Any]:
    """A row as of CSV (even numbers) or JSON (odd ones); some values are missing."""
    value = float(np.float32(RNG.lognormal()))
    words = " ".join(RNG.choice(["Ünder", "the", "sea", "a-wreck", "42"], RNG.integers(0, 9)))
    row: dict[str, Any] = {name: value * scale for scale, name in enumerate(FEATURES, 1) if name.startswith("number")}
    row |= {name: RNG.normal(size=(2, 3)).tolist() for name in ("array", "array_log")}
    row |= {"town": RNG.choice(["Ulm", "Köln", "Hof", str(number)]), "street": f"street {number % 7}"}
    row |= dict.fromkeys(("when", "circle"), f"20{number % 30:02d}-0{1 + number % 9}-11T{number % 24:02d}:30:00+02:00")
    row |= dict.fromkeys([name for name in FEATURES if name.startswith("text")], words)
    row["sentence"] = words.split()
    row |= {"photo": image(number, folder), "cut": image(number, folder), "sound": sound(number, folder)}
    row |= {"own": "x" * (number % 5), "own_array": number / 3, "label": number % 2}
    row["array"][0][0] = None if number == 3 else 1.0
    lacking = (
        "number_standardise",
        "number_quantile",
        "town",
        "when",
        "text_bpe",
        "sentence",
        "photo",
        "sound",
        "own_array",
    )
    if number % 10 == 9:
        row |= dict.fromkeys(lacking, None)
    if number % 2 == 0:
        row |= {name: "" if row[name] is None else repr(row[name]) for name in FEATURES if name.startswith("number")}
    elif row["when"] is not None:
        row["when"] = datetime.datetime.fromisoformat(row["when"])
    return row


def image(number: int, folder: Path) -> bytes | str:
    """The bytes of a file, or its path."""
    pixels = Image.fromarray(RNG.integers(0, 256, (40, 60, 3), np.uint8)).resize((90, 60 + number))
    buffer = io.BytesIO()
    pixels.save(buffer, "JPEG" if number % 3 else "PNG")
    return kept(buffer.getvalue(), folder / f"image-{RNG.integers(10**9)}", number)


def sound(number: int, folder: Path) -> bytes | str:
    """A tone of another length and rate each time, in stereo, as WAV or FLAC."""
    rate = [8000, 11025, 16000][number % 3]
    wave = np.sin(np.arange(rate * (1 + number % 4) // 10)[:, None] * [0.1, 0.3]) * 0.5
    buffer = io.BytesIO()
    soundfile.write(buffer, wave, rate, format=["WAV", "FLAC"][number % 2])
    return kept(buffer.getvalue(), folder / f"sound-{number}", number)


def kept(content: bytes, path: Path, number: int) -> bytes | str:
    if number % 2:
        return content
    path.write_bytes(content)
    return path.name
