"""When an export becomes the champion, and of which model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import LISTED, Conflict, Section
from tasks.evaluation.gating import MEASURES, PromoteGate, fit_gates


class PromoteConfig(Section):
    """The gate between a candidate and the alias `champion`."""

    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Minimum improvement of the test score over the champion's, in the units of the metric; negative: the largest
    accepted loss, also against the best of the champions before, so that small losses do not add up."""

    require: Literal["not_worse", "better"] = "not_worse"
    """What the difference from the champion on the same test examples must be besides: `not_worse`: not worse by more
    than noise; `better`: better by more than noise (see docs/metrics.md)."""

    gates: Annotated[tuple[PromoteGate, ...], LISTED] = ()
    """What a new version must meet besides, on the test split."""

    baseline: Literal["none", "constant", "learned"] = "constant"
    """What the test score must be better than, by more than noise: `constant`: the task's baselines (always predicting
    the most frequent class, the mean or every label; for text, a bigram model, gzip and xz); `learned`: also a simple
    model that is trained on the same train split; `none`: nothing."""

    approval: Literal["none", "required"] = "none"
    """Whether a person must approve an export that passed the gate before it becomes champion."""

    def fit(self, task: str, sliced: bool) -> None:
        """Raise `Conflict` for a gate that judges nothing of the task; `sliced`: whether the report has slices."""
        try:
            fit_gates(self.gates, task, sliced)
        except Conflict as misfit:
            raise Conflict(f"promote.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        for number, gate in enumerate(self.gates):
            if gate.metric in MEASURES:
                rule = "is of a file, and a version has several"
                raise Conflict(f"promote.gates.{number}.metric", gate.metric, rule, "judge it in compress.gates")


class ReleaseConfig(Section):
    """Input of the flow `release`."""

    model: str | None = None
    """A model in the store: `model/DIGEST` or an unambiguous digest prefix. Only for the flow `release`."""
