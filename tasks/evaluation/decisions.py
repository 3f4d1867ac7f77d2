"""What is fitted on the validation split and belongs to the model from then on: temperature and thresholds.

It is written to `decision.json` in the report, and with the model's export, whose predictions use it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import expit, logit

from tasks.errors import Failed
from tasks.evaluation import binary
from tasks.evaluation import calibration as temperature
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge

FILE = "decision.json"


@dataclass(frozen=True)
class Decision:
    """A temperature that logits are divided by, and the threshold of each probability; None where not fitted."""

    temperature: float | None = None
    thresholds: dict[str, float] | None = None

    @property
    def fitted(self) -> bool:
        """Whether there is anything to apply."""
        return self.temperature is not None or self.thresholds is not None

    def as_json(self) -> dict[str, Any]:
        """Return it for `decision.json`, without what is not fitted."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def read(cls, report: Path) -> Decision:
        """Read that of a report; nothing where nothing was fitted."""
        path = report / FILE
        return cls(**json.loads(path.read_bytes())) if path.exists() else cls()

    def apply(self, predictions: Any) -> Any:
        """Return predictions with the temperature applied."""
        return predictions if self.temperature is None else predictions.scaled(self.temperature)

    def settle(self, judge: Judge) -> None:
        """Let a judge of two classes decide by the threshold, as the probabilities are without the temperature."""
        if self.thresholds is not None and len(self.thresholds) == 1:
            [threshold] = self.thresholds.values()
            judge.threshold = float(expit((self.temperature or 1.0) * logit(threshold)))


def fit(judge: Judge, predictions: Any, config: EvaluateConfig) -> Decision:
    """Fit what the config asks for on the predictions for the validation split.

    Raises:
        Failed: a threshold is wanted of a classifier of more than two classes, or cannot be chosen.
    """
    scaling = None if config.calibrate is None else temperature.fit(judge, predictions)
    if config.threshold is None:
        return Decision(scaling)
    decisions = judge.binary(Decision(scaling).apply(predictions))
    if not decisions:
        rule = "is chosen for a classifier of two classes, or for labels"
        raise Failed(binary.FIELD, f"{judge.outputs} classes", rule, "leave it out")
    chosen = {name: binary.choose(name, each, config.threshold) for name, each in decisions.items()}
    return Decision(scaling, chosen)


def measured(
    judge: Judge, predictions: Any, decision: Decision, config: EvaluateConfig
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return what temperature and thresholds do on a split: fields of the report, and metrics by flat name."""
    fields: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    if decision.temperature is not None:
        fields["calibration"], metrics = temperature.measured(judge, predictions, decision.temperature, config)
    if decision.thresholds is not None:
        decisions = judge.binary(decision.apply(predictions))
        fields["thresholds"], more = binary.measured(decisions, decision.thresholds, judge.units)
        metrics |= more
    return fields, metrics
