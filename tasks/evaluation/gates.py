"""Gates: a value, its limit, a verdict and the sentence that says it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

PARITY = "parity"

PASS, FAIL, UNDECIDED = "pass", "fail", "not enough data"
"""Verdicts. Undecided: so few examples cannot show what is asked for, however good the variant is."""


@dataclass(frozen=True)
class Verdict:
    """What a gate said about a variant."""

    gate: str
    value: float
    limit: float
    verdict: str
    text: str

    @property
    def passed(self) -> bool:
        """Whether the gate saw what it asks for."""
        return self.verdict == PASS

    def as_json(self) -> dict[str, Any]:
        """For a manifest and a page; `value` is null where it is not finite."""
        return {**asdict(self), "passed": self.passed, "value": self.value if isfinite(self.value) else None}


def size(own: int, reference: int, limit: float) -> Verdict:
    """A compressed file is small: its bytes are at most `limit` of the float file's."""
    ratio = own / reference
    return _verdict("size", ratio, limit, f"{ratio:.3f} of the float file's {reference:,} bytes")


def quality(
    lower: float, upper: float, limit: float, seen: int = 1, needed: int = 0, counted: str = "examples"
) -> Verdict:
    """A compressed model is as good: with 95 % confidence it loses at most `limit` against float.

    Args:
        lower: lower 95 % bound of the loss.
        upper: upper 95 % bound of the loss.
        limit: the largest loss that passes.
        seen: independent units (`counted`) behind the bounds.
        needed: units from which on a model without loss can pass; with fewer only a loss that is certain is judged.
        counted: what the units are.
    """
    if seen < needed and isfinite(upper) and lower <= limit:
        text = f"too few test {counted} to tell ({seen:,}, {needed:,} needed); the limit is {limit:g}"
        return Verdict("quality", upper, limit, UNDECIDED, text)
    if seen < needed and isfinite(upper):
        return Verdict(
            "quality", lower, limit, FAIL, f"loses at least {lower:.4f} with 95 % confidence; over the limit {limit:g}"
        )
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


@dataclass(frozen=True)
class Champion:
    """The present champion, as far as a release is compared with it."""

    version: str
    metric: str
    """By which it was judged: `test/accuracy`; empty where the registry does not say."""
    score: float
    """On the records at hand; NaN where it has none there."""


@dataclass(frozen=True)
class Promotion:
    """What the gate of a release said: whether a version is better than the champion that it was compared with."""

    passed: bool
    text: str
    against: str | None
    """The champion's version; None where there was none."""
    before: float | None
    """The champion's score on the same records."""
    comparable: bool = True
    """Whether the champion has a score by the same metric on the same records."""


def promotion(metric: str, score: float, champion: Champion | None, margin: float, higher_is_better: bool) -> Promotion:
    """A release is better: its score is ahead of the champion's by at least `margin`, by the same metric.

    The score of another metric is not comparable, nor is a NaN.
    """
    spoken = f"{metric.replace('/', ' ').replace('_', ' ')} {score:.4f}"
    if champion is None:
        return Promotion(True, f"{spoken}; there was none before", None, None)
    against, before = champion.version, champion.score
    if champion.metric != metric:
        text = f"not comparable: {judged_by(champion.version, champion.metric)}, this one by {metric}"
        return Promotion(False, text, against, before, comparable=False)
    if not isfinite(before):
        text = f"not comparable: champion version {against} cannot be scored on these records"
        return Promotion(False, text, against, before, comparable=False)
    ahead = score - before if higher_is_better else before - score
    by = f"{'ahead' if ahead >= 0 else 'behind'} by {abs(ahead):.4f}, promote.margin {margin:.4f}"
    text = f"{spoken} against {before:.4f} of champion version {against} ({by})"
    return Promotion(ahead >= margin, text, against, before)


def judged_by(version: str, metric: str) -> str:
    """By which metric the champion was judged, as a refusal says it."""
    return f"champion version {version} was judged by {metric or 'an unknown metric'}"


def _verdict(gate: str, value: float, limit: float, seen: str) -> Verdict:
    # A NaN compares as false: what cannot be told does not pass.
    verdict = PASS if value <= limit else FAIL
    return Verdict(
        gate, value, limit, verdict, f"{seen}; {'within' if verdict == PASS else 'over'} the limit {limit:g}"
    )
