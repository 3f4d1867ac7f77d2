"""Comparison of the metrics of two runs: is the difference more than noise?

Where both were evaluated on the same test examples, the comparison is paired (`tasks.evaluation.paired`); otherwise the
intervals of both are compared, and where they overlap the result is undecided. Every verdict names its method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tasks.artifacts import Artifact
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation import MIN_EXAMPLES, too_few
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.units import count as units_of
from tasks.records.reading import RecordsReader
from tasks.view import figure, kilobytes, some
from tasks.view.facts import Facts
from tasks.view.words import interval

if TYPE_CHECKING:
    from tasks.evaluation.paired import Contributions

SPLITS = ("test", "validation")

Pair: TypeAlias = "tuple[Contributions, Contributions]"
"""Contributions of each example of a split in a, and in b."""


@dataclass(frozen=True)
class Row:
    """A figure of both runs."""

    name: str
    a: float
    b: float
    difference: float
    a_interval: tuple[float, float] | None = None
    b_interval: tuple[float, float] | None = None
    interval: tuple[float, float] | None = None
    """95 % interval of the difference, if the comparison is paired."""
    more_than_noise: bool | None = None
    """None if undecided."""
    by: str = ""
    """The method of the comparison."""
    same: bool = False
    """True if no example differs."""

    higher_is_better: bool | None = None

    @property
    def word(self) -> str:
        """The verdict without its method; empty if undecided."""
        if self.same:
            return "no example differs"
        return {None: "", True: "more than noise", False: "within noise"}[self.more_than_noise]

    @property
    def verdict(self) -> str:
        """The verdict with its method."""
        return f"{self.word} ({self.by})" if self.word else self.by

    @property
    def tone(self) -> str:
        """`good` or `bad` if b is better or worse than a by more than noise; otherwise empty."""
        if not self.more_than_noise or self.higher_is_better is None:
            return ""
        return "good" if (self.difference > 0) == self.higher_is_better else "bad"

    @property
    def change(self) -> str:
        """The difference, formatted."""
        if self.name.endswith("/bytes"):
            return f"{self.difference:+,.0f}" if self.difference else "0"
        return f"{self.difference:+.4f}" if float(f"{self.difference:.4f}") else "0.0000"

    def formatted(self, value: float) -> str:
        """Format one of the values."""
        return kilobytes(int(value)) if self.name.endswith("/bytes") else figure(value)

    def as_json(self) -> dict[str, Any]:
        """Return all fields and the verdict."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Examples:
    """Keys of the test examples that are right in one run and wrong in the other."""

    fixed: list[str]
    """Wrong in a, right in b."""
    broken: list[str]
    """Right in a, wrong in b."""
    both_right: int
    both_wrong: int

    def lines(self, most: int) -> Iterator[str]:
        """Yield a line for each group of examples, with its first `most` keys."""
        yield f"{self.both_right:,} right in both, {self.both_wrong:,} wrong in both"
        for what, keys in (("wrong in a, right in b", self.fixed), ("right in a, wrong in b", self.broken)):
            yield f"{len(keys):,} {what}{': ' if keys else ''}{some(keys, most)}"


def compare(before: Facts, after: Facts, pairs: dict[str, Pair | None]) -> list[Row]:
    """Return a row for each metric of each split that both runs have."""
    if before.config.model.task != after.config.model.task:
        return []
    task = TASKS[after.config.model.task]
    return [
        replace(_row(before, after, name, metric, pair), higher_is_better=metric not in task.lower_is_better)
        for split, pair in pairs.items()
        for metric in task.metrics
        if (name := f"{split}/{metric}") in before.metrics
        and name in after.metrics
        and (metric != "loss" or before.minimised == after.minimised)
    ]


def variants(before: Facts, after: Facts) -> list[Row]:
    """Return rows with size and primary metric of each variant that both runs have."""
    rows = []
    for variant in after.variants:
        for name in (f"{variant.name}/bytes", f"{variant.name}/test/{after.metric}"):
            a, b = before.metrics.get(name), after.metrics.get(name)
            if a is not None and b is not None:
                rows.append(Row(name, a, b, b - a) if name.endswith("/bytes") else _by_intervals(before, after, name))
    return rows


