"""Champions on a real registry: by the gate, by approval, and by rollback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.artifacts import Export
from tasks.errors import Failed, Refused
from tasks.evaluation import gates
from tasks.evaluation.measured import Interval
from tasks.evaluation.paired import PairedDifference
from tasks.registry import approval, registry, rollback
from tasks.registry.registry import Registered
from tasks.registry.rollback import roll_back
from tasks.runs.audit import Audit, Decision, Entry
from tasks.runs.home import Home
from tasks.runs.runs import Run
from tasks.store.store import Store
from tests.support import versions
from tests.support.registries import NO, YES, RegistryHome, champion_beside, export_of


def test_a_gate_alone_makes_champions_and_every_move_is_a_line(registry_home: RegistryHome) -> None:
    registry_home.champions(0.8, 0.9)
    assert registry_home.promote(registry_home.run(3, required=False), 3, 0.7) == "rejected"
    assert registry_home.audit_lines() == [
        ("promote", "1", None, "1", "gate"),
        ("promote", "2", "1", "2", "gate"),
        ("hold", "3", None, "3", "gate"),
    ]
    last = registry_home.audit.rows()[-1]
    assert (
        last["alias"] == "candidate" and last["known"] == "by the gate" and last["reason"].startswith("candidate only")
    )
    assert last["time"].endswith("+00:00") and last["model"] == "digits" and last["run"] in last["run"]
    assert registry_home.promote(registry_home.run(3, required=False), 3, 0.7) == "rejected"
    assert len(registry_home.audit_lines()) == 3, "nothing moved"


@pytest.mark.parametrize(
    ("task", "baseline", "value", "below", "above"),
    [
        ("classification", "majority_accuracy", 0.6, 0.6, 0.61),
        ("multilabel", "all_labels_macro_f1", 0.3, 0.2, 0.31),
        ("regression", "mean_rmse", 77.0, 77.0, 76.9),
    ],
)
def test_a_model_that_is_not_better_than_a_baseline_is_no_champion(
    task: str, baseline: str, value: float, below: float, above: float, registry_home: RegistryHome
) -> None:
    known = {f"test/{baseline}": value}
    assert registry_home.promote(registry_home.run(1, task=task), 1, below, baselines=known) == "rejected"
    assert registry_home.champion() is None
    gate = registry_home.tags("1")["gate"]
    assert gate.startswith("candidate only: test ") and f" {value:.4f}): not better than a baseline" in gate
    accepts = registry_home.run(1, required=False, task=task, baseline="none")
    assert registry_home.promote(accepts, 1, below, baselines=known) == "completed"
    better = registry_home.run(2, required=False, task=task)
    assert registry_home.promote(better, 2, above, baselines=known) == "completed"
    assert registry_home.at("champion") == "2" and f" {value:.4f}) against " in registry_home.tags("2")["gate"]


@pytest.mark.parametrize(
    ("baseline", "status"), [("none", "completed"), ("constant", "completed"), ("learned", "rejected")]
)
def test_a_simple_model_that_is_better_keeps_a_version_out_where_it_is_asked_for(
    baseline: str, status: str, registry_home: RegistryHome
) -> None:
    run = registry_home.run(1, required=False, baseline=baseline)
    known = {"test/majority_accuracy": 0.6}
    assert registry_home.promote(run, 1, 0.8, baselines=known, simple=0.801) == status
    gate = registry_home.tags("1")["gate"]
    assert ("(majority 0.6000, gradient boosting 0.8010): not better than a baseline" in gate) == (
        baseline == "learned"
    )


def test_what_passed_its_gate_waits_for_a_person_who_says_yes(registry_home: RegistryHome) -> None:
    run = registry_home.run(1)
    assert registry_home.promote(run, 1, 0.8) == "awaiting_approval"
    assert (registry_home.at("champion"), registry_home.at("candidate"), registry_home.tags("1")["approval"]) == (
        None,
        "1",
        "pending",
    )
    assert (registry_home.tags("1")["approval_run"], registry_home.tags("1")["against"]) == (run.run_id, "none")
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert (made.alias, made.awaits) == ("champion", None)
    assert made.verdict.endswith("there was none before; approved by ada (as stated): looked at")
    assert (registry_home.at("champion"), registry_home.at("candidate")) == ("1", None)
    tags = registry_home.tags("1")
    assert (tags["approval"], tags["approved_by"], tags["approval_reason"]) == ("approved", "ada", "looked at")
    assert tags["approval_known"] == "as stated" and tags["gate"].startswith("champion, with test accuracy 0.8000")
    version_now = registry.version(registry_home.client, "digits", "1")
    assert version_now is not None and "approved by ada (as stated): looked at" in version_now.description
    record = Run(registry_home.home, run.folder).record
    assert (record["status"], record["exit_code"]) == ("completed", 0)
    assert json.loads((run.folder / "release.json").read_bytes())["alias"] == "champion"
    assert registry_home.audit_lines() == [("await", "1", None, "1", "gate"), ("approve", "1", None, "1", "ada")]


def test_a_model_without_a_description_gets_one_and_that_of_its_owner_stays(registry_home: RegistryHome) -> None:
    registry_home.champions(0.8)
    assert "`champion` is the version to use" in registry_home.client.get_registered_model("digits").description
    registry_home.client.update_registered_model("digits", "of its owner")
    registry_home.promote(registry_home.run(2, required=False), 2, 0.9)
    assert registry_home.client.get_registered_model("digits").description == "of its owner"


def test_an_approval_is_judged_against_the_champion_that_was_asked_about(registry_home: RegistryHome) -> None:
    registry_home.champions(0.8)
    run = registry_home.run(2)
    registry_home.promote(run, 2, 0.9)
    waits = json.loads((run.folder / "release.json").read_bytes())
    assert waits["awaits"] == run.run_id and f"millrace approve {run.run_id} " in waits["verdict"]
    assert (waits["alias"], waits["changed"]) == ("candidate", True)
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert "against 0.8000 of champion version 1 (ahead by 0.1000" in made.verdict and "approve " not in made.verdict
    assert (made.name, made.version, made.export, made.awaits, made.changed) == (
        "digits",
        "2",
        export_of(2),
        None,
        True,
    )
    assert (registry_home.at("champion"), registry_home.at("candidate")) == ("2", None)


def test_a_person_who_says_no_leaves_the_champion_and_is_heard_by_later_runs(registry_home: RegistryHome) -> None:
    registry_home.champions(0.8)
    run = registry_home.run(2)
    registry_home.promote(run, 2, 0.9)
    assert registry_home.tags("2")["against"] == "1" and "ahead by 0.1000" in registry_home.tags("2")["compared"]
    approval.settle(registry_home.client, Run(registry_home.home, run.folder), NO)
    assert (Run(registry_home.home, run.folder).record["status"], Run(registry_home.home, run.folder).exit_code) == (
        "rejected",
        3,
    )
    tags = registry_home.tags("2")
    assert (tags["approval"], tags["rejected_by"], tags["approval_reason"]) == ("rejected", "bob", "too slow")
    assert registry_home.audit_lines()[-1] == ("reject", "2", "1", "1", "bob")
    later = registry_home.run(2)
    for asked, changed in ((later, False), (run, True)):  # the run that it was decided on has changed something
        assert registry_home.promote(asked, 2, 0.9) == "rejected"
        assert json.loads((asked.folder / "release.json").read_bytes())["changed"] is changed
    assert registry_home.at("champion") == "1" and len(registry_home.audit_lines()) == 3
    assert registry_home.promote(registry_home.run(2, required=False), 2, 0.9) == "completed", (
        "where nobody need be asked"
    )
    assert registry_home.at("champion") == "2" and "approval" not in registry_home.tags("2")


def test_a_second_run_of_what_waits_points_to_the_run_that_asked(registry_home: RegistryHome) -> None:
    first, second = registry_home.run(1), registry_home.run(1)
    assert registry_home.promote(first, 1, 0.8) == "awaiting_approval"
    version_now = registry_home.register(second, 1, 0.8)
    assert approval.awaited_run(version_now, second) == first.run_id
    assert registry_home.promote(registry_home.run(2), 2, 0.8) == "awaiting_approval"
    assert registry_home.promote(second, 1, 0.8) == "awaiting_approval"
    assert [row["action"] for row in registry_home.audit.rows()] == ["await", "await"] and registry_home.at(
        "candidate"
    ) == "2"
    with pytest.raises(Refused, match=f"awaits the approval of {first.run_id}; .*; use millrace reject {first.run_id}"):
        approval.settle(registry_home.client, Run(registry_home.home, second.folder), NO)
    approval.settle(registry_home.client, Run(registry_home.home, first.folder), YES)
    for answer in (YES, NO):  # decided on the run that asked first
        with pytest.raises(Refused, match=f"{second.run_id}: awaiting_approval, digits version 1: champion"):
            approval.settle(registry_home.client, Run(registry_home.home, second.folder), answer)
    assert Run(registry_home.home, second.folder).record["status"] == "awaiting_approval"


def test_a_run_asks_for_itself_where_the_approval_that_another_asked_for_has_lapsed(
    registry_home: RegistryHome,
) -> None:
    first, again, third = (registry_home.run(1) for _ in range(3))
    assert registry_home.promote(first, 1, 0.8) == "awaiting_approval"
    registry_home.promote(registry_home.run(2, required=False), 2, 0.9)
    assert registry_home.promote(again, 1, 0.8) == "rejected" and registry_home.tags("1")["approval"] == "lapsed"
    registry_home.client.delete_registered_model_alias("digits", "champion")
    assert registry_home.promote(third, 1, 0.8) == "awaiting_approval"
    assert registry_home.tags("1")["approval_run"] == third.run_id != first.run_id
    assert json.loads((third.folder / "release.json").read_bytes())["awaits"] == third.run_id


def test_a_version_that_waits_is_promoted_by_its_gate_where_nobody_need_be_asked_any_more(
    registry_home: RegistryHome,
) -> None:
    assert registry_home.promote(registry_home.run(1), 1, 0.8) == "awaiting_approval"
    assert registry_home.promote(registry_home.run(1, required=False), 1, 0.8) == "completed"
    assert registry_home.at("champion") == "1" and registry_home.at("candidate") is None
    assert "approval" not in registry_home.tags("1")


@pytest.mark.parametrize("status", ["running", "failed", "completed"])
def test_a_run_is_answered_while_it_waits_and_not_before_or_after(registry_home: RegistryHome, status: str) -> None:
    run = registry_home.run(1)
    registry_home.promote(run, 1, 0.8)
    Run(registry_home.home, run.folder).note(status=status)
    for answer in (YES, NO):
        with pytest.raises(Refused) as refused:
            approval.settle(registry_home.client, Run(registry_home.home, run.folder), answer)
        assert refused.value.field == run.run_id and str(refused.value.saw).startswith(status)
    assert registry_home.at("champion") is None and registry_home.tags("1")["approval"] == "pending"


@pytest.mark.parametrize(
    ("first", "way"), [(YES, "millrace rollback digits"), (NO, "a run with --promote.approval none")]
)
def test_a_run_is_decided_once_and_the_way_to_change_that_is_named(
    registry_home: RegistryHome, first: Decision, way: str
) -> None:
    run = registry_home.run(1)
    registry_home.promote(run, 1, 0.8)
    approval.settle(registry_home.client, Run(registry_home.home, run.folder), first)
    for answer in (YES, NO):
        with pytest.raises(Refused) as refused:
            approval.settle(registry_home.client, Run(registry_home.home, run.folder), answer)
        assert way in refused.value.remedy and f" by {first.who} " in str(refused.value.saw)


@pytest.mark.parametrize(("now", "alias"), [(0.85, "champion"), (0.95, "candidate")])
def test_a_champion_that_came_meanwhile_is_compared_with(registry_home: RegistryHome, now: float, alias: str) -> None:
    registry_home.champions(0.8)
    run = registry_home.run(2)
    registry_home.promote(run, 2, 0.9)
    registry_home.promote(registry_home.run(3, required=False), 3, now)
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert made.alias == alias and "of champion version 3" in made.verdict
    assert registry_home.at("champion") == ("2" if alias == "champion" else "3")
    assert Run(registry_home.home, run.folder).exit_code == (0 if alias == "champion" else 3)
    if alias == "candidate":
        assert "behind by 0.0500" in made.verdict and registry_home.tags("2")["approval"] == "lapsed"
        assert registry_home.audit_lines()[-1] == ("hold", "2", "2", "2", "gate")


@pytest.mark.parametrize(
    ("more", "alias"),
    [
        ((), "champion"),
        ((("promote.margin", "0.04"),), "champion"),
        ((("promote.margin", "0.06"),), "candidate"),
        ((("promote.require", "better"),), "candidate"),  # by more than noise, and five of 100 are not
    ],
)
def test_a_champion_that_came_meanwhile_is_to_be_beaten_by_all_that_is_required(
    more: tuple[tuple[str, str], ...], alias: str, registry_home: RegistryHome
) -> None:
    run = registry_home.run(2, more=more)
    assert registry_home.promote(run, 2, 0.9) == "awaiting_approval"
    registry_home.promote(registry_home.run(3, required=False), 3, 0.85)
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert made.alias == alias and registry_home.at("champion") == ("1" if alias == "champion" else "2")


def test_rankings_up_to_other_ranks_are_not_compared() -> None:
    five, ten = (Registered("1", "e", "R", 0.9, "test/ndcg", "", {"millrace.at": at}) for at in ("5", "10"))
    assert rollback.compared(five, ten) == "not comparable: evaluated on other records or up to another rank"
    assert rollback.compared(five, five) == "test/ndcg 0.9000 in place of 0.9000"


@pytest.mark.parametrize(("records", "rank"), [("S", ""), ("R", "5")])
def test_a_champion_of_other_records_or_another_rank_is_not_compared_but_can_be_kept(
    registry_home: RegistryHome, records: str, rank: str
) -> None:
    registry_home.champions(0.8)
    run = registry_home.run(2)
    registry_home.promote(run, 2, 0.9)
    registry_home.register(registry_home.run(3), 3, 0.99, records=records)
    registry_home.client.set_model_version_tag("digits", "3", "millrace.at", rank)
    registry_home.client.set_registered_model_alias("digits", "champion", "3")
    with pytest.raises(
        Refused, match="evaluated on other records or up to another rank; .*; compare them with millrace run pipeline "
    ):
        approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert Run(registry_home.home, run.folder).record["status"] == "awaiting_approval"
    approval.settle(registry_home.client, Run(registry_home.home, run.folder), NO)
    assert registry_home.at("champion") == "3"


@pytest.mark.parametrize("first", ["classification", "regression"])
def test_another_metric_is_not_comparable_whichever_number_is_larger(registry_home: RegistryHome, first: str) -> None:
    """An RMSE of 0.31 neither beats an accuracy of 0.97 nor is beaten by it."""
    scores = {"classification": 0.97, "regression": 0.31}
    other = "regression" if first == "classification" else "classification"
    assert registry_home.promote(registry_home.run(1, required=False, task=first), 1, scores[first]) == "completed"
    assert registry_home.promote(registry_home.run(2, required=False, task=other), 2, scores[other]) == "rejected"
    assert (registry_home.at("champion"), registry_home.at("candidate")) == ("1", "2")
    words = "not comparable: champion version 1 was judged by test/accuracy, and this run has no such metric of regr"
    swapped = "not comparable: champion version 1 was judged by test/rmse, and this run has no such metric of class"
    assert registry_home.tags("2")["gate"].startswith(words if first == "classification" else swapped)


def test_against_a_champion_that_came_meanwhile_and_is_not_comparable_a_person_approves_once_it_was_shown(
    registry_home: RegistryHome,
) -> None:
    run = registry_home.run(1)
    assert registry_home.promote(run, 1, 0.8) == "awaiting_approval"
    assert registry_home.promote(registry_home.run(2, required=False, task="regression"), 2, 0.31) == "completed"
    shown = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert (shown.alias, shown.approvable, registry_home.at("champion")) == ("candidate", True, "2")
    for words in (
        "not comparable: champion version 2 was judged by test/rmse, and this run has no such metric of classification",
        "test rmse 0.3100 by its own report",
        f"to release it all the same: millrace approve {run.run_id} --reason TEXT",
    ):
        assert words in shown.verdict
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert (made.alias, registry_home.at("champion")) == ("champion", "1")
    assert made.verdict.startswith("digits version 1: champion, though not comparable")


def test_nobody_is_judged_on_what_it_has_learned(registry_home: RegistryHome) -> None:
    """The champion has trained on the first 60 test rows, and the new model on ten more."""
    registry_home.promote(registry_home.run(1, required=False), 1, 0.8, trained=versions.hashes("R", range(60)))
    run = registry_home.run(2, required=False)
    trained = versions.hashes("R", range(55, 70))
    assert registry_home.promote(run, 2, 0.81, trained=trained) == "completed"
    gate = registry_home.tags("2")["gate"]
    assert "test accuracy 0.8100; 0.3667 against 0.3333 of champion version 1 on 30 that neither has used" in gate
    words = (
        "; 60 of 100 test examples are in the train split of champion version 1, 15 in the train split of this model"
    )
    assert words in gate


def test_too_few_rows_that_neither_has_learned_are_no_comparison_and_a_person_may_decide(
    registry_home: RegistryHome,
) -> None:
    registry_home.promote(registry_home.run(1, required=False), 1, 0.8, trained=versions.hashes("R", range(81)))
    run = registry_home.run(2, required=False)
    assert registry_home.promote(run, 2, 0.9) == "rejected"
    words = (
        "81 of 100 test examples are in the train split of champion version 1; 19 are left, and at least 20 are needed"
    )
    assert registry_home.tags("2")["gate"].startswith(f"not comparable: {words} (test accuracy 0.9000; champion")
    verdict = json.loads((run.folder / "release.json").read_bytes())["verdict"]
    assert verdict.endswith(f"; to release it all the same: millrace approve {run.run_id} --reason TEXT")
    assert registry_home.at("champion") == "1"
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert (made.alias, made.approvable) == ("champion", False) and registry_home.at("champion") == "2"
    assert made.verdict.startswith("digits version 2: champion, though not comparable: 81 of 100")
    assert (Run(registry_home.home, run.folder).exit_code, registry_home.tags("2")["approved_by"]) == (0, "ada")
    with pytest.raises(Refused, match="was approved by ada already"):
        approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)


def test_a_gate_that_said_no_stays_no(registry_home: RegistryHome) -> None:
    registry_home.promote(registry_home.run(1, required=False), 1, 0.8, trained=versions.hashes("R", range(90)))
    gates_of = [("promote.gates", "[{kind: absolute, metric: accuracy, at_least: 0.99}]")]
    run = registry_home.run(2, required=False, more=gates_of)
    assert registry_home.promote(run, 2, 0.9) == "rejected"
    verdict = json.loads((run.folder / "release.json").read_bytes())["verdict"]
    assert "not comparable" in verdict and "accuracy at least 0.99 fail" in verdict and "approve" not in verdict
    with pytest.raises(Refused, match="approve needs a run that awaits approval, or whose verdict is not comparable"):
        approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    below = registry_home.run(3, required=False)
    registry_home.promote(below, 3, 0.5, baselines={"test/majority_accuracy": 0.6})
    with pytest.raises(Refused, match="approve needs a run that awaits approval"):
        approval.settle(registry_home.client, Run(registry_home.home, below.folder), YES)


@pytest.mark.parametrize(
    ("compares", "word", "approvable"),
    [
        (True, gates.FAIL, False),
        (True, gates.UNDECIDED, True),
        (True, gates.PASS, True),
        (False, gates.FAIL, False),
        (False, gates.UNDECIDED, False),
        (False, gates.PASS, True),
    ],
)
def test_a_gate_that_compares_keeps_out_only_where_it_could(compares: bool, word: str, approvable: bool) -> None:
    """The metric that decides is another one, and that of the gate is known of both: its no stays no."""
    verdict = gates.Verdict("quality", 0.5, 0.1, word, "", compares=compares)
    for others in ((), (gates.Verdict("other", 0.0, 0.1, gates.PASS, ""),)):
        gate = gates.Promotion(False, "", "1", 0.8, comparable=False, gates=(verdict, *others))
        assert gate.approvable is approvable
        assert not replace(gate, comparable=True).approvable


def test_weights_from_elsewhere_are_named_in_the_verdict(registry_home: RegistryHome) -> None:
    registry_home.promote(registry_home.run(1, required=False), 1, 0.8, unknown=["file w.npz"])
    registry_home.promote(registry_home.run(2, required=False), 2, 0.9, unknown=["file w.npz", "file a.npz"])
    assert "; not known: what file a.npz, file w.npz was trained on" in registry_home.tags("2")["gate"]
    registry_home.promote(registry_home.run(3, required=False), 3, 0.9)
    assert "not known" in registry_home.tags("3")["gate"], "the champion began from them"


def test_an_export_that_does_not_say_what_it_has_used_is_not_comparable(registry_home: RegistryHome) -> None:
    registry_home.champions(0.8)
    shutil.rmtree(registry_home.home.store / "export" / export_of(1))
    versions.publish(Store(registry_home.home.store), Export, "1", {"README.md": b"of earlier"}, {})
    assert registry_home.promote(registry_home.run(2, required=False), 2, 0.9) == "rejected"
    words = "not comparable: champion version 1 does not say which rows it has used (test accuracy 0.9000; champion"
    assert registry_home.tags("2")["gate"].startswith(words)


def test_rollback_says_where_scores_do_not_compare(registry_home: RegistryHome) -> None:
    registry_home.champions(0.7, 0.8)
    assert (
        roll_back(registry_home.client, registry_home.home, "digits", None, NO).scores
        == "test/accuracy 0.7000 in place of 0.8000"
    )
    registry_home.register(registry_home.run(3, task="regression"), 3, 0.31, metric="test/rmse")
    registry_home.client.set_registered_model_alias("digits", "champion", "3")
    moved = roll_back(registry_home.client, registry_home.home, "digits", None, NO)
    assert moved == ("3", "1", "not comparable: test/accuracy in place of test/rmse")
    version_now = registry_home.champion()
    assert version_now is not None and "not comparable: test/accuracy in place of test/rmse" in version_now.description


def test_a_champion_without_files_to_score_on_other_records_stays(registry_home: RegistryHome) -> None:
    registry_home.champions(0.8)
    assert registry_home.promote(registry_home.run(2, required=False), 2, 0.9, records="S") == "rejected"
    assert registry_home.tags("2")["gate"] == (
        "not comparable: champion version 1 cannot be scored on these records (test accuracy 0.9000; champion "
        "version 1 has test accuracy 0.8000 by its own report)"
    )
    assert registry_home.at("champion") == "1"


@pytest.mark.parametrize(
    ("score", "margin", "status"),
    [(0.8, 0.0, "completed"), (0.79, 0.0, "rejected"), (0.9, 0.2, "rejected"), (0.79, -0.2, "completed")],
)
def test_a_score_that_is_ahead_by_the_margin_exactly_passes(
    registry_home: RegistryHome, score: float, margin: float, status: str
) -> None:
    registry_home.champions(0.8)
    assert registry_home.promote(registry_home.run(2, required=False), 2, score, margin=margin) == status


def test_how_far_a_champion_is_behind_the_best_before_it_is_kept_with_it(registry_home: RegistryHome) -> None:
    scores = (0.9, 0.88, 0.86, 0.84)
    for number, score in enumerate(scores, 1):
        registry_home.promote(registry_home.run(number, required=False), number, score, margin=-0.05)
    assert "behind" not in registry_home.tags("1"), "the first one is behind none"
    behind = [float(registry_home.tags(str(number))["behind"]) for number in (2, 3)]
    assert behind == pytest.approx([0.02, 0.04], abs=1e-9) and registry_home.at("champion") == "3"
    assert "the champion is 0.0400 behind the best of those before it" in registry_home.tags("4")["gate"]


@pytest.mark.parametrize(("score", "status"), [(0.29, "completed"), (0.31, "completed"), (0.33, "rejected")])
def test_of_an_error_the_smaller_one_wins(registry_home: RegistryHome, score: float, status: str) -> None:
    registry_home.promote(registry_home.run(1, required=False, task="regression"), 1, 0.31)
    assert registry_home.promote(registry_home.run(2, required=False, task="regression"), 2, score) == status


def test_what_cannot_be_answered_is_refused(registry_home: RegistryHome) -> None:
    run = registry_home.run(1)
    with pytest.raises(Refused, match="running, without a release"):
        approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    registry_home.promote(run, 1, 0.8)
    approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    for answer in (YES, NO):
        with pytest.raises(
            Refused, match="digits version 1 was approved by ada already; .*, use millrace rollback digits"
        ):
            approval.settle(registry_home.client, Run(registry_home.home, run.folder), answer)
    plain = registry_home.run(2, required=False)
    registry_home.promote(plain, 2, 0.9)
    with pytest.raises(Refused, match="completed, digits version 2: champion, with .*; approve needs a run that"):
        approval.settle(registry_home.client, Run(registry_home.home, plain.folder), YES)
    gone = registry_home.run(3)
    registry_home.promote(gone, 3, 0.95)
    registry_home.client.delete_model_version("digits", "3")
    with pytest.raises(
        Refused, match="digits version 3 is not in the registry; .*; register it again with millrace run"
    ):
        approval.settle(registry_home.client, Run(registry_home.home, gone.folder), YES)


def test_rollback_goes_back_step_by_step_and_gates_do_not_undo_it(registry_home: RegistryHome) -> None:
    registry_home.champions(0.7, 0.8, 0.9)
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("3", "2")
    assert registry_home.promote(registry_home.run(3, required=False), 3, 0.9) == "rejected"
    assert registry_home.tags("3")["gate"] == "candidate only: rolled back by bob (system user): too slow"
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("2", "1")
    with pytest.raises(Refused, match="version 1 is the first known champion"):
        roll_back(registry_home.client, registry_home.home, "digits", None, NO)
    with pytest.raises(Refused, match="--to: digits version 7; .*; choose one of 2, 3"):
        roll_back(registry_home.client, registry_home.home, "digits", "7", NO)
    assert roll_back(registry_home.client, registry_home.home, "digits", "3", YES)[:2] == ("1", "3")
    assert "rolled_back" not in registry_home.tags("3") and registry_home.tags("3")["champion_by"] == YES.by
    version_now = registry_home.champion()
    assert version_now is not None
    assert version_now.description.startswith(
        "Champion again, in place of version 1 (test/accuracy 0.9000 in place of 0.7000), by ada"
    )
    assert [row[0] for row in registry_home.audit_lines()] == ["promote"] * 3 + [
        "rollback",
        "hold",
        "rollback",
        "restore",
    ]
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("3", "1")


def test_rollback_knows_a_version_that_was_champion_twice_and_skips_one_that_is_gone(
    registry_home: RegistryHome,
) -> None:
    registry_home.champions(0.79, 0.8)
    registry_home.promote(registry_home.run(1, required=False), 1, 0.79, margin=-1)
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("1", "2")
    registry_home.promote(registry_home.run(3, required=False), 3, 0.9)
    registry_home.client.delete_model_version("digits", "2")
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("3", "1")


def test_rollback_without_a_log_goes_by_the_registry(registry_home: RegistryHome) -> None:
    registry_home.champions(0.7, 0.8, 0.9)
    registry_home.audit.path.unlink()
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("3", "2")
    assert roll_back(registry_home.client, registry_home.home, "digits", None, NO)[:2] == ("2", "1")


@pytest.mark.parametrize("name", ["other", "digits"])
def test_rollback_without_a_champion_is_refused(registry_home: RegistryHome, name: str) -> None:
    registry_home.promote(registry_home.run(1), 1, 0.8)
    with pytest.raises(Refused, match=f"{name}: no version is champion"):
        roll_back(registry_home.client, registry_home.home, name, None, NO)


@pytest.mark.parametrize(
    ("require", "score", "low", "high", "passes"),
    [
        ("not_worse", 0.91, -0.01, 0.03, True),
        ("better", 0.91, -0.01, 0.03, False),
        ("better", 0.93, 0.01, 0.05, True),
        ("not_worse", 0.89, -0.03, 0.01, True),
        ("not_worse", 0.85, -0.07, -0.03, False),
        ("better", 0.89, -0.03, 0.01, False),
        ("better", 0.85, -0.07, -0.03, False),
    ],
)
def test_the_difference_must_be_what_is_required(
    require: str, score: float, low: float, high: float, passes: bool
) -> None:
    change = PairedDifference(Interval(score - 0.9, low, high, "", 100), not low <= 0 <= high, same=False)
    for sign in (1, -1):  # a loss is better where it is lower
        measured = champion_beside(sign * 0.9, sign * score, change, higher=sign > 0)
        gate = gates.promotion("test/accuracy", sign * score, measured, -0.1, sign > 0, require=require)
        assert gate.passed is passes
        assert f"noise, 95 % interval {low:+.4f} to {high:+.4f})" in gate.text


def registered(*rows: tuple[str, str, str]) -> dict[str, Registered]:
    """Versions in the registry: their gate's verdict, and who has rolled them back."""
    return {
        version: Registered(version, "e", "R", 0.9, "test/accuracy", gate, {"millrace.rolled_back": by} if by else {})
        for version, gate, by in rows
    }


