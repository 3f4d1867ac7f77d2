"""The file of a run with the judgement of its variants (`tasks.compression.verdicts`), read and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

FILE = "judgement.json"
SEARCH = "search.json"
"""The trials of `compress.search`."""

ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"

STANDING = {ACCEPTED: "", REJECTED: "rejected by its gate", UNDECIDED: "undecided, too few test examples"}


@dataclass(frozen=True)
class Verdict:
    """The verdict of a gate, with a sentence for the user."""

    gate: str
    verdict: str
    passed: bool
    text: str


@dataclass(frozen=True)
class FrontPlace:
    """A variant by what is to be small."""

    bytes: int
    loss: float
    latency: float | None
    """Time of a call as a share of the float file's; None where it was not measured."""
    accepted: bool
    dominated_by: str | None

    @property
    def on_front(self) -> bool:
        """Whether no other variant dominates it, and no gate rejected it."""
        return self.accepted and self.dominated_by is None


@dataclass(frozen=True)
class QualityLoss:
    """What was lost against float, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SliceLoss:
    """What a variant loses on a slice of the test split."""

    slice: str
    examples: int
    loss: QualityLoss


@dataclass(frozen=True)
class Judgement:
    """The judgement of the variants of a run, each by its name."""

    verdicts: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    standing: Mapping[str, str] = field(default_factory=dict)
    front: Mapping[str, FrontPlace] = field(default_factory=dict)
    slices: Mapping[str, tuple[SliceLoss, ...]] = field(default_factory=dict)
    chosen: str | None = None

    def words(self, variant: str) -> str:
        """Describe the result of the gates of a variant; empty where it passed all of them, or nothing was judged."""
        return STANDING[self.standing.get(variant, ACCEPTED)] if self.was_judged(variant) else "not judged"

    def was_judged(self, variant: str) -> bool:
        """Return whether a variant was judged; what a search only tried, or others are made from, was not."""
        return not self.standing or variant in self.standing

    def place(self, variant: str) -> str:
        """Return where a variant is among the others: chosen, on the front, or what dominates it; empty where it is
        not compared."""
        point = self.front.get(variant)
        if point is None or not point.accepted:
            return ""
        where = "on the front" if point.on_front else f"dominated by {point.dominated_by}"
        return f"{where}, chosen" if self.chosen == variant else where


def read(folder: Path) -> Judgement:
    """Return the judgement of a run by its folder; an empty one where there is none."""
    path = folder / FILE
    return TypeAdapter(Judgement).validate_json(path.read_bytes()) if path.exists() else Judgement()


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
