"""Paired comparison of two models on the same examples: the difference of a metric, and whether it is significant.

No model is run: a report holds the predictions for every example of its splits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from tasks.config.task import LABEL, TARGET
from tasks.draws import splitmix64
from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.intervals import difference
from tasks.evaluation.judging import Judge, contributions_of, examples_of, metric_of
from tasks.evaluation.measured import LEVEL, Interval
from tasks.evaluation.metrics import Means, Metric, Order
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.units import Floats, Units, at, gathered
from tasks.sources.hashes import Hashes, hashes_of

Mask = npt.NDArray[np.bool_]

ROUNDING = 1e-9
"""Sums that differ by less than this share are equal but for the order of their terms."""
ALL_PATTERNS, MOST_FLIPPED = 12, 2000
"""Units all of whose patterns of signs are counted, and whose signs are drawn, at most."""
MOST_ORDERED = 10_000
"""Examples that are put in order again for each pattern, at most: 2 s."""


@dataclass(frozen=True)
class EvaluatedModel:
    """The folders of a report and of the snapshot and records that it was made from."""

    report: Path
    snapshot: Path
    records: Path


@dataclass(frozen=True)
class PairedDifference:
    """The difference of a metric between two models on the same examples."""

    difference: Interval
    more_than_noise: bool
    same: bool
    """Whether every example's contribution is equal."""


@dataclass(frozen=True)
class Contributions:
    """Each example's contributions to each metric on a split."""

    metrics: Mapping[str, Metric]
    values: dict[str, Floats]
    """float64 [N, K] by metric; without metrics that need more than the saved predictions or have no interval."""
    identities: Hashes
    """uint64 [N], equal where an example and its truth are; of equal examples of a split each has another one."""
    extents: Floats
    """How much of each is scored, [N]."""
    units: Units | None
    """The independent unit of each."""
    rows: Callable[[Hashes], Mask]
    """From hashes of rows to which of all examples have one of these rows."""
    places: npt.NDArray[np.int64]
    """int64 [N]: the number of each example in the split."""
    total: int
    """Examples of the split."""

    def __len__(self) -> int:
        return len(self.places)

    def among(self, hashes: Hashes) -> Mask:
        """Return which examples have a row with one of these hashes, bool [N]."""
        return self.rows(hashes)[self.places]

    def at(self, chosen: npt.NDArray[np.int64]) -> Contributions:
        """Return those of some of the examples, by their place here."""
        values = {name: each[chosen] for name, each in self.values.items()}
        return replace(
            self,
            values=values,
            identities=self.identities[chosen],
            extents=self.extents[chosen],
            units=at(self.units, chosen),
            places=self.places[chosen],
        )


def contributions(task: str, split: str, model: EvaluatedModel, config: EvaluateConfig) -> Contributions:
    """Compute contributions from a report's saved predictions, in stored order."""
    loss = json.loads((model.report / "report.json").read_bytes())["loss"]
    examples = SnapshotSplit(model.snapshot, model.records, split)
    judge = make_judge(task, examples, config, loss)
    Decision.read(model.report).settle(judge)
    kept = {judge.saved: np.load(model.report / "predictions" / f"{split}.npy", mmap_mode="r")}
    values = contributions_of(judge, kept, config)

    def rows(hashes: Hashes) -> Mask:
        return examples_of(judge, np.isin(examples.hashes(), hashes))

    return Contributions(
        metrics={name: metric_of(judge, name) for name in values},
        values=values,
        identities=_identities(judge, examples),
        extents=judge.extents(judge.predictions(kept)),
        units=judge.units,
        rows=rows,
        places=np.arange(judge.examples),
        total=judge.examples,
    )


def aligned(one: Contributions, other: Contributions) -> tuple[Contributions, Contributions]:
    """Return both on the examples that both have and that are scored alike, in the order of the other."""
    _, first, second = np.intersect1d(one.identities, other.identities, assume_unique=True, return_indices=True)
    order = np.argsort(second)
    first, second = first[order], second[order]
    alike = one.extents[first] == other.extents[second]
    return one.at(first[alike]), other.at(second[alike])


