"""The README of an export: what each file is, how good, and code that works when pasted."""

from __future__ import annotations

from typing import Any

from tasks.exporting import FILES, LITERT, OUTPUT

HEAD = """\
# Model export

{classes} classes: {names}.

Input `{input}`: {dtype} [batch, {shape}]. Output `{output}`: float32 [batch, {classes}], a logit per class, whose
softmax are the probabilities. Raw files become inputs as `transform/` says.

| variant | file | bytes | test {metric} (95 % interval) | largest difference from Keras |
| --- | --- | ---: | --- | ---: |
{rows}

`golden.npz` holds {golden} test inputs and the trained model's outputs for them. The code below runs in this folder,
with the packages it imports and nothing else.
"""

SAVED_MODEL_CODE = """\
## {variant}

`pip install tensorflow=={tensorflow}`

```python
import numpy as np
import tensorflow as tf

golden = np.load("golden.npz")
model = tf.saved_model.load("{file}")  # keep it: its variables live as long as it does
serve = model.signatures["serving_default"]
logits = serve({input}=tf.constant(golden["inputs"]))["{output}"].numpy()

print(logits.argmax(axis=-1))
assert np.abs(logits - golden["outputs"]).max() <= {tolerance:.1g}
```
"""

LITERT_CODE = """\
## {variant}

`pip install ai-edge-litert=={litert} numpy`

```python
import numpy as np
from ai_edge_litert.interpreter import Interpreter

golden = np.load("golden.npz")
inputs = golden["inputs"]
model = Interpreter("{file}", num_threads=1)
entry = model.get_input_details()[0]["index"]  # {input}
result = model.get_output_details()[0]["index"]  # {output}
model.resize_tensor_input(entry, inputs.shape)
model.allocate_tensors()
model.set_tensor(entry, inputs)
model.invoke()
logits = model.get_tensor(result)

print(logits.argmax(axis=-1))
assert np.abs(logits - golden["outputs"]).max() <= {tolerance:.1g}
```
"""


def write(
    variants: list[dict[str, Any]],
    found: dict[str, Any],
    source: tuple[str, str, tuple[int, ...]],
    classes: list[str],
    golden: int,
    tolerance: float,
    versions: dict[str, str],
) -> str:
    """The text.

    Args:
        variants: contents of their `variant.json`.
        found: what `verify` found, by variant name.
        source: name, dtype and shape of the input.
        classes: in the order of the outputs.
        golden: how many golden examples there are.
        tolerance: what a float variant keeps to; one of lower precision gets room about what it was seen to need.
        versions: of the packages `tensorflow` and `ai-edge-litert`.
    """
    name, dtype, shape = source
    rows = [_row(variant, found[variant["name"]]["max_abs_difference"]) for variant in variants]
    head = HEAD.format(
        classes=len(classes),
        names=", ".join(classes),
        input=name,
        output=OUTPUT,
        dtype=dtype,
        shape=", ".join(map(str, shape)),
        metric=variants[0]["against_float"]["metric"],
        rows="\n".join(rows),
        golden=golden,
    )
    sections = [
        (LITERT_CODE if variant["format"] == LITERT else SAVED_MODEL_CODE).format(
            variant=variant["name"],
            file=f"{variant['name']}/{FILES[variant['format']]}",
            input=name,
            output=OUTPUT,
            tolerance=max(tolerance, 3 * found[variant["name"]]["max_abs_difference"]),
            tensorflow=versions["tensorflow"],
            litert=versions["ai-edge-litert"],
        )
        for variant in variants
    ]
    return "\n".join([head, *sections])


def _row(variant: dict[str, Any], difference: float) -> str:
    metric = variant["quality"]["metrics"][variant["against_float"]["metric"]]
    quality = f"{metric['value']:.4f} ({metric['low']:.4f} to {metric['high']:.4f})"
    file = f"`{variant['name']}/{variant['file']}`"
    return f"| {variant['name']} | {file} | {variant['bytes']:,} | {quality} | {difference:.1e} |"
