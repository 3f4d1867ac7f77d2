"""Types that `millrace init` gives to columns whose meaning is known, and what a model of them scores on test against
one of the true types: same rows, same splits, several seeds of training.

    python -m tests.benchmarks.init_roles [--rows 4000] [--seeds 3]

A table is drawn for each kind of column that may be taken for another. Where the types agree the runs would be equal,
and none is made. Of others the mean accuracy over the seeds is printed, and its standard error from their scatter.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import yaml

Random = np.random.Generator
Drawn = tuple[list[str], np.ndarray]


def codes(random: Random, rows: int) -> Drawn:
    """Numbers of nine parts, each with an effect of its own."""
    part = random.integers(3, 12, rows)
    return part.astype(str).tolist(), np.asarray([0.9, -1.4, 1.2, 0.1, -1, 1.6, -0.4, -1.8, 0.7])[part - 3]


def grades(random: Random, rows: int) -> Drawn:
    """Grades from 1 to 10, of which only the high ones matter."""
    grade = random.integers(1, 11, rows)
    return grade.astype(str).tolist(), 4 / (1 + np.exp(-2.0 * (grade - 7))) - 2


def answers(random: Random, rows: int) -> Drawn:
    """Answers from 1, not at all, to 7, very much."""
    answer = random.binomial(6, 0.55, rows) + 1
    return answer.astype(str).tolist(), 0.8 * (answer - 4)


def counts(random: Random, rows: int) -> Drawn:
    """How often something happened."""
    count = random.poisson(0.8, rows)
    return count.astype(str).tolist(), 1.2 * count - 1


def stages(random: Random, rows: int) -> Drawn:
    """Stages from 1 to 4, each worse than the one before."""
    stage = random.integers(1, 5, rows)
    return stage.astype(str).tolist(), 1.1 * (stage - 2.5)


def months(random: Random, rows: int) -> Drawn:
    """Months, of which the summer is one side and the winter the other."""
    month = random.integers(1, 13, rows)
    return month.astype(str).tolist(), 1.8 * np.cos((month - 1) * np.pi / 6)


def flags(random: Random, rows: int) -> Drawn:
    """0 or 1."""
    flag = random.integers(0, 2, rows)
    return flag.astype(str).tolist(), 2.4 * flag - 1.2


def amounts(random: Random, rows: int) -> Drawn:
    """Money as people write it, unknown in some rows."""
    amount = random.lognormal(8, 0.8, rows)
    cells = [f"${value:,.2f}" if random.random() > 0.05 else "?" for value in amount]
    return cells, 1.5 * (np.log(amount) - 8)


def places(random: Random, rows: int) -> Drawn:
    """Postal codes of a few places, with leading zeros."""
    place = random.integers(0, 25, rows)
    return [f"{2100 + 37 * each:05d}" for each in place], random.normal(size=25)[place] * 1.5


def days(random: Random, rows: int) -> Drawn:
    """Days of two years, later ones of another class."""
    day = random.integers(0, 730, rows)
    dates = np.datetime64("2022-01-01") + day
    return [f"{each.astype(object):%d.%m.%Y}" for each in dates], (day - 365) / 150


TABLES: dict[str, tuple[Callable[[Random, int], Drawn], str]] = {
    "part": (codes, "category"),
    "grade": (grades, "number"),
    "agrees": (answers, "number"),
    "falls": (counts, "number"),
    "stage": (stages, "number"),
    "month": (months, "category"),
    "smoker": (flags, "category"),
    "income": (amounts, "number"),
    "post": (places, "category"),
    "admitted": (days, "time"),
}
"""What draws the cells of a column and the log odds of the class, and what the column is, by its name."""


def write(path: Path, name: str, rows: int) -> None:
    """Write a table of this column, a number beside it, and a label that both decide."""
    random = np.random.default_rng(list(TABLES).index(name))
    cells, odds = TABLES[name][0](random, rows)
    beside = random.normal(size=rows)
    label = random.random(rows) < 1 / (1 + np.exp(-(odds + 0.5 * beside)))
    with path.open("w", newline="") as file:
        lines = zip(cells, beside.round(4).tolist(), np.where(label, "yes", "no").tolist(), strict=True)
        csv.writer(file).writerows([[name, "beside", "label"], *lines])


def millrace(*arguments: str, folder: Path) -> str:
    """Run a command and return the last line of what it prints."""
    environment = {**os.environ, "MILLRACE_HOME": str(folder / "home")}
    command = [str(Path(sys.executable).with_name("millrace")), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def accuracies(preset: Path, seeds: int) -> list[float]:
    """Return the accuracy on test of a model of each seed."""
    found = []
    for seed in range(seeds):
        line = millrace("run", "training", preset.name, "--seed", str(seed), "--json", folder=preset.parent)
        found.append(json.loads(line)["metrics"]["test/accuracy"])
    return found


def with_type(preset: Path, name: str, kind: str) -> Path:
    """Write the same preset with another type of a column."""
    config: dict[str, Any] = yaml.safe_load(preset.read_text())
    config["source"]["columns"][name] = kind
    path = preset.with_stem(f"{preset.stem}_as_{kind}")
    path.write_text(yaml.safe_dump(config))
    return path


def shown(values: list[float]) -> str:
    return f"{mean(values):.3f} ± {stdev(values) / len(values) ** 0.5:.3f}"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=4000)
    arguments.add_argument("--seeds", type=int, default=3)
    given = arguments.parse_args()
    right = 0
    with tempfile.TemporaryDirectory() as home:
        for name, (_, truth) in TABLES.items():
            folder = Path(home)
            write(folder / f"{name}.csv", name, given.rows)
            millrace("init", f"{name}.csv", folder=folder)
            preset = folder / f"{name}.yaml"
            kind = yaml.safe_load(preset.read_text())["source"]["columns"][name]
            right += kind == truth
            line = f"{name:10} is {truth:9} init: {kind:9}"
            if kind != truth:
                as_init, as_true = (accuracies(each, given.seeds) for each in (preset, with_type(preset, name, truth)))
                line += f" accuracy {shown(as_init)}, of the true type {shown(as_true)}"
            print(line, flush=True)
    print(f"{right} of {len(TABLES)} types are the true ones")


if __name__ == "__main__":
    main()
