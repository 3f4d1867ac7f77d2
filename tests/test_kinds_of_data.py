"""Kinds of what becomes of data are a class each: a copy of the code with one more class, and no other line, has it in
the schema, on the reference page and in refusals, and runs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.homes import ROOT

INVERT = '''class Invert(Augmentation):
    """Exchanges dark and light."""

    kind: Literal["invert"] = "invert"
    """The change."""

    least: Annotated[int, Field(ge=0, le=255)] = 100
    """The lowest value that is changed."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        return np.where(values < self.least, values, 255 - values)


'''
AUGMENTED = """
import json, sys
import numpy as np
from pydantic import TypeAdapter, ValidationError
from tasks.config.compose import Config
from tasks.config.load import explain
from tasks.config.reference import page
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter

def refusal(augment):
    try:
        Config.model_validate({"name": "a", "train": {"steps": 1, "augment": [augment]}})
    except ValidationError as error:
        return explain(error).rule

found = {
    "schema": "Invert" in Config.model_json_schema()["$defs"],
    "page": [line for line in page().splitlines() if "(invert)" in line or "augment.NUMBER.least" in line],
    "refusal": refusal({"kind": "no"}),
    "heavy": sorted({"PIL", "scipy", "tensorflow"} & sys.modules.keys()),
}
images = np.arange(192, dtype=np.uint8).reshape(1, 1, 8, 8, 3)
features = {"image": {"dtype": "uint8", "shape": [8, 8, 3]}}
invert = TypeAdapter(AugmentConfig).validate_python({"kind": "invert"})
batch = {"image": images, "row": np.zeros((1, 1), np.int64)}
made = Augmenter([invert], features, {"image": images[0]}, 1)(batch, np.zeros((1, 1), np.uint64))["image"]
print(json.dumps({**found, "values": made.ravel()[[99, 100]].tolist()}))
"""


def found_with(folder: Path, file: str, above: str, added: str, script: str) -> dict[str, Any]:
    """What a script finds in a copy of the code with a class in one of its files, above a line of it."""
    shutil.copytree(ROOT / "tasks", folder / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / file).read_text()
    assert text.count(above) == 1
    (folder / file).write_text(text.replace(above, added + above))
    command, environment = [sys.executable, "-c", script], {"PYTHONPATH": str(folder), "PATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_augmentation_is_added_by_one_class(tmp_path: Path) -> None:
    found = found_with(tmp_path, "tasks/feed/augmentations.py", "AUGMENTATIONS: dict", INVERT, AUGMENTED)
    title, row = found["page"]
    assert found["schema"] and title == "## train.augment.NUMBER (invert)"
    assert row.startswith("| `train.augment.NUMBER.least` | integer (≥ 0, ≤ 255) | `100` |")
    assert found["refusal"].endswith("'cutmix', 'invert'")
    assert found["values"] == [99, 155] and not found["heavy"]
