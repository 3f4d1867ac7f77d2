"""Actions of the training loop, each run every `every` steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tasks.errors import Failed
from tasks.training.checkpoints import StagedCheckpoints
from tasks.training.engines import Arrays, Batches, Engine
from tasks.training.loop import Plan
from tasks.training.meter import Meter
from tasks.training.primary import BestWeights, Primary, evaluated
from tasks.training.speed import Goodput, Speed

log = logging.getLogger(__name__)
"""Its lines are also in the run's log."""


MOST_SKIPPED = 50
"""Updates that are skipped in a row at most; a loss scale of 2^15 is 2^-35 by then."""


class Curves(Protocol):
    """Takes the points of the curves: a journal, or one that the board gets a copy of."""

    def append(self, step: int, metrics: dict[str, float]) -> None: ...


@dataclass
class Guard:
    """Raises `Failed` where a loss or gradient is not finite; the first action, so that no such state is saved."""

    names: Callable[[int], str]
    """Names the examples of a step."""
    every: int = 1

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        last = meter.last
        if meter.skipped_last > MOST_SKIPPED:
            saw = f"float16; the gradients of the {meter.skipped_last} steps before step {step} were not finite"
            rule = f"at most {MOST_SKIPPED} updates in a row may be skipped"
            raise Failed("train.precision", saw, rule, "use bfloat16 or float32, or lower train.learning_rate")
        if last is not None and not last.finite.all():
            first = step - last.steps + int(np.argmin(last.finite))
            raise Failed(
                "train.learning_rate",
                f"a loss or gradient that is not finite at step {first}, of the examples {self.names(first)}",
                "training needs finite numbers",
                "lower it, lengthen train.schedule.warmup or set train.clip_norm; or look at these examples",
            )


@dataclass
class LogCurves:
    """Appends a point of the training curves to the journal: means since the previous one."""

    every: int
    journal: Curves
    speed: Speed
    goodput: Goodput

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        last = meter.last
        if last is None or not meter.sums.get("weight"):
            return
        metrics = {f"train/{name}": value for name, value in meter.means().items()}
        metrics["train/learning_rate"] = float(last.rates[-1])
        if np.isfinite(norm := float(last.gradient_norms[-1])):
            metrics["train/gradient_norm"] = norm
        metrics |= {f"train/{name}": value for name, value in last.norms.items() if np.isfinite(value)}
        if last.loss_scales is not None:
            metrics["train/loss_scale"] = float(last.loss_scales[-1])
            metrics["train/skipped_updates"] = float(meter.skipped)
        if meter.spikes.rollbacks:
            metrics["train/rollbacks"] = float(len(meter.spikes.rollbacks))
        if meter.staleness:
            metrics["train/staleness"] = float(np.mean(meter.staleness))
            metrics["train/staleness_max"] = float(max(meter.staleness))
            metrics["train/repeated_updates"] = float(last.repeated)
        metrics |= {f"train/{name}": value for name, value in self.speed.figures(meter, engine).items()}
        metrics["train/goodput"] = self.goodput.share
        self.journal.append(step, metrics)
        meter.clear()


@dataclass
class Evaluate:
    """Evaluates the whole validation split; its scores may select the weights and end the training."""

    every: int
    batches: Batches
    journal: Curves
    best: BestWeights
    primary: Primary | None = None
    """The primary metric, where it is one of the outputs."""

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        self.take(step, evaluated(engine, self.batches, self.primary), engine.weights, meter)

    def take(self, step: int, scores: dict[str, float], weights: Callable[[], Arrays], meter: Meter) -> None:
        """Take the scores of an evaluation at a step, of these weights."""
        self.journal.append(step, {f"validation/{name}": value for name, value in scores.items()})
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items())
        log.info("step %d: validation %s", step, shown)
        meter.validation_losses[step] = scores["loss"]
        meter.ended = self.best.update(scores, weights)


@dataclass
class Save:
    """Saves a checkpoint; the last action, so that the effects of the others at this step are in it."""

    every: int
    checkpoints: StagedCheckpoints

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        self.checkpoints.save(engine, meter, step)


@dataclass
class Progress:
    """Reports the step, the speed and the time left, and measures the speed of the whole training."""

    plan: Plan
    report: Callable[..., None]
    measure: Callable[[str, Any], None]
    every: int = 1
    began: float = field(default_factory=time.monotonic)
    first: int | None = None
    reported: float = 0.0
    waited: float = 0.0
    loss: float = float("nan")
    stepping: float = 0.0
    """Seconds in compiled calls after the first one, waiting for input included."""
    speed: dict[str, float] = field(default_factory=dict)

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        last, now = meter.last, time.monotonic()
        if last is None:
            return
        self.waited += last.waited
        self.stepping += last.seconds
        if weight := float(last.sums["weight"].sum()):
            self.loss = float(last.sums["loss"].sum()) / weight
        if self.first is None:  # the first call compiles and is not counted
            self.first, self.began, self.waited, self.stepping = step, now, 0.0, 0.0
            self.measure("train/first_call_seconds", last.seconds)
            self.report(step, self.plan.steps, "step", loss=self.loss)
            return
        taken = step - self.first
        self.speed = speed = {
            "step_ms": 1e3 * self.stepping / taken,
            "examples_per_second": taken * self.plan.batch_size / self.stepping,
            "input_share": self.waited / self.stepping,
        }
        if now - self.reported < 0.1 and step < self.plan.steps:
            return
        self.reported = now
        left = (now - self.began) / taken * (self.plan.steps - step)  # with the evaluations and checkpoints between
        figures = {
            "loss": self.loss,
            "examples/s": speed["examples_per_second"],
            "step_ms": speed["step_ms"],
            "input_share": speed["input_share"],
            "seconds_left": left,
        }
        self.report(step, self.plan.steps, "step", **figures)

    def begin(self) -> None:
        """Report what is done before the first step ends."""
        self.report(0, self.plan.steps, "step", now="building the model, compiling its first step")

    def end(self) -> None:
        """Measure the speed of a training that has ended, at its last step or early."""
        for name, value in self.speed.items():
            self.measure(f"train/{name}", value)
