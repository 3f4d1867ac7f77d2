"""The section of an export's README about the further outputs of its model."""

from __future__ import annotations

from string import Template
from typing import Any

from tasks.exporting.formats.saved_model import SavedModel
from tasks.models.outputs import FURTHER

SECTION = """\
## Further outputs

The signature `$signature` of `$variant` takes the model's inputs and answers for the columns that the model predicts
beside the main output; no other file has them.

| column | output | what it is |
| --- | --- | --- |
$rows

`pip install $packages`

```python
$code
golden = np.load("golden.npz")
inputs = {name.removeprefix("inputs/"): golden[name] for name in golden.files if name.startswith("inputs/")}
share = $tolerance / max(1.0, np.abs(golden["outputs"]).max())
for name, answers in run("$signature", inputs).items():
    expected = golden[f"$signature/{name}"]
    assert np.abs(answers - expected).max() <= share * max(1.0, np.abs(expected).max())
    print(name, answers[0])
```
"""


def section(further: dict[str, Any], packages: str, code: str, tolerance: float) -> str:
    """Return the section about the outputs of a transform's `further`.

    Args:
        code: defines `predict` for the SavedModel.
        tolerance: how much the main output may differ; the others by the same share of their largest value.
    """
    rows = [f"| {about['column']} | `{name}` | {_meaning(about)} |" for name, about in further.items()]
    return Template(SECTION).substitute(
        signature=FURTHER,
        variant=SavedModel.kind,
        rows="\n".join(rows),
        packages=packages,
        code=code + SavedModel.run_code,
        tolerance=f"{tolerance:.3g}",
    )


def _meaning(about: dict[str, Any]) -> str:
    if "classes" in about:
        size, names = len(about["classes"]), ", ".join(about["classes"])
        return f"float32 [batch, {size}], the logit of each class: {names}"
    return f"float32 [batch, {len(about['targets'])}], in the units of the training data"
