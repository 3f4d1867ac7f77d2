"""Charts as SVG with the colours of the page: training curves, trials of a tuning, the front of the variants, and the
distribution of a column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tasks.compression.judgement import FrontEntry
from tasks.search.space import SpaceConfig
from tasks.search.table import Table, Trial
from tasks.store.journal import read as journal_points
from tasks.view import change, figure, in_words, kilobytes, speed
from tasks.view.words import plain

Points = list[tuple[int, float]]

MOST = 400
"""Points of a curve that are drawn, at most."""

MOST_TRIALS = 200
"""Trials that the table and the parallel coordinates show, at most: the best ones."""

WIDTH, HEIGHT = 160, 36
"""Size of a column's picture."""

SMALLEST, LARGEST = 4.0, 14.0
"""Radii of the points of the fastest and of the slowest variant."""


@dataclass(frozen=True)
class Frame:
    """The size of a picture, and its margins."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def x(self, share: float) -> float:
        """Return the place at a share of the width."""
        return self.left + (self.width - self.left - self.right) * share

    def y(self, share: float) -> float:
        """Return the place at a share of the height, from below."""
        return self.height - self.bottom - (self.height - self.top - self.bottom) * share

    def opened(self, label: str) -> str:
        """Return the beginning of the picture."""
        return f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(label)}">'

    def grid(self, y: float, text: str, apart: int) -> str:
        """Return a line across the picture at a height, and its text on the left, so far from it."""
        line = f'<line class="grid" x1="{self.left}" x2="{self.width - self.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        return f'{line}<text x="{self.left - apart}" y="{y + 3.5:.1f}" text-anchor="end">{text}</text>'


CURVES = Frame(460, 210, 52, 10, 22, 24)
TRIALS = Frame(940, 300, 60, 60, 34, 22)
FRONT = Frame(940, 260, 64, 120, 24, 40)


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
    the validation split, as of the primary one or of a further output."""
    known, given = {name for chart in CHARTS for name in chart.names}, set(names)
    others = sorted({name for name in given if name.startswith(VALIDATION)} - known)
    added = []
    for name in others:
        trained = f"train/{(short := name.removeprefix(VALIDATION))}"
        added.append(Chart(in_words(short), ({trained: "train"} if trained in given else {}) | {name: "validation"}))
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
        own = [Curve(in_words(chosen), points, 1) for name, points in lines.items() if name == chosen]
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
        return CURVES.x(step / last)

    def y(value: float) -> float:
        return CURVES.y((scale(value) - low) / ((high - low) or 1))

    parts = [CURVES.opened(f"{title} by step")]
    parts += [CURVES.grid(y(tick), f"{tick:g}", 6) for tick in ticks]
    for tick in linear_ticks(0, last):
        anchor = "end" if x(tick) > CURVES.width - 30 else "middle"
        parts.append(f'<text x="{x(tick):.1f}" y="{CURVES.height - 7}" text-anchor="{anchor}">{tick:,.0f}</text>')
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
    position = CURVES.width - CURVES.right
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


def history(table: Table, scored: Sequence[Trial]) -> str:
    """Draw the score of each complete trial, and the best one so far, by number from 1."""
    best: list[tuple[int, float]] = []
    choose = max if table.higher_is_better else min
    points = [(trial.number + 1, trial.value) for trial in scored if trial.value is not None]
    for number, value in points:
        best.append((number, choose(value, best[-1][1]) if best else value))
    curves = [Curve("score", points, 0, dashed=True), Curve("best so far", best, 1)]
    return draw(in_words(table.metric), curves, log=min(value for _, value in points) > 0)


def parallel(table: Table, ranked: Sequence[Trial], space: dict[str, SpaceConfig]) -> str:
    """Draw a line for each complete trial through an axis for each key and one for the score, the best one on top."""
    keys = sorted(space)
    scores = [trial.value for trial in ranked if trial.value is not None]
    low, high = min(scores), max(scores)
    names = [*keys, in_words(table.metric)]
    y = TRIALS.y

    def x(number: int) -> float:
        return TRIALS.x(number / (len(names) - 1))

    parts = [TRIALS.opened("parallel coordinates of the trials")]
    for rank, trial in reversed(list(enumerate(ranked[:MOST_TRIALS]))):
        shares = [space[key].position(trial.values[key]) for key in keys]
        shares.append(((trial.value or 0) - low) / ((high - low) or 1))
        points = " ".join(f"{x(number):.1f},{y(share):.1f}" for number, share in enumerate(shares))
        style = "c1" if rank == 0 else "c0"
        opacity = 1.0 if rank == 0 else max(0.15, 0.8 * (1 - rank / len(ranked)))
        parts.append(f'<polyline class="curve {style}" opacity="{opacity:.2f}" points="{points}"/>')
    for number, name in enumerate(names):
        parts.append(f'<line class="grid" x1="{x(number):.1f}" x2="{x(number):.1f}" y1="{y(0)}" y2="{y(1)}"/>')
        parts.append(f'<text x="{x(number):.1f}" y="{TRIALS.top - 18}" text-anchor="middle">{escape(name)}</text>')
    labels = [[(space[key].position(value), plain(value)) for value in space[key].examples] for key in keys]
    labels.append([(0.0, figure(low)), (1.0, figure(high))])
    for number, marks in enumerate(labels):
        for share, text in marks:
            where = f'x="{x(number) + 5:.1f}" y="{y(share) + (-3 if share == 0 else 4):.1f}"'
            parts.append(f'<text class="label" {where}>{escape(text)}</text>')
    return "".join([*parts, "</svg>"])


