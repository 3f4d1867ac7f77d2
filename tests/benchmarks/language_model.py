"""The language model's step against the machine's peak, with and without XLA; with `--whole` the preset, by stage.

    python -m tests.benchmarks.language_model [--whole]

The peak is that of a product of square float32 matrices on all cores, measured in turns with the step. The step's
operations are counted: 6 for each weight of a product and token (forward, and two products backward), and those of the
attention's scores and sums.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.homes import MILLRACE, STDLIB_LM, surroundings

ROUNDS, STEPS, SIZE, PRODUCTS = 7, 10, 2048, 20
GOALS = {"share of the peak": 0.75, "bits per byte": 1.48, "minutes": 12.0, "evaluate and compress / train": 0.2}


def run(home: Path, flow: str) -> list[str]:
    """Run a flow of the preset in a home; return the lines of its output."""
    command = [str(MILLRACE), "run", flow, str(STDLIB_LM), "--json"]
    environment = {**surroundings(), "MILLRACE_HOME": str(home)}
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def steps(home: Path) -> None:
    """Time steps of the preset's training in turns: without XLA twice, with XLA, and the product that is the peak."""
    import numpy as np
    import tensorflow as tf

    from tasks.config.compose import load
    from tasks.feed import open_snapshot
    from tasks.processes import threads
    from tasks.training.fit import make_engine
    from tasks.training.group import Cluster
    from tasks.training.loop import make_plan

    threads.pin(threads.available_threads())
    config = load(STDLIB_LM, [])
    [folder] = (home / "store" / "snapshot").iterdir()
    snapshot = open_snapshot(folder)
    plan = make_plan(config.train, snapshot.counts["train"], [STEPS])

    def of(jit: bool) -> Callable[[], None]:
        train = config.train.model_copy(update={"jit": jit})
        engine = make_engine(train, config.model, snapshot, plan, config.seed, Cluster())
        engine.seek(0)

        def way() -> None:
            engine.step(plan.rates(0, STEPS))

        return way

    matrix = tf.constant(np.random.default_rng(1).normal(size=(SIZE, SIZE)).astype(np.float32))

    @tf.function
    def products() -> tf.Tensor:
        result = matrix
        for _ in range(PRODUCTS):
            result = tf.linalg.matmul(result, matrix) * 1e-2
        return tf.reduce_sum(result)

    ways = {"without XLA": of(False), "XLA": of(True), "without XLA again": of(False), "peak": products}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for number in range(ROUNDS):
        for name in ways if number % 2 == 0 else reversed(ways):
            started = time.perf_counter()
            np.asarray(ways[name]())
            seconds[name].append(time.perf_counter() - started)
    built = config.model.build(snapshot.features, config.seed)
    weights = sum(math.prod(variable.shape) for variable in built.variables if len(variable.shape) > 1)
    length, model = snapshot.features["tokens"]["shape"][0] - 1, config.model
    operations = config.train.batch_size * length * (6 * weights + 12 * model.layers * length * model.width)  # type: ignore[union-attr]
    peaks = [2 * SIZE**3 * PRODUCTS / taken for taken in seconds["peak"]]
    print(f"{os.cpu_count()} cores, {operations / 1e9:.1f} GFLOP a step, medians of {ROUNDS} interleaved rounds")
    print(f"  peak of float32 products: {statistics.median(peaks) / 1e9:.0f} GFLOP/s")
    for name in list(ways)[:3]:
        share = [operations * STEPS / taken / peak for taken, peak in zip(seconds[name], peaks, strict=True)]
        ratio = [base / taken for base, taken in zip(seconds["without XLA"], seconds[name], strict=True)]
        print(
            f"  {name:<20}{1e3 * statistics.median(seconds[name]) / STEPS:>7.1f} ms a step, "
            f"{statistics.median(share):.2f} of the peak (goal {GOALS['share of the peak']}), "
            f"{statistics.median(ratio):.2f}x as fast [{min(ratio):.2f}, {max(ratio):.2f}]"
        )


def whole(home: Path) -> None:
    """Run the preset in an empty home; print its time by stage and its bits per byte beside the compressors'."""
    started = time.perf_counter()
    reply = json.loads(run(home, "pipeline")[-1])
    minutes = (time.perf_counter() - started) / 60
    taken = {stage: sum(row["seconds"] for row in rows) for stage, rows in reply["artifacts"].items()}
    metrics = reply["metrics"]
    print(f"\nthe preset in an empty home: {minutes:.1f} minutes (goal {GOALS['minutes']:g})")
    for stage, seconds in taken.items():
        print(f"  {stage:<12}{seconds:>7.1f} s")
    share = (taken["evaluate"] + taken["compress"]) / taken["train"]
    goal = "evaluate and compress / train"
    print(f"  {goal}: {share:.2f} (goal {GOALS[goal]})")
    low, value, high = (metrics[f"test/bits_per_byte{end}"] for end in ("/low", "", "/high"))
    xz, gzip = metrics["test/xz_bits_per_byte"], metrics["test/gzip_bits_per_byte"]
    print(f"  test bits per byte {value:.3f} [{low:.3f}, {high:.3f}] (goal {GOALS['bits per byte']})")
    print(f"  xz -9e {xz:.3f}, gzip -9 {gzip:.3f}: xz is {'' if high < xz else 'not '}above the interval")


def main() -> None:
    """Time the step; with `--whole` also the preset."""
    with tempfile.TemporaryDirectory(prefix="millrace-benchmark-") as name:
        run(Path(name), "dataset")
        steps(Path(name))
    if "--whole" in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="millrace-benchmark-") as name:
            whole(Path(name))


if __name__ == "__main__":
    main()
