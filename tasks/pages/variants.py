"""The variants on a run's page: size, quality, latency, memory and the verdicts of their gates."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Artifact
from tasks.compression.front import slowest_of
from tasks.display.numbers import figure, kilobytes
from tasks.display.words import size_of_float, span
from tasks.pages import front
from tasks.pages.facts import Facts
from tasks.pages.sections import measurements
from tasks.runs import judgement


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
        "front": front.draw(facts.judgement.get("front", {}), facts.metric.replace("_", " ")),
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