def _identities(judge: Judge, split: SnapshotSplit) -> Hashes:
    """Return a hash of each example with its truth; equal ones are numbered in their order."""
    rows = split.hashes()
    truths = _truths(split)
    if truths is not None:
        rows = splitmix64(rows ^ splitmix64(hashes_of(truths)))
    if judge.example_of is not None:
        of_examples = np.zeros(judge.examples, np.uint64)
        used = judge.example_of >= 0
        np.add.at(of_examples, judge.example_of[used], rows[used])
        rows = of_examples
    _, which, counts = np.unique(rows, return_inverse=True, return_counts=True)
    order = np.argsort(which, kind="stable")
    number = np.empty(len(rows), np.uint64)
    number[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.where(number > 0, splitmix64(rows + number), rows)


def _truths(split: SnapshotSplit) -> list[bytes] | None:
    """Return what each row is labelled with: names of classes, or numbers; None of text."""
    if LABEL in split.features:
        names = split.features[LABEL]["classes"]
        labels = split.tags() if split.features[LABEL]["shape"] else split.arrays[LABEL][:, None].tolist()
        return ["\0".join(names[number] for number in row).encode() for row in labels]
    if TARGET in split.features:
        return [row.tobytes() for row in np.asarray(split.arrays[TARGET][:])]
    return None


def change(
    metric: Metric, before: Floats, after: Floats, resamples: int, units: Units | None = None
) -> PairedDifference:
    """Return the change of a metric from contributions `before` to `after`, [N, K], with its paired interval.

    It is more than noise where a permutation test says so, which holds for any number of units; of shares of
    independent examples that is McNemar's exact test (Psychometrika 12, 1947). A value that is not defined (NaN) is
    noise.
    """
    interval = difference(metric, before, after, units)
    if not isfinite(interval.value):
        p_value = 1.0
    elif metric.share and units is None:
        p_value = mcnemar(before[:, 0], after[:, 0])
    else:
        p_value = exchanged(metric, before, after, resamples, units)
    return PairedDifference(interval, p_value < 1 - LEVEL, bool((before == after).all()))


def mcnemar(before: npt.NDArray, after: npt.NDArray) -> float:
    """Return the p-value of McNemar's exact test for correctness `before` and `after`, [N]; 1 where none changed."""
    won, lost = int((after > before).sum()), int((after < before).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0


def exchanged(metric: Metric, before: Floats, after: Floats, draws: int, units: Units | None) -> float:
    """Return the two-sided p-value of a change by a permutation test: two equal models might have changed places in
    any unit (Pitman, Supplement to the Journal of the Royal Statistical Society 4, 1937).

    A function of means is computed anew with models that changed places, so that the test is exact for any number of
    units. So is the order of up to `MOST_ORDERED` scores, whose ranks change places (Bandos, Rockette and Gur,
    Statistics in Medicine 24, 2005); of more, and above `MOST_FLIPPED` units, where the test is Student's, the
    pseudo-values of units do.
    """
    changes = metric.pseudo(after, units) - metric.pseudo(before, units)
    deciding = min(metric.deciding(each, units) for each in (before, after))
    if isinstance(metric, Means) and len(changes) <= MOST_FLIPPED:
        first, second = gathered(before, units), gathered(after, units)
        both, difference = first.means + second.means, (second.sums - first.sums) / first.sizes.sum()
        moved = signs_of(changes, draws) @ difference
        return _tail(metric.value((both + moved) / 2) - metric.value((both - moved) / 2), deciding)
    if isinstance(metric, Order) and len(before) <= MOST_ORDERED and len(changes) <= MOST_FLIPPED:
        which = np.arange(len(before)) if units is None else np.unique(units, return_inverse=True)[1]
        return _tail(_reordered(metric, before, after, signs_of(changes, draws)[:, which] > 0), deciding)
    return sign_flips(changes, draws, deciding)


def _reordered(metric: Order, before: Floats, after: Floats, stay: npt.NDArray[np.bool_]) -> Floats:
    """Return the change of a metric of the order of scores for each pattern of examples that stay, [patterns, N]: the
    others change places, by rank, as two models need not have one scale."""
    truth = before[:, 1] > 0
    first, second = (stats.rankdata(each[:, 0]) for each in (before, after))
    return np.array(
        [
            metric.value(np.where(kept, second, first), truth) - metric.value(np.where(kept, first, second), truth)
            for kept in stay
        ]
    )


def sign_flips(changes: Floats, draws: int, deciding: int) -> float:
    """Return the two-sided p-value of the mean of changes [units] being 0, by the same test; above `MOST_FLIPPED` units
    by Student's, from which it differs no more."""
    if not changes.any():
        return 1.0
    if len(changes) > MOST_FLIPPED:
        return float(stats.ttest_1samp(changes, 0.0).pvalue)
    return _tail(signs_of(changes, draws) @ changes, deciding)


def signs_of(changes: Floats, draws: int) -> npt.NDArray[np.int8]:
    """Return patterns of signs of the changes of units, [patterns, units], of which the first is that of the data.

    They are all patterns where these are few, so that the p-value of n units is at least 2 / 2^n; otherwise so many
    drawn ones. Their seed is a hash of how large the changes are: the same data have the same patterns, and others have
    others, by which a share of 5 % of equal models is more than noise, whatever patterns some data have.
    """
    count = len(changes)
    if count <= ALL_PATTERNS:
        return (1 - 2 * ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1)).astype(np.int8)
    sizes = np.abs(changes) / max(float(np.abs(changes).max()), 1e-300)
    seed = int.from_bytes(hashlib.blake2b(np.round(sizes, 6).astype("<f8").tobytes(), digest_size=8).digest(), "little")
    signs = 1 - 2 * np.random.default_rng(seed).integers(0, 2, (1 + draws, count), np.int8)
    signs[0] = 1
    return signs


def _tail(changes: Floats, deciding: int) -> float:
    """Return the share of changes that are as large as the first.

    Of those that are just as large only half count where `MIN_EXAMPLES` units decide (mid-p: Lancaster, Journal of the
    American Statistical Association 56, 1961): a metric of few examples has few values, by which the test is too
    cautious (Fagerland, Lydersen and Laake, BMC Medical Research Methodology 13, 2013).
    """
    seen, sizes = abs(float(changes[0])), np.abs(changes)
    if not seen:
        return 1.0
    larger, equal = sizes > seen * (1 + ROUNDING), np.abs(sizes - seen) <= seen * ROUNDING
    return float(larger.mean() + equal.mean() * (0.5 if deciding >= MIN_EXAMPLES else 1.0))
