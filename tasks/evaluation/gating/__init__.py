"""Gates by kind: each looks at a subject and finds a measured value, or a test whose verdict depends on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from tasks.config.gates import Gate
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation.gates import Ratio, Verdict
from tasks.evaluation.metrics import Metric
from tasks.evaluation.multiple_testing import Test
from tasks.evaluation.own_metrics import MEAN
from tasks.evaluation.units import Floats, Units

GATES = {
    "absolute": "tasks.evaluation.gating.absolute",
    "float": "tasks.evaluation.gating.against_float",
    "champion": "tasks.evaluation.gating.against_champion",
    "slices": "tasks.evaluation.gating.by_slice",
}
"""The module of each kind, imported on use."""


@dataclass(frozen=True)
class Subject:
    """What gates judge: a variant, or a new version; and what it is compared with."""

    task: str
    primary: tuple[str, bool]
    """The metric that decides, and whether higher is better."""
    own: Mapping[str, Floats]
    """Contributions of the test examples to each metric, float64 [N, K]."""
    reference: Mapping[str, Floats]
    """The same of the float model, or of the champion; without those that are not there."""
    against: str
    """The reference in words."""
    units: Units | None = None
    """The independent unit of each example; None: each is one."""
    masks: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    """The examples of each slice, bool [N]."""
    measures: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    """The largest ratio that passes by default."""

    def metric(self, gate: Gate) -> tuple[str, Metric, int]:
        """Return the name of the metric that a gate judges, the metric, and 1 where higher is better, else -1.

        Raises:
            Failed: the test examples have no such metric.
        """
        task, (primary, higher) = TASKS[self.task], self.primary
        name = gate.metric or primary
        if name not in self.own:
            rule = f"the test examples have {', '.join(sorted(self.own))}"
            raise Failed(f"gate {gate.label}", f"metric {name}", rule, "name one of them")
        better = higher if name == primary else name in task.higher_is_better
        return name, metrics_of(self.task).get(name, MEAN), 1 if better else -1

    @property
    def counted(self) -> str:
        """The plural noun of the independent units."""
        return TASKS[self.task].counted if self.units is None else "groups"


class Kind(Protocol):
    """A module of `GATES`."""

    def find(self, gate: Any, subject: Subject) -> list[Verdict | Test]:
        """Return the verdicts on measured values, and the tests of metrics."""
        ...


def find(gate: Gate, subject: Subject) -> list[Verdict | Test]:
    """Return what a gate finds of a subject."""
    return cast(Kind, import_module(GATES[gate.kind])).find(gate, subject)


def metrics_of(task: str) -> Mapping[str, Metric]:
    """Return the metrics of a task by name."""
    metrics: Mapping[str, Metric] = import_module(f"tasks.evaluation.{task}").METRICS
    return metrics
