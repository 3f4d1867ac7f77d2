"""The variants of a run: size, quality, latency, verdicts, and the picture of their front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tasks.artifacts import Artifact
from tasks.compression import judgement
from tasks.compression.front import slowest_of
from tasks.compression.judgement import place, words
from tasks.view.curves import linear_ticks
from tasks.view.facts import Facts
from tasks.view.numbers import change, figure, kilobytes
from tasks.view.sections import measurements
from tasks.view.words import size_of_float, span


def lines(variants: Sequence[Artifact], judgement: Mapping[str, Any], metric: str) -> Iterator[str]:
    """Yield a line for each variant; `metric` is the primary one of the task."""
    rows = [row(variant, judgement, metric) for variant in variants]
    widths = [max(len(each[column]) for each in rows) for column in range(5)] if rows else []
    for each in rows:
        cells = [
            f"{each[column]:{'>' if column == 1 else '<'}{widths[column]}}" for column in range(5) if widths[column]
        ]
        yield "  ".join([*cells, each[5]]).rstrip()


def row(variant: Artifact, judgement: Mapping[str, Any], metric: str) -> tuple[str, ...]:
    """Return name, size, size of float, quality with its loss, latency, and how it stands."""
    name, metrics = variant.name, variant.metrics
    value, loss = span(metrics, f"{name}/test/{metric}"), metrics.get(f"{name}/test/{metric}_loss")
    lost = ""
    if loss is not None and variant.manifest["statistics"].get("methods"):
        lost = f" ({change(loss)})"
    score = f"{metric.replace('_', ' ')} {value[0]}{lost}" if value else ""
    latency = judgement.get("front", {}).get(name, {}).get("latency")
    speed = "" if latency is None else f"{latency:.2f} x time"
    standing = ", ".join(filter(None, (words(judgement, name), place(judgement, name))))
    size = kilobytes(variant.manifest["statistics"]["bytes"])
    return name, size, size_of_float(name, metrics), score, speed, standing


def verdicts(judgement: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each verdict of a gate."""
    for name, each in judgement.get("verdicts", {}).items():
        for verdict in each:
            yield f"{name}: {verdict['gate']} {verdict['verdict']}: {verdict['text']}"


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


def variants(facts: Facts) -> dict[str, Any]:
    """Return a row per variant, and what was measured of all of them: settings, threads, energy."""
    made = facts.variants
    measured = latency_of(facts)
    settings = measured.get("settings", [])
    return {
        "rows": [_variant(facts, variant, measured) for variant in made],
        "settings": [setting(row) for row in settings],
        "again": [
            {"setting": setting(row), "ratio": row["again"], "conclusive": row["conclusive"]} for row in settings
        ],
        "shared": ", ".join(f"{name} on {count}" for name, count in measured.get("shared_threads", {}).items()),
        "energy": measured.get("energy"),
        "slices": _slices(facts.judgement.get("slices", {})),
        "front": draw(facts.judgement.get("front", {}), facts.metric.replace("_", " ")),
        "crossed": any(not point["accepted"] for point in facts.judgement.get("front", {}).values()),
    }


def latency_of(facts: Facts) -> dict[str, Any]:
    """Return the latencies measured by this run, or by the run that made the variants."""
    for folder in [facts.run.folder, *(facts.maker(variant) for variant in facts.variants)]:
        if facts.variants and folder and (latency := measurements(folder).get("latency")):
            measured: dict[str, Any] = latency
            return measured
    return {}


def setting(row: dict[str, Any]) -> str:
    """Return a setting of latency as text (`batch 32, 2 threads`)."""
    return f"batch {row['batch']}, {row['threads']} thread{'' if row['threads'] == 1 else 's'}"


def _variant(facts: Facts, variant: Artifact, measured: dict[str, Any]) -> dict[str, Any]:
    name, statistics, metrics = variant.name, variant.manifest["statistics"], variant.metrics
    rows = [row["variants"].get(name) for row in measured.get("settings", ())]
    lost = metrics.get(f"{name}/test/{facts.metric}_loss")
    bound = metrics.get(f"{name}/test/{facts.metric}_loss/high")
    peak = measured.get("peak_bytes", {}).get(name)
    return {
        "name": name,
        "bytes": kilobytes(statistics["bytes"]),
        "gzip": f"{kilobytes(statistics['gzip_bytes'])} after gzip" if "gzip_bytes" in statistics else "",
        "ratio": size_of_float(name, metrics).replace(" of float", ""),
        "score": span(metrics, f"{name}/test/{facts.metric}"),
        "lost": "" if lost is None else figure(lost),
        "bound": "" if bound is None else f"at most {figure(bound)}",
        "slowest": "" if (slowest := slowest_of(name, measured)) is None else f"{slowest.value:.2f} x",
        "latency": [_speed(row) for row in rows],
        "memory": "" if peak is None else kilobytes(peak),
        "gates": facts.judgement.get("verdicts", {}).get(name, []),
        "standing": judgement.words(facts.judgement, name),
        "place": judgement.place(facts.judgement, name),
    }


def _speed(row: dict[str, Any] | None) -> tuple[str, str]:
    """Return a ratio and the percentiles as text; empty where the variant has no such setting."""
    if row is None:
        return "", ""
    text = " / ".join(_took(row[name]) for name in ("p50", "p90", "p99"))
    joules = f", {1000 * row['joules']:.3g} mJ" if "joules" in row else ""
    return f"{row['ratio']:.2f} x", f"{text}{joules}"


def _took(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds >= 0.1 else f"{1000 * milliseconds:.3g} µs"


def _slices(by_variant: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what each compressed variant loses on each slice of the test split."""
    rows: dict[str, dict[str, Any]] = {}
    for number, slices in enumerate(by_variant.values()):
        for each in slices:
            row = rows.setdefault(each["slice"], {"slice": each["slice"], "examples": each["examples"], "cells": []})
            row["cells"] += [("", "")] * (number - len(row["cells"])) + [_lost(each["loss"])]
    return {"variants": list(by_variant), "rows": list(rows.values())}


def _lost(loss: dict[str, float]) -> tuple[str, str]:
    return figure(loss["value"]), f"{figure(loss['low'])} to {figure(loss['high'])}"
