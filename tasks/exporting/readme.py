"""The README of an export: its files, their quality, and code that runs in the export's folder."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from tasks.evaluation import SAMPLE_SEED
from tasks.exporting import FORMATS, SAVED_MODEL, further
from tasks.exporting.formats.format import Format
from tasks.exporting.formats.saved_model import OUTPUT, PREPROCESS, SIGNATURES
from tasks.exporting.formats.saved_model import RAW as RAW_SIGNATURE
from tasks.exporting.prediction import ANSWERS, decision_fields
from tasks.exporting.preprocess import KINDS, TASK, of_description, without_graph
from tasks.exporting.verify import OUTPUTS
from tasks.models.decoding import DECODE
from tasks.models.features import Input

GENERATED = 12
"""Tokens that the README's code generates."""

HEAD = """\
# Model export

$outputs

$inputs

| variant | file | bytes | test $metric (95 % interval) | largest difference from Keras |
| --- | --- | ---: | --- | ---: |
$rows
$chosen
`golden.npz` holds $golden and the trained model's outputs for them$others. The code below runs in this
folder, with the packages it imports and nothing else.
"""

OTHERS = ", and those of the models that variants were made from where methods have changed it"

VARIANT = """\
## $variant

`pip install $packages`

```python
$imports$code
golden = np.load("golden.npz")
inputs = {name.removeprefix("inputs/"): golden[name] for name in golden.files if name.startswith("inputs/")}
outputs = predict(inputs)
assert np.abs(outputs - golden["$outputs"]).max() <= $tolerance

$answer```
"""

GRAPH = """\
## From raw columns, with TensorFlow alone

The signature `$signature` of `$variant` takes raw columns. It makes of them what `transform/reader/` makes, bit for
bit; `$preprocess` returns that. A value that cannot be used is an `InvalidArgumentError` that names column and rule.

| column | input | tensor | missing |
| --- | --- | --- | --- |
$columns

`pip install $packages`

```python
$imports$code
golden = np.load("golden.npz")
columns = {name.removeprefix("raw/"): golden[name] for name in golden.files if name.startswith("raw/")}
outputs = predict(columns)
assert np.abs(outputs - golden["outputs"]).max() <= $tolerance

$answer```
"""

GENERATE = """\
## Generation with a cache

The signatures of `$variant`: `prefill` takes `tokens`, int32 [batch, length], and returns `logits` and a cache of keys
and values. `decode` takes one token more, its `position` [batch] and the cache, whose axis of positions may be longer
than what is in it, and returns `logits` [batch, 1, $vocabulary] and the cache. Only the new token is computed.

`pip install $packages`

```python
$code
golden = np.load("golden.npz")
tokens = golden["inputs/tokens"][:1, :4]
cache = run("prefill", {"tokens": tokens})
logits = cache.pop("logits")
for name, array in cache.items():  # room for $count positions more
    axis = array.ndim - (2 if array.ndim > 2 else 1)
    cache[name] = np.pad(array, [(0, $count if each == axis else 0) for each in range(array.ndim)])
for position in range(4, 4 + $count):  # the most probable tokens
    tokens = np.append(tokens, logits[:, -1:].argmax(-1).astype(np.int32), axis=1)
    cache = run("decode", {"tokens": tokens[:, -1:], "position": np.array([position], np.int32), **cache})
    logits = cache.pop("logits")
assert np.abs(logits[:, -1] - predict({"tokens": tokens})[:, -1]).max() <= $tolerance
print(tokens[0].tolist())
```
"""

RAW = """\
## $title

With `$variant`; the `predict` of another section can take its place.$only

`pip install $packages`

```python
$imports$code
${inputs}outputs = predict(inputs)

$answer```
"""


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


def _reader_packages(transform: dict[str, Any]) -> tuple[str, ...]:
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
        _reader_packages,
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


