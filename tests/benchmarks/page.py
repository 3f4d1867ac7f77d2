"""The page of a run with 100 slices, 50 metrics and 100 classes: how long it takes to make, and how large it is.

    python -m tests.benchmarks.page HOME     a home in which `millrace run` of a classification has finished

The report of the newest run is read as if it had so many; the rest of the page is the run's own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tasks.runs.home import Home
from tasks.runs.runs import Run, find_runs
from tasks.view.facts import Facts
from tasks.view.report import Bounded, Class, Part, WorstSlices

SLICES, METRICS, CLASSES = 100, 50, 100
ROUNDS = 5


def enlarged(run: Run) -> Facts:
    """The facts of a run with so many slices, metrics and classes."""
    facts = Facts(run)
    assert facts.report is not None, "the run has no report"
    bounded = Bounded(0.9, 0.85, 0.95, "exact binomial", 100)
    slices = tuple(
        Part(
            0.9,
            0.85,
            0.95,
            "exact binomial",
            10 + number,
            name=f"column {number} = a value",
            examples=10 + number,
            rest=0.9,
        )
        for number in range(SLICES)
    )
    classes = tuple(Class(f"class number {number}", 20, 0.9, 0.9, 0.9) for number in range(CLASSES))
    confusion = tuple(
        tuple(15 if row == column else (row * column) % 3 for column in range(CLASSES)) for row in range(CLASSES)
    )
    names = [f"own_metric_{number}" for number in range(METRICS)]
    split = replace(
        facts.test,
        slices=slices,
        worst_slices=WorstSlices(1000, 20, "permutation test", slices=slices[:5]),
        classes=classes,
        confusion=confusion,
        metrics=dict.fromkeys(names, bounded),
    )
    evaluate = run.config.evaluate.model_copy(update={"own_metrics": dict.fromkeys(names, "of mine")})
    facts.config = run.config.model_copy(update={"evaluate": evaluate})
    facts.__dict__["report"] = replace(facts.report, splits=dict.fromkeys(("validation", "test"), split))
    values = {f"{of}/{name}": 0.9 for of in ("validation", "test") for name in names}
    facts.__dict__["metrics"] = facts.metrics | values
    return facts


def measure(home: Path) -> list[tuple[float, int]]:
    """Seconds and characters of the page of the newest run with a report, for several rounds in this process."""
    from tasks.view import run_page

    run = next(each for each in reversed(list(find_runs(Home(home)))) if Facts(each).report is not None)
    rounds = []
    for _ in range(ROUNDS + 1):
        began = time.monotonic()
        html = run_page.render(enlarged(run))
        rounds.append((time.monotonic() - began, len(html)))
    assert "own metric 49" in html and html.count("column 99 = a value") == 1 and "class number 99" in html
    return rounds


def main() -> None:
    """Time it in this process, where everything is imported, and a whole process that makes it once."""
    home = Path(sys.argv[1]).resolve()
    if os.environ.get("ONCE"):
        measure(home)
        return
    first, *others = measure(home)
    taken = [seconds for seconds, _ in others]
    print(f"{SLICES} slices, {METRICS} metrics, {CLASSES} classes: {first[1] / 1e6:.2f} MB")
    print(f"first {first[0]:.2f} s, then {statistics.median(taken):.2f} s [{min(taken):.2f}, {max(taken):.2f}]")
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.page", str(home)], env={**os.environ, "ONCE": "1"}, check=True
    )
    print(f"a process that imports, and makes it {ROUNDS + 1} times: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
