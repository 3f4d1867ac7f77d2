"""How fast each variant is against float LiteRT: ratios taken in turns, since a machine's speed drifts.

A second copy of the float file runs along. Its ratio to the first should be 1; how far it is from 1 says how much
the other ratios are worth.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Snapshot, Variant
from tasks.data import open_snapshot
from tasks.exporting import LITERT, SAVED_MODEL
from tasks.exporting.run import Runner, open_variant
from tasks.models.features import TOKENS, fed

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

BATCHES = (1, 32)
TOKENS_AT_ONCE = 256
"""Of text: one row of so many tokens, or shorter ones beside each other."""
ROUNDS = 31
AT_LEAST = 0.002
"""Seconds of one timing: fast calls are repeated until they fill it."""
SAME = "litert_again"
CONCLUSIVE = (0.9, 1.1)
"""Where the ratio of the float file to itself must lie for the other ratios to mean much."""


def measure(bench: Workbench, variants: list[Variant], snapshot: Snapshot) -> dict[str, Any]:
    """Time the variants on test examples: LiteRT on one thread, a SavedModel on those of the process.

    Returns (and measures as `latency`):
        `{"threads": {format: n}, "batches": {"1": {"conclusive": bool, "ratios": {variant: ratio},
        "milliseconds": {variant: ms}}, "32": ...}}`. Ratios are medians over rounds against the float LiteRT file;
        `litert_again` is that file against itself. `{}` where there is no float LiteRT file.
    """
    formats = {variant.name: variant.manifest["statistics"]["format"] for variant in variants}
    folders = {variant.name: variant.path for variant in variants}
    if LITERT not in formats:
        return {}
    runners = {name: open_variant(folders[name], formats[name]) for name in formats}
    runners[SAME] = open_variant(folders[LITERT], LITERT)
    features = snapshot.manifest["features"]
    examples = fed(features, open_snapshot(snapshot.path).arrays("test"))
    batches = {}
    for done, size in enumerate(BATCHES):
        bench.progress(done, len(BATCHES), "batch sizes")
        batch = np.resize(examples[:size], (size, *examples.shape[1:]))
        if TOKENS in features:  # each place answers with a number for every token there is
            batch = np.ascontiguousarray(batch[:, : max(1, TOKENS_AT_ONCE // size)])
        batches[str(size)] = _compare(runners, batch)
    found = {"threads": {LITERT: 1, SAVED_MODEL: bench.threads}, "batches": batches}
    bench.measure("latency", found)
    return found


def _compare(runners: dict[str, Runner], batch: npt.NDArray) -> dict[str, Any]:
    """One timing of every runner per round, starting with another one each time."""
    calls = {name: _calls(runner, batch) for name, runner in runners.items()}
    names = list(runners)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(ROUNDS):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_time(runners[name], batch, calls[name]))
    ratios = {
        name: median(one / float_one for one, float_one in zip(seconds[name], seconds[LITERT], strict=True))
        for name in names
    }
    low, high = CONCLUSIVE
    return {
        "conclusive": low <= ratios[SAME] <= high,
        "ratios": ratios,
        "milliseconds": {name: 1000 * median(taken) for name, taken in seconds.items()},
    }


def _calls(runner: Runner, batch: npt.NDArray) -> int:
    """How many calls fill a timing; warms the runner up on the way."""
    calls = 1
    while _time(runner, batch, calls) * calls < AT_LEAST:
        calls *= 2
    return calls


def _time(runner: Runner, batch: npt.NDArray, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        runner(batch)
    return (time.perf_counter() - start) / calls
