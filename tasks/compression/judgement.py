"""The file of a run with the judgement of its variants (`tasks.compression.verdicts`), read and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from tasks.compression.config import WantConfig
from tasks.compression.front import FrontEntry
from tasks.evaluation.gates import Verdict, tags_of

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
