"""What an engine is fed and when its calls end, without an engine."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.errors import Refused
from tasks.feed import open_snapshot
from tasks.feed.augmentations import Flip
from tasks.feed.augmenter import Augmenter
from tasks.training.config import TrainConfig
from tasks.training.feeding import Feed
from tasks.training.loop import Pace, Plan, make_plan
from tasks.training.schedules import RateScaling

FLIP = (Flip(),)


def plan_of(**options: Any) -> Plan:
    return make_plan(TrainConfig(batch_size=4, **({"steps": 9} | options)), 10, [9])


def fed(feed: Feed, start: int, steps: int) -> dict[str, np.ndarray]:
    feed.seek(start)
    try:
        return feed.take(steps)
    finally:
        feed.close()


@pytest.mark.parametrize("options", [{}, {"order": "blocks"}, {"epochs": 2, "steps": None}])
def test_a_feed_has_the_rows_of_its_seed_epochs_and_order(tiny: Snapshot, options: dict[str, Any]) -> None:
    snapshot, plan = open_snapshot(tiny.path), plan_of(**options)
    given = {"seed": 7, "order": plan.order, "epochs": plan.epochs}
    expected = snapshot.reader("train", 4, **given).read(0, 5)
    batch = fed(Feed(snapshot, plan, 7), 0, 5)
    for name, values in expected.items():
        np.testing.assert_array_equal(batch[name], values, err_msg=name)
    assert batch["weight"][-1].tolist() == [1, 1, 1, 1] and batch["weight"].sum() == 20
    other = fed(Feed(snapshot, plan, 8), 0, 5)
    assert (batch["row"] != other["row"]).any()


def test_rows_after_the_last_epoch_have_no_weight(tiny: Snapshot) -> None:
    plan = plan_of(epochs=1, steps=None)
    assert fed(Feed(open_snapshot(tiny.path), plan, 7), 0, 3)["weight"].sum() == 10


def test_replicas_are_fed_slices_of_the_batch(tiny: Snapshot) -> None:
    snapshot, plan = open_snapshot(tiny.path), plan_of()
    whole = fed(Feed(snapshot, plan, 7), 2, 3)
    halves = [fed(Feed(snapshot, plan, 7, replica, 2), 2, 3) for replica in (0, 1)]
    for name, values in whole.items():
        np.testing.assert_array_equal(np.concatenate([half[name] for half in halves], axis=1), values)


def test_a_feed_that_goes_back_forgets_what_it_had_read(tiny: Snapshot) -> None:
    """As a rollback does in the middle of a part; the steps of the plan are read together."""
    snapshot = open_snapshot(tiny.path)
    plan = plan_of()
    plan.pace.longest = 5
    feed = Feed(snapshot, plan, 7)
    assert plan.next_stop(0) == 5
    feed.seek(0)
    assert len(feed.take(1)["row"]) == 1
    np.testing.assert_array_equal(fed(feed, 5, 3)["row"], snapshot.reader("train", 4, seed=7).read(5, 8)["row"])


def test_examples_are_augmented_by_seed_epoch_and_row(tiny: Snapshot) -> None:
    """From step 5 on these are rows of the third epoch, and flip as they do in an unbroken training."""
    snapshot, plan = open_snapshot(tiny.path), plan_of()
    reader = snapshot.reader("train", 4, seed=7)
    flip = Augmenter(FLIP, snapshot.features, reader.arrays, 7)
    expected = flip(reader.read(5, 8), reader.epochs_of(5, 8))
    plain = fed(Feed(snapshot, plan, 7), 5, 3)
    flipped = fed(Feed(snapshot, plan, 7, augment=FLIP), 5, 3)
    np.testing.assert_array_equal(flipped["image"], expected["image"])
    np.testing.assert_array_equal(flipped["label"], plain["label"])
    assert (flipped["image"] != plain["image"]).any()


class Broken:
    """A split that can be read up to a step."""

    arrays = {"x": np.zeros((100, 1))}

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        if start >= 4:
            raise OSError(5, "Input/output error")
        time.sleep(self.seconds)
        steps = np.arange(start, stop)[:, None]
        return {"x": steps, "row": steps, "weight": np.ones_like(steps)}


def feed_of(reader: Any) -> Feed:
    plan = make_plan(TrainConfig(steps=60, batch_size=1), 100, [2])
    plan.pace.longest = 2
    snapshot: Any = SimpleNamespace(reader=lambda *_, **__: reader, features={})
    return Feed(snapshot, plan, 0)


def test_an_error_of_reading_comes_to_the_one_who_takes_and_not_before() -> None:
    feed = feed_of(Broken())
    feed.seek(0)
    assert feed.take(3)["row"][:, 0].tolist() == [0, 1, 2]
    assert feed.take(1)["row"][:, 0].tolist() == [3]
    with pytest.raises(OSError, match="Input/output error"):
        feed.take(1)
    feed.seek(1)
    assert feed.take(2)["row"][:, 0].tolist() == [1, 2], "it can be read again from an earlier step"
    feed.close()


def test_the_time_of_waiting_for_input_is_counted() -> None:
    feed = feed_of(Broken(seconds=0.05))
    feed.seek(0)
    feed.take(2)
    assert 0.04 < feed.waited < 5
    waited = feed.waited
    time.sleep(0.15)  # the thread has read the next part meanwhile
    feed.take(2)
    assert feed.waited - waited < 0.04
    feed.close()


def test_a_feed_that_is_closed_ends_its_thread() -> None:
    feed = feed_of(Broken())
    feed.seek(0)
    feed.take(1)
    thread = feed._thread
    feed.close()
    assert thread is not None and not thread.is_alive() and feed._thread is None


def test_a_plan_has_the_rate_for_its_batch_the_pauses_of_all_and_its_steps() -> None:
    scaled = TrainConfig(epochs=3, batch_size=8, learning_rate=0.1, rate_scaling=RateScaling(batch_size=4))
    plan = make_plan(scaled, 10, [5, 3, 5])
    assert plan.learning_rate == pytest.approx(0.2) and plan.rates(0, 1)[0] == pytest.approx(0.2)
    assert (plan.steps, plan.epochs, plan.examples, plan.batch_size, plan.pauses) == (4, 3, 10, 8, (3, 5))
    plan.pace.longest = 50
    assert [plan.next_stop(step) for step in range(4)] == [3, 3, 3, 4]


def test_a_schedule_that_does_not_fit_the_epochs_is_refused() -> None:
    config = TrainConfig(epochs=1, batch_size=4, schedule={"kind": "cosine", "warmup": 4})  # type: ignore[arg-type]
    with pytest.raises(Refused, match="train.schedule.warmup"):
        make_plan(config, 10, [1])
    assert make_plan(config, 16, [1]).steps == 4


def test_two_calls_have_one_step_as_the_first_compiles_and_the_second_is_measured() -> None:
    pace = Pace()
    pace.update(1, 0.001)
    assert pace.longest == 1, "however fast it was"
    pace.update(1, 0.25)
    assert pace.longest == 4
