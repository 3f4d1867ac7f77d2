"""The actions of the loop and what they write down: points, errors, speeds, where time goes, samples."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.errors import Failed
from tasks.feed import open_snapshot
from tasks.training.actions import MOST_SKIPPED, Evaluate, Guard, LogCurves, Progress
from tasks.training.config import TrainConfig
from tasks.training.engines import Compute
from tasks.training.feeding import names_of
from tasks.training.loop import Plan, make_plan
from tasks.training.meter import Meter, Spikes, StepSums
from tasks.training.primary import BestWeights
from tasks.training.samples import SAMPLES, Samples, read
from tasks.training.schedules import Cosine
from tasks.training.sections import EarlyStopping, Rollback
from tasks.training.speed import SETTLED, Goodput, Speed
from tests.support.benches import Pages

ENGINE: Any = SimpleNamespace(memory=lambda: 0, peak_memory=lambda: 0)


def call(steps: int = 2, seconds: float = 1.0, waited: float = 0.25, **changed: Any) -> StepSums:
    """A call of steps whose mean loss is 2, over 3 weights and 4 predictions each, of which 1 is right."""
    each = np.ones(steps)
    sums = {"loss": 6 * each, "weight": 3 * each, "seen": 4 * each, "accuracy": each}
    rates = np.arange(steps, dtype=np.float32) + 1
    made = StepSums(sums, 5 * each, each > 0, rates, 8, 9, seconds, waited)
    return replace(made, **changed)


def metered(*calls: StepSums, **options: Any) -> Meter:
    meter = Meter(**options)
    for each in calls:
        meter.add(each)
    return meter


def point(meter: Meter, step: int = 4) -> dict[str, float]:
    """The point of the curves at a step."""
    journal = Pages()
    LogCurves(2, journal, Speed(3), Goodput(lambda *_: None))(step, meter, ENGINE)
    return journal.points[0][1] if journal.points else {}


def test_a_point_has_the_means_since_the_last_one_and_the_last_steps_figures() -> None:
    meter = metered(call(), call(3, 2.0, gradient_norms=np.array([1.0, 2.0, 7.0]), norms={"update_ratio": 0.5}))
    found = point(meter, 5)
    assert (found["train/loss"], found["train/accuracy"]) == (2.0, 0.25), "of weights, and of predictions"
    assert (found["train/learning_rate"], found["train/gradient_norm"], found["train/update_ratio"]) == (3.0, 7.0, 0.5)
    assert found["train/step_ms"] == pytest.approx(2000 / 3), "of the second call: the first one compiles"
    assert not {"train/loss_scale", "train/rollbacks", "train/staleness"} & found.keys()
    assert point(meter) == {}, "nothing was added since"
    meter.add(call(1, sums={"loss": np.full(1, 9.0), "weight": np.ones(1), "seen": np.ones(1), "accuracy": np.ones(1)}))
    assert (point(meter)["train/loss"], meter.steps) == (9.0, 0)


def test_a_point_leaves_out_what_is_not_finite() -> None:
    meter = metered(call(gradient_norms=np.array([1.0, np.inf]), norms={"update_ratio": np.nan, "update_ratio/a": 1.0}))
    found = point(meter)
    assert "train/gradient_norm" not in found and "train/update_ratio" not in found
    assert found["train/update_ratio/a"] == 1.0


def test_before_the_first_call_there_is_nothing_to_guard_and_no_point() -> None:
    """As behind a rollback, which leaves no last call."""
    sums = metered(call()).state()
    meter = Meter()
    for weight in (None, 6):
        Guard(str)(4, meter, ENGINE)
        assert point(meter) == {} and meter.sums.get("weight") == weight
        meter.load(sums)


def test_what_a_meter_has_timed_is_no_part_of_what_it_goes_on_with() -> None:
    meter = metered(call(), call(3, staleness=np.array([1, 2, 3])))
    assert (meter.seconds, meter.waited, meter.steps, meter.staleness) == (1.0, 0.25, 3, [1, 2, 3])
    meter.load(metered(call(7)).state())
    assert (meter.seconds, meter.waited, meter.steps, meter.staleness) == (0.0, 0.0, 0, [])
    assert meter.sums["weight"] == 21


def test_a_point_of_asynchronous_steps_has_their_staleness() -> None:
    found = point(metered(call(staleness=np.array([0, 1])), call(staleness=np.array([2, 5]), repeated=3)))
    assert (found["train/staleness"], found["train/staleness_max"], found["train/repeated_updates"]) == (2.0, 5.0, 3.0)


def test_a_point_of_scaled_losses_has_the_last_scale_and_all_skipped_updates() -> None:
    scales = {"loss_scales": np.array([8.0, 4.0])}
    meter = metered(call(skipped=np.array([True, False]), **scales), call(skipped=np.array([False, True]), **scales))
    found = point(meter)
    assert (found["train/loss_scale"], found["train/skipped_updates"]) == (4.0, 2.0)
    meter.add(call(skipped=np.array([True, True]), **scales))
    assert point(meter)["train/skipped_updates"] == 4.0, "since the first step"


def test_a_point_counts_the_rollbacks() -> None:
    meter = metered(call(), spikes=Spikes(Rollback(), rollbacks=[{"step": 3, "to": 1}, {"step": 5, "to": 0}]))
    assert point(meter)["train/rollbacks"] == 2.0


def test_skipped_updates_in_a_row_end_where_one_is_not_skipped() -> None:
    def row(*skipped: int) -> StepSums:
        return call(len(skipped), skipped=np.array(skipped, bool))

    meter = metered(row(1, 1), row(1, 0), row(1, 1, 1))
    assert (meter.skipped, meter.skipped_last) == (6, 3)
    again = Meter()
    again.load(meter.state())
    again.add(row(1))
    assert (again.skipped, again.skipped_last) == (7, 4), "also where the training was stopped between them"
    guard = Guard(str)
    many = metered(row(*[1] * MOST_SKIPPED), row(0), row(*[1] * MOST_SKIPPED))
    guard(101, many, ENGINE)
    many.add(row(1))
    with pytest.raises(Failed, match=f"the gradients of the {MOST_SKIPPED + 1} steps before step 102"):
        guard(102, many, ENGINE)


@pytest.mark.parametrize(("finite", "first"), [([False, True, False], 7), ([True, True, False], 9)])
def test_the_first_step_that_is_not_finite_is_named_with_its_examples(finite: list[bool], first: int) -> None:
    guard = Guard(lambda step: f"those of step {step}")
    guard(10, metered(call(3)), ENGINE)
    with pytest.raises(Failed, match=f"not finite at step {first}, of the examples those of step {first};") as failed:
        guard(10, metered(call(3, finite=np.array(finite))), ENGINE)
    assert failed.value.field == "train.learning_rate"


def test_the_examples_of_a_step_are_those_with_a_weight(tiny: Snapshot) -> None:
    """Of ten examples in batches of four the third one of an epoch has two."""
    snapshot = open_snapshot(tiny.path)
    for order in ("shuffled", "blocks"):
        plan = make_plan(TrainConfig(epochs=1, batch_size=4, order=order), 10, ())
        rows = snapshot.reader("train", 4, seed=7, epochs=1, order=order).rows(2, 3)[0].ravel()[:2].tolist()
        assert names_of(tiny, snapshot, plan, 7)(2) == f"row {rows[0]}, row {rows[1]}"
    plan = make_plan(TrainConfig(steps=9, batch_size=6), 10, ())
    assert names_of(tiny, snapshot, plan, 7)(1).endswith(" and 2 more")


def test_an_evaluation_is_written_down_noted_and_may_end_the_training() -> None:
    journal, meter = Pages(), Meter()
    config = TrainConfig(steps=9, select="best", early_stopping=EarlyStopping(patience=1))
    best = BestWeights(config)
    scores = iter([{"loss": 2.0, "accuracy": 0.5}, {"loss": 3.0, "accuracy": 0.4}])
    weights = {"w": np.ones(2)}
    engine: Any = SimpleNamespace(score=lambda _: next(scores), weights=lambda: weights)
    evaluate = Evaluate(2, [], journal, best)
    evaluate(2, meter, engine)
    assert (meter.validation_losses, meter.ended, list(best.best())) == ({2: 2.0}, False, ["w"])
    evaluate(4, meter, engine)
    assert (meter.validation_losses, meter.ended) == ({2: 2.0, 4: 3.0}, True)
    assert journal.points == [
        (2, {"validation/loss": 2.0, "validation/accuracy": 0.5}),
        (4, {"validation/loss": 3.0, "validation/accuracy": 0.4}),
    ]


def test_progress_says_how_long_the_rest_takes_with_what_is_between_the_steps() -> None:
    reports: list[tuple[int, dict[str, Any]]] = []
    measured: dict[str, float] = {}
    plan = Plan(40, 8, 100, None, 0.1, Cosine(), (10,))
    progress = Progress(plan, lambda step, *_, **figures: reports.append((step, figures)), measured.__setitem__)
    progress(10, metered(call(10, 60.0, 60.0)), ENGINE)
    assert measured == {"train/first_call_seconds": 60.0} and reports == [(10, {"loss": 2.0})]
    progress.began = time.monotonic() - 30
    progress(20, metered(call(10, 4.0, 1.0)), ENGINE)
    step, figures = reports[-1]
    assert step == 20 and figures["seconds_left"] == pytest.approx(60, rel=0.01), "3 s a step, though each took 0.4"
    assert (figures["step_ms"], figures["examples/s"], figures["input_share"]) == pytest.approx((400, 20, 0.25))
    progress(30, metered(call(10, 4.0, 1.0)), ENGINE)
    assert len(reports) == 2, "a tenth of a second has not passed"
    progress(40, metered(call(10, 4.0, 1.0)), ENGINE)
    assert len(reports) == 3 and reports[-1][1]["seconds_left"] == 0, "the last step is always reported"


def test_tokens_flops_and_use_are_by_the_examples_of_a_second() -> None:
    speed = Speed(8, tokens=100)
    engine: Any = SimpleNamespace(memory=lambda: 77, compute=lambda: Compute(flops=10, peak=3_200.0))
    assert speed.figures(metered(call()), engine) == {"memory_bytes": 77.0}, "no step is timed yet"
    meter = metered(call(), call(4, SETTLED / 2))
    early = speed.figures(meter, engine)
    examples = 8 * 4 / (SETTLED / 2)
    assert early["examples_per_second"] == examples and early["tokens_per_second"] == 100 * examples
    assert "mfu" not in early, "counting takes a moment"
    late = speed.figures(meter, engine)
    assert late["model_flops_per_second"] == pytest.approx(3 * 10 * examples), "forward, and twice as much backward"
    assert late["mfu"] == pytest.approx(3 * 10 * examples / 3_200)
    unknown: Any = SimpleNamespace(memory=lambda: 0, compute=lambda: Compute(flops=10, peak=0.0))
    without = Speed(8, timed=SETTLED).figures(meter, unknown)
    assert "mfu" not in without and "tokens_per_second" not in without and without["memory_bytes"] > 1e6


def test_the_time_of_steps_that_a_rollback_gives_up_is_no_goodput() -> None:
    goodput, meter = Goodput(lambda *_: None), Meter(spikes=Spikes(Rollback()))
    for step in (1, 5):
        meter.last = call(1 if step == 1 else 4, 8.0, 0.0)
        goodput(step, meter, ENGINE)
    assert goodput.seconds["steps"] == 8.0
    meter.last, meter.spikes.seconds = None, 3.0
    meter.spikes.rollbacks = [{"step": 5, "to": 3}]
    goodput(6, meter, ENGINE)
    goodput(6, meter, ENGINE)
    assert goodput.seconds["steps"] == 4.0, "two of the four steps"
    assert goodput.seconds["steps undone"] == 4.0 + 3.0, "and the call that spiked, once"
    assert meter.spikes.seconds == 0.0


def test_every_call_of_an_action_is_added_to_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now, measured = [100.0], dict[str, Any]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    goodput = Goodput(lambda name, value: measured.update({name: value}), began=100.0)

    class Saves:
        every = 7

        def __call__(self, step: int, meter: Meter, engine: Any) -> None:
            now[0] += step

    saving = goodput.timed("saving", Saves())
    assert saving.every == 7
    for step in (2, 3):
        saving(step, Meter(), ENGINE)
    now[0] += 4
    goodput(1, metered(call(1, 2.5, 0.5)), ENGINE)
    for again in (2, 4):
        goodput(again, metered(call(2, 4.0, 1.0)), ENGINE)
    goodput.report()
    [parts] = [value for name, value in measured.items() if name.startswith("train/goodput/")]
    assert parts["saving"] == 5.0 and goodput.seconds["saving"] == 5.0
    assert (parts["setting up"], parts["compiling"]) == (9.0 - 2.5, 2.5)
    assert (parts["steps"], parts["waiting for input"]) == (6.0, 2.0)
    assert goodput.share == pytest.approx(6.0 / 9.0)


def test_the_parts_of_a_process_are_measured_with_what_is_left() -> None:
    measured: dict[str, Any] = {}
    goodput = Goodput(measured.__setitem__, began=time.monotonic() - 10, started=1234.4)
    goodput.timed("saving", sleeping)(1, Meter(), ENGINE)
    parts = measured["train/goodput/1234"]
    assert parts["saving"] == pytest.approx(0.02, abs=0.05) and parts["saving"] >= 0.02
    assert sum(parts.values()) == pytest.approx(10, abs=0.5) and parts["other"] > 9
    assert goodput.share < 0.01
    assert measured["train/peak_memory_bytes/1234"].keys() == {"host"}


def sleeping(step: int, meter: Meter, engine: Any) -> None:
    time.sleep(0.02)


sleeping.every = 1  # type: ignore[attr-defined]


def test_spikes_remember_a_window_across_calls_and_a_stop() -> None:
    def losses(*values: float) -> StepSums:
        sums = {"loss": 2 * np.array(values), "weight": np.full(len(values), 2.0)}
        return call(len(values), 1.5, sums=sums)

    spikes = Spikes(Rollback(window=3, factor=2.0))
    assert spikes.first(0, losses(1.0, 2.0)) is None
    assert spikes.recent == [1.0, 2.0], "means, not sums"
    assert spikes.first(2, losses(1.5, 1.0, 1.2)) is None and spikes.recent == [1.5, 1.0, 1.2]
    again = Spikes(spikes.config)
    again.load(spikes.state())
    found = again.first(5, losses(1.0, 3.1, 9.0))
    assert found is not None and (found.step, found.loss, found.highest) == (6, 3.1, 1.2)
    assert again.seconds == 1.5 and spikes.seconds == 0.0
    assert Spikes().state() == {}
    again.load({})
    assert (again.recent, again.rollbacks) == ([], []), "a state of a training that did not look for spikes"


def test_samples_are_written_once_and_a_line_that_was_cut_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "run" / "samples.jsonl"
    engine: Any = SimpleNamespace(samples=np.array([[0.123456789, 2.0]]))
    for step in (2, 4, 4):
        Samples(2, file, "regression")(step, Meter(), engine)
    assert read(file) == [(2, [[0.123457, 2.0]]), (4, [[0.123457, 2.0]])]
    with open(file, "a") as opened:
        opened.write('{"step": 6, "predictions": [[1')
    assert [step for step, _ in read(file)] == [2, 4]
    file.write_text("".join(json.dumps({"step": step, "predictions": [step, n]}) + "\n" for step, n in SEVERAL))
    assert read(file) == [(1, [1, 0]), (3, [3, 1])], "of a step that was written twice the first, by step"
    engine.samples = None
    Samples(2, file, "regression")(8, Meter(), engine)
    assert len(read(file)) == 2, "another process has scored them"


SEVERAL = [(3, 1), (1, 0), (3, 2)]


def test_the_three_most_probable_classes_are_kept() -> None:
    logits = np.array([[0.0, 5.0, 1.0, 5.0, -1.0]], np.float32)
    [[first, second, third]] = SAMPLES["classification"].kept(logits)
    shares = np.exp(logits[0] - 5) / np.exp(logits[0] - 5).sum()
    assert [first[0], second[0], third[0]] == [1, 3, 2], "of equal ones the lower number first"
    assert [first[1], third[1]] == pytest.approx([shares[1], shares[2]], abs=1e-4)
    assert SAMPLES["classification"].kept(np.array([[1000.0, 0.0]], np.float32)) == [[[0, 1.0], [1, 0.0]]]
    [[label, probability], *_] = SAMPLES["multilabel"].kept(np.array([[0.0, 2.0]], np.float32))[0]
    assert (label, probability) == (1, pytest.approx(1 / (1 + np.exp(-2)), abs=1e-4))
