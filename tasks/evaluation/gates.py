"""Gates: each compares a value with its limit and returns a verdict with a sentence for the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from tasks.evaluation import sureness

if TYPE_CHECKING:
    from tasks.evaluation.measured import BesideBaseline, Interval
    from tasks.evaluation.paired import PairedDifference

PARITY = "parity"
CHANGED = "leave it out, write the operation otherwise, or raise compress.max_difference"
"""What to do where a float form is not the model."""

PASS, FAIL, UNDECIDED = "pass", "fail", "not enough data"
"""Verdicts. Undecided: the examples show neither that a value is within its limit nor that it is beyond it."""


@dataclass(frozen=True)
class Verdict:
    """The result of a gate."""

    gate: str
    value: Annotated[float, BeforeValidator(lambda stored: nan if stored is None else stored)]
    limit: float
    verdict: str
    text: str
    p_value: float | None = None
    """Adjusted by Holm's method for all tests of the stage; None where the value is no statistic."""
    more: int | None = None
    """Of an undecided gate, about how many test examples more would decide it; None where no number would."""
    few: bool = False
    """Whether even the best model could not have passed with so few examples, or by so imprecise a measurement."""
    compares: bool = False
    """Whether a champion is what it compares with."""

    @property
    def passed(self) -> bool:
        """Whether the value is within the limit."""
        return self.verdict == PASS

    @property
    def refuses(self) -> bool:
        """Whether it keeps a version out also where the champion cannot be compared with."""
        return self.verdict == FAIL or (self.verdict == UNDECIDED and not self.compares)

    def as_json(self) -> dict[str, Any]:
        """Return it for records and pages; `value` is null where it is not finite."""
        return {**asdict(self), "passed": self.passed, "value": self.value if isfinite(self.value) else None}


def reasons(verdicts: Sequence[Verdict]) -> str:
    """Return the texts of the gates that did not pass."""
    return "; ".join(verdict.text for verdict in verdicts if not verdict.passed)


def open_gates(verdicts: Sequence[Verdict]) -> str:
    """Return the texts of the undecided gates."""
    return "; ".join(verdict.text for verdict in verdicts if verdict.verdict == UNDECIDED)


def tags_of(verdicts_of: Mapping[str, Sequence[Verdict]]) -> dict[str, str]:
    """Return the verdicts of gates as tags, by the name of what was judged: `pass`, or what did not (`fail: size`)."""
    named = {}
    for name, verdicts in verdicts_of.items():
        by_verdict: dict[str, list[str]] = {}
        for verdict in verdicts:
            by_verdict.setdefault(verdict.verdict, []).append(verdict.gate)
        others = [f"{word}: {', '.join(gates)}" for word, gates in by_verdict.items() if word != PASS]
        named[f"millrace.gates.{name}"] = "; ".join(others) or PASS
    return named


@dataclass(frozen=True)
class Ratio:
    """A measure of a file as a share of the float LiteRT file's."""

    value: float
    error: float = 1.0
    """The factor by which it may be wrong; 1 where it is exact, or the measurement was conclusive."""


def measured(gate: str, value: float, limit: float, seen: str) -> Verdict:
    """Pass where a measured value is at most its limit; a NaN does not pass."""
    verdict = PASS if value <= limit else FAIL
    return Verdict(
        gate, value, limit, verdict, f"{seen}; {'within' if verdict == PASS else 'over'} the limit {limit:g}"
    )


def unmeasured(gate: str, limit: float, why: str, *, few: bool = False) -> Verdict:
    """Return the verdict on what is not known; `few` where there are too few examples to know it."""
    return Verdict(gate, float("nan"), limit, UNDECIDED, why, few=few)


def parity(difference: float, largest: float, limit: float, outputs: str = "outputs") -> Verdict:
    """Pass where a float form's outputs equal Keras': differences are at most `limit` times the largest output, or 1.

    The limit is relative because rounding errors are: large outputs (prices) differ by more than logits.

    Args:
        outputs: which ones they are, in words.
    """
    share = difference / max(1.0, largest)
    of = f"the largest, {largest:.3g}" if largest > 1 else "1"
    verdict = measured(PARITY, share, limit, f"{outputs} differ from Keras' by at most {share:.2e} of {of}")
    return verdict if verdict.passed else replace(verdict, text=f"{verdict.text}; {CHANGED}")


def latency(ratio: float, limit: float, error: float = 1.0) -> Verdict:
    """Pass where a compressed model's latency is at most `limit` times the float file's.

    `error` is the factor by which the ratio may be wrong: where the limit is within it, the verdict is undecided.
    """
    if ratio / error <= limit < ratio * error:
        text = f"takes {ratio:.2f} of the float file's time, and that file {error:.2f} of its own; "
        return Verdict("latency", ratio, limit, UNDECIDED, f"{text}the limit is {limit:g}; run again", few=True)
    return measured("latency", ratio, limit, f"takes {ratio:.2f} of the float file's time")


@dataclass(frozen=True)
class Beside:
    """A new version and the champion on the same test examples, which neither has used before."""

    before: float
    """The champion's score."""
    after: float
    """The new version's."""
    change: PairedDifference
    examples: int
    higher_is_better: bool
    left_out: str = ""
    """How many others are left out and why, in words; empty where none is."""
    unknown: str = ""
    """Weights that one of them began from whose examples are not known, in words; empty where there are none."""