def examples(after: Facts, pair: Pair | None) -> Examples | None:
    """Compare example by example; None if the primary metric counts no examples or the test splits differ."""
    name = after.metric
    if pair is None or not pair[0].metrics[name].share:
        return None
    old, new = (each.values[name][:, 0] > 0 for each in pair)
    records = after.one("records")
    assert records is not None
    of_split = _keys(records, "test")
    keys = [of_split[place] for place in pair[1].places]
    return Examples(
        [keys[row] for row in np.flatnonzero(~old & new)],
        [keys[row] for row in np.flatnonzero(old & ~new)],
        int((old & new).sum()),
        int((~old & ~new).sum()),
    )


def _row(before: Facts, after: Facts, name: str, metric: str, pair: Pair | None) -> Row:
    a, b = before.metrics[name], after.metrics[name]
    values = [each.values.get(metric) for each in pair] if pair else [None]
    if pair is None or values[0] is None or values[1] is None or values[0].shape != values[1].shape:
        return _by_intervals(before, after, name)
    units = pair[1].units
    count = units_of(units, len(values[0]))
    ends = (interval(before.metrics, name), interval(after.metrics, name))
    if count < 2:
        return Row(name, a, b, b - a, *ends, by="one example: no interval")
    from tasks.evaluation import paired  # not above: it loads SciPy, scikit-learn and Matplotlib

    change = paired.change(pair[1].metrics[metric], values[0], values[1], after.config.evaluate.resamples, units)
    judged = after.judged if units is None else "groups"
    weakness = "too few for 95 %" if count < MIN_EXAMPLES else too_few(change.difference.units)
    by = f"{change.difference.method} over {count:,} {judged}{weakness and f', {weakness}'}"
    by += " and McNemar's test" if pair[1].metrics[metric].share and units is None else " and a permutation test"
    between = (change.difference.low, change.difference.high)
    if count < max(pair[0].total, pair[1].total):
        by += ", those that both have"
    return Row(name, a, b, change.difference.value, *ends, between, change.more_than_noise, by, change.same)


def _by_intervals(before: Facts, after: Facts, name: str) -> Row:
    a, b = before.metrics[name], after.metrics[name]
    one, other = interval(before.metrics, name), interval(after.metrics, name)
    if one is None or other is None:
        return Row(name, a, b, b - a, one, other, by="no interval")
    if one[1] < other[0] or other[1] < one[0]:
        return Row(name, a, b, b - a, one, other, more_than_noise=True, by="their intervals do not overlap")
    return Row(name, a, b, b - a, one, other, by="their intervals overlap: undecided")


def pair(before: Facts, after: Facts, split: str, config: EvaluateConfig | None = None) -> Pair | None:
    """Return the contributions of both runs on the examples that both have; None where these are none, or too few of
    another split, or were deleted. `config` says how they are judged; default: as the second one."""
    if before.config.model.task != after.config.model.task:
        return None
    from tasks.evaluation import paired

    first, second = (contributions(facts, split, config or after.config.evaluate) for facts in (before, after))
    if first is None or second is None:
        return None
    both = paired.aligned(first, second)
    common = len(both[1])
    return both if common >= min(MIN_EXAMPLES, first.total, second.total) and common else None


def contributions(facts: Facts, split: str, config: EvaluateConfig | None = None) -> Contributions | None:
    """Return the contributions of a run's model by example; None if what it was evaluated on was deleted.

    `config` counts where it is given, otherwise the run's own.
    """
    from tasks.evaluation import paired

    made = [facts.one(kind) for kind in ("report", "snapshot", "records")]
    paths = [artifact.path for artifact in made if artifact is not None]
    if len(paths) < len(made):
        return None
    try:
        model = paired.EvaluatedModel(*paths)
        return paired.contributions(facts.config.model.task, split, model, config or facts.config.evaluate)
    except (OSError, Failed):
        return None


def _keys(records: Artifact, split: str) -> list[str]:
    reader = RecordsReader(records.path)
    return [reader.key(split, index) for index in range(reader.counts.get(split, 0))]
