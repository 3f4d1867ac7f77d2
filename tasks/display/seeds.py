"""What was chosen among the models of several seeds, as lines and rows for the terminal and for Prefect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tasks.display.numbers import figure
from tasks.display.words import span
from tasks.training.seeds import AVERAGE, OVER_SEEDS, SPLITS, Choice


def summary(choice: Choice) -> list[str]:
    """Return two lines: the means of the primary metric over seeds with their intervals, and the choice."""
    word, means = choice.metric.replace("_", " "), []
    for split in SPLITS:
        value = span(choice.metrics, f"{OVER_SEEDS}/{split}/{choice.metric}")
        assert value is not None
        means.append(f"{split} {word} {value[0]}{f' ({value[1]})' if value[1] else ''}")
    return [f"mean over {len(choice.seeds)} seeds, 95 % t interval: {', '.join(means)}", choice.verdict]


def scores(choice: Choice) -> dict[str, dict[str, float]]:
    """Return the metrics of each model that there was to choose from, by its name."""
    found = {name: dict(row["metrics"]) for name, row in choice.seeds.items()}
    return found if choice.average is None else {**found, AVERAGE: choice.average}


def words(column: str) -> str:
    """Return the flat name of a metric as words."""
    return column.replace("/", " ").replace("_", " ")


def lines(choice: Choice) -> Iterator[str]:
    """Yield the summary, and a line for each model."""
    yield from summary(choice)
    for name, metrics in scores(choice).items():
        shown = ", ".join(f"{words(key)} {figure(metrics[key])}" for key in choice.columns)
        yield f"{name}: {shown}"


def table(choice: Choice) -> list[dict[str, Any]]:
    """Return a row for each model: its name, whether it was chosen, seed, steps and metrics."""
    return [
        {
            "model": name,
            "chosen": "yes" if name == choice.chosen else "",
            "seed": str(choice.seeds.get(name, {}).get("seed", "")),
            "steps": choice.seeds.get(name, {}).get("steps", ""),
            **{key: metrics[key] for key in choice.columns},
        }
        for name, metrics in scores(choice).items()
    ]
