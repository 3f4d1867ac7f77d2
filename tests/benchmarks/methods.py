"""Methods of compression that train, at equal bytes, against a small model that is trained directly and against plain
quantisation after the training.

    python -m tests.benchmarks.methods [--lm] [--seeds 3] [--steps STEPS]

For each seed two runs of `millrace` in a temporary home: the preset's model with all entries, and the small model.
Digits by default; with `--lm` a language model of some files of the standard library. Printed are bytes of the LiteRT
file, bytes after gzip, and the primary metric on the test split: the mean over the seeds, the means of the ends of its
95 % intervals, and the range over the seeds; after each seed those of the seeds so far.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from tests.support.homes import ROOT


@dataclass(frozen=True)
class Job:
    """A preset, the small model, and the steps of trainings."""

    preset: str
    steps: int
    small: dict[str, Any]
    rank: list[dict[str, Any]]
    """Settings of `low_rank`, for the larger and the smaller size."""
    options: dict[str, str]
    """Other settings than the preset's, by key."""

    def methods(self, steps: int) -> list[Any]:
        """Return the entries of `compress.methods`: each training has a third of the steps, the student's all."""
        short, whole = {"steps": steps // 3}, {"steps": steps}
        distill = {"kind": "distill", "student": self.small, "fine_tune": whole}
        larger, smaller = ({"kind": "low_rank", **settings, "fine_tune": short} for settings in self.rank)
        qat = {"kind": "qat", "bits": 4, "fine_tune": short}
        return [
            "int8_dynamic",
            "int4_dynamic",
            [qat, "int4_dynamic"],
            ["prune", "int8_dynamic"],
            *([{"kind": "prune", "share": share, "fine_tune": short}, "int8_dynamic"] for share in (0.5, 0.8, 0.9)),
            *([{"kind": "prune", "share": share}, "int8_dynamic"] for share in (0.8, 0.9)),
            [distill, "int8_dynamic"],
            [distill, qat, "int4_dynamic"],
            [larger, "int8_dynamic"],
            [smaller, "int8_dynamic"],
            [smaller, qat, "int4_dynamic"],
        ]


DIGITS = Job(
    "digits", 600, {"kind": "convnet", "filters": [24, 48], "dense": 96}, [{"energy": 0.65}, {"energy": 0.5}], {}
)
LANGUAGE_MODEL = Job(
    "stdlib_lm",
    400,
    {"kind": "transformer", "width": 64, "layers": 2, "heads": 2, "hidden": 256},
    [{"rank": 48}, {"rank": 24}],
    {
        "source.glob": "[a-m]*.py",
        "records.splits": "{train: 0.7, validation: 0.1, test: 0.2}",
        "snapshot.vocabulary": "1024",
        "snapshot.block": "128",
        "train.jit": "false",
    },
)
LARGE = {"kind": "transformer", "width": 128, "layers": 2, "heads": 4, "hidden": 512}
"""The language model: smaller than the preset's, on a part of its files, so that this takes minutes."""


def variants(home: Path, job: Job, seed: int, steps: int, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the pipeline; return the descriptions of the variants, also of rejected ones."""
    command = [sys.executable, "-m", "flows", "run", "pipeline", str(ROOT / f"flows/presets/{job.preset}.yaml")]
    command += ["--seed", str(seed), "--train.steps", str(steps), "--json"]
    for name, value in (job.options | {name: json.dumps(value) for name, value in options.items()}).items():
        command += [f"--{name}", value]
    environment = {**os.environ, "MILLRACE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr[-3000:])
    made = json.loads(done.stdout.splitlines()[-1])["artifacts"]["compress"]
    return [json.loads((Path(row["path"]) / "variant.json").read_bytes()) for row in made if row["kind"] == "variant"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lm", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    job = LANGUAGE_MODEL if arguments.lm else DIGITS
    steps = arguments.steps or job.steps
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, arguments.seeds + 1):
            runs = {
                "": {"compress.methods": job.methods(steps), **({"model": LARGE} if arguments.lm else {})},
                "small: ": {"model": job.small, "compress.methods": ["int8_dynamic", "int4_dynamic"]},
            }
            for label, options in runs.items():
                for variant in variants(Path(folder), job, seed, steps, options):
                    rows[label + variant["name"]].append(variant)
                print(f"seed {seed} {label or 'all'}", file=sys.stderr, flush=True)
            table(rows)


def table(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Print what the seeds so far gave."""
    print("| variant | kB | kB after gzip | metric [95 %] | over the seeds |\n| --- | --- | --- | --- | --- |")
    for name, found in sorted(rows.items(), key=lambda row: -row[1][0]["bytes"]):
        metric = found[0]["against_float"]["metric"]
        values = [each["quality"]["metrics"][metric] for each in found]
        sizes = [mean(each[key] for each in found) / 1000 for key in ("bytes", "gzip_bytes")]
        ends = [mean(value[end] for value in values) for end in ("value", "low", "high")]
        low, high = (pick(value["value"] for value in values) for pick in (min, max))
        print(f"| {name} | {sizes[0]:.1f} | {sizes[1]:.1f} | ", end="")
        print(f"{ends[0]:.4f} [{ends[1]:.4f}, {ends[2]:.4f}] | {low:.4f} to {high:.4f} |")


if __name__ == "__main__":
    main()
