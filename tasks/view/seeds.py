"""Several seeds: the scores of each model, what was chosen among them, and their curves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.artifacts import Artifact, Model
from tasks.store.journal import FILE as JOURNAL
from tasks.training.seeds import AVERAGE, OVER_SEEDS, SPLITS, Choice
from tasks.view import curves
from tasks.view.facts import Facts
from tasks.view.numbers import figure
from tasks.view.words import span


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


def seeds(facts: Facts) -> dict[str, Any]:
    """Return a row for each model that there was to choose from, and the mean over seeds with its interval."""
    choice = facts.choice
    if choice is None:
        return {}
    columns = choice.columns
    return {
        "count": len(choice.seeds),
        "verdict": choice.verdict,
        "columns": [words(column) for column in columns],
        "rows": [{**row, "values": [figure(row[column]) for column in columns]} for row in table(choice)],
        "over": [span(choice.metrics, f"{OVER_SEEDS}/{column}") for column in columns],
    }


def trained(facts: Facts) -> dict[str, Model]:
    """Return the models of the trainings, by name, that are in the store; with one seed it is `model`."""
    model = facts.model
    if model is None:
        return {}
    if facts.choice is None:
        return {model.kind: model}
    named = {name: facts.named.get(model.manifest["parents"][name]) for name in facts.choice.seeds}
    return {name: one for name, one in named.items() if isinstance(one, Model)}


def drawn(facts: Facts) -> list[tuple[str, str]]:
    """Return the plots of the training curves: of several seeds with a line for each."""
    points = {name: points_of(facts, model) for name, model in trained(facts).items()}
    if facts.choice is not None:
        return curves.draw_seeds(points, facts.choice.chosen)
    if not points:  # a training that failed, or is under way
        points = {"": curves.read(facts.run.folder / JOURNAL)}
    return curves.draw_all(*points.values())


def points_of(facts: Facts, model: Artifact) -> dict[str, curves.Points]:
    """Return the training curves of a model, from the run that made it, which may have given the training a name."""
    folder = facts.maker(model)
    if folder is None:
        return {}
    name, points = name_in(folder, model), curves.read(folder / JOURNAL)
    return points if name == model.kind else curves.of_training(name, points)


def name_in(folder: Path, model: Artifact) -> str:
    """Return the name of a model's training in the folder of the run that made it; `model` where it has none."""
    record = folder / "run.json"
    rows = json.loads(record.read_bytes())["stages"].get("train", []) if record.exists() else []
    return next((str(row["name"]) for row in rows if row["digest"] == model.digest), model.kind)


def own_folder(facts: Facts) -> Path | None:
    """Return the folder of the training whose model the run took; None where it was deleted, and of an average."""
    model = facts.model if facts.choice is None else trained(facts).get(facts.choice.chosen)
    folder = None if model is None else facts.maker(model)
    if model is None or folder is None:
        return None
    name = name_in(folder, model)
    return folder if name == model.kind else folder / name
