"""Estimates: intervals and p-values by kind of metric, of independent rows and of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize, stats

from tasks.evaluation import binary, estimates
from tasks.evaluation.differences import Paired, PairedShares, tango
from tasks.evaluation.estimates import Bounded, Counted, Estimate, Skewed
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.metrics import Means, Metric, Order, Score, Share, mean, ratio, root, shape, worth
from tasks.evaluation.multiple_testing import at_most, loss
from tasks.evaluation.paired import change, exchanged, sign_flips, signs_of
from tasks.evaluation.tasks import classification, judge_of
from tasks.evaluation.units import Floats, numbered

Random = np.random.Generator


def as_given(values: Any) -> Any:
    return values


SHARE, MEAN, SCORE = Share(as_given), Means(as_given, mean), Score(as_given, mean)
ROOT = Means(as_given, root, of_mean=np.sqrt, mean_of=np.square)
RATIO = Means(as_given, ratio, size=1)
DECIDED = binary.measures(as_given)
ORDERED = binary.ordered(as_given)


def of_decisions(random: Random, count: int) -> Floats:
    truth, yes = random.random(count) < 0.4, random.random(count)
    taken = np.where(truth, yes < 0.8, yes < 0.15)
    return np.stack([taken & truth, taken & ~truth, ~taken & truth, ~taken & ~truth], axis=1).astype(float)


def of_scores(random: Random, count: int) -> Floats:
    truth = random.random(count) < 0.4
    return np.stack([random.normal(0, 1, count) + 1.2 * truth, truth], axis=1)


def of_ratio(random: Random, count: int) -> Floats:
    sizes = np.ceil(random.lognormal(4, 0.5, count))
    return np.stack([sizes * random.gamma(4, 0.5, count), sizes], axis=1)


DRAWN: dict[str, tuple[Metric, Callable[[Random, int], Floats]]] = {
    "share": (SHARE, lambda random, count: (random.random((count, 1)) < 0.8).astype(float)),
    "mean": (MEAN, lambda random, count: random.exponential(1, (count, 1))),
    "score": (SCORE, lambda random, count: random.beta(8, 2, (count, 1))),
    "root": (ROOT, lambda random, count: random.normal(0, 1, (count, 1)) ** 2),
    "ratio": (RATIO, of_ratio),
    **{name: (metric, of_decisions) for name, metric in DECIDED.items()},
    **{name: (metric, of_scores) for name, metric in ORDERED.items()},
}

KINDS: dict[str, Estimate] = {
    "share": Counted(17, 20),
    "F1": DECIDED["f1"].estimate(of_decisions(np.random.default_rng(1), 60), None),
    "score": Bounded(0.8, 0.03, 40, 39),
    "perfect score": Bounded(1.0, 0.0, 40, 39),
    "perfect score of four parts": Bounded(1.0, 0.0, 10, 9, parts=4),
    "score from -1": Bounded(0.3, 0.1, 30, 29, -1.0),
    "skewed": Skewed(2.0, 0.3, 1.5, 50, 49),
    "root": Skewed(4.0, 0.5, 1.5, 50, 49, np.sqrt, np.square),
    "paired": Paired(0.02, 0.01, 0.8, 50, 49, 1.0),
    "paired alike": Paired(0.0, 0.0, 0.0, 50, 49, 1.0),
    "paired alike of four parts": Paired(0.0, 0.0, 0.0, 10, 9, 1.0, 4),
    "paired shares": PairedShares(3, 9, 100),
    "paired shares alike": PairedShares(0, 0, 100),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_p_value_of_a_limit_at_the_end_of_an_interval_is_its_level(name: str) -> None:
    """So that the bound which is printed is the one that decides."""
    of = KINDS[name]
    low, high = of.ends(0.9)
    if high < 1 or not name.startswith("perfect score"):
        assert of.p_at_least(high) == pytest.approx(0.05, rel=1e-3)
        assert of.p_at_least(high + 0.01) < 0.05 < of.p_at_least(high - 0.01)
    assert of.p_at_most(low) == pytest.approx(0.05, rel=1e-3)
    assert of.p_at_most(low - 0.01) < 0.05 < of.p_at_most(low + 0.01)
    assert low <= of.value <= high


@pytest.mark.parametrize("name", KINDS)
def test_a_wider_interval_has_a_higher_level_and_stays_within_what_there_is(name: str) -> None:
    ends = [KINDS[name].ends(level) for level in (0.5, 0.9, 0.999999)]
    assert ends == sorted(ends, key=lambda each: each[1] - each[0])
    least, most = {"score from -1": (-1, 1), "paired": (-1, 1), "skewed": (0, np.inf), "root": (0, np.inf)}.get(
        name, (-1 if name.startswith("paired") else 0, 1)
    )
    assert all(least <= low <= high <= most for low, high in ends) or name in ("paired", "skewed", "root")


def test_counts_have_exact_intervals() -> None:
    exact = stats.binomtest(17, 20).proportion_ci(0.95)
    assert Counted(17, 20).ends(0.95) == pytest.approx((exact.low, exact.high))
    for limit in (0.7, 0.9):
        assert Counted(17, 20).p_at_least(limit) == pytest.approx(stats.binomtest(17, 20, limit, "less").pvalue)
        assert Counted(17, 20).p_at_most(limit) == pytest.approx(stats.binomtest(17, 20, limit, "greater").pvalue)
    rightly = np.array([[1.0, 0, 0, 0]] * 5 + [[0, 0, 1, 0]] * 5 + [[0, 0, 0, 1]] * 90)
    found = interval_of(DECIDED["precision"], rightly)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 0.025**0.2, 1.0)), "5 of 5: from 0.478"
    f1, union = interval_of(DECIDED["f1"], rightly), stats.binomtest(5, 10).proportion_ci(0.95)
    assert (f1.low, f1.high) == pytest.approx([2 * end / (1 + end) for end in (union.low, union.high)])
    assert (f1.value, f1.units, f1.method) == (pytest.approx(2 / 3), 10, estimates.BINOMIAL)


def test_a_perfect_score_is_no_certainty() -> None:
    """Twenty queries whose first document is relevant do not show a mean reciprocal rank of 0.99."""
    perfect = SCORE.estimate(np.ones((20, 1)), None)
    assert perfect.p_at_most(0.99) == pytest.approx(0.99**20) and perfect.ends(0.95) == (pytest.approx(0.025**0.05), 1)
    found = at_most("mrr", SCORE, np.ones((20, 1)), -1, 0.99)
    assert found.p_value == pytest.approx(0.99**20) == found.best
    assert found.more(0.05) == 299 - 20, "as 0.99^299 is below 0.05"
    none = SCORE.estimate(np.zeros((20, 1)), None)
    assert none.ends(0.95) == (0, pytest.approx(1 - 0.025**0.05)) and none.p_at_least(0.01) == pytest.approx(0.99**20)
    assert [perfect.p_at_most(limit) for limit in (1.0, 1.5, -0.5)] == [1, 1, 0]
    assert [none.p_at_least(limit) for limit in (0.0, -0.5, 1.5)] == [1, 1, 0]


def test_what_is_wrong_in_one_class_moves_only_its_part_of_a_mean_over_classes() -> None:
    """Ten classes of 40 examples, every answer the same before and after: at most 0.0075 of the macro F1 was lost, not
    0.072 as of a single class. Below every truth that leaves a chance of 5 % to see nothing, by classes of any size."""
    random, of_classes = (
        np.random.default_rng(0),
        [classification.METRICS[name] for name in ("macro_f1", "balanced_accuracy")],
    )
    for metric in of_classes:
        even = confusion(np.full(10, 40.0), np.zeros(10), np.roll(np.arange(10), 1))
        test = loss("all", metric, even, even, 1, 0.02)
        assert (
            test.upper == pytest.approx(1 - 0.05 ** (1 / 400)) and test.p_value == pytest.approx(0.98**400) == test.best
        )
        assert at_most("all", metric, even, -1, 0.98).p_value == pytest.approx(0.98**400)
        narrow = metric.estimate(even, None)
        assert narrow.needed(0.98, 0.05) == pytest.approx(np.log(0.05) / np.log(0.98) / 10), "of each class"
        for _ in range(300):
            sizes = np.ceil(random.lognormal(2, 1, random.integers(2, 6)))
            wrong = 1 - 0.05 ** (random.dirichlet(np.full(len(sizes), 0.2)) / sizes)
            others = (np.arange(len(sizes)) + random.integers(1, len(sizes), len(sizes))) % len(sizes)
            truth = metric.of(shares := confusion(sizes, wrong, others))
            seen = confusion(sizes, np.zeros(len(sizes)), others)
            assert 1 - truth <= 1 - metric.estimate(seen, None).ends(0.9)[0] + 1e-9, (sizes, shares)
    pairs = np.concatenate([even[:200], even[200:]]), numbered([row % 200 for row in range(400)])
    assert {metric.parts(*pairs) for metric in of_classes} == {1}, (
        "a group that has several classes moves several parts"
    )
    assert SCORE.parts(np.ones((9, 1)), None) == 1


def confusion(sizes: Floats, wrong: Floats, others: npt.NDArray) -> Floats:
    """Contributions of examples of classes of some sizes, of each of which a share is taken for another class."""
    rows = []
    for each, size in enumerate(sizes.astype(int)):
        right, predicted, true = (np.zeros((size, len(sizes))) for _ in range(3))
        right[:, each], predicted[:, each], true[:, each] = 1 - wrong[each], 1 - wrong[each], 1
        predicted[:, others[each]] += wrong[each]
        rows.append(np.concatenate([right, predicted, true], axis=1))
    return np.concatenate(rows)


def test_without_skewness_it_is_students_interval_and_with_it_halls() -> None:
    values = np.random.default_rng(0).normal(3, 2, (30, 1))
    expected = stats.t.interval(0.95, 29, loc=values.mean(), scale=stats.sem(values[:, 0]))
    assert Skewed(values.mean(), stats.sem(values[:, 0]), 0.0, 30, 29).ends(0.95) == pytest.approx(expected)
    of, reach = Skewed(1.0, 0.1, 2.0, 25, 24), stats.t.isf(0.025, 24)
    for end, away in zip(of.ends(0.95), (reach, -reach), strict=True):
        studentised, bend = (1.0 - end) / 0.1, 2.0 / 5
        straight = studentised + bend / 3 * studentised**2 + bend**2 / 27 * studentised**3 + bend / 6
        assert straight == pytest.approx(away)


def test_the_shape_of_values_is_scipys() -> None:
    values = np.random.default_rng(0).gamma(2, 1, 40)
    assert shape(values) == pytest.approx((stats.sem(values), stats.skew(values, bias=False)))
    assert shape(np.full(9, 0.1)) == (0, 0) and shape(values[:1]) == (0, 0)
    assert shape(values[:2]) == (pytest.approx(stats.sem(values[:2])), 0)


@pytest.mark.parametrize(("lost", "won", "count", "limit"), [(3, 9, 100, 0.02), (0, 4, 50, 0.05), (7, 7, 40, -0.1)])
def test_tangos_test_is_the_score_test(lost: int, won: int, count: int, limit: float) -> None:
    """With the most likely share of losses, where lost less won is the limit, found by a search."""

    def unlikely(share: float) -> float:  # of won examples; those lost have the limit more
        parts = (share + limit, share, 1 - 2 * share - limit)
        return -sum(k * np.log(max(p, 1e-300)) for k, p in zip((lost, won, count - lost - won), parts, strict=True))

    ends = (max(0.0, -limit) + 1e-12, (1 - abs(limit)) / 2 + max(0.0, -limit) - 1e-12)
    share = optimize.minimize_scalar(unlikely, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
    away = (lost - won - count * limit) / np.sqrt(count * (2 * share + limit - limit**2))
    assert tango(lost, won, count, limit) == pytest.approx(stats.norm.cdf(away), abs=1e-5)


@pytest.mark.parametrize("name", DRAWN)
def test_thirty_copies_of_each_row_in_groups_are_no_more_than_the_rows(name: str) -> None:
    metric, draw = DRAWN[name]
    rows = draw(np.random.default_rng(2), 60)
    copies, groups = np.repeat(rows, 30, axis=0), np.repeat(np.arange(60), 30)
    once, in_groups = metric.estimate(rows, np.arange(60)), metric.estimate(copies, groups)
    assert in_groups.units == once.units and in_groups.value == pytest.approx(once.value)
    assert in_groups.ends(0.95) == pytest.approx(once.ends(0.95), rel=2e-3)
    low, high = metric.estimate(copies, None).ends(0.95)
    assert high - low < 0.3 * np.subtract(*in_groups.ends(0.95)[::-1]), "as if the copies were independent"
    worse = draw(np.random.default_rng(3), 60)
    paired = metric.paired(rows, worse, np.arange(60))
    again = metric.paired(copies, np.repeat(worse, 30, axis=0), groups)
    assert again.ends(0.95) == pytest.approx(paired.ends(0.95), rel=2e-3)


@pytest.mark.parametrize("name", DRAWN)
def test_pseudo_values_have_the_mean_and_the_spread_of_the_value(name: str) -> None:
    """Their standard error is that of the value over many samples."""
    metric, draw = DRAWN[name]
    random = np.random.default_rng(4)
    values = draw(random, 400)
    pseudo = metric.pseudo(values, None)
    assert pseudo.mean() == pytest.approx(metric.of(values), abs=0.01)
    spread = np.std([metric.of(draw(random, 400)) for _ in range(300)])
    assert shape(pseudo)[0] == pytest.approx(spread, rel=0.25)


def test_rare_positives_decide_not_rows() -> None:
    random = np.random.default_rng(0)
    truth = np.arange(1000) < 3
    scores = np.stack([random.normal(0, 1, 1000) + truth, truth], axis=1)
    for metric in ORDERED.values():
        found = interval_of(metric, scores)
        assert found.units <= 3 and found.high <= 1 and found.high - found.low > 0.1
    wrong = np.array([[1.0, 0, 0, 0]] * 3 + [[0, 0, 0, 1]] * 997)
    assert interval_of(DECIDED["recall"], wrong).units == 3 == DECIDED["f1"].estimate(wrong, np.arange(1000)).units
    assert DECIDED["balanced_accuracy"].estimate(wrong, None).units == 3
    assert DECIDED["recall"].estimate(np.array([[0.0, 0, 0, 1]] * 9), np.arange(9)).ends(0.95) == (0, 1), "of nothing"


def test_units_of_several_sizes_are_worth_fewer_of_one_size() -> None:
    assert worth(np.full(7, 3.0)) == 7 and worth(np.array([98.0, 1, 1])) == 1 and worth(np.zeros(3)) == 0
    sizes = np.repeat([1.0, 10], 20)
    rows = np.stack([sizes * np.random.default_rng(0).gamma(4, 0.5, 40), sizes], axis=1)
    assert RATIO.deciding(rows, None) == 24 == round(220**2 / 2020)
    assert RATIO.freedom(rows, None) == round(2020**2 / 200020) - 1
    assert MEAN.deciding(rows[:, :1], None) == 40
    unequal = np.concatenate([np.zeros(60, np.int64), np.arange(1, 41)])
    assert MEAN.deciding(np.ones((100, 1)), unequal) == round(100**2 / (3600 + 40))


def test_groups_are_numbered_and_a_row_without_one_is_alone() -> None:
    assert numbered(["a", "b", "c"]) is None and numbered([None, None]) is None
    units = numbered(["a", None, "a", None, 7.0, 7.0])
    assert units is not None and len(set(units.tolist())) == 4
    assert units[0] == units[2] and units[4] == units[5] and units[1] != units[3]


def test_areas_are_permuted_by_rank_whatever_the_scale_of_a_models_scores() -> None:
    random, truth = np.random.default_rng(3), np.arange(40) % 2
    one, other = (np.stack([random.normal(truth, 1.5), truth], axis=1) for _ in range(2))
    scaled = np.stack([1e3 * other[:, 0] - 7, truth], axis=1)
    groups = np.arange(40) // 2
    for metric in (judge_of("classification").metrics[name] for name in ("roc_auc", "average_precision")):
        for units in (None, groups):
            p_value = exchanged(metric, one, other, 400, units)
            assert 0.01 < p_value < 1 and exchanged(metric, one, scaled, 400, units) == p_value
            assert exchanged(metric, other, one, 400, units) == p_value, "in both directions"


def test_patterns_of_signs_are_those_of_the_data() -> None:
    """The same for the same sizes of changes, others for others: fixed ones make all comparisons err together."""
    changes = np.random.default_rng(4).normal(0, 1, 30)
    signs = signs_of(changes, 50)
    assert (
        (signs[0] == 1).all() and (signs_of(-changes, 50) == signs).all() and (signs_of(9 * changes, 50) == signs).all()
    )
    assert (signs_of(changes[::-1], 50)[1:] != signs[1:]).any()


def test_a_permutation_test_needs_enough_units() -> None:
    """Five that all changed in one way may do so by chance: 2 of the 32 patterns of signs."""
    assert sign_flips(np.ones(5), 100, 5) == pytest.approx(2 / 32)
    assert sign_flips(np.ones(6), 100, 6) == pytest.approx(2 / 64) and sign_flips(np.zeros(9), 100, 9) == 1
    five = np.linspace(0.1, 0.2, 5)[:, None]
    sure = change(SCORE, five, five + np.linspace(0.28, 0.32, 5)[:, None], 1000)
    assert sure.difference.low > 0 and not sure.more_than_noise
    six = np.linspace(0.1, 0.2, 6)[:, None]
    assert change(SCORE, six, six + np.linspace(0.3, 0.32, 6)[:, None], 1000).more_than_noise
    for others, half in ((14, 1.0), (15, 0.5)):  # from 20 units on, of what is just as far only half counts
        changes = np.array([1.0] * 5 + [0.0] * others)
        assert sign_flips(changes, 100_000, 5 + others) == pytest.approx(half * 2 / 32, rel=0.05)
        before = np.linspace(0.2, 0.4, 5 + others)[:, None]
        better = change(SCORE, before, before + 0.1 * changes[:, None], 10_000)
        assert better.more_than_noise == (others == 15) and better.difference.low > 0
    undefined = np.full((30, 1), np.nan)
    assert not change(SCORE, undefined, undefined, 100).more_than_noise
    values = np.random.default_rng(0).normal(0.4, 1, 40)
    drawn, exact = sign_flips(values, 20_000, 40), stats.ttest_1samp(values, 0).pvalue
    assert drawn == pytest.approx(exact, rel=0.15) and sign_flips(values, 20_000, 40) == drawn
    many = np.random.default_rng(0).normal(0.04, 1, 2001)
    assert sign_flips(many, 100, 2001) == stats.ttest_1samp(many, 0).pvalue


@pytest.mark.parametrize(
    ("metric", "draw"), [(SHARE, DRAWN["share"][1]), (ROOT, DRAWN["root"][1]), (SCORE, DRAWN["score"][1])]
)
@pytest.mark.parametrize("count", [3, 8, 30])
def test_two_equal_models_are_rarely_more_than_noise(metric: Metric, draw: Callable, count: int) -> None:
    random, found = np.random.default_rng(5), []
    for _ in range(400):
        both = np.stack([draw(random, count), draw(random, count)])
        found.append(change(metric, both[0], both[1], 200).more_than_noise)
    assert np.mean(found) <= 0.06 + 0.02


def test_two_equal_models_of_groups_are_rarely_more_than_noise_and_a_better_one_is() -> None:
    """Thirty groups of thirty rows, which are right or wrong together."""
    random, groups, equal, better = np.random.default_rng(6), np.repeat(np.arange(30), 30), [], []
    for _ in range(200):
        before, after, good = (
            (random.random((900, 1)) < np.repeat(random.beta(a, b, 30), 30)[:, None]).astype(float)
            for a, b in ((2, 1), (2, 1), (9, 1))
        )
        equal.append(change(SHARE, before, after, 200, groups).more_than_noise)
        better.append(change(SHARE, before, good, 200, groups).more_than_noise)
    assert np.mean(equal) <= 0.08 and np.mean(better) > 0.9


def test_a_p_value_has_no_floor() -> None:
    """So that a test among a thousand can pass."""
    values = np.random.default_rng(0).normal(1, 0.1, (100, 1))
    assert at_most("mae", MEAN, values, 1, 2.0).p_value < 1e-30
    assert loss("mae", MEAN, values, values + 0.001 * np.sin(np.arange(100))[:, None], -1, 0.5).p_value < 1e-30


@pytest.mark.parametrize(
    ("estimate", "limit"),
    [
        (Counted(95, 100), 0.9),
        (Counted(88, 100), 0.92),
        (Bounded(0.9, 0.02, 100, 99), 0.87),
        (Skewed(1.0, 0.1, 2.0, 100, 99), 1.15),
        (Paired(0.0, 0.01, 0.0, 100, 99, 1.0), 0.015),
        (PairedShares(4, 2, 200), -0.03),
    ],
)
def test_as_many_as_are_asked_for_decide_with_the_power_that_is_said(estimate: Any, limit: float) -> None:
    """By simulation of samples with what was observed for the truth."""
    random, count = np.random.default_rng(7), int(np.ceil(estimate.needed(limit, 0.05)))
    above, found = estimate.value > limit, []
    for _ in range(600):
        if isinstance(estimate, Counted):
            made: Any = Counted(int(random.binomial(count, estimate.value)), count)
        elif isinstance(estimate, PairedShares):
            lost, won, _ = random.multinomial(count, [4 / 200, 2 / 200, 194 / 200])
            made = PairedShares(int(lost), int(won), count)
        else:
            deviation = estimate.error * np.sqrt(estimate.units)
            values = estimate.value + deviation * (random.gamma(1, 1, count) - 1)
            if not isinstance(estimate, Skewed):
                values = random.normal(estimate.value, deviation, count)
            made = type(estimate)(values.mean(), stats.sem(values), *_rest(estimate, values))
        found.append((made.p_at_most if above else made.p_at_least)(limit) <= 0.05)
    assert 0.68 <= np.mean(found) <= 0.93, count


def _rest(estimate: Any, values: Floats) -> tuple[Any, ...]:
    count = len(values)
    if isinstance(estimate, Bounded):
        return count, count - 1
    return (stats.skew(values, bias=False), count, count - 1, *([1.0] if isinstance(estimate, Paired) else []))


def test_what_no_number_of_examples_would_decide_says_so() -> None:
    values = np.random.default_rng(0).normal(1, 1, (200, 1))
    assert at_most("mae", MEAN, values, 1, float(values.mean())).more(0.05) is None
    near = at_most("mae", MEAN, values, 1, float(values.mean()) + 0.001)
    assert near.more(0.05) is None, "millions, where there are 200"
    far = at_most("mae", MEAN, values, 1, float(values.mean()) + 0.15)
    assert far.more(0.05) is not None


def test_the_order_of_scores_on_some_of_the_rows_is_that_of_these_rows() -> None:
    scores = of_scores(np.random.default_rng(8), 200)
    for metric in ORDERED.values():
        assert isinstance(metric, Order)
        assert metric.of(scores[:50]) == pytest.approx(metric.value(scores[:50, 0], scores[:50, 1] > 0))
        assert metric.of(scores[:50]) != pytest.approx(float(metric.pseudo(scores, None)[:50].mean()), abs=1e-3)
        assert np.isnan(metric.of(scores[scores[:, 1] > 0])), "of one kind only there is no order"


def test_one_unit_and_equal_ones_say_so() -> None:
    assert interval_of(MEAN, np.array([[2.0]])).as_json() == {
        "value": 2.0,
        "low": 2.0,
        "high": 2.0,
        "method": estimates.ALONE,
        "units": 1,
    }
    alike = interval_of(MEAN, np.full((30, 1), 0.1))
    assert alike.low == pytest.approx(0.1) == alike.high and alike.method == estimates.ALIKE
    assert interval_of(SHARE, np.ones((30, 1))).method == estimates.BINOMIAL
