"""An evaluation: in the terminal, in Prefect and on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tasks.artifacts import Artifact
from tasks.evaluation import sureness
from tasks.view.facts import Facts
from tasks.view.numbers import seconds
from tasks.view.sections import measurements

SPLIT = "test"


def report_of(artifact: Artifact) -> dict[str, Any]:
    """Return the content of a report's `report.json`."""
    content: dict[str, Any] = json.loads((artifact.path / "report.json").read_bytes())
    return content


def lines(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines about the test split, each with a word for what it is about."""
    test, metric = report["splits"][SPLIT], report["primary"]["metric"].replace("_", " ")
    decision = report.get("decision", {})
    if (simple := test.get("learned_baseline")) is not None:
        yield "baseline", beside_simple_model(simple, report["primary"]["higher_is_better"])
    if "cut" in test:
        cut = f"; {test['cut']:,} more were cut, and have no tag" if test["cut"] else ""
        yield (
            "tokens",
            f"{test['tokens']:,}{cut}{'; ' * ('without_entities' in test)}{test.get('without_entities', '')}",
        )
    if "temperature" in decision:
        before, after = (test["calibration"][when] for when in ("before", "after"))
        text = f"temperature {decision['temperature']:.4g}, fitted on validation: loss "
        text += f"{before['loss']['value']:.4f}, then {after['loss']['value']:.4f}"
        if "calibration_error" in after:
            errors = (each["calibration_error"]["value"] for each in (before, after))
            text += ", calibration error {:.4f}, then {:.4f}".format(*errors)
        yield "calibrate", text
    for row in test.get("thresholds", ()):
        at, half = row["at_threshold"], row["at_half"]
        measures = ", ".join(
            f"{name.replace('_', ' ')} {ends(at[name])} (at 0.5: {half[name]:.4f})"
            for name in ("precision", "recall", "f1")
        )
        yield "threshold", f"{row['decision']} above {row['threshold']:.4g}, chosen on validation: {measures}"
    if (found := test.get("worst_slices")) is not None:
        yield "slices", looked_at(found)
        for row in found["slices"]:
            yield "", f"{row['slice']}: {metric} {ends(row)} of {row['examples']:,}; {chance(row)}"
    if (groups := test.get("groups")) is not None:
        correction = f"{groups['compared']:,} comparisons, p-values by {groups['correction']}"
        yield "groups", f"by {groups['column']}, each against all others; {correction}"
        for row in groups["rows"]:
            if row["value"] is not None:
                values = f"{row['measure'].replace('_', ' ')} {ends(row)}, others {row['rest']:.4f}"
                yield "", f"{row['group']}: {values}; difference {ends(row['difference'])}; {chance(row)}"
    for number, row in enumerate(test.get("robustness", ())):
        yield "" if number else "probes", f"{row['probe']}: {metric} {row['value']:.4f}, drop {ends(row['drop'])}"


def ends(row: dict[str, Any]) -> str:
    """Return a value with its interval as text."""
    return f"{row['value']:.4f} [{row['low']:.4f}, {row['high']:.4f}]"


def beside_simple_model(row: dict[str, Any], higher_is_better: bool) -> str:
    """Return which of the model and the learned baseline is better and by how much, with the interval, as text."""
    difference, name = row["difference"], f"a simple model ({row['name']})"
    ends_of = (difference[end] for end in ("low", "high", "units"))
    word, weakness = sureness(row["more_than_noise"], *ends_of)
    if not row["more_than_noise"]:
        weak = weakness and f" ({weakness})"
        return f"{name} is about as good: a difference of {ends(difference)} is {word}{weak}"
    notes = ", ".join(note for note in ("" if word == "more than noise" else word, weakness) if note)
    weak = notes and f" ({notes})"
    if difference["value"] < 0:
        value, low, high = (-difference[end] for end in ("value", "high", "low"))
        by = ends({"value": value, "low": low, "high": high})
    else:
        by = ends(difference)
    if (difference["value"] > 0) == higher_is_better:
        return f"better than {name} by {by}{weak}"
    return f"{name} is better by {by}{weak}"


def looked_at(found: dict[str, Any]) -> str:
    """Return how many slices were looked at, and how they were corrected for, as text."""
    counted = f"{found['looked_at']:,} slices of at least {found['least_examples']} examples were looked at"
    left_out = ", ".join(found.get("columns_left_out", ()))
    differing = f"; without {left_out}, which differ within an example" if left_out else ""
    return f"{counted}{differing}; p-values by a {found['correction']}{found_from(found['found_from'])}"


def found_from(found: dict[str, Any] | None) -> str:
    """Return how much worse a slice must be to be found, as text; empty where none was tested."""
    if found is None:
        return ""
    slice_ = f"a slice of {found['examples']:,} that is worse than all others by {found['difference']:.4g}"
    return f"; {slice_} is found in {100 * found['power']:.0f} of 100 cases, a smaller difference less often"


def chance(row: dict[str, Any]) -> str:
    """Return an adjusted p-value in words, and whether few examples decide."""
    few = ", of few" if row.get("few") else ""
    if row.get("p_value") is None:
        return f"no test{few}"
    return f"{'beyond chance' if row['beyond_chance'] else 'may be chance'}, p = {row['p_value']:.3g}{few}"


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
