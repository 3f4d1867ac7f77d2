"""A version and the champion on the same test examples, one by one, without those that either has used: the change of
the primary metric, and the verdicts of `promote.gates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tasks.artifacts import Report
from tasks.config.compose import Config
from tasks.config.task import TASKS
from tasks.errors import Failed, Refused, of_the_machine
from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gates import PASS, Beside, Champion, Verdict
from tasks.evaluation.gating import AbsoluteGate, PromoteGate
from tasks.evaluation.units import Floats, Units, at, count
from tasks.models.usage import USES, Usage
from tasks.runs.runs import Run, resolve_run
from tasks.store.store import Store
from tasks.view import results
from tasks.view.facts import Facts

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.evaluation.multiple_testing import Test
    from tasks.evaluation.paired import Contributions, Mask
    from tasks.registry.registry import Registered

SPLIT = "test"

POSITIVE = "millrace.positive"
"""The tag of a version that names the class which its metric calls positive."""


@dataclass(frozen=True)
class Compared:
    """The test examples of a run on which its model and the champion are compared."""

    own: Contributions
    """Of the run's model."""
    reference: Mapping[str, Floats]
    """The champion's contributions to each metric on the same examples, as far as they are known."""
    unused: Mask
    """Those that neither model, nor what it began from, has used."""
    left_out: str = ""
    """How many are left out, and why, in words; empty where none is."""
    unknown: str = ""
    """Weights that one of them began from whose examples are not known, in words; empty where there are none."""

    @property
    def units(self) -> Units | None:
        """The independent units of the unused examples."""
        return at(self.own.units, self.unused)

    def of(self, name: str) -> tuple[Floats, Floats] | None:
        """Return the contributions of the champion and of the run's model to a metric on the unused examples; None
        where one of them is not known."""
        before, after = self.reference.get(name), self.own.values.get(name)
        if before is None or after is None or before.shape != after.shape:
            return None
        return before[self.unused], after[self.unused]


def as_the_champion(champion: Registered, config: Config) -> EvaluateConfig:
    """Return the evaluation's config of a run with the champion's primary metric and positive class: by these both are
    compared, whatever the run itself is judged by.

    Raises:
        Refused: the task, or `evaluate.own_metrics`, has no such metric.
    """
    name, task = champion.metric.removeprefix(f"{SPLIT}/"), config.model.task
    if name not in (*TASKS[task].metrics, *config.evaluate.own_metrics):
        saw = f"champion version {champion.version} was judged by {champion.metric or 'an unknown metric'}"
        raise Refused("evaluate.primary", saw, f"this run has no such metric of {task}", "compare them by hand")
    changed = {"primary": name, "positive": champion.tags.get(POSITIVE) or config.evaluate.positive}
    return config.evaluate.model_copy(update=changed)


def compared(
    own: Contributions, reference: Mapping[str, Floats], users: Mapping[str, Usage], champion: str, counted: str
) -> Compared:
    """Leave out the examples that a version or the champion has used.

    Args:
        own: contributions of the version's model.
        reference: the champion's to each metric, on the same examples.
        users: by words for a model, the rows that it has used.
        champion: its version.
        counted: the plural noun for examples.
    """
    masks = {
        f"in the {USES[use]} split of {who}": own.among(rows)
        for who, usage in users.items()
        for use, rows in usage.rows.items()
    }
    unused = ~np.logical_or.reduce(list(masks.values()))
    counts = {where: int(mask.sum()) for where, mask in masks.items()}
    counts[f"not in the test split of champion version {champion}, or not scored alike"] = own.total - len(own)
    left_out = [(count, where) for where, count in counts.items() if count]
    of_all = f" of {own.total:,} test {counted} are"
    words = [f"{count:,}{'' if number else of_all} {where}" for number, (count, where) in enumerate(left_out)]
    unknown = sorted({what for usage in users.values() for what in usage.unknown})
    return Compared(own, reference, unused, ", ".join(words), ", ".join(unknown))


