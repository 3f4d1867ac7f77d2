"""A schedule, an optimizer, a strategy and a source of initial weights are a class each, which no other line names."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.fresh import in_fresh_process
from tests.support.homes import ROOT

TOYS = {
    "schedules": (
        "ScheduleConfig",
        '''class Halved(Schedule):
    """A rate that is halved again and again."""

    kind: Literal["halved"] = "halved"
    """The decay after the warm-up."""
    every: Annotated[int, Field(ge=1)] = 1
    """Steps between two halvings."""

    def factor(self, step: int, steps: int) -> float:
        return 0.5 ** (step // self.every)
''',
    ),
    "optimizers": (
        "OptimizerConfig",
        '''class HeavyBall(Optimizer):
    """Momentum alone."""

    kind: Literal["heavy_ball"] = "heavy_ball"
    """The update rule."""
    mass: Decay = 0.5
    """Decay of the velocity."""

    def create(self, **more: Any) -> keras.optimizers.Optimizer:
        import keras

        return keras.optimizers.SGD(1.0, momentum=self.mass, **more)
''',
    ),
    "strategies": (
        "StrategyConfig",
        '''class OnDevice(Strategy):
    """One device, by its name."""

    kind: Literal["on_device"] = "on_device"
    """Distribution of a step over devices."""
    device: str = "CPU:0"
    """Its name."""

    def create(self, cluster: Cluster) -> Placement:
        import tensorflow as tf

        from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy

        class Named(OneDeviceStrategy):
            def scope(self):
                print(f"variables on {device}")
                return tf.device(device)

        device = self.device
        return Named()
''',
    ),
    "initial": (
        "InitConfig",
        '''class ZeroInit(Init):
    """One number everywhere."""

    kind: Literal["constant"] = "constant"
    """Where the weights are from."""
    value: float = 0.0
    """The number."""

    def weights(self, model: keras.Model, stored: Path | None) -> Known:
        return {path: np.full_like(values, self.value) for path, values in by_path(model).items()}
''',
    ),
}
"""Classes, each above the type of its section in a file of tasks/training."""

ADDED = """
import os, sys
from pathlib import Path

sys.path.insert(0, os.getcwd())
import numpy as np

from tasks.config.compose import Config, validate
from tasks.config.reference import page
from tasks.errors import Refused

chosen = {
    "schedule": {"kind": "halved", "every": 2},
    "optimizer": {"kind": "heavy_ball"},
    "strategy": {"kind": "on_device"},
    "init": {"kind": "constant", "value": 0.25},
}
train = {"steps": 3, "batch_size": 4, "learning_rate": 1e-9, **chosen}
config = validate({"name": "n", "train": train})
schema = Config.model_json_schema()["$defs"]
for name, said in chosen.items():
    kind = said["kind"]
    assert type(getattr(config.train, name)).__name__ in schema
    assert f"## train.{name} ({kind})" in page()
    try:
        validate({"name": "n", "train": {**train, name: {"kind": "nothing"}}})
        raise AssertionError(name)
    except Refused as refused:
        assert refused.field == f"train.{name}.kind" and f"'{kind}'" in refused.rule, refused

from tasks.artifacts import Snapshot
from tasks.models import keras_file
from tasks.training.fit import fit
from tasks.training.loop import make_plan
from tests.support.benches import published, workbench
from tests.support.tiny import MODEL, write_snapshot

assert np.allclose(make_plan(config.train, 10, ()).rates(0, 3), [1e-9, 1e-9, 5e-10])
bench, trained = workbench(Path("snapshot")), workbench(Path("model"))
fit(trained, published(Snapshot, bench, write_snapshot(bench)), MODEL, config.train, seed=1)
kernels = [layer.kernel for layer in keras_file.load(trained.staging.root).layers if hasattr(layer, "kernel")]
assert len(kernels) == 3 and all(np.allclose(kernel, 0.25, atol=1e-6) for kernel in kernels)
"""


def test_kinds_of_a_training_are_added_by_a_class_each(tmp_path: Path) -> None:
    """They are in the schema, the reference and the errors, and a training runs with all of them."""
    for folder in ("tasks", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/__init__.py").touch()
    for name, (section, added) in TOYS.items():
        file = tmp_path / f"tasks/training/{name}.py"
        text, line = file.read_text(), f"if TYPE_CHECKING:\n    {section}"
        assert text.count(line) == 1
        file.write_text(text.replace(line, f"{added}\n\n{line}"))
    assert "variables on CPU:0" in in_fresh_process(ADDED, folder=tmp_path)
