"""The variants of a run as a table in the terminal: size, quality, latency, and what their gates and the front say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.artifacts import Artifact
from tasks.display.numbers import change, kilobytes
from tasks.display.words import size_of_float, span
from tasks.runs.judgement import place, words


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
