"""Calibration, thresholds, the worst slices, groups and robustness as rows of a page, all of the test split."""

from __future__ import annotations

from typing import Any

from tasks.display.evaluation import SPLIT, beside_simple_model, chance, ends, looked_at
from tasks.display.numbers import seconds
from tasks.pages.facts import Facts
from tasks.pages.sections import measurements

MEASURES = ("precision", "recall", "f1", "accuracy", "balanced_accuracy", "false_positive_rate")
"""The measures of a threshold that the page shows."""


def decision(facts: Facts) -> dict[str, Any]:
    """Return temperature and thresholds, with what they change; empty where none were fitted."""
    fitted = (facts.report or {}).get("decision")
    if fitted is None:
        return {}
    test = _test(facts)
    rows = []
    if "temperature" in fitted:
        before, after = (test["calibration"][when] for when in ("before", "after"))
        rows = [
            {
                "name": name.replace("_", " "),
                "before": f"{before[name]['value']:.4f}",
                "after": f"{after[name]['value']:.4f}",
            }
            for name in before
        ]
    thresholds = [
        {
            "decision": row["decision"],
            "threshold": f"{row['threshold']:.4g}",
            "cells": [_cell(row["at_threshold"][name], row["at_half"][name]) for name in MEASURES],
        }
        for row in test.get("thresholds", ())
    ]
    temperature = f"{fitted['temperature']:.4g}" if "temperature" in fitted else None
    names = [name.replace("_", " ") for name in MEASURES]
    return {"temperature": temperature, "calibration": rows, "thresholds": thresholds, "measures": names}


def _cell(at: dict[str, Any], half: float) -> tuple[str, str, str]:
    """Return a measure at the threshold, its interval, and the measure at 0.5."""
    return f"{at['value']:.4f}", f"{at['low']:.4f} to {at['high']:.4f}", f"{half:.4f} at 0.5"


def simple_model(facts: Facts) -> dict[str, Any]:
    """Return how the model stands beside the learned baseline, what that is, and how long it took in the run that made
    the report; empty without one."""
    row, report = _test(facts).get("learned_baseline"), facts.one("report")
    if row is None or facts.report is None or report is None:
        return {}
    maker = facts.maker(report)
    took = (measurements(maker) if maker else {}).get("evaluate/learned_baseline_seconds")
    return {
        "beside": beside_simple_model(row, facts.report["primary"]["higher_is_better"]),
        "value": ends(row),
        "trained_on": row["trained_on"],
        "took": None if took is None else seconds(took),
        "left_out": "; ".join(row["left_out"]),
    }


def worst_slices(facts: Facts) -> dict[str, Any]:
    """Return the worst slices and how many were looked at; empty where none were looked for."""
    found = _test(facts).get("worst_slices")
    if found is None:
        return {}
    rows = [
        {"slice": row["slice"], "examples": row["examples"], "value": ends(row), "rest": f"{row['rest']:.4f}"}
        | {"chance": chance(row), "beyond": row["beyond_chance"]}
        for row in found["slices"]
    ]
    return {"looked_at": looked_at(found), "rows": rows}


def groups(facts: Facts) -> dict[str, Any]:
    """Return the measures of each group beside those of the others; empty where none were compared."""
    compared = _test(facts).get("groups")
    if compared is None:
        return {}
    rows = [
        {"group": row["group"], "examples": row["examples"], "measure": row["measure"].replace("_", " ")}
        | {"value": ends(row), "rest": f"{row['rest']:.4f}", "difference": ends(row["difference"])}
        | {"chance": chance(row), "beyond": row.get("beyond_chance", False)}
        for row in compared["rows"]
        if row["value"] is not None
    ]
    largest = [
        (name.replace("_", " "), f"{value:.4f}") for name, value in compared["largest_differences"].items() if value
    ]
    too_small = ", ".join(f"{name} ({count:,})" for name, count in compared["too_small"].items())
    few = any(row.get("few") for row in compared["rows"])
    return {**compared, "rows": rows, "largest": largest, "too_small": too_small, "few": few}


def robustness(facts: Facts) -> list[dict[str, Any]]:
    """Return the primary metric under each probe, and its drop."""
    return [
        {"probe": row["probe"].replace("_", " "), "value": f"{row['value']:.4f}", "drop": ends(row["drop"])}
        | {"settings": ", ".join(f"{name} {value:g}" for name, value in row["settings"].items())}
        for row in _test(facts).get("robustness", ())
    ]


def _test(facts: Facts) -> dict[str, Any]:
    return facts.report["splits"][SPLIT] if facts.report else {}
