"""How often 95 % intervals hold the truth, and how often a difference is more than noise: by chance, and rightly.

    python -m tests.benchmarks.coverage [--replicates 4000] [--tasks ranking regression]

Data sets are drawn by scene, all metrics of a task are computed of each, and compared with those of a million examples
(`TRUTH`). Prints the tables of docs/metrics.md: coverage, and the share of two equal models, drawn independently on the
same examples, whose difference is more than noise; the power for a model that is worse, beside Student's paired test of
the same values by unit (scipy), and McNemar's of shares; and the power of gates beside scipy's one-sided tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tasks.config.task import TASKS
from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.measured import LEVEL
from tasks.evaluation.metrics import Means, Metric, Score, Share, mean
from tasks.evaluation.multiple_testing import at_most, loss
from tasks.evaluation.paired import change, mcnemar
from tasks.evaluation.tasks import classification, judge_of, language_model, multilabel, ranking, regression, tagging
from tasks.evaluation.units import Floats, Units

Random = np.random.Generator
Draw = Callable[[Random, str, int, tuple[float, ...]], list[Any]]
"""From a scene, examples, and how much worse than usual each model is, to their predictions for the same examples."""

COUNTS = (10, 20, 50, 200, 1000)
GROUP = 10
"""Examples of a group of the scene `clustered`, where models are good or bad at a group as a whole."""
CLUSTERED = (200, 1000)
TRUTH, AT_ONCE = 1_000_000, 50_000
RESAMPLES = 200
POWER_AT, POWER_SHARE = (50, 200), 4
"""The examples of which the power is printed, and the replicates for each one of the power."""


def effects(random: Random, scene: str, shape: tuple[int, ...]) -> Floats:
    """Normal values of variance 1; clustered ones have 60 % of it in common in each group."""
    if scene != "clustered":
        return random.normal(0, 1, shape)
    common = np.repeat(random.normal(0, 1, (shape[0] // GROUP, *shape[1:])), GROUP, axis=0)
    return np.sqrt(0.6) * common + np.sqrt(0.4) * random.normal(0, 1, shape)


def margins(random: Random, scene: str, truth: np.ndarray, worse: float) -> Floats:
    """Log-odds of what is true or not: half of it, or 5 %; at the edge 0.4 % are wrong, skewed ones are too sure."""
    sharp = {"edge": 2.65, "rare": 1.5}.get(scene, 0.7)
    prior = np.log(0.05 / 0.95) if scene == "rare" else 0.0
    usual = 2 * sharp * ((sharp - worse) * (2 * truth - 1) + effects(random, scene, truth.shape)) + prior
    return usual * random.lognormal(0, 0.7, truth.shape) if scene == "skewed" else usual


def classifier(random: Random, scene: str, count: int, worse: tuple[float, ...]) -> list[Any]:
    labels = random.random(count) < (0.05 if scene == "rare" else 0.5)
    made = [margins(random, scene, labels, each) for each in worse]
    return [classification.Predictions.of(np.stack([-each / 2, each / 2], axis=1), labels) for each in made]


def labeller(random: Random, scene: str, count: int, worse: tuple[float, ...]) -> list[Any]:
    truth = random.random((count, 3)) < (0.05 if scene == "rare" else 0.5)
    return [multilabel.Predictions(margins(random, scene, truth, each), truth) for each in worse]


def searcher(random: Random, scene: str, count: int, worse: tuple[float, ...]) -> list[Any]:
    """Queries of six documents, a fourth of which is relevant, or of twelve with a single one."""
    truth = random.random((count, 12 if scene == "rare" else 6)) < (0.0 if scene == "rare" else 0.25)
    truth[:, 0] |= ~truth.any(axis=1)
    query = np.repeat(np.arange(count), truth.shape[1])
    made = []
    for each in worse:
        sharp = (
            {"edge": 5.0, "rare": 2.0}.get(scene, 1.5)
            - each
            + 1.5 * (scene == "clustered") * effects(random, scene, (count, 1))
        )
        scores = random.normal(0, 1, truth.shape) + sharp * truth - 1
        if scene == "skewed":
            scores = scores * random.lognormal(0, 0.7, (count, 1))
        made.append(ranking.Predictions(scores.reshape(-1, 1), truth.reshape(-1, 1), query, at=3))
    return made


def regressor(random: Random, scene: str, count: int, worse: tuple[float, ...]) -> list[Any]:
    """Two targets; skewed errors are Laplace's, whose squares are those of an exponential value."""
    truth, made = 3 + 2 * effects(random, scene, (count, 2)), []
    for each in worse:
        noise = random.laplace(0, 1, truth.shape) if scene == "skewed" else effects(random, scene, truth.shape)
        made.append(regression.Predictions(truth + noise * (1 + each) * (0.1 if scene == "edge" else 1), truth))
    return made


