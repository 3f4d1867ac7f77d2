"""Gates: a value, its limit, a verdict and the sentence that says it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

PARITY = "parity"


@dataclass(frozen=True)
class Verdict:
    """What a gate said about a variant."""

    gate: str
    value: float
    limit: float
    passed: bool
    text: str

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "value": self.value if isfinite(self.value) else None}


def size(found: int, reference: int, limit: float) -> Verdict:
    """A compressed file is small: its bytes are at most `limit` of the float file's."""
    ratio = found / reference
    return _verdict("size", ratio, limit, f"{ratio:.3f} of the float file's {reference:,} bytes")


def quality(upper: float, limit: float) -> Verdict:
    """A compressed model is as good: with 95 % confidence it loses at most `limit` against float."""
    return _verdict("quality", upper, limit, f"loses at most {upper:.4f} with 95 % confidence")


def parity(difference: float, largest: float, limit: float) -> Verdict:
    """A float form is the same model: no output differs from Keras' by more than `limit` of the largest one, or of 1.

    A share, as the last bits of a number weigh what the number weighs: prices differ by more than logits do.
    """
    share = difference / max(1.0, largest)
    of = f"the largest, {largest:.3g}" if largest > 1 else "1"
    return _verdict(PARITY, share, limit, f"outputs differ from Keras' by at most {share:.2e} of {of}")


def latency(ratio: float, limit: float) -> Verdict:
    """A compressed model is fast: its latency is at most `limit` of the float file's."""
    return _verdict("latency", ratio, limit, f"takes {ratio:.2f} of the float file's time")


def _verdict(gate: str, value: float, limit: float, seen: str) -> Verdict:
    # A NaN compares as false: what cannot be told does not pass.
    passed = bool(value <= limit)
    return Verdict(gate, value, limit, passed, f"{seen}; {'within' if passed else 'over'} the limit {limit:g}")
