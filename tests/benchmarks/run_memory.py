"""Memory of a run's own processes at its end, the flow's and Prefect's server: of this checkout beside another one.

    python -m tests.benchmarks.run_memory --base CHECKOUT

A digits run in an empty home, by both checkouts in turn; `CHECKOUT` has a `.venv` of its own. The proportional set size
(Pss: pages that processes share are divided among them) of the command and of Prefect's server, as it was last seen
before the command ended: the most of a second. A/A: this checkout a second time. Then the same of fresh processes that
import libraries and do nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.support.homes import ROOT, surroundings

ROUNDS = 5
FLOW = "from flows.session import has_form; has_form.set(False); import prefect.flow_engine, flows.pipeline"
IMPORTS = {
    "Prefect, with a flow": FLOW,
    "that, and MLflow with its database": f"{FLOW}; from tasks.tracking import runs; runs.import_database_store()",
    "Prefect's server": "import infra.prefect_server",
}
PRINT = "; print(next(line.split()[1] for line in open('/proc/self/smaps_rollup') if line.startswith('Pss:')))"
EVERY, LAST = 0.05, 20
"""Seconds between two looks, and how many looks are the end."""


def at_the_end(checkout: Path, home: Path) -> tuple[float, float]:
    """Return the MiB of the command and of its Prefect server at the end of a run in an empty home."""
    shutil.rmtree(home, ignore_errors=True)
    command = [str(checkout / ".venv/bin/millrace"), "run", "flows/presets/digits.yaml"]
    environment = {**surroundings(), "MILLRACE_HOME": str(home)}
    process = psutil.Popen(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen: list[tuple[float, float]] = []
    while process.poll() is None:
        with contextlib.suppress(psutil.Error, ValueError):  # there is none yet, or it has ended
            [server] = [child for child in process.children() if any("embedded" in word for word in child.cmdline())]
            own, of_server = (one.memory_full_info().pss / 2**20 for one in (process, server))
            seen.append((own, of_server))
        time.sleep(EVERY)
    assert process.returncode == 0, process.returncode
    return max(seen[-LAST:], key=sum)  # a process that is ending has given some of it back


def of_imports(code: str) -> float:
    """Return the MiB of a fresh process after it has run some code."""
    done = subprocess.run(
        [sys.executable, "-c", code + PRINT], cwd=ROOT, check=True, capture_output=True, text=True, env=surroundings()
    )
    return int(done.stdout) / 1024


def main() -> None:
    """Print medians and the ratio to the other checkout in the same round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, metavar="CHECKOUT")
    base = parser.parse_args().base.resolve()
    rows: dict[str, list[tuple[float, float]]] = {"base": [], "this": [], "this again": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            for name in rows if number % 2 == 0 else reversed(rows):
                rows[name].append(at_the_end(base if name == "base" else ROOT, Path(folder) / "home"))
    for name, found in rows.items():
        ratios = [sum(one) / sum(other) for one, other in zip(found, rows["base"], strict=True)]
        spread = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]"
        own, of_server = (statistics.median(each) for each in zip(*found, strict=True))
        goal = "  goal 0.7x" if name == "this" else ""
        print(f"  {name:<12}{own:>7.0f} + {of_server:.0f} MiB  {spread}{goal}")
    for what, code in IMPORTS.items():
        print(f"  {what}: {of_imports(code):.0f} MiB")


if __name__ == "__main__":
    main()