def logged(root: Path, *moves: tuple[str | None, str, str]) -> Audit:
    """An audit log of moves of an alias: from, to, which alias."""
    audit = Audit(Home(root).make())
    for before, after, alias in moves:
        entry = Entry("promote", "digits", after, "e", alias, before, after, "run", "gate", "by the gate", "better")
        audit.begin(entry, {})
        audit.close()
    return audit


HELD = "candidate, no better"
KNOWN = registered(("1", "champion, first", ""), ("2", HELD, ""), ("3", "champion, better", ""), ("4", HELD, ""))


@pytest.mark.parametrize(
    ("harm", "accepted"),
    [
        (None, {"1", "2"}),
        (lambda content: content[:-9], {"1"}),  # cut off
        (lambda content: content.replace(b'"after":"2"', b'"after":"4"'), {"1"}),  # changed
        (lambda content: content + content.splitlines(keepends=True)[0], {"1"}),  # a line more
        (lambda content: b"", {"1"}),
    ],
    ids=["intact", "cut", "changed", "longer", "empty"],
)
def test_a_damaged_log_makes_no_version_one_that_was_champion(
    harm: Callable[[bytes], bytes] | None, accepted: set[str], tmp_path: Path
) -> None:
    """Version 1 was made champion by its gate, 2 by an approval, of which the log knows alone."""
    audit = logged(tmp_path, (None, "1", "champion"), ("1", "2", "champion"), ("2", "3", "champion"))
    if harm is not None:
        audit.path.write_bytes(harm(audit.path.read_bytes()))
    found = set()
    for version in ("1", "2", "3", "4", "9"):
        try:
            found.add(rollback._chosen("digits", version, audit, KNOWN, KNOWN["3"]).version)
        except Refused as refused:
            assert refused.field == "--to", "and no word of the log: rollback does not need it"
    assert found == accepted
    if harm is not None and audit.fault() is not None:
        with pytest.raises(Failed, match=r"audit\.jsonl line"):
            rollback._before("digits", audit, KNOWN, KNOWN["3"])