def champion_of(registered: Registered, run: Run, beside: Compared | None, why: str = "") -> Champion:
    """Return the champion as the gate compares it with a run's model, by the metric that the champion was judged by.

    `why` says why it cannot be compared, where that is known.
    """
    version, name = registered.version, registered.metric.removeprefix(f"{SPLIT}/")
    pair = None if beside is None or why else beside.of(name)
    if beside is None or pair is None:
        why = why or f"champion version {version} cannot be scored on these records"
        return Champion(version, registered.metric, registered.score, None, why)
    before, after = pair
    left = count(beside.units, len(before))
    if beside.left_out and left < MIN_EXAMPLES:
        groups = "" if beside.units is None else " groups"
        why = f"{beside.left_out}; {left}{groups} are left, and at least {MIN_EXAMPLES} are needed"
        return Champion(version, registered.metric, registered.score, None, why)
    from tasks.evaluation.paired import change  # not above: it loads SciPy, scikit-learn and Matplotlib

    of_metric = beside.own.metrics[name]
    first, second = of_metric.of(before), of_metric.of(after)
    changed = change(of_metric, before, after, run.config.evaluate.resamples, beside.units)
    higher = as_the_champion(registered, run.config).primary_of(run.config.model.task)[1]
    found = Beside(first, second, changed, len(before), higher, beside.left_out, beside.unknown)
    return Champion(version, registered.metric, registered.score, found, behind=registered.behind)


def users(
    client: MlflowClient, store: Store, name: str, version: Registered, champion: Registered
) -> dict[str, Usage] | str:
    """Return the rows that the champion and a version have used, by words for each; or why they are not known.

    Raises:
        Lost: the registry does not answer.
    """
    from tasks.registry import registry

    found: dict[str, Usage] = {}
    for who, each in ((f"champion version {champion.version}", champion), ("this model", version)):
        try:
            usage = Usage.read(registry.fetch(client, store, name, each).path)
        except (OSError, KeyError, Failed) as error:
            if of_the_machine(error) is not None:  # ours, not the version's
                raise
            return f"{who} cannot be read: {error}"
        if usage is None:
            return f"{who} does not say which rows it has used"
        found[who] = usage
    return found


def by_report(
    champion: Registered, run: Run, config: EvaluateConfig | None = None
) -> tuple[Contributions, dict[str, Floats]] | None:
    """Return the contributions of a run's model, and the champion's by the report of its own run, on the test examples
    that both have; None where that run or its report is not in this home, or too few examples are in both."""
    try:
        before = resolve_run(run.home, champion.tags.get("millrace.run") or "none")
    except Refused:
        return None
    pair = results.pair(Facts(before), Facts(run), SPLIT, config)
    return None if pair is None else (pair[1], pair[0].values)


def judge(
    run: Run,
    report: Report,
    gates: Sequence[PromoteGate],
    champion: str | None,
    beside: Compared | None,
    primary: tuple[str, bool],
) -> list[Verdict]:
    """Return the verdicts of gates on the model of a run, judged together.

    Args:
        gates: `promote.gates`.
        report: of the run's model.
        champion: the champion's version; None without one, where what compares with it passes.
        beside: the champion on the same examples; None where it is not known.
        primary: the metric that decides, and whether higher is better.
    """
    from tasks.evaluation import gating
    from tasks.evaluation.multiple_testing import decide
    from tasks.evaluation.report import read_slices

    after = Facts(run)
    own = results.contributions(after, SPLIT)
    assert own is not None, "the report of this run is in the store"
    alone = gating.Subject(
        task=after.config.model.task,
        primary=primary,
        own=own.values,
        reference={},
        against=f"champion version {champion}",
        units=own.units,
    )
    both = alone
    if beside is not None and beside.unused.any():
        pairs = {name: pair for name in own.values if (pair := beside.of(name)) is not None}
        compared_ones = beside.own.places[beside.unused]
        masks = {name: mask[compared_ones] for name, mask in read_slices(report, SPLIT)[1].items()}
        of_both = [{name: pair[side] for name, pair in pairs.items()} for side in range(2)]
        own_ones = {**alone.own, **of_both[1]}
        both = replace(alone, own=own_ones, reference=of_both[0], masks=masks, units=beside.units)
    found: list[list[Verdict | Test]] = []
    for gate in gates:
        if champion is None and not isinstance(gate, AbsoluteGate):
            found.append([Verdict(gate.label, 0.0, gate.max_loss or 0.0, PASS, "there is no champion")])
        else:
            found.append(gate.find(alone if isinstance(gate, AbsoluteGate) else both))
    verdicts = [verdict for row in decide(found) for verdict in row]
    compare = [not isinstance(gate, AbsoluteGate) for gate in gates]
    return [replace(verdict, compares=each) for verdict, each in zip(verdicts, compare, strict=True)]
