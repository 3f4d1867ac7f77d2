"""The README of an export: its files, their quality, and code that runs in the export's folder."""

from __future__ import annotations

from typing import Any

from tasks.config.task import TARGET
from tasks.evaluation import gates
from tasks.exporting import format_of
from tasks.exporting.saved_model import OUTPUT
from tasks.models.features import TOKENS, Input, classes, targets

HEAD = """\
# Model export

{about}

| variant | file | bytes | test {metric} (95 % interval) | largest difference from Keras |
| --- | --- | ---: | --- | ---: |
{rows}

`golden.npz` holds {golden} and the trained model's outputs for them. The code below runs in this folder,
with the packages it imports and nothing else.
"""

CLASSES = """\
{classes} classes: {names}.

Input `{input}`: {dtype} [batch, {shape}]. Output `{output}`: float32 [batch, {classes}], a logit per class, whose
softmax are the probabilities. Raw files become inputs as `transform/` says."""

NUMBERS = """\
{targets} {what}: {names}.

Input `{input}`: {dtype} [batch, {shape}]. Output `{output}`: float32 [batch, {targets}], {meaning}.
Raw rows become inputs as `transform/` says: they are standardised inside of the model."""

TEXT = """\
A language model of {vocabulary} tokens, the last of which, {bos}, begins a document.

Input `{input}`: int32 [batch, length], any length; it was trained on {block} tokens at a time. Output `{output}`:
float32 [batch, length, {vocabulary}], at each place the logits of the token that comes next. Text becomes tokens by
`transform/tokenizer.json`, a file of the package `tokenizers`, byte for byte and without special tokens."""


def write(
    variants: list[dict[str, Any]],
    verified: dict[str, Any],
    source: Input,
    features: dict[str, Any],
    golden: tuple[int, ...],
    tolerance: float,
    versions: dict[str, str],
) -> str:
    """Return the text of `README.md`.

    Args:
        variants: contents of their `variant.json`.
        verified: the results of `verify`, by variant name.
        source: the model's input.
        features: the features of the snapshot.
        golden: shape of the golden inputs.
        tolerance: largest difference of a float variant's outputs; of lower precision, three times the measured one.
        versions: of the packages `tensorflow` and `ai-edge-litert`.
    """
    text = TOKENS in features
    rows = [_row(variant, verified[variant["name"]]["max_abs_difference"]) for variant in variants]
    head = HEAD.format(
        about=_about(source, features, variants[0]["against_float"]["metric"]),
        metric=variants[0]["against_float"]["metric"].replace("_", " "),
        rows="\n".join(rows),
        golden=f"{golden[0]} rows of {golden[1]} test tokens" if text else f"{golden[0]} test inputs",
    )
    sections = [
        format_of(variant["format"]).README.format(
            variant=variant["name"],
            file=f"{variant['name']}/{variant['file']}",
            input=source.name,
            output=OUTPUT,
            tolerance=max(tolerance, 3 * verified[variant["name"]]["max_abs_difference"]),
            tensorflow=versions["tensorflow"],
            litert=versions["ai-edge-litert"],
        )
        for variant in variants
    ]
    continuing = [variant for variant in variants if format_of(variant["format"]).TEXT_README]
    if text and continuing:
        smallest = continuing[-1]
        file = f"{smallest['name']}/{smallest['file']}"
        code = format_of(smallest["format"]).TEXT_README
        sections.append(code.format(file=file, bos=features[TOKENS]["bos"], litert=versions["ai-edge-litert"]))
    return "\n".join([head, *sections])


def _about(source: Input, features: dict[str, Any], metric: str) -> str:
    """Describe input and output."""
    interface = {
        "input": source.name,
        "output": OUTPUT,
        "dtype": source.dtype,
        "shape": ", ".join(map(str, source.shape)),
    }
    if TOKENS in features:
        tokens = features[TOKENS]
        return TEXT.format(vocabulary=tokens["vocabulary"], bos=tokens["bos"], block=source.shape[0], **interface)
    if TARGET in features:
        names = targets(features)
        number = metric == "rmse"
        what = "number to predict" if number and len(names) == 1 else "numbers to predict" if number else "labels"
        meaning = "the numbers themselves" if number else "a logit per label, whose sigmoid is its probability"
        return NUMBERS.format(targets=len(names), what=what, names=", ".join(names), meaning=meaning, **interface)
    names = classes(features)
    return CLASSES.format(classes=len(names), names=", ".join(names), **interface)


def _row(variant: dict[str, Any], difference: float) -> str:
    metric = variant["quality"]["metrics"][variant["against_float"]["metric"]]
    quality = f"{metric['value']:.4f} ({metric['low']:.4f} to {metric['high']:.4f})"
    quality += "".join(f"; {gate['text']}" for gate in variant["gates"] if gate["verdict"] == gates.UNDECIDED)
    file = f"`{variant['name']}/{variant['file']}`"
    return f"| {variant['name']} | {file} | {variant['bytes']:,} | {quality} | {difference:.1e} |"
