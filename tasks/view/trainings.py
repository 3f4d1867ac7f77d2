"""The trainings of a run: its curves and where the time went, several seeds, and the trials of a tuning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.artifacts import Artifact, Model
from tasks.search.space import SpaceConfig
from tasks.search.table import COMPLETE, Table, Trial
from tasks.store.journal import FILE as JOURNAL
from tasks.training.seeds import AVERAGE, OVER_SEEDS, SPLITS, Choice
from tasks.view import charts, figure, in_words, seconds
from tasks.view.facts import Facts
from tasks.view.words import span

PROVABLE = 20_000_000
"""Examples fed, at most, for which the page recomputes the order; that of a longer training takes too long."""


@dataclass(frozen=True)
class Scored:
    """A model that there was to choose from, with its scores."""

    model: str
    chosen: bool
    seed: int | None
    steps: int | None
    scores: list[float]
    """In the order of `Choice.columns`."""


def models(choice: Choice) -> list[Scored]:
    """Return each model that there was to choose from."""
    found = {name: row["metrics"] for name, row in choice.seeds.items()}
    found |= {} if choice.average is None else {AVERAGE: choice.average}
    rows = []
    for name, metrics in found.items():
        own, scores = choice.seeds.get(name, {}), [metrics[column] for column in choice.columns]
        rows.append(Scored(name, name == choice.chosen, own.get("seed"), own.get("steps"), scores))
    return rows


def over_seeds(choice: Choice) -> list[tuple[str, str] | None]:
    """Return the mean of each column over seeds, with its interval."""
    return [span(choice.metrics, f"{OVER_SEEDS}/{column}") for column in choice.columns]


def summary(choice: Choice) -> list[str]:
    """Return two lines: the means of the primary metric over seeds with their intervals, and the choice."""
    word, means = in_words(choice.metric), []
    for split in SPLITS:
        value = span(choice.metrics, f"{OVER_SEEDS}/{split}/{choice.metric}")
        assert value is not None
        means.append(f"{split} {word} {value[0]}{f' ({value[1]})' if value[1] else ''}")
    return [f"mean over {len(choice.seeds)} seeds, 95 % t interval: {', '.join(means)}", choice.verdict]


def lines(choice: Choice) -> Iterator[str]:
    """Yield the summary, and a line for each model."""
    yield from summary(choice)
    for row in models(choice):
        scores = zip(choice.columns, row.scores, strict=True)
        yield f"{row.model}: {', '.join(f'{in_words(column)} {figure(score)}' for column, score in scores)}"


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
        return charts.draw_seeds(points, facts.choice.chosen)
    if not points:  # a training that failed, or is under way
        points = {"": charts.read(facts.run.folder / JOURNAL)}
    return charts.draw_all(*points.values())


def points_of(facts: Facts, model: Artifact) -> dict[str, charts.Points]:
    """Return the training curves of a model, from the run that made it, which may have given the training a name."""
    folder = facts.maker(model)
    if folder is None:
        return {}
    name, points = name_in(folder, model), charts.read(folder / JOURNAL)
    return points if name == model.kind else charts.of_training(name, points)


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


@dataclass(frozen=True)
class Rank:
    """Where the time of a step went in a process of a training, in milliseconds."""

    rank: int
    host: str
    call_ms: float
    computing_ms: float
    waiting_ms: float
    reducing_ms: float
    straggler: bool


@dataclass(frozen=True)
class Event:
    """What happened to a process of a training."""

    time: str
    rank: int
    role: str
    host: str
    event: str


@dataclass(frozen=True)
class Share:
    """A part of the time of a training, or of the variance of its scores."""

    name: str
    percent: float
    """Of the whole, or of the largest."""
    said: str


def elsewhere(facts: Facts) -> Path | None:
    """Return the run that trained the model, where that is another one."""
    model = facts.one("model")
    folder = None if model is None else facts.maker(model)
    return folder.relative_to(facts.run.home.runs) if folder and folder != facts.run.folder else None


def ranks(measured: Mapping[str, Any]) -> list[Rank]:
    """Return where the time of a step went in each process of a training of several."""
    return TypeAdapter(list[Rank]).validate_python(measured.get("train/ranks", []))


def events(measured: Mapping[str, Any]) -> list[Event]:
    """Return what happened to the processes of a training of several."""
    return TypeAdapter(list[Event]).validate_python(measured.get("train/processes", []))


def goodput(measured: Mapping[str, Any]) -> list[Share]:
    """Return where the time of a training went, over all its attempts: each part with its time, the longest first."""
    lives = [parts for name, parts in sorted(measured.items()) if name.startswith("train/goodput/")]
    names = {name for parts in lives for name in parts}
    total = {name: sum(parts.get(name, 0.0) for parts in lives) for name in names}
    whole = sum(total.values())
    return [
        Share(name, 100 * value / whole, f"{seconds(value)} · {100 * value / whole:.1f} %")
        for name, value in sorted(total.items(), key=lambda part: (-part[1], part[0]))
        if value >= 0.0005 * whole > 0
    ]


def memory(measured: Mapping[str, Any]) -> dict[str, int]:
    """Return the largest memory over all attempts in bytes, of `host` and `accelerator` (0 without one); empty where
    none was measured."""
    peaks = [each for name, each in measured.items() if name.startswith("train/peak_memory_bytes/")]
    return {where: max(each.get(where, 0) for each in peaks) for where in ("host", "accelerator") if peaks}


def ledger(facts: Facts) -> str:
    """Return the result of checking the ledger of each training against the input order, as text."""
    proofs = {name: _ledger_of(facts, model) for name, model in trained(facts).items()}
    if len(proofs) > 1 and len(set(proofs.values())) == 1:
        return f"of each seed, {next(iter(proofs.values()))}"
    return "; ".join(f"{name}, {text}" if len(proofs) > 1 else text for name, text in proofs.items())


def _ledger_of(facts: Facts, model: Model) -> str:
    snapshot = facts.one("snapshot")
    if snapshot is None or model.trained_by is None:
        return ""
    if model.manifest["counts"]["steps"] * model.trained_by["train"]["batch_size"] > PROVABLE:
        return f"not checked here, as the training was long: run `millrace show {facts.run.run_id}`"
    from tasks.training.ledger import prove

    return str(prove(model.path, snapshot.path)["text"])


def importances(table: Table) -> list[Share]:
    """Return the share of each key in the variance of the scores, the largest first."""
    largest = max(table.importances.values(), default=0) or 1
    return [Share(key, 100 * share / largest, f"{share:.0%}") for key, share in table.shares]


def by_rank(table: Table) -> list[Trial]:
    """Return the complete trials from the best to the worst, then the others by number."""
    sign = -1 if table.higher_is_better else 1
    return sorted(
        table.trials,
        key=lambda trial: (
            trial.state != COMPLETE or trial.value is None,
            sign * (trial.value or 0) if trial.state == COMPLETE else 0,
            trial.number,
        ),
    )


def pictures(table: Table, space: dict[str, SpaceConfig]) -> Iterator[tuple[str, str]]:
    """Yield title and SVG of each picture that has something to show."""
    scored = [trial for trial in table.trials if trial.state == COMPLETE and trial.value is not None]
    if len(scored) > 1:
        yield "best so far, by trial", charts.history(table, scored)
        yield (
            "values and scores of the trials",
            charts.parallel(table, [each for each in by_rank(table) if each in scored], space),
        )
