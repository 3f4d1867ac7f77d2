"""A schedule, an optimizer, a strategy, a source of initial weights and a task are classes that no other line names."""

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

TASK = {
    "config/task.py": (
        "TASKS: dict",
        '''class Count(Regression):
    """How many, for each example."""

    name = "count"
    losses = ("poisson",)
    metrics = ("deviance", *Regression.metrics)
    lower_is_better = Regression.lower_is_better | {"deviance"}
    baselines = {"mean_deviance": "of always predicting the mean"}
    in_target_units = False
    scores = {"deviance": "loss"}
''',
    ),
    "training/engines/objectives.py": (
        "@dataclass(frozen=True)\nclass LanguageModel(",
        '''@dataclass(frozen=True)
class Count(Regression):
    """The logarithm of the expected number."""

    task: ClassVar[str] = "count"

    def of_task(self, target: Tensor, outputs: Tensor) -> Tensor:
        return ops.exp(outputs) - target * outputs
''',
    ),
    "training/samples.py": ("SAMPLES: dict", 'class CountSample(NumbersSample):\n    task = "count"\n'),
    "evaluation/tasks/regression.py": (
        "@picture",
        """def deviances(predictions: Predictions) -> Floats:
    return np.exp(predictions.predicted) - predictions.truth * predictions.predicted


LOSS["poisson"] = deviances


class CountJudge(RegressionJudge):
    task = "count"
    baselines = {"mean_deviance": 2.0}

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.metrics["deviance"] = Means(deviances, mean, lowest=-inf)
""",
    ),
    "exporting/prediction.py": ("ANSWERS: dict", 'class Count(Regression):\n    task = "count"\n'),
}
"""The classes of a task, each above this line in its file."""

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

from tasks.artifacts import Report, Snapshot
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

from tasks.artifacts import Model, Records
from tasks.evaluation import report
from tasks.exporting.prediction import predictions
from tasks.records import conversion
from tasks.snapshots.config import TableSnapshot
from tasks.sources.kinds.catalogues import SklearnSource

counting = {"name": "n", "model": {"kind": "mlp", "task": "count"}, "evaluate": {"metrics": ["deviance"]}}
config = validate({**counting, "train": {"steps": 3}})
assert "`regression` \\| `count`" in page()
try:
    validate({**counting, "train": {"steps": 3, "loss": "squared_error"}})
    raise AssertionError("loss")
except Refused as refused:
    assert refused.field == "train.loss" and "poisson" in f"{refused.rule} {refused.remedy}", refused

bench = workbench(Path("records"))
records = published(Records, bench, conversion.build(bench, SklearnSource(dataset="diabetes"), config.records))
bench = workbench(Path("rows"))
rows = published(Snapshot, bench, TableSnapshot().build(bench, records))
trained = workbench(Path("counting"))
outcome = fit(trained, rows, config.model, config.train, seed=1)
judged = workbench(Path("report"))
outcome = report.build(judged, published(Model, trained, outcome), rows, records, config.evaluate)
metrics = published(Report, judged, outcome).metrics
assert np.isfinite([metrics["test/deviance"], metrics["test/mean_deviance"]]).all(), metrics
assert predictions(np.array([[0.5]]), {"task": "count", "targets": ["n"]}, {}) == [{"values": {"n": 0.5}}]
"""


def test_kinds_of_a_training_are_added_by_a_class_each(tmp_path: Path) -> None:
    """They are in the schema, the reference and the errors; a training runs with the sections, and of the task there
    are a model, a report and predictions."""
    for folder in ("tasks", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/__init__.py").touch()
    for name, (section, added) in TOYS.items():
        file = tmp_path / f"tasks/training/{name}.py"
        text, line = file.read_text(), f"if TYPE_CHECKING:\n    {section}"
        assert text.count(line) == 1
        file.write_text(text.replace(line, f"{added}\n\n{line}"))
    for name, (line, added) in TASK.items():
        file = tmp_path / "tasks" / name
        text = file.read_text()
        assert text.count(f"\n{line}") == 1
        file.write_text(text.replace(f"\n{line}", f"\n{added}\n\n{line}"))
    assert "variables on CPU:0" in in_fresh_process(ADDED, folder=tmp_path)
