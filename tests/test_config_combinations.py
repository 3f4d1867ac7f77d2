"""Settings that would undo each other are refused, and those beside them are not: both sides of each rule."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.config.base import Conflict
from tasks.models.architectures.transformer import TransformerModel
from tasks.records.config import RecordsConfig
from tasks.training.schedules import Cosine, Linear
from tasks.training.strategies import Mirrored, MultiWorker, OneDevice, ParameterServer, Pipeline
from tests.support.training import raise_conflict

TIME = {"splits": "time", "split_times": {"validation": "2024-01-01", "test": "2024-02-01"}}


@pytest.mark.parametrize("splits", [{}, {"splits": "official"}, TIME])
@pytest.mark.parametrize("handling", ["report", "drop", "group"])
@pytest.mark.parametrize("duplicates", ["group", "drop", "keep"])
def test_near_duplicates_move_no_example_out_of_a_given_split(
    splits: dict[str, Any], handling: str, duplicates: str
) -> None:
    def make() -> RecordsConfig:
        near = {"near_duplicates": {"handling": handling}, "duplicates": duplicates}
        return RecordsConfig.model_validate({**splits, **near})

    if handling == "report" or (duplicates != "keep" and (handling == "drop" or not splits)):
        assert make().near_duplicates is not None
        return
    with pytest.raises(Conflict) as conflict:
        raise_conflict(make)
    assert conflict.value.field == "near_duplicates.handling"


@pytest.mark.parametrize(("begin", "end", "good"), [("2024-01-01", "2024-01-02", True), ("2024-01-01",) * 2 + (False,)])
def test_validation_begins_before_test(begin: str, end: str, good: bool) -> None:
    values = {"splits": "time", "split_times": {"validation": begin, "test": end}}
    if good:
        assert RecordsConfig.model_validate(values).times[0] < RecordsConfig.model_validate(values).times[1]
        return
    with pytest.raises(ValidationError, match="validation must begin before test"):
        RecordsConfig.model_validate(values)


@pytest.mark.parametrize("shares", [(0.8, 0.1, 0.1), (0.8, 0.1, 0.1 + 1e-12), (0.8, 0.1, 0.11), (0.8, 0.1, 0.09)])
def test_shares_sum_to_one(shares: tuple[float, ...]) -> None:
    values = {"splits": dict(zip(("train", "validation", "test"), shares, strict=True))}
    if abs(sum(shares) - 1) < 1e-9:
        assert RecordsConfig.model_validate(values).splits == values["splits"]
        return
    with pytest.raises(ValidationError, match="shares must sum to 1"):
        RecordsConfig.model_validate(values)


@pytest.mark.parametrize("kind", [Cosine, Linear])
@pytest.mark.parametrize("warmup", [0, 1, 2, 5])
def test_the_rate_rises_to_1_in_the_warm_up_and_ends_at_the_last_step(kind: Any, warmup: int) -> None:
    """As shares of the highest rate: step `warmup - 1` has it, and the last one has `end`."""
    schedule, steps = kind(warmup=warmup, end=0.1), 20
    rates = [schedule.factor(step, steps) for step in range(steps)]
    assert rates[: max(warmup, 1)] == pytest.approx([(step + 1) / max(warmup, 1) for step in range(max(warmup, 1))])
    assert rates[-1] == pytest.approx(0.1)
    decay = rates[max(warmup - 1, 0) :]
    assert all(one > other for one, other in pairwise(decay))


@pytest.mark.parametrize("strategy", [OneDevice(), Mirrored(devices=2), Pipeline(devices=2), ParameterServer()])
@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize(("experts", "weight"), [(0, 0.01), (4, 0.0), (4, 0.01)])
def test_experts_are_balanced_or_refused(strategy: Any, remat: bool, experts: int, weight: float) -> None:
    """Where a step computes no loss but that of the outputs, the router would be trained without its own."""
    model = TransformerModel(experts=experts, balance_weight=weight)
    if experts and weight and (remat or not strategy.adds_losses):
        with pytest.raises(Conflict) as conflict:
            model.fit_training(strategy, remat)
        assert conflict.value.field == "balance_weight"
        assert ("train.remat" if remat else strategy.kind) in conflict.value.rule
    else:
        model.fit_training(strategy, remat)


def test_strategies_that_add_no_losses() -> None:
    assert [each.adds_losses for each in (OneDevice, Mirrored, MultiWorker)] == [True, True, True]
    assert [each.adds_losses for each in (Pipeline, ParameterServer)] == [False, False]