def write(
    variants: list[dict[str, Any]],
    verified: dict[str, Any],
    transform: dict[str, Any],
    sources: list[Input],
    golden: dict[str, tuple[int, ...]],
    expected: dict[str, tuple[str, float]],
    versions: dict[str, str],
    chosen: str | None = None,
    notes: Mapping[str, str] | None = None,
) -> str:
    """Return the text of `README.md`.

    Args:
        variants: contents of their `variant.json`.
        verified: the results of `verify`, by variant name.
        transform: the transform of the export, as `read_transform` returns it.
        sources: the model's inputs.
        golden: shapes of the golden inputs by name.
        expected: by variant name, the name of its golden outputs, and the largest difference from them.
        versions: of the packages that run the formats, and of `raw_inputs.LIBRARIES`.
        chosen: the name of the variant that the run chose; None where it chose none.
        notes: what the gates could not decide, by variant name.
    """
    answers, raw = ANSWERS[transform["task"]], RAW_INPUTS[transform["kind"]]
    fields = _fields(transform, sources) | raw.fields(transform)
    answer = Template(answers.code).substitute(fields)
    metric = variants[0]["against_float"]["metric"]
    head = Template(HEAD).substitute(
        outputs=Template(answers.about).substitute(fields),
        inputs=Template(raw.about).substitute(fields),
        metric=metric.replace("_", " "),
        rows="\n".join(
            _row(variant, verified[variant["name"]]["max_abs_difference"], (notes or {}).get(variant["name"], ""))
            for variant in variants
        ),
        chosen="" if chosen is None else f"\n`{chosen}` is the run's choice, by `compress.want`.\n",
        golden=raw.golden.format(*next(iter(golden.values()))),
        others=OTHERS if any(name != OUTPUTS for name, _ in expected.values()) else "",
    )
    sections = [
        Template(VARIANT).substitute(
            variant=variant["name"],
            packages=_packages(FORMATS[variant["format"]], versions, answers.packages),
            imports=_imports(answers.imports),
            code=_code(variant, fields),
            outputs=expected[variant["name"]][0],
            tolerance=f"{expected[variant['name']][1]:.3g}",
            answer=answer,
        )
        for variant in variants
    ]
    if (preprocess := of_description(transform)) is not None:
        [variant] = (variant for variant in variants if variant["name"] == SAVED_MODEL)
        sections.append(
            Template(GRAPH).substitute(
                signature=RAW_SIGNATURE,
                preprocess=PREPROCESS,
                variant=SAVED_MODEL,
                columns="\n".join(f"| {' | '.join(preprocess.described(source))} |" for source in preprocess.inputs),
                packages=_packages(FORMATS[SAVED_MODEL], versions, answers.packages),
                imports=_imports(answers.imports),
                code=_code(variant, {**fields, "signature": RAW_SIGNATURE}),
                tolerance=f"{expected[SAVED_MODEL][1]:.3g}",
                answer=answer,
            )
        )
    if "further" in transform:
        [variant] = (variant for variant in variants if variant["name"] == SAVED_MODEL)
        packages, code = _packages(FORMATS[SAVED_MODEL], versions), _code(variant, fields)
        sections.append(further.section(transform["further"], packages, code, expected[SAVED_MODEL][1]))
    with_cache = [each for each in variants if DECODE in verified[each["name"]].get("signatures", ())]
    if with_cache:
        form = FORMATS[with_cache[-1]["format"]]
        sections.append(
            Template(GENERATE).substitute(
                fields,
                variant=with_cache[-1]["name"],
                count=GENERATED,
                packages=_packages(form, versions),
                code=_code(with_cache[-1], fields) + form.run_code,
                tolerance=f"{expected[with_cache[-1]['name']][1]:.3g}",
            )
        )
    reasons = [f"{name} ({reason})" for name, reason in without_graph(transform).items()]
    only = f"\nNo file takes raw columns itself, as the reader alone makes {', '.join(reasons)}." if reasons else ""
    last = variants[-1]
    sections.append(
        Template(RAW).substitute(
            title=raw.title,
            variant=last["name"],
            packages=_packages(FORMATS[last["format"]], versions, raw.packages(transform), answers.packages),
            imports=_imports(raw.imports, answers.imports),
            code=_code(last, fields),
            inputs=Template(raw.code).substitute(fields),
            only=only,
            answer=answer,
        )
    )
    return "\n".join([head, *sections])


def _fields(transform: dict[str, Any], sources: list[Input]) -> dict[str, Any]:
    """Return the fields of the descriptions and of the code that are of no one kind of input."""
    names = transform.get("targets") or transform.get("classes") or []
    return {
        **transform,
        "inputs": ", ".join(f"`{each.name}`: {each.dtype} {_shape(each)}" for each in sources),
        "output": OUTPUT,
        "signature": SIGNATURES[-1],
        "seed": SAMPLE_SEED,
        **decision_fields(transform),
        "padded": next((each.name for each in sources if each.padded), ""),
        "length": next((each.shape[0] for each in sources if each.padded), 0),
        "count": len(names),
        "names": ", ".join(names),
        "file": f"transform/{TASK if transform.get('targets') else KINDS[transform['kind']]}",
    }


def _shape(source: Input) -> str:
    return f"[{', '.join(['batch', *map(str, source.shape)])}]"


def _packages(form: type[Format], versions: dict[str, str], *groups: tuple[str, ...]) -> str:
    """Return the packages of a section as words for `pip install`."""
    pinned = [f"{name}=={versions[name]}" for name in dict.fromkeys(package for group in groups for package in group)]
    return " ".join([*(f"{name}=={versions[name]}" for name in form.packages), "numpy", *pinned])


def _imports(*groups: tuple[str, ...]) -> str:
    """Return import statements as lines, each once."""
    lines = sorted({line for group in groups for line in group}, key=lambda line: (line.startswith("from"), line))
    return "".join(f"{line}\n" for line in lines)


def _code(variant: dict[str, Any], fields: dict[str, Any]) -> str:
    """Return the code that defines `predict` for a variant."""
    file = f"{variant['name']}/{variant['file']}"
    return Template(FORMATS[variant["format"]].code).substitute({**fields, "file": file})


def _row(variant: dict[str, Any], difference: float, note: str) -> str:
    metric = variant["quality"]["metrics"][variant["against_float"]["metric"]]
    quality = f"{metric['value']:.4f} ({metric['low']:.4f} to {metric['high']:.4f})"
    quality += f"; {note}" if note else ""
    file = f"`{variant['name']}/{variant['file']}`"
    return f"| {variant['name']} | {file} | {variant['bytes']:,} | {quality} | {difference:.1e} |"
