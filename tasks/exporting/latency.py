"""Latency of variants side by side, and the energy that it takes where Linux shows it.

They count the whole package: what else runs on the machine is counted, too.

Latency is measured in interleaved rounds, as a machine's speed drifts, and compared with the float LiteRT file round by
round. A second copy of that file is measured as well (an A/A comparison): the deviation of its ratio from 1 shows the
accuracy of the other ratios.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Snapshot, Variant
from tasks.errors import Failed
from tasks.exporting import FORMATS, LITERT, open_variant
from tasks.exporting.fresh_process import packages, script
from tasks.feed import open_snapshot
from tasks.models.features import TOKENS, Arrays, input_arrays
from tasks.models.forward import Call, Examples
from tasks.store.files import write_arrays

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


POWERCAP = Path("/sys/class/powercap")
PACKAGES = "intel-rapl:[0-9]*"
ABSENT = "no RAPL counters that this user can read"


class Energy:
    """The counters of all packages of the machine; without any it is false."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._zones: list[tuple[Path, int]] = []
        for zone in sorted(powercap.glob(PACKAGES)):
            if zone.name.count(":") > 1:  # a part of a package
                continue
            try:
                counter = zone / "energy_uj"
                int(counter.read_text())
                self._zones.append((counter, int((zone / "max_energy_range_uj").read_text())))
            except (OSError, ValueError):  # root alone can read them on many machines
                continue

    def __bool__(self) -> bool:
        return bool(self._zones)

    def read(self) -> list[int]:
        """Return the counters in microjoules."""
        return [int(counter.read_text()) for counter, _ in self._zones]

    def joules(self, before: list[int], after: list[int]) -> float:
        """Return the energy between two readings, between which a counter has begun again at 0 once at most."""
        ranges = (largest for _, largest in self._zones)
        used = ((b - a) % (largest + 1) for a, b, largest in zip(before, after, ranges, strict=True))
        return sum(used) / 1e6


BATCHES = (1, 32)
THREADS = (1, 2)
"""Threads of the formats that have threads of their own. The others are measured once, on those of the process."""
MAX_TOKENS = 256
"""Tokens of a batch of text: one row of so many, or more and shorter rows."""
SECONDS, ROUNDS, LEAST_ROUNDS = 0.08, 15, 5
"""Seconds of a variant in a setting, in so many rounds; slow ones take longer, in at least so many rounds."""
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
FLOAT_AGAIN = "litert_again"
CONCLUSIVE = (0.9, 1.1)
"""Range of the A/A ratio in which the other ratios are conclusive."""
TIMEOUT = 300.0
"""Seconds after which the process that measures memory is ended."""


def measure(bench: Workbench, variants: list[Variant], snapshot: Snapshot) -> dict[str, Any]:
    """Measure the variants on test examples, at each batch size and number of threads.

    Returns (also recorded as the run's measurement `latency`):
        `shared_threads`: number of threads by format, of those that use the process'. `energy`: None, or why it is not
        measured. `peak_bytes`: by variant, the memory that loading and running it adds to a process, of the formats
        with threads of their own; the others are measured when they are exported. `settings`: for each batch size and
        number of threads `batch`, `threads`, `again` (the A/A ratio), `conclusive`, and `variants`: by name `ratio` (to
        the float LiteRT file, median over rounds), `p50`, `p90`, `p99` (milliseconds of a call), `calls`, and `joules`
        of a call. `{}` where there is no float LiteRT file.
    """
    formats = {variant.name: variant.manifest["statistics"]["format"] for variant in variants}
    folders = {variant.name: variant.path for variant in variants}
    if LITERT not in formats:
        return {}
    features, energy = snapshot.manifest["features"], Energy()
    examples = input_arrays(features, open_snapshot(snapshot.path).arrays("test"))
    threads_of = {name: FORMATS[form].shares_threads for name, form in formats.items()}
    settings: list[dict[str, Any]] = []
    for threads in THREADS:
        names = [name for name in formats if threads == THREADS[0] or not threads_of[name]]
        runners = {name: open_variant(folders[name], formats[name], threads) for name in names}
        runners[FLOAT_AGAIN] = open_variant(folders[LITERT], LITERT, threads)
        for size in BATCHES:
            bench.progress(len(settings), len(BATCHES) * len(THREADS), "settings")
            compared = compare(runners, batch_of(examples, features, size), energy)
            settings.append({"batch": size, "threads": threads, **compared})
    own = [variant for variant in variants if not threads_of[variant.name]]
    latency = {
        "shared_threads": {formats[name]: bench.threads for name in formats if threads_of[name]},
        "energy": None if energy else ABSENT,
        "peak_bytes": dict(memory(own, formats, batch_of(examples, features, max(BATCHES)))),
        "settings": settings,
    }
    bench.measure("latency", latency)
    return latency


