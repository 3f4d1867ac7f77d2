"""A version and the champion on the same test examples, one by one: the change, and the verdicts of `promote.gates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.artifacts import Report
from tasks.config.gates import PromoteGate
from tasks.errors import Refused
from tasks.evaluation import paired
from tasks.evaluation.gates import PASS, Verdict
from tasks.evaluation.metrics import Floats
from tasks.evaluation.noninferiority import Test
from tasks.pages import results
from tasks.pages.facts import Facts
from tasks.runs.runs import Run, resolve_run

if TYPE_CHECKING:
    from tasks.registry.registry import Registered

SPLIT = "test"


def of_champion(champion: Registered, run: Run) -> dict[str, Floats]:
    """Return the champion's contributions to each metric on the test examples of a run, by the report of its own run.

    Empty where that run or its report is not in this home, or was made on other examples.
    """
    try:
        before = resolve_run(run.home, champion.tags.get("millrace.run") or "none")
    except Refused:
        return {}
    pair = results.pair(Facts(before), Facts(run), SPLIT)
    return {} if pair is None else pair[0].values


def change(reference: Mapping[str, Floats], run: Run) -> paired.Change | None:
    """Return the change of the primary metric from the champion's contributions to those of a run's model."""
    after = Facts(run)
    if after.metric not in reference or (own := results.contributions(after, SPLIT)) is None:
        return None
    before, values = reference[after.metric], own.values.get(after.metric)
    if values is None or before.shape != values.shape:
        return None
    return paired.change(own.metrics[after.metric], before, values, after.config.evaluate.resamples)


def scored(contributions: Sequence[Sequence[float]], run: Run) -> dict[str, Floats]:
    """Return contributions to the primary metric by name, as those of a champion that was scored again."""
    return {Facts(run).metric: np.asarray(contributions, np.float64)}


def judge(
    run: Run, report: Report, gates: Sequence[PromoteGate], champion: str | None, reference: Mapping[str, Floats]
) -> list[Verdict]:
    """Return the verdicts of gates on the model of a run, judged together.

    Args:
        gates: `promote.gates`.
        report: of the run's model.
        champion: the champion's version; None without one, where what compares with it passes.
        reference: the champion's contributions to each metric on the same examples, as far as they are known.
    """
    from tasks.evaluation import gating
    from tasks.evaluation.gating.deciding import decide
    from tasks.evaluation.report import read_slices

    after = Facts(run)
    own = results.contributions(after, SPLIT)
    assert own is not None, "the report of this run is in the store"
    subject = gating.Subject(
        task=after.config.model.task,
        own=own.values,
        reference={name: each for name, each in reference.items() if each.shape == own.values[name].shape},
        against=f"champion version {champion}",
        resamples=after.config.evaluate.resamples,
        masks=read_slices(report, SPLIT)[1],
    )
    found: list[list[Verdict | Test]] = []
    for gate in gates:
        if champion is None and gate.kind != "absolute":
            found.append([Verdict(gate.label, 0.0, gate.max_loss, PASS, "there is no champion")])
        else:
            found.append(gating.find(gate, subject))
    return [verdict for row in decide(found) for verdict in row]