def test_a_version_was_champion_by_the_alias_of_its_own_model(tmp_path: Path) -> None:
    audit = logged(tmp_path, (None, "4", "candidate"), (None, "1", "champion"), ("1", "3", "champion"))
    other = Entry("promote", "others", "2", "e", "champion", None, "2", "run", "gate", "by the gate", "better")
    audit.begin(other, {})
    audit.close()
    for version in ("2", "4"):
        with pytest.raises(Refused) as refused:
            rollback._chosen("digits", version, audit, KNOWN, KNOWN["3"])
        assert refused.value.remedy == "choose one of 1"
    only = registered(("3", "champion, first", ""))
    with pytest.raises(Refused) as refused:
        rollback._chosen("digits", "2", logged(tmp_path / "new"), only, only["3"])
    assert refused.value.remedy == "there is none"


@pytest.mark.parametrize(
    ("moves", "known", "before"),
    [
        ([(None, "1"), ("1", "3")], KNOWN, "1"),
        ([(None, "1"), ("1", "2"), ("2", "3")], KNOWN, "2"),
        ([(None, "1"), ("1", "8"), ("8", "3")], KNOWN, "1"),  # 8 is gone
        ([(None, "1"), ("1", "3"), ("3", "2"), ("2", "3")], KNOWN, "2"),
        ([(None, "3")], KNOWN, "1"),  # promoted before there was a log
        ([], KNOWN, "1"),
        ([], registered(("1", "champion", ""), ("2", "champion", "ada"), ("3", "champion", "")), "1"),
        ([], registered(("1", "champion", ""), ("2", "champion", ""), ("3", "champion", "")), "2"),
        ([], registered(("3", "champion", ""), ("4", "champion", "")), None),  # a later one was not before
        ([], registered(("1", HELD, ""), ("2", "champion", "ada"), ("3", "champion", "")), None),
        ([], registered(("9", "champion", ""), ("10", "champion", "")), "9"),  # numbers, not texts
    ],
)
def test_the_champion_before_is_the_last_one_that_is_there_and_was_not_rolled_back(
    moves: list[tuple[str | None, str]], known: dict[str, Registered], before: str | None, tmp_path: Path
) -> None:
    audit = logged(tmp_path, *((was, now, "champion") for was, now in moves))
    present = known["3"] if "3" in known else known["10"]
    if before is None:
        with pytest.raises(Refused) as refused:
            rollback._before("digits", audit, known, present)
        assert (refused.value.field, refused.value.rule) == ("digits", rollback.RULE)
    else:
        assert rollback._before("digits", audit, known, present).version == before
