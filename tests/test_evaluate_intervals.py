"""BCa intervals: those of scipy, nearer to 95 % than percentiles where values are skewed, and defined everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tasks.evaluation import intervals as ours
from tasks.evaluation import language_model
from tasks.evaluation.intervals import interval_of, loss_bounds, resampled
from tasks.evaluation.metrics import Metric, mean, ratio
from tasks.evaluation.units import Floats

Random = np.random.Generator
IDENTITY = Metric(lambda values: values, mean)
SHARE = Metric(lambda values: values, mean, share=True)
RATIO = Metric(lambda values: values, ratio)
ROOT = Metric(lambda values: values, lambda means: np.sqrt(means[..., 0]))


def losses(random: Random, count: int) -> Floats:
    """Most are small, some are very large."""
    return random.lognormal(0, 1.2, (count, 1))


def right(random: Random, count: int) -> Floats:
    """Of an accuracy of 0.93."""
    return (random.random((count, 1)) < 0.93).astype(np.float64)


def squares(random: Random, count: int) -> Floats:
    return random.standard_t(5, (count, 1)) ** 2


def nats_and_bytes(random: Random, count: int) -> Floats:
    """Of files of very different lengths, the shorter ones harder."""
    lengths = random.lognormal(5, 1.0, count)
    return np.stack([lengths * random.gamma(2, 1 / (1 + lengths / 200), count), lengths], axis=-1)


@pytest.mark.parametrize(("metric", "draw"), [(IDENTITY, losses), (RATIO, nats_and_bytes), (ROOT, squares)])
def test_the_ends_are_those_of_scipy(metric: Metric, draw: Callable[[Random, int], Floats]) -> None:
    """Its jackknife computes the metric of N samples of N - 1 examples; ours subtracts each from the sum."""
    values = draw(np.random.default_rng(1), 60)
    scipys = stats.bootstrap(
        (np.arange(60),),
        lambda rows, axis=-1: metric.value(values[rows].mean(axis=-2)),
        n_resamples=500,
        vectorized=True,
        method="BCa",
        rng=np.random.default_rng(ours.SEED),
    ).confidence_interval
    bounds = interval_of(metric, values, 500)
    assert (bounds.low, bounds.high) == pytest.approx((scipys.low, scipys.high), rel=1e-9)
    assert bounds.method == ours.BCA
    percentiles = np.quantile(resampled(metric.value, values, 500), (0.025, 0.975))
    assert abs(bounds.low - percentiles[0]) > 1e-4, "or this shows nothing"


SETS, EXAMPLES, RESAMPLES = 1200, 40, 300


@pytest.mark.parametrize(("metric", "draw"), [(IDENTITY, losses), (SHARE, right), (ROOT, squares)])
def test_they_cover_the_truth_more_nearly_as_often_as_they_say_than_percentiles(
    metric: Metric, draw: Callable[[Random, int], Floats]
) -> None:
    random = np.random.default_rng(5)
    truth = float(metric.value(draw(random, 2_000_000).mean(axis=0)))
    covered = {"percentiles": 0, "bca": 0}
    for _ in range(SETS):
        values = draw(random, EXAMPLES)
        bounds = interval_of(metric, values, RESAMPLES)
        low, high = bounds.low, bounds.high
        covered["bca"] += low <= truth <= high
        if bounds.method == ours.BINOMIAL:
            covered["percentiles"] += low <= truth <= high
            continue
        low, high = np.quantile(resampled(metric.value, values, RESAMPLES), (0.025, 0.975))
        covered["percentiles"] += low <= truth <= high
    short = {name: abs(count / SETS - ours.LEVEL) for name, count in covered.items()}
    assert short["bca"] < short["percentiles"], covered


def test_the_bound_of_a_rare_loss_covers_it_more_nearly_as_often_as_it_says() -> None:
    """Of a variant that is wrong for one example of fifty for which the model is right: what gates compare."""
    random = np.random.default_rng(6)
    beyond, truth = {"percentiles": 0, "bca": 0}, 0.0203  # between two values that a bound can have
    for _ in range(SETS):
        lost = (random.random(200) < truth).astype(np.float64)
        beyond["bca"] += loss_bounds(lost, RESAMPLES)[1] < truth
        beyond["percentiles"] += np.quantile(resampled(mean, lost[:, None], RESAMPLES), 0.95) < truth
    assert beyond["bca"] / SETS < 0.09 < 0.12 < beyond["percentiles"] / SETS, beyond


def test_ratios_of_sums_keep_percentiles_which_cover_more() -> None:
    assert not any(each.corrected for each in language_model.METRICS.values())
    values = nats_and_bytes(np.random.default_rng(1), 60)
    bounds = interval_of(Metric(lambda values: values, ratio, corrected=False), values, 500)
    percentiles = np.quantile(resampled(ratio, values, 500), (0.025, 0.975))
    assert (bounds.low, bounds.high, bounds.method) == (*percentiles, ours.PERCENTILE)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3])
def test_equal_examples_have_percentiles(value: float) -> None:
    bounds = interval_of(IDENTITY, np.full((30, 1), value), 200)
    assert bounds.low == pytest.approx(value) == bounds.high and bounds.method == ours.PERCENTILE


def test_one_example_and_a_share_of_1_say_by_what_they_are() -> None:
    assert interval_of(IDENTITY, np.array([[2.0]]), 200).as_json() == {
        "value": 2.0,
        "low": 2.0,
        "high": 2.0,
        "method": ours.ALONE,
    }
    assert interval_of(SHARE, np.ones((30, 1)), 200).method == ours.BINOMIAL
