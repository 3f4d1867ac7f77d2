"""Parts of an export's README, as text and code: the raw inputs of a kind of transform, the outputs of a task."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

from tasks.evaluation import SAMPLE_SEED


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


def _columns_and_rows(transform: dict[str, Any]) -> dict[str, Any]:
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
        _columns_and_rows,
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


PREDICTED = 0.5
"""Probability above which a label is predicted."""

CONTINUATION, TEMPERATURE = 60, 0.7
"""Tokens of a text's continuation, and the sampling temperature."""


@dataclass(frozen=True)
class Answers:
    """The outputs of a task."""

    about: str
    """Describes the outputs, with the fields that `readme` fills."""

    packages: tuple[str, ...]
    """Packages that the code imports besides NumPy and the runtime."""

    imports: tuple[str, ...]
    """Import statements of the code."""

    code: str
    """Prints what `outputs`, of `inputs`, mean; `$file` is the transform with the names."""


LABELS = """\
names = json.load(open("$file", "rb"))["targets"]
${scale}probabilities = 1 / (1 + np.exp(-outputs))  # sigmoid
for row in probabilities:
    predicted = [name for name, probability in zip(names, row) if probability > $limit]
    every = ", ".join(f"{name}: {probability:.3f}" for name, probability in zip(names, row))
    print(f"{every}; predicted: {', '.join(predicted) or 'none'}")
"""
"""Prints the probability of each label, and which are predicted."""

ANSWERS = {
    "classification": Answers(
        "$count classes: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the logit of each class; their softmax is the probability of each."
        "$decision",
        (),
        ("import json",),
        """\
names = json.load(open("$file", "rb"))["classes"]
${scale}probabilities = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
probabilities /= probabilities.sum(axis=-1, keepdims=True)  # softmax
for row in probabilities:
    $choose
""",
    ),
    "multilabel": Answers(
        "$count labels: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the logit of each label; its sigmoid is the probability of the "
        "label.\nA label is predicted if its probability is above $limits.$decision",
        (),
        ("import json",),
        LABELS,
    ),
    "anomaly": Answers(
        "How probable an anomaly is: $names.\n\n"
        "Output `$output`: float32 [batch, 1], a logit; its sigmoid is the probability of an anomaly.\nAn anomaly is "
        "predicted if its probability is above $limits.$decision",
        (),
        ("import json",),
        LABELS,
    ),
    "ranking": Answers(
        "How relevant a document is: $names.\n\n"
        "Output `$output`: float32 [batch, 1], a score by which the documents of a query are ordered; its sigmoid is "
        "the probability that a document is relevant.",
        (),
        ("import json",),
        LABELS,
    ),
    "tagging": Answers(
        "$count classes of words: $names.\n\n"
        "Output `$output`: float32 [batch, length, $count], the logit of each class of each word; what stands after "
        "the last word of a row means nothing.\nWords after the $length that a row has are cut, and have no class.",
        (),
        ("import json",),
        """\
names = json.load(open("$file", "rb"))["classes"]
for row, ids in zip(outputs, inputs["$padded"]):
    print(" ".join(names[number] for number in row[ids != 0].argmax(axis=-1)))
""",
    ),
    "regression": Answers(
        "Predicted numbers: $names.\n\n"
        "Output `$output`: float32 [batch, $count], the predicted numbers in the units of the training data.",
        (),
        ("import json",),
        """\
names = json.load(open("$file", "rb"))["targets"]
for row in outputs:
    print(", ".join(f"{name}: {value:.6g}" for name, value in zip(names, row)))
""",
    ),
    "language_model": Answers(
        "A language model of $vocabulary tokens, the last of which, $bos, begins a document.\n\n"
        "Output `$output`: float32 [batch, length, $vocabulary], at each position the logits of the next token.",
        ("tokenizers",),
        ("from tokenizers import Tokenizer",),
        f"""\
tokenizer = Tokenizer.from_file("transform/tokenizer.json")
random = np.random.default_rng({SAMPLE_SEED})
tokens = inputs["tokens"][0].tolist()
for _ in range({CONTINUATION}):  # continue the first text
    logits = outputs[0, -1].astype("f8") / {TEMPERATURE}  # sampling temperature
    probabilities = np.exp(logits - logits.max())
    token = int(random.choice(len(logits), p=probabilities / probabilities.sum()))
    if token == $bos:  # the end of the document
        break
    tokens.append(token)
    outputs = predict({{"tokens": np.array([tokens[-$block:]], np.int32)}})
print(tokenizer.decode([token for token in tokens if token != $bos]))
""",
    ),
}
"""By `model.task`."""


USUAL_CHOICE = 'print(f"{names[row.argmax()]}: {row.max():.3f}")'
"""Prints the most probable class of a `row` of probabilities."""

CHOICE = """\
chosen = {positive} if row[{positive}] > {threshold} else {other}
    print(f"{{names[chosen]}}: {{row[chosen]:.3f}}")"""
"""Prints the class of two that a threshold decides."""


def decision_fields(transform: dict[str, Any]) -> dict[str, str]:
    """Return the fields of `about` and `code` that apply the temperature and the thresholds of a transform."""
    temperature, thresholds = transform.get("temperature"), transform.get("thresholds")
    fields = {"scale": "", "decision": "", "choose": USUAL_CHOICE, "limit": str(PREDICTED), "limits": str(PREDICTED)}
    if temperature is not None:
        fields["scale"] = f"outputs = outputs / {temperature!r}  # the temperature, fitted on the validation split\n"
        fields["decision"] = f"\nDivided by the temperature {temperature:.6g}, logits give calibrated probabilities."
    if thresholds is None:
        return fields
    if "classes" in transform and not transform.get("targets"):
        [(name, threshold)] = thresholds.items()
        number = transform["classes"].index(name)
        fields["choose"] = CHOICE.format(positive=number, threshold=repr(threshold), other=1 - number)
        fields["decision"] += f"\n{name} is predicted where its probability is above {threshold:.6g}."
        return fields
    listed = ", ".join(f"{threshold:.6g} ({name})" for name, threshold in thresholds.items())
    return fields | {"limit": f"{thresholds!r}[name]", "limits": listed}
