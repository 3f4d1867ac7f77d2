"""Latency of each variant relative to float LiteRT, measured in interleaved rounds, as a machine's speed drifts.

A second copy of the float file is measured as well (an A/A comparison): the deviation of its ratio from 1 shows the
accuracy of the other ratios.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Snapshot, Variant
from tasks.data import open_snapshot
from tasks.exporting import LITERT, format_of
from tasks.exporting.run import open_variant
from tasks.models.features import TOKENS, Arrays, input_arrays
from tasks.models.forward import Call

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

BATCHES = (1, 32)
MAX_TOKENS = 256
"""Tokens of a batch of text: one row of so many, or more and shorter rows."""
ROUNDS = 31
MIN_SECONDS = 0.002
"""Seconds of one measurement, at least: fast calls are repeated."""
FLOAT_AGAIN = "litert_again"
CONCLUSIVE = (0.9, 1.1)
"""Range of the A/A ratio in which the other ratios are conclusive."""


def measure(bench: Workbench, variants: list[Variant], snapshot: Snapshot) -> dict[str, Any]:
    """Measure the variants' latency on test examples: on one thread, or on the process' where the format shares them.

    Returns (also recorded as the run's measurement `latency`):
        `{"threads": {format: n}, "batches": {"1": {"conclusive": bool, "ratios": {variant: ratio},
        "milliseconds": {variant: ms}}, "32": ...}}`. Ratios are medians over rounds against the float LiteRT file;
        `litert_again` is that file against itself. `{}` where there is no float LiteRT file.
    """
    formats = {variant.name: variant.manifest["statistics"]["format"] for variant in variants}
    folders = {variant.name: variant.path for variant in variants}
    if LITERT not in formats:
        return {}
    runners = {name: open_variant(folders[name], formats[name]) for name in formats}
    runners[FLOAT_AGAIN] = open_variant(folders[LITERT], LITERT)
    features = snapshot.manifest["features"]
    examples = input_arrays(features, open_snapshot(snapshot.path).arrays("test"))
    batches = {}
    for done, size in enumerate(BATCHES):
        bench.progress(done, len(BATCHES), "batch sizes")
        batch = examples[np.arange(size) % len(examples)]
        if TOKENS in features:  # a position has an output for every token of the vocabulary
            batch = {TOKENS: np.ascontiguousarray(batch[TOKENS][:, : max(1, MAX_TOKENS // size)])}
        batches[str(size)] = _compare(runners, batch)
    threads = {name: bench.threads if format_of(name).SHARES_THREADS else 1 for name in sorted({*formats.values()})}
    latency = {"threads": threads, "batches": batches}
    bench.measure("latency", latency)
    return latency


def _compare(runners: dict[str, Call], batch: Arrays) -> dict[str, Any]:
    """Measure every runner once per round, starting with another one each time."""
    calls = {name: _calls(runner, batch) for name, runner in runners.items()}
    names = list(runners)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(ROUNDS):
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_time(runners[name], batch, calls[name]))
    ratios = {
        name: median(one / float_one for one, float_one in zip(seconds[name], seconds[LITERT], strict=True))
        for name in names
    }
    low, high = CONCLUSIVE
    return {
        "conclusive": low <= ratios[FLOAT_AGAIN] <= high,
        "ratios": ratios,
        "milliseconds": {name: 1000 * median(taken) for name, taken in seconds.items()},
    }


def _calls(runner: Call, batch: Arrays) -> int:
    """Return the number of calls that take `MIN_SECONDS`; the runner is warm afterwards."""
    calls = 1
    while _time(runner, batch, calls) * calls < MIN_SECONDS:
        calls *= 2
    return calls


def _time(runner: Call, batch: Arrays, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        runner(batch)
    return (time.perf_counter() - start) / calls
