"""Kinds of what becomes of data are a class each: a copy of the code with one more class, and no other line, has it in
the schema, on the reference page and in refusals, and runs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import Refused
from tasks.records import column_types
from tasks.records.column_types import TYPES
from tasks.records.column_types.texts import Text
from tasks.records.config import NearDuplicates
from tasks.records.near import MEASURES, Measure, compared
from tasks.sources.features import Feature
from tests.support.documents import added
from tests.support.homes import ROOT

INVERT = added("tasks/feed/augmentations.py") + "\n\n"
COUNTED = '''class CountedSnapshot(SnapshotKind):
    """The number of the records."""

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)

    kind: Literal["counted"] = "counted"
    """The layout of an example."""

    first: Annotated[int, Field(ge=0)] = 1
    """The number of the first one."""

    def build(self, bench: Workbench, records: Records) -> Outcome:
        from tasks.artifacts import Outcome

        return Outcome(counts={"train": self.first + len(records.manifest)})


'''
INSERTED = {
    "tasks/feed/augmentations.py": ("AUGMENTATIONS: dict", INVERT),
    "tasks/snapshots/config.py": ("SNAPSHOTS: dict", COUNTED),
}
"""Classes, each above a line of a file."""
ADDED = {
    path: added(path)
    for path in ("tasks/sources/kinds/squares.py", "tasks/snapshots/transforms/rounded.py", "tasks/reader/rounded.py")
}
"""Files; the reader's is what snapshots and exports carry of a transform."""

SETTINGS = """
import json, sys
import numpy as np
from pydantic import TypeAdapter, ValidationError
from tasks.config.compose import Config
from tasks.config.reference import page
from tasks.config.refusals import explain

def refusal(**given):
    try:
        Config.model_validate({"name": "a", "train": {"steps": 1}, **given})
    except ValidationError as error:
        return explain(error, Config).rule

def found(section, title, setting, wrong, **more):
    lines = page().splitlines()
    schema = section in Config.model_json_schema()["$defs"]
    on_page = [line for line in lines if title in line or f"`{setting}`" in line]
    print(json.dumps({"schema": schema, "page": on_page, "refusal": refusal(**wrong), "heavy": heavy, **more}))

heavy = sorted({"PIL", "scipy", "pyarrow", "tensorflow"} & sys.modules.keys())
"""
AUGMENTED = """
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter

images = np.arange(192, dtype=np.uint8).reshape(1, 1, 8, 8, 3)
features = {"image": {"dtype": "uint8", "shape": [8, 8, 3]}}
invert = TypeAdapter(AugmentConfig).validate_python({"kind": "invert"})
batch = {"image": images, "row": np.zeros((1, 1), np.int64)}
made = Augmenter([invert], features, {"image": images[0]}, 1)(batch, np.zeros((1, 1), np.uint64))["image"]
wrong = {"train": {"steps": 1, "augment": [{"kind": "no"}]}}
found("Invert", "(invert)", "train.augment.NUMBER.least", wrong, values=made.ravel()[[99, 100]].tolist())
"""
TRANSFORMED = """
from pathlib import Path
import pyarrow as pa
from tasks.reader import Reader
from tasks.snapshots.fitting import TransformConfig, choose, fit, graph
from tasks.snapshots.fitting import lay_out
from tasks.sources.features import Feature

features = {"x": Feature("number", "float32")}
given = TypeAdapter(dict[str, TransformConfig]).validate_python({"x": {"kind": "rounded"}})
fitted = fit(choose(features, given), features, lambda names: [pa.table({"x": [1.0]})] if names else [])
arrays = Reader(lay_out(features, fitted, {}).description, Path()).apply({"x": np.array([0.4, -3.3])}, 2)
wrong = {"snapshot": {"kind": "table", "transforms": {"x": {"kind": "no"}}}, "model": {"kind": "mlp"}}
more = {"values": arrays["numbers"][:, 0].tolist(), "graph": graph([fitted["x"].state])}
found("Rounded", "NAME (rounded)", "snapshot.transforms.NAME.step", wrong, **more)
"""
BUILT = """
from types import SimpleNamespace
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import SnapshotConfig

config = TypeAdapter(SnapshotConfig).validate_python({"kind": "counted"})
counts = snapshots.build(None, SimpleNamespace(manifest={"a": 1}), config).counts
wrong = {"snapshot": {"kind": "no"}, "model": {"kind": "mlp"}}
found("CountedSnapshot", "snapshot (counted)", "snapshot.first", wrong, counts=counts)
"""


