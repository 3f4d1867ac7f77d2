"""How often `evaluate.find_slices` and `evaluate.groups` name something by chance, and how often what is there.

    python -m tests.benchmarks.slices_by_chance [--sets 500] [--seed 1]

Data sets of ten columns of two to four values, in which no slice differs; and the same in which a slice of about 15 %
is worse. Of units half of the columns have one value in each unit. Groups are the values of a column, of units half of
the time of one that has one value in each unit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import polars as pl

from tasks.evaluation import fairness, worst_slices
from tasks.evaluation.fairness import Rate
from tasks.evaluation.metrics import Means, Share, mean
from tasks.evaluation.units import Floats
from tasks.sources.features import Feature

Random = np.random.Generator
Units = np.ndarray | None

COLUMNS, RESAMPLES = 10, 199
SHARE, MEAN = Share(lambda values: values), Means(lambda values: values, mean)


def columns_of(random: Random, count: int, unit_of: Units) -> pl.DataFrame:
    """Categories of two to four values, each as probable as it happens to be."""
    columns = {}
    for number in range(COLUMNS):
        whole = unit_of is not None and number % 2 == 0
        size = int(unit_of.max()) + 1 if whole and unit_of is not None else count
        values = random.choice(2 + number % 3, size, p=random.dirichlet(np.full(2 + number % 3, 5.0)))
        columns[f"c{number}"] = (values[unit_of] if whole else values).astype(str)
    return pl.DataFrame(columns)


def rows(kind: str) -> Callable[[Random, int, Units], Floats]:
    """Damages of independent examples."""
    return {
        "even share": lambda random, count, _: (random.random(count) < 0.4).astype(float),
        "rare share": lambda random, count, _: (random.random(count) < 0.03).astype(float),
        "normal": lambda random, count, _: random.normal(0, 1, count),
        "squared Laplace": lambda random, count, _: random.laplace(0, 1, count) ** 2,
        "exponential": lambda random, count, _: random.exponential(1, count),
    }[kind]


def units(kind: str) -> Callable[[Random, int, Units], Floats]:
    """Damages of which most is shared by the examples of a unit."""

    def drawn(random: Random, count: int, unit_of: Units) -> Floats:
        assert unit_of is not None
        number = int(unit_of.max()) + 1
        if kind == "normal":
            return random.normal(0, 1, number)[unit_of] + random.normal(0, 1, count)
        if kind == "exponential":
            return random.exponential(2, number)[unit_of] + random.normal(0, 1, count)
        if kind == "squared":
            return (random.exponential(1, number)[unit_of] * random.laplace(0, 1, count)) ** 2
        chances = random.beta(0.5, 1.5, number) if kind == "even share" else random.beta(0.1, 3, number)
        return (random.random(count) < chances[unit_of]).astype(float)

    return drawn


def spoiled(random: Random, damage: Floats, share: bool, frame: pl.DataFrame) -> Floats:
    """Add to the damage of the slice of about 15 %."""
    names = [(column, value) for column in frame.columns for value in frame[column].unique(maintain_order=True)]
    inside = [(frame[column] == value).to_numpy() for column, value in names]
    bad = min(inside, key=lambda mask: abs(mask.mean() - 0.15))
    if share:
        return np.where(bad & (random.random(len(bad)) < 0.35), 1.0, damage)
    return damage + bad * damage.std() * (0.8 if len(bad) < 500 else 0.5)


def found(frame: pl.DataFrame, damage: Floats, share: bool, unit_of: Units) -> bool:
    features = {name: Feature("category", "string") for name in frame.columns}
    metric = SHARE if share else MEAN
    made = worst_slices.find(frame, features, metric, damage[:, None], -1, 1, RESAMPLES, unit_of)
    return any(row["beyond_chance"] for row in made["slices"])


def differing(frame: pl.DataFrame, damage: Floats, share: bool, unit_of: Units, column: int) -> bool:
    groups = {value: (frame[f"c{column}"] == value).to_numpy() for value in frame[f"c{column}"].unique()}
    rates = {"accuracy": Rate(damage > 0, np.ones(len(damage), bool))} if share else {}
    values = {} if share else {"loss": (MEAN, damage[:, None])}
    made = fairness.compare("c", groups, rates, values, RESAMPLES, unit_of)
    return any(row.get("beyond_chance", False) for row in made["rows"])


def cell(
    damages: Callable[[Random, int, Units], Floats], count: int, unit_of: Units, share: bool, sets: int, seed: int
) -> str:
    """Return the shares of data sets in which something is named: by chance, of a slice that is there, of groups."""
    random, named = np.random.default_rng(seed), np.zeros((sets, 3))
    for number in range(sets):
        frame = columns_of(random, count, unit_of)
        damage = damages(random, count, unit_of)
        worse = spoiled(random, damage, share, frame)
        named[number] = (
            found(frame, damage, share, unit_of),
            found(frame, worse, share, unit_of),
            differing(frame, damage, share, unit_of, 4 + number % 2),
        )
    return " | ".join(f"{100 * value:.1f} %" for value in named.mean(axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    sets, seed = (vars(parser.parse_args())[name] for name in ("sets", "seed"))
    print("| examples | damage | slice by chance | slice that is there | group by chance |")
    print("| --- | --- | --- | --- | --- |")
    for count in (200, 1000):
        for kind in ("even share", "rare share", "normal", "squared Laplace", "exponential"):
            print(f"| {count} | {kind} | {cell(rows(kind), count, None, 'share' in kind, sets, seed)} |", flush=True)
    for number, each in ((30, 30), (30, 7), (100, 10)):
        unit_of = np.repeat(np.arange(number), each)
        for kind in ("even share", "rare share", "normal", "squared", "exponential"):
            made = cell(units(kind), len(unit_of), unit_of, "share" in kind, sets, seed)
            print(f"| {number} units of {each} | {kind} | {made} |", flush=True)


if __name__ == "__main__":
    main()
