"""The raw inputs of a kind of transform, as text and code of an export's README."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any


@dataclass(frozen=True)
class RawInputs:
    """What raw inputs are, and how they become the model's."""

    title: str
    """Title of the README's section."""

    fields: Callable[[dict[str, Any]], dict[str, Any]]
    """From the transform to further fields of the description and the code."""

    about: str
    """Describes the input, with the fields that `readme` fills."""

    golden: str
    """Describes the golden inputs, by their shape."""

    packages: Callable[[dict[str, Any]], tuple[str, ...]]
    """From the transform to the packages that the code imports besides NumPy and the runtime."""

    imports: tuple[str, ...]
    """Import statements of the code."""

    code: str
    """Makes `inputs` from raw rows or text."""


PACKAGES = {"image": ("pillow",), "log_mel": ("soundfile",), "tokens": ("tokenizers",)}
"""Packages that the reader imports for a kind of transform."""

LIBRARIES = tuple(sorted({package for packages in PACKAGES.values() for package in packages}))
"""All of them: pixels, samples and tokens depend on their versions, which the README names."""

EXAMPLES = {"image": '[{{"{name}": "example.png"}}]', "audio": '[{{"{name}": "example.wav"}}]'}
EXAMPLES |= {"text": '[{{"{name}": "any text"}}]', "words": '[{{"{name}": ["any", "words"]}}]'}
"""Rows with one file, text or list, by the type of the only column."""

TABLE = 'list(csv.DictReader(open("example.csv", newline="", encoding="{encoding}"){dialect}))'
"""Rows of several columns, written as those of the training."""


def _table(transform: dict[str, Any]) -> dict[str, Any]:
    columns = transform["columns"]
    (first, *others) = columns
    example = EXAMPLES.get(first["kind"]) if not others else None
    listed = ", ".join(f"{column['name']} ({column['kind']})" for column in columns)
    rows = _separated(transform["csv"]) if example is None else example.format(name=first["name"])
    return {"columns": listed, "rows": rows}


def _separated(form: dict[str, Any] | None) -> str:
    """Return the code that reads a CSV file of a form; of the usual one for None."""
    if form is None:
        return TABLE.format(encoding="utf-8-sig", dialect="")
    encoding = "utf-8-sig" if codecs.lookup(form["encoding"]).name == "utf-8" else form["encoding"]
    given = {"fieldnames": form["header"], "delimiter": form["delimiter"], "escapechar": form["escape"] or None}
    given |= {"quotechar": form["quote"]} if form["quote"] else {"quoting": csv.QUOTE_NONE}
    usual = {"fieldnames": None, "delimiter": ",", "escapechar": None, "quotechar": '"'}
    unusual = {name: value for name, value in given.items() if name not in usual or usual[name] != value}
    return TABLE.format(encoding=encoding, dialect="".join(f", {name}={value!r}" for name, value in unusual.items()))


def _packages(transform: dict[str, Any]) -> tuple[str, ...]:
    kinds = sorted({state["kind"] for state in transform["transforms"].values()})
    return tuple(package for kind in kinds for package in PACKAGES.get(kind, ()))


PAIRS = """

The model was trained on pairs: $bos, the tokens of `$prompt`, the tokens of the text, encoded by itself, and $bos. It
has learned the text and its end, not the prompt: give it $bos and a prompt, and what follows up to the next $bos is the
text."""


def _tokens(transform: dict[str, Any]) -> dict[str, Any]:
    prompt = transform["prompt"]
    pairs = "" if prompt is None else Template(PAIRS).substitute(transform)
    return {"pairs": pairs, "given": "any text" if prompt is None else f"any {prompt}"}


RAW_INPUTS = {
    "table": RawInputs(
        "From raw rows",
        _table,
        "A raw row has the columns $columns; `transform/reader/` makes the model's inputs of it ($inputs), exactly as "
        "in training.\nA value is text as in a CSV file, a value of JSON, or the bytes or the path of an image or "
        "sound; what is missing is None.",
        "{0} test inputs",
        _packages,
        ("import csv", "import sys"),
        """\
sys.path.insert(0, "transform")
from reader import Reader

rows = $rows
inputs = Reader.open("transform")(rows)
""",
    ),
    "tokens": RawInputs(
        "From text to text",
        _tokens,
        "Input `tokens`: int32 [batch, length], of any length; the model was trained on $block tokens at a time. Text "
        "becomes\ntokens by `transform/tokenizer.json`, a file of the package `tokenizers`, without special tokens."
        "$pairs",
        "{0} rows of {1} test tokens",
        lambda transform: ("tokenizers",),
        ("from tokenizers import Tokenizer",),
        """\
encoding = Tokenizer.from_file("transform/tokenizer.json").encode("The ", add_special_tokens=False)  # $given
inputs = {"tokens": np.array([[$bos, *encoding.ids]], np.int32)}
""",
    ),
}
"""By the kind of transform."""
