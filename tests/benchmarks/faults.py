"""What faults and checkpoints cost a training of two workers: seconds until a lost process is noticed and named, until
the training has a new step again, and for how long a checkpoint stops the steps."""

from __future__ import annotations

import contextlib
import logging
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from tasks.artifacts import Snapshot
from tasks.errors import Lost
from tasks.models.architectures.mlp import MlpModel
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import MultiWorker, OneDevice
from tests.benchmarks.stepping import synthetic
from tests.support.benches import workbench
from tests.support.training import Training

ROUNDS = 5
LONG = {"steps": 10**6, "checkpoint": CheckpointConfig(every=50), "log_every": 50, "evaluate_every": 10**6}


def lose(folder: Path, snapshot: Snapshot, number: int) -> tuple[float, float]:
    """Send a signal to the second worker; return the seconds until it is named, and until the next new step."""
    training = Training(snapshot, workbench(folder), folder / "logs")
    sent: list[float] = []
    reached = 0
    folder = None

    def at(step: int, processes: list[int]) -> None:
        nonlocal reached
        reached = step
        if step >= 200 and not sent:
            psutil.Process(processes[1]).send_signal(number)
            sent.append(time.monotonic())

    try:
        training(at=at, **LONG, strategy=MultiWorker(workers=2), batch_size=64)
    except Lost:
        named = time.monotonic()
    return named - sent[0], next_step(training, reached) - named


class Reached(Exception):
    """Ends a training at a step."""


def next_step(training: Training, reached: int) -> float:
    """Continue a training until a step after `reached`; return the time of that."""

    def at(step: int, processes: list[int]) -> None:
        if step > reached:
            raise Reached

    with contextlib.suppress(Reached):
        training(at=at, **LONG, strategy=MultiWorker(workers=2), batch_size=64)
    return time.monotonic()


def stall(folder: Path, snapshot: Snapshot, units: int) -> dict[str, Any]:
    """Return milliseconds of a step, and those that a checkpoint stops the training and that the thread writes it."""
    training = Training(snapshot, workbench(folder), folder / "logs")
    options = {"steps": 400, "checkpoint": CheckpointConfig(every=40), "log_every": 100, "evaluate_every": 10**6}
    training(MlpModel(units=(units, units)), **options, strategy=OneDevice(), batch_size=256)
    measured = training.measured
    return {
        "step": measured["train/step_ms"],
        "stall": 1e3 * measured["train/checkpoint_seconds"] / 10,
        "write": 1e3 * measured["train/checkpoint_write_seconds"] / 10,
    }


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        snapshot = Snapshot("0" * 64, synthetic(root), "synthetic")
        for words, number in (("killed (SIGKILL)", signal.SIGKILL), ("frozen (SIGSTOP)", signal.SIGSTOP)):
            taken = [lose(root / f"{number}-{i}", snapshot, number) for i in range(ROUNDS)]
            for label, values in zip(("named after", "next new step after"), zip(*taken, strict=True), strict=True):
                low, high = min(values), max(values)
                print(f"{words:<20}{label:<22}{statistics.median(values):6.2f} s  [{low:.2f}, {high:.2f}]")
        for units in (128, 512, 1536):
            rows = [stall(root / f"stall-{units}-{i}", snapshot, units) for i in range(ROUNDS)]
            middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            steps = statistics.median(row["stall"] / row["step"] for row in rows)
            print(
                f"{units:>5} units: a checkpoint stops the training for {middle['stall']:.2f} ms = {steps:.2f} steps "
                f"of {middle['step']:.2f} ms; the thread writes it in {middle['write']:.2f} ms"
            )


if __name__ == "__main__":
    main()
