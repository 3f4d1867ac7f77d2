"""The trials of a tuning on its run's page: a table, the best score over time, importances, parallel coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from tasks.search.space import SpaceConfig
from tasks.search.table import COMPLETE, Table, Trial
from tasks.view.curves import Curve, draw
from tasks.view.facts import Facts
from tasks.view.numbers import figure, seconds
from tasks.view.words import plain

MOST = 200
"""Trials that the table and the parallel coordinates show, at most: the best ones."""

WIDTH, HEIGHT = 940, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 60, 34, 22


def tuning(facts: Facts) -> dict[str, Any]:
    """Return what the page shows of a tuning; empty where the run is none."""
    table, config = facts.trials, facts.config.tune
    if table is None or config is None or not table.trials:
        return {}
    ranked = by_rank(table)
    keys = sorted(config.space)
    largest = max(table.importances.values(), default=0) or 1
    shares = [{"key": key, "percent": 100 * share / largest, "share": f"{share:.0%}"} for key, share in table.shares]
    return {
        "metric": table.metric.replace("_", " "),
        "better": "higher is better" if table.higher_is_better else "lower is better",
        "keys": keys,
        "rows": [row(trial, keys, table) for trial in ranked[:MOST]],
        "left_out": max(0, len(ranked) - MOST),
        "importances": shares,
        "pictures": list(pictures(table, ranked, config.space)),
    }


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


def row(trial: Trial, keys: Sequence[str], table: Table) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "number": trial.number,
        "score": "" if trial.value is None else figure(trial.value),
        "state": trial.state,
        "best": trial == table.best,
        "steps": trial.steps,
        "values": [plain(trial.values[key]) if key in trial.values else "" for key in keys],
        "seconds": "" if trial.seconds is None else seconds(trial.seconds),
        "model": trial.model,
        "reason": trial.reason,
    }


def pictures(table: Table, ranked: Sequence[Trial], space: dict[str, SpaceConfig]) -> Iterator[tuple[str, str]]:
    """Yield title and SVG of each picture that has something to show."""
    scored = [trial for trial in table.trials if trial.state == COMPLETE and trial.value is not None]
    if len(scored) > 1:
        yield "best so far, by trial", history(table, scored)
        yield "values and scores of the trials", parallel(table, [each for each in ranked if each in scored], space)


def history(table: Table, scored: Sequence[Trial]) -> str:
    """Draw the score of each complete trial, and the best one so far, by number from 1."""
    best: list[tuple[int, float]] = []
    choose = max if table.higher_is_better else min
    points = [(trial.number + 1, trial.value) for trial in scored if trial.value is not None]
    for number, value in points:
        best.append((number, choose(value, best[-1][1]) if best else value))
    curves = [Curve("score", points, 0, dashed=True), Curve("best so far", best, 1)]
    return draw(table.metric.replace("_", " "), curves, log=min(value for _, value in points) > 0)


def parallel(table: Table, ranked: Sequence[Trial], space: dict[str, SpaceConfig]) -> str:
    """Draw a line for each complete trial through an axis for each key and one for the score, the best one on top."""
    keys = sorted(space)
    scores = [trial.value for trial in ranked if trial.value is not None]
    low, high = min(scores), max(scores)
    names = [*keys, table.metric.replace("_", " ")]
    apart = (WIDTH - LEFT - RIGHT) / (len(names) - 1)

    def x(number: int) -> float:
        return LEFT + number * apart

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="parallel coordinates of the trials">']
    for rank, trial in reversed(list(enumerate(ranked[:MOST]))):
        shares = [space[key].position(trial.values[key]) for key in keys]
        shares.append(((trial.value or 0) - low) / ((high - low) or 1))
        points = " ".join(f"{x(number):.1f},{y(share):.1f}" for number, share in enumerate(shares))
        style = "c1" if rank == 0 else "c0"
        opacity = 1.0 if rank == 0 else max(0.15, 0.8 * (1 - rank / len(ranked)))
        parts.append(f'<polyline class="curve {style}" opacity="{opacity:.2f}" points="{points}"/>')
    for number, name in enumerate(names):
        parts.append(f'<line class="grid" x1="{x(number):.1f}" x2="{x(number):.1f}" y1="{y(0)}" y2="{y(1)}"/>')
        parts.append(f'<text x="{x(number):.1f}" y="{TOP - 18}" text-anchor="middle">{escape(name)}</text>')
    labels = [[(space[key].position(value), plain(value)) for value in space[key].examples] for key in keys]
    labels.append([(0.0, figure(low)), (1.0, figure(high))])
    for number, marks in enumerate(labels):
        for share, text in marks:
            where = f'x="{x(number) + 5:.1f}" y="{y(share) + (-3 if share == 0 else 4):.1f}"'
            parts.append(f'<text class="label" {where}>{escape(text)}</text>')
    return "".join([*parts, "</svg>"])