def batch_of(examples: Examples, features: dict[str, Any], size: int) -> Arrays:
    """Return a batch of so many examples, of text with fewer tokens each."""
    batch: Arrays = examples[np.arange(size) % len(examples)]
    if TOKENS in features:  # a position has an output for every token of the vocabulary
        batch = {TOKENS: np.ascontiguousarray(batch[TOKENS][:, : max(1, MAX_TOKENS // size)])}
    return batch


def compare(runners: dict[str, Call], batch: Arrays, energy: Energy) -> dict[str, Any]:
    """Measure every runner once per round, starting with another one each time."""
    calls = {name: _calls(runner, batch) for name, runner in runners.items()}
    names = list(runners)
    seconds: dict[str, list[list[float]]] = {name: [] for name in names}
    joules = dict.fromkeys(names, 0.0)
    slowest = max(_round_of(runners[name], batch, 1)[0] for name in names)
    rounds = ROUNDS if slowest < SECONDS else LEAST_ROUNDS
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            before = energy.read()
            seconds[name].append(_round_of(runners[name], batch, calls[name]))
            joules[name] += energy.joules(before, energy.read())
    middles = {name: [median(each) for each in taken] for name, taken in seconds.items()}
    ratios = {
        name: median(own / of_float for own, of_float in zip(middles[name], middles[LITERT], strict=True))
        for name in names
    }
    low, high = CONCLUSIVE
    again = ratios[FLOAT_AGAIN]
    rows = {}
    for name in names:
        if name != FLOAT_AGAIN:
            single = 1000 * np.concatenate(seconds[name])
            percentiles = {key: float(np.percentile(single, at)) for key, at in PERCENTILES.items()}
            rows[name] = {"ratio": ratios[name], **percentiles, "calls": len(single)}
            if energy:
                rows[name]["joules"] = joules[name] / len(single)
    return {"again": again, "conclusive": low <= again <= high, "variants": rows}


def memory(variants: list[Variant], formats: dict[str, str], batch: Arrays) -> Iterator[tuple[str, int]]:
    """Yield each variant's name, and the bytes that loading it and running it on a batch add to a fresh process."""
    with TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        write_arrays(inputs, dict(batch))
        for variant in variants:
            form = FORMATS[formats[variant.name]]
            files = [str((variant.path / form.file).resolve()), str(inputs)]
            command = [*script("footprint", form), *files, str(THREADS[0]), "--", *packages()]
            try:
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=True)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                last = (str(error.stderr or "").strip().splitlines() or [str(error)])[-1]
                rule = "its memory is measured in a fresh process"
                raise Failed(f"variant {variant.name}", last, rule, "see whether there is enough memory") from None
            yield variant.name, int(done.stdout)


def _calls(runner: Call, batch: Arrays) -> int:
    """Return the calls of a round, by the second call; the first one prepares the runner."""
    _round_of(runner, batch, 1)
    [took] = _round_of(runner, batch, 1)
    return max(1, int(SECONDS / ROUNDS / took))


def _round_of(runner: Call, batch: Arrays, calls: int) -> list[float]:
    """Return the seconds of each of some calls."""
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        runner(batch)
        seconds.append(time.perf_counter() - start)
    return seconds