def reader(random: Random, scene: str, count: int, worse: tuple[float, ...]) -> list[Any]:
    """Files of one length, or of very different ones; their difficulty is the same for all models, nearly."""
    tokens = np.ceil(random.lognormal(5, 0.7, count)) if scene == "skewed" else np.full(count, 150.0)
    shape = 4 if scene == "skewed" else 20
    hard = random.gamma(shape, (0.004 if scene == "edge" else 1.0) / shape, count)
    made = []
    for each in worse:
        ours = hard * (1 + each) * random.gamma(shape, 1 / shape, count)
        if scene == "clustered":
            ours = ours * np.repeat(random.gamma(4, 1 / 4, count // GROUP), GROUP)
        right = random.binomial(tokens.astype(int), np.exp(-ours)).astype(float)
        made.append(language_model.Predictions(tokens * ours, right, tokens, tokens * 3.5, np.zeros(1)))
    return made


def tagger(random: Random, scene: str, count: int, worse: tuple[float, ...]) -> list[Any]:
    """Sequences of two to nine words, skewed ones of up to 24, some of which are harder."""
    width = 24 if scene == "skewed" else 9
    others = 0.05 if scene == "rare" else 0.2
    labels = random.choice(4, (count, width), p=[1 - 3 * others, others, others, others]).astype(np.int32)
    lengths = (
        np.ceil(random.lognormal(1.5, 0.7, (count, 1))) if scene == "skewed" else random.integers(2, 10, (count, 1))
    )
    padding, made = np.arange(width) >= lengths, []
    labels = np.where(padding, -1, labels).astype(np.int32)
    for each in worse:
        if scene == "clustered":
            hard = np.repeat(random.beta(2, 6, (count // GROUP, 1)), GROUP, axis=0)
        else:
            hard = random.beta(2, 400 if scene == "edge" else 6, (count, 1))
        hard = np.minimum(hard * (1 + each), 1)
        tags = np.where(random.random(labels.shape) < hard, random.integers(0, 4, labels.shape), labels)
        nats = np.where(padding, 0, random.exponential(hard, labels.shape)).astype(np.float32)
        tags = np.where(padding, -1, tags).astype(np.int32)
        made.append(tagging.Predictions(tags, labels, ("O", "B-A", "I-A", "B-B"), nats))
    return made


@dataclass(frozen=True)
class Case:
    draw: Draw
    scenes: tuple[str, ...]
    worse: float
    """How much worse the other model is at 200 examples, for the power; of fewer so that it is about as hard to see."""


ALL = ("even", "rare", "edge", "clustered", "skewed")
NUMBERS = ("even", "clustered", "skewed")
CASES = {
    "classification": Case(classifier, ALL, 0.25),
    "multilabel": Case(labeller, ALL, 0.15),
    "ranking": Case(searcher, ALL, 0.4),
    "regression": Case(regressor, NUMBERS, 0.15),
    "language_model": Case(reader, ("even", "edge", "clustered", "skewed"), 0.06),
    "tagging": Case(tagger, ALL, 0.25),
}
"""Those of `anomaly` are `average_precision` and `roc_auc` of classification, and the `loss` of multilabel."""

SAME_AS_EVEN: dict[str, dict[str, tuple[str, ...]]] = {
    "classification": {"skewed": ("accuracy", "balanced_accuracy", "macro_f1", "precision", "recall", "f1", "mcc")},
    "multilabel": {"skewed": ("macro_f1", "micro_f1", "label_accuracy")},
    "ranking": {"skewed": ("ndcg", "mrr", "recall")},
    "language_model": {"edge": ("bits_per_byte",)},
    "tagging": {"rare": ("loss",)},
}
"""Metrics that a scene does not change: skewed scores are those of the scene `even`, times a factor."""
LEFT_OUT = {"language_model": ("loss",)}
"""Metrics that are another one in other units: nats per token are bits per byte."""


@dataclass
class Cell:
    """What was counted over replicates."""

    covered: float
    few: float
    false: float
    power: float
    peer: float

    def __str__(self) -> str:
        return f"{100 * self.covered:.1f}{'*' if self.few > 0.5 else ''} / {100 * self.false:.1f}"

    @property
    def beside(self) -> str:
        """The power, and in brackets how much that is of the peer's."""
        if not self.power >= 0:
            return ""
        return f"{self.power:.2f} ({self.power / self.peer:.2f})" if self.peer else f"{self.power:.2f} (-)"

    @property
    def outside(self) -> bool:
        return self.few <= 0.5 and not (0.92 <= self.covered <= 0.98 and self.false <= 0.06)


def metrics_of(task: str, scene: str) -> dict[str, Metric]:
    """Return the metrics of a task that have intervals, without those that another scene or metric stands for."""
    known = judge_of(task).metrics
    without = (*LEFT_OUT.get(task, ()), *SAME_AS_EVEN.get(task, {}).get(scene, ()))
    return {name: known[name] for name in TASKS[task].metrics if name not in without and known[name].resampled}


def units_of(scene: str, count: int) -> Units | None:
    return np.arange(count) // GROUP if scene == "clustered" else None


def drawn(case: Case, scene: str, count: int, sets: int, worse: tuple[float, ...], seed: int) -> Iterator[list[Any]]:
    """Yield predictions for some data sets at once, in the order of their examples."""
    random, at_once = np.random.default_rng([seed, count]), max(AT_ONCE // count, 1)
    for start in range(0, sets, at_once):
        yield case.draw(random, scene, min(at_once, sets - start) * count, worse)


def parts(metric: Metric, predictions: Any, count: int) -> Floats:
    """Return the contributions of each data set, [sets, count, K]."""
    values = metric.contributions(predictions)
    return values.reshape(-1, count, values.shape[-1])


def cells(task: str, scene: str, count: int, truths: dict[str, float], replicates: int) -> dict[str, Cell]:
    """Return what is found of each metric of a task."""
    case, metrics, units = CASES[task], metrics_of(task, scene), units_of(scene, count)
    seen: dict[str, list[tuple[bool, bool, bool]]] = {name: [] for name in metrics}
    for equal in drawn(case, scene, count, replicates, (0.0, 0.0), 1):
        for name, metric in metrics.items():
            ones, others = (parts(metric, each, count) for each in equal)
            for one, other, far in zip(ones, others, far_apart(metric, ones, others, units), strict=True):
                found = interval_of(metric, one, units)
                false = far and change(metric, one, other, RESAMPLES, units).more_than_noise
                seen[name].append((found.low <= truths[name] <= found.high, found.units < MIN_EXAMPLES, false))
    detected: dict[str, list[tuple[bool, bool]]] = {name: [] for name in metrics}
    less = (0.0, case.worse * (200 / count) ** 0.5 * (2 if scene == "clustered" else 1))
    for pair in drawn(case, scene, count, replicates // POWER_SHARE if count in POWER_AT else 0, less, 2):
        for name, metric in metrics.items():
            for one, other in zip(*(parts(metric, each, count) for each in pair), strict=True):
                ours = change(metric, one, other, RESAMPLES, units).more_than_noise
                detected[name].append((ours, peer(metric, one, other, units) < 1 - LEVEL))
    return {
        name: Cell(
            *np.mean(seen[name], axis=0), *(np.mean(detected[name], axis=0) if detected[name] else (np.nan,) * 2)
        )
        for name in metrics
    }


def far_apart(metric: Metric, before: Floats, after: Floats, units: Units | None) -> np.ndarray:
    """Return in which data sets [sets, count, K] a change may be more than noise, of all at once: where it is further
    from 0 than 1.5 standard errors. Nearer to 0 a change is taken for noise without a test, to save its time."""
    if not isinstance(metric, Means):
        pairs = zip(before, after, strict=True)
        changes = np.array([metric.pseudo(other, units) - metric.pseudo(one, units) for one, other in pairs])
        with np.errstate(invalid="ignore"):  # of a data set of one class
            return np.abs(changes.mean(axis=1)) >= 1.5 * changes.std(axis=1, ddof=1) / changes.shape[1] ** 0.5
    if isinstance(metric, Score) and metric.needs is not None and before.shape[1] < 50:
        return np.ones(len(before), bool)
    if units is not None:
        before, after = (each.reshape(len(each), -1, GROUP, each.shape[-1]).mean(axis=2) for each in (before, after))
    count, pseudo = before.shape[1], []
    for values in (before, after):
        total = values.sum(axis=1, keepdims=True)
        pseudo.append(count * metric.value(total / count) - (count - 1) * metric.value((total - values) / (count - 1)))
    changes = pseudo[1] - pseudo[0]
    apart = metric.value(after.mean(axis=1)) - metric.value(before.mean(axis=1))
    return np.abs(apart) >= 1.5 * changes.std(axis=1, ddof=1) / count**0.5


def peer(metric: Metric, before: Floats, after: Floats, units: Units | None) -> float:
    """Return the p-value of scipy's test of the same values by unit."""
    if metric.share and units is None:
        return mcnemar(before[:, 0], after[:, 0])
    return float(stats.ttest_rel(metric.pseudo(after, units), metric.pseudo(before, units)).pvalue)


def of_task(task: str, replicates: int) -> tuple[list[str], list[str], list[str]]:
    """Return the lines of the tables of coverage and of power, and the cells that are outside."""
    covered, powers, outside = [], [], []
    for scene in CASES[task].scenes:
        everything = CASES[task].draw(np.random.default_rng(0), scene, TRUTH, (0.0,))[0]
        truths = {name: metric(everything) for name, metric in metrics_of(task, scene).items()}
        counts = CLUSTERED if scene == "clustered" else COUNTS
        found = {count: cells(task, scene, count, truths, replicates) for count in counts}
        for name in truths:
            of = {count: each[name] for count, each in found.items()}
            head = f"| {task.replace('_', ' ')} | `{name}` | {scene} | "
            covered.append(head + " | ".join(str(of[count]) if count in of else "" for count in COUNTS) + " |")
            powers.append(head + " | ".join(of[count].beside if count in of else "" for count in POWER_AT) + " |")
            outside += [f"{task} {name} {scene} n={count}: {each}" for count, each in of.items() if each.outside]
            print(covered[-1], powers[-1].removeprefix(head), flush=True)
    return covered, powers, outside


def gates(replicates: int) -> Iterator[str]:
    """Yield a line for each gate: how often it passes a model at its limit, and a better one, beside a peer."""

    def as_given(values: Any) -> Any:
        return values

    share, score, losses = Share(as_given), Score(as_given, mean), Means(as_given, mean)
    kinds: dict[str, tuple[Metric, Callable[[Random, float, int], Any], int, float, float]] = {
        "accuracy at least 0.9": (share, lambda random, p, n: (random.random(n) < p) * 1.0, -1, 0.9, 0.95),
        "score at least 0.8": (score, lambda random, p, n: random.beta(5 * p, 5 - 5 * p, n), -1, 0.8, 0.84),
        "mean of normal values at most 1": (losses, lambda random, m, n: random.normal(m, 0.5, n), 1, 1.0, 0.9),
        "mean of exponential values at most 1": (losses, lambda random, m, n: random.exponential(m, n), 1, 1.0, 0.8),
    }
    for name, (metric, draw, sign, limit, good) in kinds.items():
        for count in (50, 200):
            random, sure = np.random.default_rng([3, count]), []
            for level in (limit, good):
                for _ in range(replicates):
                    values = draw(random, level, count)
                    ours = at_most("gate", metric, values[:, None], sign, limit).p_value < 1 - LEVEL
                    sure.append((ours, _one_sided(values, sign, limit, metric.share) < 1 - LEVEL))
            at, better = np.reshape(sure, (2, replicates, 2)).mean(axis=1)
            yield _gate(name, count, at, better)
    for count in (200, 1000):
        random, sure = np.random.default_rng([4, count]), []
        for lost, won in ((0.05, 0.02), (0.03, 0.03)):
            for _ in range(replicates):
                before, which = np.ones(count), random.random(count)
                before[which > 1 - won] = 0
                after = np.where(which < lost, 0.0, 1.0)
                ours = loss("gate", share, before[:, None], after[:, None], 1, 0.03).p_value < 1 - LEVEL
                theirs = stats.ttest_1samp(before - after, 0.03, alternative="less").pvalue < 1 - LEVEL
                sure.append((ours, theirs))
        at, better = np.reshape(sure, (2, replicates, 2)).mean(axis=1)
        yield _gate("accuracy loses at most 0.03", count, at, better)


def _one_sided(values: Floats, sign: int, limit: float, counted: bool) -> float:
    side = "less" if sign > 0 else "greater"
    if counted:
        return float(stats.binomtest(int(values.sum()), len(values), limit, side).pvalue)
    return float(stats.ttest_1samp(values, limit, alternative=side).pvalue)


def _gate(name: str, count: int, at: Floats, better: Floats) -> str:
    false, power = (f"{100 * each[0]:.1f} % | {100 * each[1]:.1f} %" for each in (at, better))
    return f"| {name} | {count:,} | {false} | {power} | {better[0] / better[1]:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=4000)
    parser.add_argument("--tasks", nargs="+", choices=CASES, default=list(CASES))
    asked = parser.parse_args()
    covered, powers, outside = (
        [line for lines in each for line in lines]
        for each in zip(*(of_task(task, asked.replicates) for task in asked.tasks), strict=True)
    )
    heads = [f"n = {count:,}" for count in COUNTS]
    print("\n| task | metric | scene | " + " | ".join(heads) + " |\n" + "| --- " * (3 + len(heads)) + "|")
    print("\n".join(covered))
    heads = [f"n = {count:,}" for count in POWER_AT]
    print("\n| task | metric | scene | " + " | ".join(heads) + " |\n" + "| --- " * (3 + len(heads)) + "|")
    print("\n".join(powers))
    print("\n| gate | n | passes at the limit | scipy | passes a better one | scipy | ratio |\n" + "| --- " * 7 + "|")
    for line in gates(asked.replicates):
        print(line, flush=True)
    print("\nOutside of 92 to 98 %, or above 6 % by chance:", *(outside or ["none"]), sep="\n")


if __name__ == "__main__":
    main()
