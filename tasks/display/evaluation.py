"""What a report says besides its metrics, in words: calibration, thresholds, the worst slices, groups, robustness."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tasks.artifacts import Artifact
from tasks.evaluation import sureness

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
    weak = weakness and f" ({weakness})"
    if not row["more_than_noise"]:
        return f"{name} is about as good: a difference of {ends(difference)} is {word}{weak}"
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
