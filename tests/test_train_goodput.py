"""Where the time of a training goes: the parts add up to it, and steps that are run again count as such."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.errors import Stopped
from tasks.processes.workbench import Workbench
from tasks.training.fit import fit
from tasks.training.loop import make_plan
from tasks.training.meter import Meter, StepSums
from tasks.training.speed import PARTS, Goodput
from tasks.view.trainings import goodput as shown
from tasks.view.trainings import memory
from tests.support.tiny import CONFIG, MODEL, stopping_after
from tests.support.toys import ToyEngine


def call(steps: int, seconds: float, waited: float = 0.0) -> StepSums:
    one = np.ones(steps)
    return StepSums({}, one, one > 0, one.astype(np.float32), 1, 1, seconds, waited)


def test_the_parts_add_up_to_the_time_of_the_training(tiny: Snapshot, benches: Callable[[str], Workbench]) -> None:
    measured: dict[str, Any] = {}
    bench = replace(benches("model"), measure=measured.__setitem__)
    before = time.monotonic()
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(3)), tiny, MODEL, CONFIG, seed=5)
    time.sleep(1.1)  # the next life has another name
    between = time.monotonic()
    fit(bench, tiny, MODEL, CONFIG, seed=5)
    taken = time.monotonic() - between
    first, last = (parts for name, parts in measured.items() if name.startswith("train/goodput/"))
    assert set(first) == set(last) == set(PARTS)
    assert 0.5 * taken < sum(last.values()) <= taken + 0.01 and sum(first.values()) < between - before
    assert all(last[part] > 0 for part in ("setting up", "compiling", "steps", "evaluating", "saving"))
    assert memory(measured)["host"] > 100e6
    peaks = ({"host": 5, "accelerator": 1}, {"host": 2, "accelerator": 3})
    assert memory({f"train/peak_memory_bytes/{life}": each for life, each in enumerate(peaks)}) == {
        "host": 5,
        "accelerator": 3,
    }
    rows = shown(measured)
    assert sum(row.percent for row in rows) == pytest.approx(100, abs=0.5)
    assert [row.percent for row in rows] == sorted((row.percent for row in rows), reverse=True)


def test_steps_that_an_earlier_attempt_computed_are_not_new() -> None:
    goodput = Goodput(lambda *measured: None, reached=14)
    meter, engine = Meter(), ToyEngine(make_plan(CONFIG, 10, ()))
    for step, taken in ((11, call(1, 2.0)), (13, call(2, 2.0, 1.0)), (17, call(4, 4.0))):
        meter.last = taken
        goodput(step, meter, engine)
    assert goodput.seconds["compiling"] == 2 and goodput.seconds["waiting for input"] == 1
    assert goodput.seconds["steps again"] == pytest.approx(1 + 1), "12, 13 and 14"
    assert goodput.seconds["steps"] == pytest.approx(3)


def test_parts_of_the_same_time_have_one_order_on_the_page() -> None:
    """That of names; a set's differs from process to process."""
    parts = ["waiting for input", "steps", "evaluating", "compiling", "other", "saving"]
    rows = shown({"train/goodput/1": dict.fromkeys(parts, 0.5) | {"setting up": 1.0}})
    assert [row.name for row in rows] == ["setting up", *sorted(parts)]
