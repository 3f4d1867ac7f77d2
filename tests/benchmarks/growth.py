"""What grows with files, artifacts, runs, steps and code: curves of this checkout, and beside those of another one.

    python -m tests.benchmarks.growth [--base CHECKOUT] [--rounds 5] [--only NAME]

Each number is the median of as many rounds, each in a process of its own, those of both checkouts in turn; `CHECKOUT`
has a `.venv` of its own. A/A: the ratio of the first half of this checkout's rounds to the second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

HEAD = """
import json, resource, sys, tempfile, time
from pathlib import Path
size, folder = int(sys.argv[1]), Path(tempfile.mkdtemp())

def rss():
    return 1024 * int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""

TEXTS = """
from tasks.sources.kinds.folders import TextFilesSource
(folder / "texts").mkdir()
for number in range(size):
    (folder / f"texts/{number:05d}.txt").write_text(f"line {number}\\nand another\\n")
time.sleep(2.5)  # files as young as these are not trusted to have settled
source = TextFilesSource(path=str(folder / "texts"), example="line").open(folder / "memory")
source.fingerprint()
begun = time.perf_counter()
rows = sum(len(each.keys) for piece in source.pieces() for each in source.read(piece))
seconds = time.perf_counter() - begun
assert rows == 2 * size, rows
"""

GC = """
import hashlib, os
from tasks.runs.collection import collect
from tasks.runs.home import Home
from tasks.store.files import canonical
home = Home(folder / "home").make()
for number in range(size):
    inputs = {"kind": "records", "config": {"number": number}, "parents": {}}
    digest = hashlib.sha256(canonical(inputs)).hexdigest()
    artifact, run = home.store / "records" / digest, home.runs / f"20260101-{number:06d}-digits-0000"
    artifact.mkdir(parents=True), run.mkdir()
    manifest = {"kind": "records", "digest": digest, "created": "2026", "inputs": inputs, "parents": {}, "files": []}
    (artifact / "manifest.json").write_text(json.dumps(manifest))
    record = {"exit_code": 0, "status": "completed", "identity": "", "attempts": [], "config": {"a": "b" * 4000}}
    (run / "run.json").write_text(json.dumps(record))
    (run / "uses").write_text(f"records/{digest}\\n")
begun = time.perf_counter()
dropped = collect(home, 10, dry_run=True)
seconds = time.perf_counter() - begun
assert len(dropped) == size - 10, len(dropped)
"""

START = """
from tasks.config.compose import load
from tasks.runs.home import Home
from tasks.runs.runs import finished_before, opened
home, config = Home(folder / "home").make(), load(Path("flows/presets/digits.yaml"))
for number in range(size):
    run = home.runs / f"20250101-{number:06d}-digits-0000"
    run.mkdir()
    record = {"exit_code": 0, "status": "completed", "identity": str(number), "stages": {}, "config": {"a": "b" * 7000}}
    (run / "run.json").write_text(json.dumps({**record, "attempts": [{"prefect_flow_run_id": str(number)}]}))

def start(config, prefect_id):
    begun = time.perf_counter()
    finished_before(home, "pipeline", config)
    with opened(home, "pipeline", config, new=False, prefect_id=prefect_id, waiting=print) as run:
        seconds = time.perf_counter() - begun
        run.end(0, "completed", None)
    return seconds

start(config, "x")  # the first one reads all records
seconds = start(config.model_copy(update={"seed": 12345}) if NEW else config, "y")
"""

JOURNAL = """
from tasks.store.journal import JournalFile
journal = JournalFile(folder / "metrics.jsonl")
journal.append(1, {"train/loss": 1.0})
before, begun = rss(), time.perf_counter()
for step in range(2, size):
    journal.append(step, {"train/loss": 1.0, "train/accuracy": 0.5, "train/learning_rate": 0.1, "train/step_ms": 2.0})
seconds = (rss() - before) / 2**20
"""

BLOCKS = """
import numpy as np
from tasks.feed.orders import permutation_in_blocks
seconds = []
for step in range(9):
    begun = time.perf_counter()
    permutation_in_blocks(np.arange(64 * step, 64 * (step + 1)), size * 10 - 3, 7, 0, "train", 10)
    seconds.append(time.perf_counter() - begun)
seconds = sorted(seconds)[4]
"""

CONFIG = """
begun = time.process_time()
import tasks.config.compose
seconds = time.process_time() - begun
"""

FLOW = """
import prefect.flow_engine, prefect.main, prefect.task_engine
from flows import session
if hasattr(session, "has_form"):
    session.has_form.set(False)  # as `millrace run` does
begun = time.process_time()
session.import_prefect("pipeline")
seconds = time.process_time() - begun
"""

PROBES: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "text files by line, reading": ("s", TEXTS, (1000, 2000, 4000)),
    "gc --dry-run, artifacts and runs": ("s", GC, (150, 300, 600)),
    "start of a run with a config that is new": ("s", f"NEW = True{START}", (500, 1000, 2000)),
    "start of a run with the last config": ("s", f"NEW = False{START}", (500, 1000, 2000)),
    "journal, growth of memory by steps": ("MiB", JOURNAL, (50_000, 100_000, 200_000)),
    "import of the config, CPU": ("s", CONFIG, (1,)),
    "import of a flow after Prefect, CPU": ("s", FLOW, (1,)),
    "order in blocks, a batch": ("s", BLOCKS, (10_000, 100_000, 1_000_000)),
}
"""What is measured, in which unit, by which program, at which sizes."""


def measured(checkout: Path, program: str, size: int) -> float:
    """Return what a program measures in a checkout."""
    script = f"{HEAD}{program}\nprint(json.dumps(seconds))\n"
    words = [checkout / ".venv/bin/python", "-c", script, str(size)]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| what | size | here | A/A | base | here / base |\n| --- | --- | --- | --- | --- | --- |")
    for name, (unit, program, sizes) in PROBES.items():
        for size in sizes if given.only in name else ():
            own, others = [], []
            for _ in range(given.rounds):
                own.append(measured(ROOT, program, size))
                if given.base is not None:
                    others.append(measured(given.base, program, size))
            half = max(1, len(own) // 2)
            again = statistics.median(own[:half]) / max(statistics.median(own[-half:]), 1e-9)
            row = [name, f"{size:,}", f"{statistics.median(own):.4g} {unit}", f"{again:.2f}"]
            if others:
                base = statistics.median(others)
                row += [f"{base:.4g} {unit}", f"{statistics.median(own) / max(base, 1e-9):.3f}"]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
