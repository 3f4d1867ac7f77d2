"""The judgement of the variants of a run (`tasks.compression.verdicts`) as it is stored, and their front (Pareto).

On the front are those that no other one dominates; a user may want one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.compression.config import WantConfig
from tasks.evaluation.gates import Ratio, Verdict, tags_of


@dataclass(frozen=True)
class FrontEntry:
    """A variant by what is to be small."""

    name: str
    bytes: int
    loss: float
    """Of the primary metric against the float model, as observed on the test split."""
    latency: float | None
    """Time of a call as a share of the float LiteRT file's, on one thread, at the slower batch size; None where it
    was not measured."""
    accepted: bool = True
    """Whether its gates let it pass; what is rejected is on no front and dominates nothing."""
    dominated_by: str | None = None
    """The variant that is better; None of one on the front, and while it is not known."""

    @property
    def on_front(self) -> bool:
        """Whether no other variant dominates it, and no gate rejected it."""
        return self.accepted and self.dominated_by is None

    @property
    def costs(self) -> tuple[float, ...]:
        """What is to be small."""
        return (self.bytes, self.loss) if self.latency is None else (self.bytes, self.loss, self.latency)

    def dominates(self, other: FrontEntry) -> bool:
        """Return whether it is nowhere worse than another one, and somewhere better."""
        pairs = list(zip(self.costs, other.costs, strict=True))
        return all(own <= its for own, its in pairs) and any(own < its for own, its in pairs)

    def misses(self, want: WantConfig) -> list[str]:
        """Return the limits that it misses, in words."""
        missed = []
        for name, value in (("bytes", self.bytes), ("latency", self.latency), ("quality_loss", self.loss)):
            limit = getattr(want, name)
            if limit is not None and (value is None or value > limit):
                found = "not measured" if value is None else _number(value)
                missed.append(f"{name} {found} of at most {_number(limit)}")
        return missed


def dominated_by(points: Sequence[FrontEntry]) -> dict[str, str | None]:
    """Return for each variant the smallest accepted one of the front that dominates it; None where none does."""
    front = [point for point in points if point.accepted and not any(_beats(other, point) for other in points)]
    smallest = sorted(front, key=_rank)
    return {point.name: next((other.name for other in smallest if other.dominates(point)), None) for point in points}


def choose(points: Sequence[FrontEntry], want: WantConfig) -> FrontEntry | None:
    """Return the smallest of the accepted variants that meet all limits (then the fastest); None where none does."""
    meeting = [point for point in points if point.accepted and not point.misses(want)]
    return min(meeting, key=_rank, default=None)


def missed(points: Sequence[FrontEntry], want: WantConfig, rejected: Mapping[str, str]) -> str:
    """Return why no variant is what is wanted: of each the limits that it misses, or why it is rejected."""
    reasons = (
        f"{point.name}: {', '.join([*point.misses(want), *([rejected[point.name]] if point.name in rejected else [])])}"
        for point in points
    )
    return "; ".join(reasons) or "no LiteRT file was made"


def slowest_of(name: str, latency: Mapping[str, Any]) -> Ratio | None:
    """Return a variant's largest latency ratio of all batch sizes on one thread, with the error that the float file
    against itself shows, where that measurement was not conclusive; None where it was not measured."""
    rows = [row for row in latency.get("settings", ()) if row["threads"] == 1 and name in row["variants"]]
    if not rows:
        return None
    row = max(rows, key=lambda row: row["variants"][name]["ratio"])
    return Ratio(row["variants"][name]["ratio"], 1.0 if row["conclusive"] else max(row["again"], 1 / row["again"]))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _beats(other: FrontEntry, point: FrontEntry) -> bool:
    return other.accepted and other.dominates(point)


def _rank(point: FrontEntry) -> tuple[float, float, float, str]:
    return (point.bytes, point.latency or 0.0, point.loss, point.name)


FILE = "judgement.json"
SEARCH = "search.json"
"""The trials of `compress.search`."""

ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"

STANDING = {ACCEPTED: "", REJECTED: "rejected by its gate", UNDECIDED: "undecided, too few test examples"}


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
    front: Mapping[str, FrontEntry] = field(default_factory=dict)
    slices: Mapping[str, tuple[SliceLoss, ...]] = field(default_factory=dict)
    want: WantConfig | None = None
    chosen: str | None = None
    missed: str | None = None
    """Why nothing is chosen."""

    def words(self, variant: str) -> str:
        """Describe the result of the gates of a variant; empty where it passed all of them, or nothing was judged."""
        return STANDING[self.standing.get(variant, ACCEPTED)] if self.was_judged(variant) else "not judged"

    def was_judged(self, variant: str) -> bool:
        """Return whether a variant was judged; what a search only tried, or others are made from, was not."""
        return not self.standing or variant in self.standing

    def place(self, variant: str) -> str:
        """Return where a variant is among the others: chosen, on the front, or what dominates it; empty where it is
        not compared."""
        entry = self.front.get(variant)
        if entry is None or not entry.accepted:
            return ""
        where = "on the front" if entry.on_front else f"dominated by {entry.dominated_by}"
        return f"{where}, chosen" if self.chosen == variant else where

    def tags(self) -> dict[str, str]:
        """Return it as tags of the MLflow run: the gates of each variant, the front, and what was chosen."""
        named = tags_of(self.verdicts)
        named["millrace.front"] = ", ".join(name for name, entry in self.front.items() if entry.on_front) or "none"
        if self.want is not None:
            named["millrace.chosen"] = self.chosen or "none"
        return named


JUDGEMENT = TypeAdapter(Judgement)
"""Reads a judgement from what is stored of it."""


def read(folder: Path) -> Judgement:
    """Return the judgement of a run by its folder; an empty one where there is none."""
    path = folder / FILE
    return JUDGEMENT.validate_json(path.read_bytes()) if path.exists() else Judgement()
