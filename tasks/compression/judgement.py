"""The file of a run with the judgement of its variants (`tasks.compression.verdicts`), and its words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = "judgement.json"
SEARCH = "search.json"
"""The trials of `compress.search`."""

ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"

STANDING = {ACCEPTED: "", REJECTED: "rejected by its gate", UNDECIDED: "undecided, too few test examples"}


def read(folder: Path) -> dict[str, Any]:
    """Return the judgement of a run by its folder; empty where there is none."""
    path = folder / FILE
    return json.loads(path.read_bytes()) if path.exists() else {}


def words(judgement: Mapping[str, Any], variant: str) -> str:
    """Describe the result of the gates of a variant; empty where it passed all of them, or nothing was judged."""
    if not was_judged(judgement, variant):
        return "not judged"
    return STANDING[judgement.get("standing", {}).get(variant, ACCEPTED)]


def was_judged(judgement: Mapping[str, Any], variant: str) -> bool:
    """Return whether a variant was judged; what a search only tried, or others are made from, was not."""
    return not judgement or variant in judgement["standing"]


def place(judgement: Mapping[str, Any], variant: str) -> str:
    """Return where a variant is among the others: chosen, on the front, or what dominates it; empty where it is not
    compared."""
    point = judgement.get("front", {}).get(variant)
    if point is None or not point["accepted"]:
        return ""
    where = "on the front" if point["dominated_by"] is None else f"dominated by {point['dominated_by']}"
    return f"{where}, chosen" if judgement["chosen"] == variant else where


def reasons(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of the gates that did not pass."""
    return "; ".join(verdict["text"] for verdict in verdicts if not verdict["passed"])


def open_gates(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of the undecided gates."""
    return "; ".join(verdict["text"] for verdict in verdicts if verdict["verdict"] == "not enough data")


def tags(judgement: Mapping[str, Any]) -> dict[str, str]:
    """Return the judgement as tags of the MLflow run: the gates of each variant, the front, and what was chosen."""
    named = tags_of(judgement["verdicts"])
    front = [name for name, point in judgement["front"].items() if point["accepted"] and not point["dominated_by"]]
    named["millrace.front"] = ", ".join(front) or "none"
    if judgement["want"] is not None:
        named["millrace.chosen"] = judgement["chosen"] or "none"
    return named


def tags_of(verdicts_of: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Return the verdicts of gates as tags, by the name of what was judged: `pass`, or what did not (`fail: size`)."""
    named = {}
    for name, verdicts in verdicts_of.items():
        by_verdict: dict[str, list[str]] = {}
        for verdict in verdicts:
            by_verdict.setdefault(verdict["verdict"], []).append(verdict["gate"])
        others = [f"{word}: {', '.join(gates)}" for word, gates in by_verdict.items() if word != "pass"]
        named[f"millrace.gates.{name}"] = "; ".join(others) or "pass"
    return named