def front(points: Mapping[str, FrontEntry], metric: str) -> str:
    """Draw the loss of the variants by their size; empty where there are fewer than two."""
    if len(points) < 2:
        return ""
    sizes = [point.bytes for point in points.values()]
    losses = [point.loss for point in points.values()]
    slowest = max(point.latency or 0.0 for point in points.values())
    x_ticks, y_ticks = linear_ticks(0, max(sizes) / 1000), _ticks(losses)
    low, high = min(*losses, *y_ticks), max(*losses, *y_ticks)

    def x(size: float) -> float:
        return FRONT.x(size / max(sizes))

    def y(loss: float) -> float:
        return FRONT.y((loss - low) / ((high - low) or 1))

    parts = [FRONT.opened(f"loss of {metric} by size")]
    parts += [FRONT.grid(y(tick), f"{tick:g}", 8) for tick in y_ticks]
    for tick in x_ticks:
        parts.append(f'<text x="{x(1000 * tick):.1f}" y="{FRONT.height - 22}" text-anchor="middle">{tick:g} kB</text>')
    parts.append(f'<text x="{FRONT.left}" y="12">loss of {escape(metric)}</text>')
    end = FRONT.width - FRONT.right
    parts.append(f'<text x="{end}" y="{FRONT.height - 6}" text-anchor="end">size of the file</text>')
    steps = sorted((point for point in points.values() if point.on_front), key=lambda point: (point.bytes, point.loss))
    path = " ".join(f"{x(point.bytes):.1f},{y(point.loss):.1f}" for point in steps)
    parts.append(f'<polyline class="curve c0 dashed" points="{path}"/>')
    for name, point in points.items():
        parts.append(_point(name, point, x(point.bytes), y(point.loss), slowest))
    return "".join([*parts, "</svg>"])


def _point(name: str, point: FrontEntry, across: float, down: float, slowest: float) -> str:
    share = (point.latency or 0.0) / slowest if slowest else 0.0
    radius = SMALLEST + (LARGEST - SMALLEST) * share**0.5
    place = f'cx="{across:.1f}" cy="{down:.1f}" r="{radius:.1f}"'
    style = "dot c0" if point.on_front else f"curve c{1 - point.accepted}"
    shape = f'<circle class="{style}" {place}/>'
    if not point.accepted:
        ends = (across - radius, down - radius, across + radius, down + radius)
        shape += '<line class="curve c1" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'.format(*ends)
    latency = "" if point.latency is None else f", {speed(point.latency)}"
    said = escape(f"{name}: {kilobytes(point.bytes)}, {change(point.loss)}{latency}")
    text = f'<text x="{across + radius + 4:.1f}" y="{down + 3.5:.1f}">{escape(name)}</text>'
    return f"<g><title>{said}</title>{shape}{text}</g>"


def _ticks(losses: list[float]) -> list[float]:
    low, high = min(0.0, *losses), max(0.0, *losses)
    return linear_ticks(low, high) or [low]


def histogram(shares: Mapping[str, Sequence[float]]) -> str:
    """Draw the shares of train as bars and those of test as a line."""
    train, test = shares.get("train", []), shares.get("test", [])
    top = max([*train, *test], default=0.0) or 1.0
    width = WIDTH / max(len(train), 1)
    bars = "".join(
        f'<rect x="{number * width + 0.5:.1f}" y="{HEIGHT * (1 - share / top):.1f}" width="{width - 1:.1f}" '
        f'height="{HEIGHT * share / top:.1f}" class="share"/>'
        for number, share in enumerate(train)
    )
    points = " ".join(f"{(n + 0.5) * width:.1f},{HEIGHT * (1 - share / top):.1f}" for n, share in enumerate(test))
    line = f'<polyline points="{points}" class="curve test"/>' if test else ""
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" class="small" role="img">{bars}{line}</svg>'