OPENED = """
source = Config.model_validate({"name": "a", "train": {"steps": 1}, "source": {"kind": "squares", "count": 3}}).source
opened = source.open()
[rows] = [rows for partition in opened.partitions() for rows in opened.read(partition)]
more = {"values": rows.columns["square"].to_pylist(), "roles": [each.role for each in source.check().values()]}
found("SquaresSource", "source (squares)", "source.count", {"source": {"kind": "no"}}, **more)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code with one more kind of each."""
    folder = tmp_path_factory.mktemp("kinds")
    shutil.copytree(ROOT / "tasks", folder / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    for file, (above, kind) in INSERTED.items():
        text = (folder / file).read_text()
        assert text.count(above) == 1
        (folder / file).write_text(text.replace(above, kind + above))
    for file, text in ADDED.items():
        (folder / file).write_text(text)
    return folder


def found(folder: Path, script: str) -> dict[str, Any]:
    """What a script finds in the copy."""
    command, environment = [sys.executable, "-c", SETTINGS + script], {"PYTHONPATH": str(folder), "PATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    assert made["schema"] and not made["heavy"]
    return made


def test_a_source_is_added_by_one_file(copy: Path) -> None:
    made = found(copy, OPENED)
    title, row = made["page"]
    assert title == "## source (squares)" and row.startswith("| `source.count` | integer (≥ 1) | `100` |")
    assert made["refusal"].endswith("'python', 'squares'")
    assert made["values"] == [0.0, 1.0, 4.0] and made["roles"] == ["input", "target"]


def test_an_augmentation_is_added_by_one_class(copy: Path) -> None:
    made = found(copy, AUGMENTED)
    title, row = made["page"]
    assert title == "## train.augment.NUMBER (invert)"
    assert row.startswith("| `train.augment.NUMBER.least` | integer (≥ 0, ≤ 255) | `100` |")
    assert made["refusal"].endswith("'cutmix', 'invert'") and made["values"] == [99, 155]


def test_a_transform_is_added_by_one_class_beside_what_exports_carry_of_it(copy: Path) -> None:
    made = found(copy, TRANSFORMED)
    title, row = made["page"]
    assert title == "## snapshot.transforms.NAME (rounded)"
    assert row.startswith("| `snapshot.transforms.NAME.step` | number (> 0) | `0.5` |")
    assert made["refusal"].endswith("'function', 'rounded'")
    assert made["values"] == [0.5, -3.5] and made["graph"] == "a test does without"


def test_a_snapshot_is_added_by_one_class(copy: Path) -> None:
    made = found(copy, BUILT)
    title, row = made["page"]
    assert title == "## snapshot (counted)" and row.startswith("| `snapshot.first` | integer (≥ 0) | `1` |")
    assert made["refusal"].endswith("'table', 'counted'") and made["counts"] == {"train": 2}


@pytest.fixture
def registered() -> Iterator[None]:
    """Leaves the types of columns and the measures of similarity as they were."""
    before = dict(TYPES), dict(MEASURES)
    yield
    for registry, kinds in zip((TYPES, MEASURES), before, strict=True):
        registry.clear()
        registry.update(kinds)  # type: ignore[arg-type]


def test_a_type_of_columns_is_added_by_one_class(registered: None) -> None:
    class Initials(Text):
        """Texts of capital letters."""

        kinds = ("initials",)

        def typed(self, raw: pa.Array, max_pixels: int = 0) -> Any:
            made = super().typed(raw)
            lower = [row for row, text in enumerate(made.values.to_pylist()) if text != text.upper()]
            return type(made)(made.values, dict.fromkeys(lower, "is not in capital letters"))

    features = {"x": Feature("initials", "string")}  # type: ignore[arg-type]
    made = column_types.typed(features["x"], pa.array(["AB", "c", None]), 0)
    assert made.bad == {1: "is not in capital letters"}
    states = column_types.states_of(features, {"x": made.values}, {})
    assert column_types.summary(features, states)["x"]["missing"] == 1


def test_a_measure_of_similarity_is_added_by_one_class(registered: None) -> None:
    features, config = {"sound": Feature("audio", "string")}, NearDuplicates()
    with pytest.raises(Refused, match="no text and no image"):
        compared(features, config)

    class SoundMeasure(Measure):
        """Sounds are alike where their files have the same length."""

        kind = "audio"
        SIMILARITY, LOWEST, SLACK = 0.7, 0.2, 0.0

        def bands(self, similarity: float) -> int:
            return 1

        def signed(self, values: pa.Array, similarity: float) -> Any:
            sizes = np.array([len(each.as_py()) for each in values], "<u8")
            return sizes.view(np.uint8).reshape(-1, 8), sizes[:, None]

    found = compared(features, config)
    assert found is not None and (found.column, found.kind, found.similarity) == ("sound", "audio", 0.7)
    added = found.added(pa.table({"sound": [b"ab", b"cd"]}))
    assert added[found.bands[0]].to_pylist() == [2, 2]
