"""Training curves as SVG, drawn from the journal, with the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tasks.store.journal import read as journal_points

Points = list[tuple[int, float]]

MOST = 400
"""Points of a curve that are drawn, at most."""

WIDTH, HEIGHT = 460, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 22, 24


@dataclass(frozen=True)
class Chart:
    """A plot: its title, and the labels of its curves by metric."""

    title: str
    names: dict[str, str]
    log: bool = False
    """Whether the axis is logarithmic if values span more than a factor of 10."""


@dataclass(frozen=True)
class Curve:
    """A curve: its label, its points and its style."""

    label: str
    """Its name in the legend; a curve without one is not there."""
    points: Points
    colour: int = 0
    dashed: bool = False


VALIDATION = "validation/"
LOSSES = 3
"""The first plots, whose metrics training and validation both have."""

CHARTS = (
    Chart("loss", {"train/loss": "train", "validation/loss": "validation"}, log=True),
    Chart("accuracy", {"train/accuracy": "train", "validation/accuracy": "validation"}),
    Chart("squared error", {"train/squared_error": "train", "validation/squared_error": "validation"}, log=True),
    Chart("learning rate", {"train/learning_rate": "rate"}),
    Chart("norm of the gradient", {"train/gradient_norm": "gradient"}, log=True),
    Chart("update relative to the weights", {"train/update_ratio": "update"}, log=True),
    Chart("milliseconds per step", {"train/step_ms": "step"}, log=True),
)


def charts_of(names: Iterable[str]) -> list[Chart]:
    """Return the plots of metrics by name, in their order: after those of every training one of each other metric of
    the validation split, as of the primary one."""
    known = {name for chart in CHARTS for name in chart.names}
    others = sorted({name for name in names if name.startswith(VALIDATION)} - known)
    added = [Chart(name.removeprefix(VALIDATION).replace("_", " "), {name: "validation"}) for name in others]
    return [*CHARTS[:LOSSES], *added, *CHARTS[LOSSES:]]


def read(journal: Path) -> dict[str, Points]:
    """Return the finite points of each metric after step 0."""
    points_of: dict[str, Points] = {}
    for point in journal_points(journal):
        for name, value in point.metrics.items():
            if point.step > 0 and math.isfinite(value):
                points_of.setdefault(name, []).append((point.step, value))
    return {name: sorted(points) for name, points in points_of.items()}


def draw_all(points_of: dict[str, Points]) -> list[tuple[str, str]]:
    """Return title and SVG of each plot of which there are at least two points."""
    return [
        (chart.title, draw(chart.title, [Curve(*row, number) for number, row in enumerate(lines.items())], chart.log))
        for chart, lines in _drawn(points_of)
    ]


def draw_both(runs: dict[str, dict[str, Points]]) -> list[tuple[str, str]]:
    """Return the plots of two runs by name: a colour per run, curves of the validation split dashed."""
    curves_of: dict[str, list[Curve]] = {}
    for number, (name, points_of) in enumerate(runs.items()):
        for chart, lines in _drawn(points_of):
            curves_of.setdefault(chart.title, []).extend(
                Curve(f"{label} {name}", points, number, label == "validation") for label, points in lines.items()
            )
    return [
        (chart.title, draw(chart.title, curves_of[chart.title], chart.log))
        for chart in charts_of({name for points_of in runs.values() for name in points_of})
        if chart.title in curves_of
    ]


def draw_seeds(points_of: dict[str, dict[str, Points]], chosen: str) -> list[tuple[str, str]]:
    """Return the plots of several trainings by name: of each validation, else train; the chosen one in red."""
    plots = []
    for chart in charts_of({name for of in points_of.values() for name in of}):
        metrics = [
            metric for metric in reversed(chart.names) if any(len(of.get(metric, ())) > 1 for of in points_of.values())
        ]
        if not metrics or (len(chart.names) == 1 and not metrics[0].startswith(VALIDATION)):
            continue
        lines = {name: of[metrics[0]] for name, of in points_of.items() if len(of.get(metrics[0], ())) > 1}
        others = [Curve("", points) for name, points in lines.items() if name != chosen]
        own = [Curve(chosen.replace("_", " "), points, 1) for name, points in lines.items() if name == chosen]
        title = f"{chart.title}, {chart.names[metrics[0]]}, by seed"
        plots.append((title, draw(title, [*others, *own], chart.log)))
    return plots


def of_training(name: str, points_of: dict[str, Points]) -> dict[str, Points]:
    """Return the points of one of several trainings of a run, without its name."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): points for key, points in points_of.items() if key.startswith(prefix)}


def _drawn(points_of: dict[str, Points]) -> list[tuple[Chart, dict[str, Points]]]:
    """Return the plots that have a curve of two points, with their curves; equal curves are drawn once."""
    drawn: list[tuple[Chart, dict[str, Points]]] = []
    for chart in charts_of(points_of):
        lines = {label: points_of[name] for name, label in chart.names.items() if len(points_of.get(name, ())) > 1}
        if lines and all(lines != others for _, others in drawn):
            drawn.append((chart, lines))
    return drawn


def draw(title: str, curves: list[Curve], log: bool = False) -> str:
    """Draw curves over steps; with a logarithmic axis if `log` is set and the values span more than a factor of 10."""
    values = [value for curve in curves for _, value in curve.points]
    last = max(step for curve in curves for step, _ in curve.points)
    log = log and min(values) > 0 and max(values) / min(values) > 10
    scale = math.log10 if log else float
    ticks = log_ticks(min(values), max(values)) if log else linear_ticks(min(values), max(values))
    low, high = scale(min(*ticks, *values)), scale(max(*ticks, *values))

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (scale(value) - low) / ((high - low) or 1)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)} by step">']
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in linear_ticks(0, last):
        anchor = "end" if x(tick) > WIDTH - 30 else "middle"
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - 7}" text-anchor="{anchor}">{tick:,.0f}</text>')
    for curve in curves:
        points, style = curve.points, f"c{curve.colour}{' dashed' if curve.dashed else ''}"
        shown = [*points[:: math.ceil(len(points) / MOST)], points[-1]]
        path = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in shown)
        parts.append(f'<polyline class="curve {style}" points="{path}"/>')
        if len(points) <= 12:
            parts += [f'<circle class="dot {style}" cx="{x(s):.1f}" cy="{y(v):.1f}" r="2.5"/>' for s, v in points]
    if len(curves) > 1:
        parts += _legend(curves)
    return "".join([*parts, "</svg>"])


def _legend(curves: list[Curve]) -> Iterator[str]:
    position = WIDTH - RIGHT
    for curve in reversed([curve for curve in curves if curve.label]):
        position -= 7 * len(curve.label) + 6
        style = f"curve c{curve.colour}{' dashed' if curve.dashed else ''}"
        yield f'<line class="{style}" x1="{position - 18}" x2="{position - 4}" y1="6.5" y2="6.5"/>'
        yield f'<text x="{position}" y="10">{escape(curve.label)}</text>'
        position -= 22


def linear_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round numbers within a range (1, 2 or 5 times a power of ten apart)."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    apart = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / apart - 1e-9)
    return [round(number * apart, 12) for number in range(first, math.floor(high / apart + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return at most six powers of ten that enclose a range."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, last + 1, math.ceil((last - first) / 5))]
