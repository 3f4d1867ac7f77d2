"""Gates as data: each kind fails where it should, verdicts of a stage are judged together, and the third one says how
many examples it would take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats

from tasks.config.compose import validate
from tasks.config.task import TASKS
from tasks.errors import Refused
from tasks.evaluation.differences import Paired, tango
from tasks.evaluation.gates import FAIL, PASS, UNDECIDED, Ratio
from tasks.evaluation.gating import CompressGate, PromoteGate, Subject
from tasks.evaluation.judging import Judge
from tasks.evaluation.multiple_testing import Test as LimitTest
from tasks.evaluation.multiple_testing import decide, holm
from tasks.evaluation.tasks import judge_of

COUNT = 400


def right(wrong: int, count: int = COUNT, start: int = 0) -> npt.NDArray[np.float64]:
    """Whether each example is right, [N, 1]: all but `wrong`."""
    values = np.ones((count, 1))
    values[start : start + wrong] = 0
    return values


def subject(own: npt.NDArray, reference: npt.NDArray | None = None, **others: Any) -> Subject:
    losses = np.random.default_rng(0).exponential(0.3, (len(own), 1))
    return Subject(
        task="classification",
        primary=("accuracy", True),
        own={"accuracy": own, "loss": losses + 0.2 * (1 - own)},
        reference={"accuracy": right(0, len(own)) if reference is None else reference, "loss": losses},
        against="the float model",
        **others,
    )


def verdict(gate: dict[str, Any], of: Subject) -> Any:
    """The verdict of a gate alone."""
    adapter: TypeAdapter[Any] = TypeAdapter(PromoteGate if gate["kind"] == "champion" else CompressGate)
    [[found]] = decide([adapter.validate_python(gate).find(of)])
    return found


HALVES = {"first": np.arange(COUNT) < COUNT // 2, "second": np.arange(COUNT) >= COUNT // 2}


@pytest.mark.parametrize(
    ("gate", "good", "bad"),
    [
        ({"kind": "absolute", "metric": "accuracy", "at_least": 0.9}, right(10), right(80)),
        ({"kind": "absolute", "metric": "loss", "at_most": 0.5}, right(0), right(COUNT)),
        ({"kind": "float"}, right(1), right(40)),
        ({"kind": "float", "metric": "accuracy", "max_loss": 0.05}, right(5), right(60)),
        ({"kind": "float", "metric": "loss", "max_loss": 0.05}, right(2), right(300)),
        ({"kind": "champion", "max_loss": 0.05}, right(5), right(60)),
        ({"kind": "champion", "metric": "loss", "max_loss": 0.05}, right(2), right(300)),
    ],
)
def test_a_gate_passes_what_is_shown_to_be_within_and_fails_what_is_shown_to_be_beyond(
    gate: dict[str, Any], good: npt.NDArray, bad: npt.NDArray
) -> None:
    assert verdict(gate, subject(good)).verdict == PASS
    failed = verdict(gate, subject(bad))
    assert failed.verdict == FAIL and "beyond the limit" in failed.text


@pytest.mark.parametrize("measure", ["bytes", "gzip_bytes", "peak_bytes", "latency"])
def test_a_measure_is_judged_as_it_is(measure: str) -> None:
    for ratio, expected in ((0.3, PASS), (0.30001, FAIL)):
        of = subject(right(0), ratios={measure: Ratio(ratio)})
        assert verdict({"kind": "float", "metric": measure, "max_ratio": 0.3}, of).verdict == expected
    assert verdict({"kind": "float", "metric": measure, "max_ratio": 0.3}, subject(right(0))).verdict == UNDECIDED
    if measure != "latency":
        for size, expected in ((2_000_000, PASS), (2_000_001, FAIL)):
            of = subject(right(0), measures={measure: size})
            assert verdict({"kind": "absolute", "metric": measure, "at_most": "2MB"}, of).verdict == expected


def test_the_default_size_is_that_of_the_methods_with_that_after_gzip_where_only_that_is_smaller() -> None:
    of = subject(
        right(0), ratios={"bytes": Ratio(1.0), "gzip_bytes": Ratio(0.6)}, limits={"bytes": 1.05, "gzip_bytes": 0.5}
    )
    gate: Any = TypeAdapter(CompressGate).validate_python({"kind": "float", "metric": "bytes"})
    [[size, gzip]] = decide([gate.find(of)])
    assert (size.verdict, gzip.gate, gzip.verdict) == (PASS, "gzip size", FAIL)


def test_a_latency_whose_error_reaches_the_limit_is_not_decided() -> None:
    gate = {"kind": "float", "metric": "latency", "max_ratio": 0.5}
    for ratio, error, expected in ((0.48, 1.0, PASS), (0.48, 1.2, UNDECIDED), (0.55, 1.2, UNDECIDED), (0.7, 1.2, FAIL)):
        found = verdict(gate, subject(right(0), ratios={"latency": Ratio(ratio, error)}))
        assert found.verdict == expected and found.few is (expected == UNDECIDED)


def test_each_slice_is_judged_and_the_worst_one_named() -> None:
    gate = {"kind": "slices", "max_loss": 0.05}
    assert verdict(gate, subject(right(4), masks=HALVES)).verdict == PASS
    hidden = subject(right(30, start=COUNT // 2), masks=HALVES)
    failed = verdict(gate, hidden)
    assert failed.verdict == FAIL and failed.text.startswith("second: loses at least")
    assert verdict({"kind": "float", "max_loss": 0.12}, hidden).verdict == PASS, "over all examples it is within"
    assert "no slice has 300 examples" in verdict({**gate, "least": 300}, hidden).text


def test_a_champion_without_these_examples_is_not_comparable() -> None:
    of = Subject("classification", ("accuracy", True), {"accuracy": right(0)}, {}, "champion version 3", masks=HALVES)
    for gate in ({"kind": "champion", "max_loss": 0.1}, {"kind": "slices", "max_loss": 0.1}):
        found = verdict(gate, of)
        assert not found.passed and "not comparable: champion version 3" in found.text


def test_149_examples_are_needed_for_a_loss_of_two_points_and_the_verdict_says_so() -> None:
    """The exact binomial test where no example differs (Hanley and Lippman-Hand, JAMA 1983)."""
    for count, expected in ((148, UNDECIDED), (149, PASS)):
        found = verdict({"kind": "float", "max_loss": 0.02}, subject(right(0, count)))
        assert found.verdict == expected
    found = verdict({"kind": "float", "max_loss": 0.02}, subject(right(0, 25)))
    assert found.few and found.more == 124 and "about 124 more would decide" in found.text


def test_of_files_of_text_twenty_are_needed() -> None:
    """Of a metric that is no share nothing is exact, and a bootstrap of few units is too sure."""
    files = np.random.default_rng(0).uniform(100, 200, (6, 2))
    for count, expected in ((6, UNDECIDED), (24, PASS)):
        values = {"bits_per_byte": np.tile(files, (count // 6, 1))}
        found = verdict({"kind": "float"}, Subject("language_model", ("bits_per_byte", False), values, values, "float"))
        assert found.verdict == expected and found.limit == 0.01
        if expected == UNDECIDED:
            assert found.few and found.more == 14 and "of 6 test files" in found.text


def test_as_many_examples_as_are_asked_for_decide_in_four_of_five_cases() -> None:
    """The power calculation, by drawing: 3 % lost and 2 % won against a limit of 3 points."""
    rng, limit = np.random.default_rng(3), 0.03

    def drawn(count: int) -> Subject:
        kinds = rng.choice(3, count, p=(0.95, 0.03, 0.02))
        return subject((kinds != 1)[:, None].astype(float), (kinds != 2)[:, None].astype(float))

    first = subject(*(np.concatenate([right(0, 376), values]) for values in (right(14, 24), right(10, 24, 14))))
    found = verdict({"kind": "float", "max_loss": limit}, first)
    assert found.verdict == UNDECIDED and not found.few
    assert found.more is not None
    count = COUNT + found.more
    passed = [verdict({"kind": "float", "max_loss": limit}, drawn(count)).passed for _ in range(60)]
    assert 0.62 < np.mean(passed) < 0.95


def test_what_seems_beyond_the_limit_asks_for_the_examples_that_would_show_that() -> None:
    of = subject(right(12))
    found = verdict({"kind": "float", "max_loss": 0.02}, of)
    assert found.verdict == UNDECIDED and found.more is not None and found.more > COUNT
    same = verdict({"kind": "float", "max_loss": 0.03}, of)
    assert same.more is None and "it cannot be decided at this limit" in same.text


def test_the_verdicts_of_a_stage_are_judged_together() -> None:
    """One that passes alone does not among many of its kind: the chance of a wrong pass anywhere stays 5 %."""
    gate: Any = TypeAdapter(CompressGate).validate_python({"kind": "float", "max_loss": 0.02})
    alone = gate.find(subject(right(0, 160)))
    assert decide([alone])[0][0].passed
    together = [row[0] for row in decide([alone] * 5)]
    assert all(found.verdict == UNDECIDED and found.few for found in together)
    assert "by Holm's method for 5 tests" in together[0].text
    sure = gate.find(subject(right(0, 400)))
    assert [row[0].passed for row in decide([sure, alone])] == [True, True], "the surest is judged first"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_holms_method_goes_from_the_smallest_on(p_values: list[float], level: float) -> None:
    """The method as Holm describes it, step by step, at any level."""
    rejected, count = set(), len(p_values)
    for step, row in enumerate(sorted(range(count), key=p_values.__getitem__)):
        if p_values[row] * (count - step) > level:
            break
        rejected.add(row)
    adjusted = holm(np.array(p_values))
    assert set(np.flatnonzero(adjusted <= level).tolist()) == rejected
    assert (adjusted >= np.array(p_values)).all()


@given(st.integers(0, 30), st.integers(0, 30))
def test_tangos_test_at_a_limit_of_0_is_mcnemars(lost: int, won: int) -> None:
    if lost + won:
        statistic = (lost - won) / (lost + won) ** 0.5
        assert tango(lost, won, 200, 0.0) == pytest.approx(stats.norm.cdf(statistic), abs=1e-9)
        assert tango(lost, won, 200, 0.0) <= tango(lost + 1, won, 200, 0.0) + 1e-12
    assert tango(lost, won, 200, 0.1) <= tango(lost, won, 200, 0.05) + 1e-12, "a larger limit is easier"


def test_a_wrong_pass_is_as_rare_as_is_said() -> None:
    """At the limit itself: of shares with few differences, and of a skewed loss."""
    rng = np.random.default_rng(2)
    passed: dict[str, list[bool]] = {"accuracy": [], "loss": []}
    for _ in range(200):
        own = (rng.random((200, 1)) >= 0.03).astype(float)
        noise = rng.exponential(0.05, (200, 1))
        of = Subject(
            "classification",
            ("accuracy", True),
            {"accuracy": own, "loss": noise},
            {"accuracy": np.ones((200, 1)), "loss": np.zeros((200, 1))},
            "float",
        )
        passed["accuracy"].append(verdict({"kind": "float", "max_loss": 0.03}, of).passed)
        passed["loss"].append(verdict({"kind": "float", "metric": "loss", "max_loss": 0.05}, of).passed)
    for metric, each in passed.items():
        assert np.mean(each) <= 0.1, metric


UNKNOWN = Paired(float("nan"), float("nan"), 0.0, 9, 8)


def test_a_metric_that_is_no_number_fails() -> None:
    test = LimitTest("quality", "loses", float("nan"), 0, 0, 0.02, float("nan"), 9, 1.0, UNKNOWN, "examples")
    assert decide([[test]])[0][0].verdict == FAIL


@pytest.mark.parametrize(
    ("section", "gate", "field", "rule"),
    [
        ("compress", {"kind": "float", "metric": "rmse", "max_loss": 1}, "compress.gates.0.metric", "is no metric of"),
        ("compress", {"kind": "float", "metric": "calibration_error", "max_loss": 1}, "metric", "has no interval"),
        ("compress", {"kind": "float", "metric": "latency", "max_loss": 1}, "max_loss", "is ignored for latency"),
        ("compress", {"kind": "float", "metric": "latency"}, "max_ratio", "has no default"),
        ("compress", {"kind": "float", "max_ratio": 0.5}, "max_ratio", "is ignored for a metric of quality"),
        ("compress", {"kind": "absolute", "metric": "accuracy"}, "compress.gates.0", "exactly one of"),
        ("compress", {"kind": "absolute", "metric": "latency", "at_most": 1}, "metric", "is no metric of"),
        ("compress", {"kind": "absolute", "metric": "bytes", "at_least": 1}, "at_least", "asks for a large bytes"),
        ("compress", {"kind": "champion", "max_loss": 0.1}, "compress.gates.0.kind", "must be one of"),
        ("promote", {"kind": "float"}, "promote.gates.0.kind", "must be one of"),
        ("promote", {"kind": "absolute", "metric": "bytes", "at_most": 5}, "metric", "is of a file"),
        ("promote", {"kind": "slices"}, "max_loss", "this key is needed"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(section: str, gate: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(Refused) as refused:
        validate({"name": "a", "train": {"steps": 1}, section: {"gates": [gate]}})
    assert field in refused.value.field and rule in f"{refused.value.rule}", str(refused.value)


@pytest.mark.parametrize("section", ["compress", "promote"])
@pytest.mark.parametrize("task", TASKS)
def test_a_gate_of_slices_needs_a_report_with_slices(task: str, section: str) -> None:
    kind = {"language_model": "transformer", "tagging": "encoder"}.get(task, "mlp")
    snapshot = {"kind": "tokens" if task == "language_model" else "table"}
    values = {"name": "a", "train": {"steps": 1}, "snapshot": snapshot, "model": {"kind": kind, "task": task}}
    gated = {**values, section: {"gates": [{"kind": "slices", "max_loss": 0.1}]}}
    sliced = {**gated, "evaluate": {"slices": ["age > 30"]}}
    own_judge = judge_of(task).slices is not Judge.slices
    assert own_judge == TASKS[task].sliced, "the others return none"
    if TASKS[task].sliced:
        assert validate(gated)
        return
    with pytest.raises(Refused) as refused:
        validate(gated)
    assert refused.value.field == f"{section}.gates.0.kind" and refused.value.saw == "slices"
    assert f"a report of {task} has none" in refused.value.rule
    if "evaluate.slices" in TASKS[task].options:
        assert "set evaluate.slices, or" in refused.value.remedy and validate(sliced)
    else:
        assert refused.value.remedy == "leave the gate out"