@dataclass(frozen=True)
class Champion:
    """The current champion, for the comparison with a new version."""

    version: str
    metric: str
    """The metric of its score, as `test/accuracy`; empty where the registry does not have it."""
    score: float
    """On its own test examples."""
    beside: Beside | None
    """The comparison by example; None where there is none."""
    why: str = ""
    """Why there is none, in words."""
    behind: float = 0.0
    """How far it is behind the best of the champions before it, by its metric; 0 where it is the best."""


@dataclass(frozen=True)
class Promotion:
    """The result of the promotion gate: whether a version is better than the champion."""

    passed: bool
    text: str
    against: str | None
    """The champion's version; None where there is no champion."""
    before: float | None
    """The champion's score on the same examples; where they are not comparable, on its own."""
    comparable: bool = True
    """Whether both could be compared by the same metric on the same examples."""
    gates: tuple[Verdict, ...] = ()
    """The verdicts of `promote.gates`."""
    behind: float = 0.0
    """How far a version that passes is behind the best of the champions before it; 0 where it is the best."""

    @property
    def approvable(self) -> bool:
        """Whether a person may release it although it did not pass: it could not be compared, and nothing said no."""
        return not self.comparable and not any(verdict.refuses for verdict in self.gates)


def promotion(
    metric: str,
    score: float,
    champion: Champion | None,
    margin: float,
    higher_is_better: bool,
    baselines: Sequence[BesideBaseline] = (),
    require: str = "not_worse",
) -> Promotion:
    """Pass where a version is better than the champion by at least `margin`, by the champion's metric.

    A negative margin is the largest loss against the best of the champions before as well: many nights that each lose
    a little would otherwise lose without limit.

    It also must not be worse by more than noise or, where `require` is `better`, be better by more than noise.

    It also must be better than each of `baselines` by more than noise. What cannot be compared with the champion does
    not pass, and says the scores of both on their own examples, for a person who decides.
    """
    spoken = f"{_words(metric)} {score:.4f}"
    if baselines:
        spoken += f" ({', '.join(f'{each.name} {each.value:.4f}' for each in baselines)})"
        if unbeaten := [each for each in baselines if not each.better(higher_is_better)]:
            by = "; ".join(
                f"{each.name}: difference {each.difference.value:+.4f}, {_sure(each.difference, each.more_than_noise)}"
                for each in unbeaten
            )
            remedies = "train a better model, test on more examples, or accept it with promote.baseline: none"
            text = f"{spoken}: not better than a baseline by more than noise ({by}); {remedies}"
            return Promotion(False, text, champion.version if champion else None, champion.score if champion else None)
    if champion is None:
        return Promotion(True, f"{spoken}; there was none before", None, None)
    against, beside = champion.version, champion.beside
    if beside is None:
        own = f"{_words(champion.metric)} {champion.score:.4f}" if champion.metric else "no known score"
        text = f"not comparable: {champion.why} ({spoken}; champion version {against} has {own} by its own report)"
        return Promotion(False, text, against, champion.score, comparable=False)
    ahead = beside.after - beside.before if beside.higher_is_better else beside.before - beside.after
    by = f"{'ahead' if ahead >= 0 else 'behind'} by {abs(ahead):.4f}, promote.margin {margin:.4f}"
    where = ""
    if champion.metric != metric:
        spoken += f"; by {_words(champion.metric)}, by which the champion was judged, {beside.after:.4f}"
    elif beside.left_out:
        spoken += f"; {beside.after:.4f}"
    if beside.left_out:
        where = f" on {beside.examples:,} that neither has used"
        by += f"; {beside.left_out}"
    if champion.behind:
        by += f"; the champion is {champion.behind:.4f} behind the best of those before it"
    if beside.unknown:
        by += f"; not known: what {beside.unknown} was trained on"
    text = f"{spoken} against {beside.before:.4f} of champion version {against}{where} ({by}{_noise(beside.change)})"
    significant = beside.change.more_than_noise
    differs = significant and ahead > 0 if require == "better" else not (significant and ahead < 0)
    enough = ahead >= margin and (margin >= 0 or ahead - champion.behind >= margin)
    behind = max(champion.behind - ahead, 0.0) if champion.metric == metric else 0.0
    return Promotion(enough and differs, text, against, beside.before, behind=behind)


def with_gates(promotion: Promotion, verdicts: Sequence[Verdict]) -> Promotion:
    """Return the result of the promotion gate together with `promote.gates`, all of which must pass."""
    texts = [promotion.text, *(f"{verdict.gate} {verdict.verdict}: {verdict.text}" for verdict in verdicts)]
    passed = promotion.passed and all(verdict.passed for verdict in verdicts)
    return replace(promotion, passed=passed, text="; ".join(texts), gates=tuple(verdicts))


def _noise(change: PairedDifference) -> str:
    """Return whether a change is more than noise, as a part of a sentence."""
    if change.same:
        return "; no example differs"
    return f"; {_sure(change.difference, change.more_than_noise)}"


def _sure(difference: Interval, more_than_noise: bool) -> str:
    word, weakness = sureness(more_than_noise, difference.low, difference.high, difference.units)
    return f"{word}, 95 % interval {difference.low:+.4f} to {difference.high:+.4f}{weakness and f', {weakness}'}"


def _words(metric: str) -> str:
    return metric.replace("/", " ").replace("_", " ")
