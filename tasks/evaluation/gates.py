"""Gates: each compares a value with its limit and returns a verdict with a sentence for the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.evaluation.paired import Change

PARITY = "parity"

PASS, FAIL, UNDECIDED = "pass", "fail", "not enough data"
"""Verdicts. Undecided: with so few examples no variant could pass, however good it is."""


@dataclass(frozen=True)
class Verdict:
    """The result of a gate."""

    gate: str
    value: float
    limit: float
    verdict: str
    text: str

    @property
    def passed(self) -> bool:
        """Whether the value is within the limit."""
        return self.verdict == PASS

    def as_json(self) -> dict[str, Any]:
        """Return it for manifests and pages; `value` is null where it is not finite."""
        return {**asdict(self), "passed": self.passed, "value": self.value if isfinite(self.value) else None}


def size(own: int, reference: int, limit: float, *, gzip: bool = False) -> Verdict:
    """Pass where a compressed file has at most `limit` times the bytes of the float file, or those after gzip."""
    ratio = own / reference
    gate, counted = ("gzip size", "bytes after gzip") if gzip else ("size", "bytes")
    return _verdict(gate, ratio, limit, f"{ratio:.3f} of the float file's {reference:,} {counted}")


def quality(
    lower: float, upper: float, limit: float, seen: int = 1, needed: int = 0, counted: str = "examples"
) -> Verdict:
    """Pass where a compressed model loses at most `limit` of the primary metric against float, with 95 % confidence.

    Args:
        lower: lower 95 % bound of the loss.
        upper: upper 95 % bound of the loss.
        limit: the largest loss that passes.
        seen: independent units (`counted`) behind the bounds.
        needed: units from which on a model without loss can pass; with fewer the verdict is fail or undecided.
        counted: plural name of the units.
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
    """Pass where a float form's outputs equal Keras': differences are at most `limit` times the largest output, or 1.

    The limit is relative because rounding errors are: large outputs (prices) differ by more than logits.
    """
    share = difference / max(1.0, largest)
    of = f"the largest, {largest:.3g}" if largest > 1 else "1"
    return _verdict(PARITY, share, limit, f"outputs differ from Keras' by at most {share:.2e} of {of}")


def latency(ratio: float, limit: float) -> Verdict:
    """Pass where a compressed model's latency is at most `limit` times the float file's."""
    return _verdict("latency", ratio, limit, f"takes {ratio:.2f} of the float file's time")


@dataclass(frozen=True)
class Champion:
    """The current champion's score, for the comparison with a new version."""

    version: str
    metric: str
    """The metric of its score, as `test/accuracy`; empty where the registry does not have it."""
    score: float
    """On the test records of the new version; NaN where it has none."""
    change: Change | None = None
    """The change from it to the new version by example; None where they were not compared so."""


@dataclass(frozen=True)
class Promotion:
    """The result of the promotion gate: whether a version is better than the champion."""

    passed: bool
    text: str
    against: str | None
    """The champion's version; None where there is no champion."""
    before: float | None
    """The champion's score on the same records."""
    comparable: bool = True
    """Whether the champion has a score by the same metric on the same records."""


def promotion(
    metric: str,
    score: float,
    champion: Champion | None,
    margin: float,
    higher_is_better: bool,
    baselines: Mapping[str, float] | None = None,
    require: str = "not_worse",
) -> Promotion:
    """Pass where a version's score is better than the champion's by at least `margin`, by the same metric.

    It also must not be worse by more than noise or, where `require` is `better`, be better by more than noise.

    It also must be better than each of `baselines`, if any are given, which are by short name. A score by another
    metric, or a NaN, is not comparable and does not pass.
    """
    spoken = f"{metric.replace('/', ' ').replace('_', ' ')} {score:.4f}"
    if baselines:
        beside = ", ".join(f"{name} {value:.4f}" for name, value in baselines.items())
        spoken += f" ({beside})"
        if not all(score > value if higher_is_better else score < value for value in baselines.values()):
            text = f"{spoken}: not better than a baseline, which promote.baseline false would accept"
            return Promotion(False, text, champion.version if champion else None, champion.score if champion else None)
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
    significant, noise = _beyond_noise(champion.change, require)
    text = f"{spoken} against {before:.4f} of champion version {against} ({by}{noise})"
    differs = significant and ahead > 0 if require == "better" else not (significant and ahead < 0)
    return Promotion(ahead >= margin and differs, text, against, before)


def _beyond_noise(change: Change | None, require: str) -> tuple[bool, str]:
    """Return whether a change is more than noise, and that as a part of a sentence."""
    if change is None:
        missing = "; not compared by example, which promote.require better needs"
        return False, missing if require == "better" else ""
    if change.same:
        return False, "; no example differs"
    word = "more than noise" if change.more_than_noise else "within noise"
    return (
        change.more_than_noise,
        f"; {word}, 95 % interval {change.difference.low:+.4f} to {change.difference.high:+.4f}",
    )


def judged_by(version: str, metric: str) -> str:
    """Return the part of an error message that names the champion's metric."""
    return f"champion version {version} was judged by {metric or 'an unknown metric'}"


def _verdict(gate: str, value: float, limit: float, seen: str) -> Verdict:
    # A NaN compares as false and does not pass.
    verdict = PASS if value <= limit else FAIL
    return Verdict(
        gate, value, limit, verdict, f"{seen}; {'within' if verdict == PASS else 'over'} the limit {limit:g}"
    )
