"""The picture of the front: what variants lose of quality against their size, with latency as the size of a point."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from tasks.display.numbers import change, kilobytes
from tasks.pages.curves import linear_ticks

WIDTH, HEIGHT = 940, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 120, 24, 40
SMALLEST, LARGEST = 4.0, 14.0
"""Radii of the points of the fastest and of the slowest variant."""


def draw(points: Mapping[str, Mapping[str, Any]], metric: str) -> str:
    """Return the picture as SVG; empty where there are fewer than two variants."""
    if len(points) < 2:
        return ""
    sizes = [point["bytes"] for point in points.values()]
    losses = [point["loss"] for point in points.values()]
    slowest = max(point["latency"] or 0.0 for point in points.values())
    x_ticks, y_ticks = linear_ticks(0, max(sizes) / 1000), _ticks(losses)
    low, high = min(*losses, *y_ticks), max(*losses, *y_ticks)

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * size / max(sizes)

    def y(loss: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (loss - low) / ((high - low) or 1)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss of {escape(metric)} by size">']
    for tick in y_ticks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        parts.append(f'<text x="{x(1000 * tick):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{tick:g} kB</text>')
    parts.append(f'<text x="{LEFT}" y="12">loss of {escape(metric)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">size of the file</text>')
    front = [point for point in points.values() if point["accepted"] and point["dominated_by"] is None]
    steps = sorted(front, key=lambda point: (point["bytes"], point["loss"]))
    path = " ".join(f"{x(point['bytes']):.1f},{y(point['loss']):.1f}" for point in steps)
    parts.append(f'<polyline class="curve c0 dashed" points="{path}"/>')
    for name, point in points.items():
        parts.append(_point(name, point, x(point["bytes"]), y(point["loss"]), slowest))
    return "".join([*parts, "</svg>"])


def _point(name: str, point: Mapping[str, Any], across: float, down: float, slowest: float) -> str:
    share = (point["latency"] or 0.0) / slowest if slowest else 0.0
    radius = SMALLEST + (LARGEST - SMALLEST) * share**0.5
    on_front = point["accepted"] and point["dominated_by"] is None
    place = f'cx="{across:.1f}" cy="{down:.1f}" r="{radius:.1f}"'
    shape = (
        f'<circle class="dot c0" {place}/>' if on_front else f'<circle class="curve c{1 - point["accepted"]}" {place}/>'
    )
    if not point["accepted"]:
        ends = (across - radius, down - radius, across + radius, down + radius)
        shape += '<line class="curve c1" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'.format(*ends)
    latency = "" if point["latency"] is None else f", {point['latency']:.2f} x time"
    said = escape(f"{name}: {kilobytes(point['bytes'])}, {change(point['loss'])}{latency}")
    text = f'<text x="{across + radius + 4:.1f}" y="{down + 3.5:.1f}">{escape(name)}</text>'
    return f"<g><title>{said}</title>{shape}{text}</g>"


def _ticks(losses: list[float]) -> list[float]:
    low, high = min(0.0, *losses), max(0.0, *losses)
    return linear_ticks(low, high) or [low]
