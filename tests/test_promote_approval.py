"""Who makes a champion, on a real registry: by the gate, by a person, back again; killed anywhere, no line is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tasks import approval
from tasks.config.load import load
from tasks.errors import Refused
from tasks.evaluation.gates import promotion
from tasks.rollback import roll_back
from tasks.store.audit import Answer, Audit
from tasks.store.files import pretty, write
from tasks.store.home import Home
from tasks.store.runs import Run, opened
from tasks.tracking import registry
from tasks.tracking.runs import connect, make_database
from tests.homes import DIGITS

YES, NO = Answer(True, "ada", "as stated", "looked at"), Answer(False, "bob", "system user", "too slow")
EXPORT = "{:064d}"


class Killed(BaseException):
    """A SIGKILL, as far as the code around it can tell."""


class Mortal:
    """A client that is killed at its write number `last`, counted from 0."""

    def __init__(self, client: MlflowClient, last: int) -> None:
        self.client, self.left = client, last

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if not name.startswith(("set_", "update_", "delete_")):
            return found

        def write(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return found(*args, **kwargs)

        return write


class Shop:
    """A home with a registry, and what `promote` does there once an export is registered."""

    def __init__(self, root: Path, database: Path) -> None:
        self.home = Home(root).make()
        shutil.copy(database, self.home.mlflow_file)
        self.client: Any = connect(self.home.mlflow_uri)
        self.audit = Audit(self.home)

    def run(self, number: int, required: bool = True) -> Run:
        """A run that has made the export `number`, as it stands before `promote`."""
        flags = [("seed", str(number)), ("promote.approval", "required" if required else "none")]
        with opened(self.home, "pipeline", load(DIGITS, flags), new=True, prefect_id=None, waiting=print) as run:
            return run

    def register(self, run: Run, number: int, score: float, records: str = "R") -> registry.Registered:
        """The version of an export."""
        if registry.find(self.client, "digits", EXPORT.format(number)) is None:
            if not self.client.search_registered_models("name = 'digits'"):
                self.client.create_registered_model("digits")
            tags = {"export": EXPORT.format(number), "run": run.run_id, "records": records, "score": repr(score)}
            named = {f"millrace.{name}": value for name, value in tags.items()}
            self.client.create_model_version("digits", f"file:///nowhere/{number}", tags=named)
        found = registry.find(self.client, "digits", EXPORT.format(number))
        assert found is not None
        return found

    def promote(self, run: Run, number: int, score: float, records: str = "R", margin: float = 0) -> str:
        """As `tasks.releasing` does; the status that the run ends with."""
        registry.finish(self.client, self.audit)
        champion = self.champion()
        found = self.register(run, number, score, records)
        if champion and champion.version == found.version:
            return "completed"
        against, before = (champion.version, champion.score) if champion else (None, None)
        gate = promotion("accuracy", score, against, before, margin, True)
        ruling = approval.rule(gate, found, run, run.config.promote.approval == "required", None)
        approval.carry_out(self.client, run, found, ruling)
        awaits = run.run_id if ruling.action == "await" else None
        made = ruling.release("digits", found, True, awaits)
        write(run.folder / "release.json", pretty({**vars(made)}))
        status = "awaiting_approval" if awaits else "completed" if made.alias == "champion" else "rejected"
        run.end(0 if status == "completed" else 3, status, None)
        return status

    def champion(self) -> registry.Registered | None:
        return registry.aliased(self.client, "digits", "champion")

    def at(self, alias: str) -> str | None:
        found = registry.aliased(self.client, "digits", alias)
        return found.version if found else None

    def tags(self, version: str) -> dict[str, str]:
        found = registry.version(self.client, "digits", version)
        assert found is not None
        return {name.removeprefix("millrace."): value for name, value in found.tags.items()}

    def told(self) -> list[tuple[str, str, str | None, str | None, str]]:
        return [(row["action"], row["version"], row["before"], row["after"], row["who"]) for row in self.audit.rows()]

    def champions(self, *scores: float) -> None:
        """Versions that became champion one after the other, by their gate."""
        for number, score in enumerate(scores, 1):
            assert self.promote(self.run(number, required=False), number, score) == "completed"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty registry: MLflow takes seconds to make one."""
    path = tmp_path_factory.mktemp("registry") / "mlflow.db"
    make_database(path)
    return path


@pytest.fixture
def new_shop(tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Shop]:
    def make(name: str) -> Shop:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # where MLflow's client leaves the address of the shop before
        return Shop(tmp_path / name, database)

    return make


@pytest.fixture
def shop(new_shop: Callable[[str], Shop]) -> Shop:
    return new_shop("home")


def test_a_gate_alone_makes_champions_and_every_move_is_a_line(shop: Shop) -> None:
    shop.champions(0.8, 0.9)
    assert shop.promote(shop.run(3, required=False), 3, 0.7) == "rejected"
    assert shop.told() == [
        ("promote", "1", None, "1", "gate"),
        ("promote", "2", "1", "2", "gate"),
        ("hold", "3", None, "3", "gate"),
    ]
    last = shop.audit.rows()[-1]
    assert (
        last["alias"] == "candidate" and last["known"] == "by the gate" and last["reason"].startswith("candidate only")
    )
    assert last["time"].endswith("+00:00") and last["model"] == "digits" and last["run"] in last["run"]
    assert shop.promote(shop.run(3, required=False), 3, 0.7) == "rejected"
    assert len(shop.told()) == 3, "nothing moved"


def test_what_passed_its_gate_waits_for_a_person_who_says_yes(shop: Shop) -> None:
    run = shop.run(1)
    assert shop.promote(run, 1, 0.8) == "awaiting_approval"
    assert (shop.at("champion"), shop.at("candidate"), shop.tags("1")["approval"]) == (None, "1", "pending")
    made = approval.settle(shop.client, Run(shop.home, run.folder), YES)
    assert (made.alias, made.awaits) == ("champion", None)
    assert made.verdict.endswith("there was none before; approved by ada (as stated): looked at")
    assert (shop.at("champion"), shop.at("candidate")) == ("1", None)
    tags = shop.tags("1")
    assert (tags["approval"], tags["approved_by"], tags["approval_reason"]) == ("approved", "ada", "looked at")
    assert tags["approval_known"] == "as stated" and tags["gate"].startswith("champion, with test accuracy 0.8000")
    found = registry.version(shop.client, "digits", "1")
    assert found is not None and "approved by ada (as stated): looked at" in found.description
    record = Run(shop.home, run.folder).record
    assert (record["status"], record["exit_code"]) == ("completed", 0)
    assert json.loads((run.folder / "release.json").read_bytes())["alias"] == "champion"
    assert shop.told() == [("await", "1", None, "1", "gate"), ("approve", "1", None, "1", "ada")]


def test_a_person_who_says_no_leaves_the_champion_and_is_heard_by_later_runs(shop: Shop) -> None:
    shop.champions(0.8)
    run = shop.run(2)
    shop.promote(run, 2, 0.9)
    approval.settle(shop.client, Run(shop.home, run.folder), NO)
    assert (Run(shop.home, run.folder).record["status"], Run(shop.home, run.folder).exit_code) == ("rejected", 3)
    tags = shop.tags("2")
    assert (tags["approval"], tags["rejected_by"], tags["approval_reason"]) == ("rejected", "bob", "too slow")
    assert shop.told()[-1] == ("reject", "2", "1", "1", "bob")
    assert shop.promote(shop.run(2), 2, 0.9) == "rejected"
    assert shop.at("champion") == "1" and len(shop.told()) == 3
    assert shop.promote(shop.run(2, required=False), 2, 0.9) == "completed", "where nobody need be asked"
    assert shop.at("champion") == "2" and "approval" not in shop.tags("2")


def test_a_second_run_of_what_waits_points_to_the_run_that_asked(shop: Shop) -> None:
    first, second = shop.run(1), shop.run(1)
    assert shop.promote(first, 1, 0.8) == "awaiting_approval"
    found = shop.register(second, 1, 0.8)
    assert approval.asked_by(found, second) == first.run_id
    assert shop.promote(shop.run(2), 2, 0.8) == "awaiting_approval"
    assert shop.promote(second, 1, 0.8) == "awaiting_approval"
    assert [row["action"] for row in shop.audit.rows()] == ["await", "await"] and shop.at("candidate") == "2"
    with pytest.raises(Refused, match=f"awaits the approval of {first.run_id}; .*; millrace reject {first.run_id}"):
        approval.settle(shop.client, Run(shop.home, second.folder), NO)


@pytest.mark.parametrize(("now", "alias"), [(0.85, "champion"), (0.95, "candidate")])
def test_a_champion_that_came_meanwhile_is_compared_with(shop: Shop, now: float, alias: str) -> None:
    shop.champions(0.8)
    run = shop.run(2)
    shop.promote(run, 2, 0.9)
    shop.promote(shop.run(3, required=False), 3, now)
    made = approval.settle(shop.client, Run(shop.home, run.folder), YES)
    assert made.alias == alias and "of champion version 3" in made.verdict
    assert shop.at("champion") == ("2" if alias == "champion" else "3")
    assert Run(shop.home, run.folder).exit_code == (0 if alias == "champion" else 3)
    if alias == "candidate":
        assert "behind by 0.0500" in made.verdict and shop.tags("2")["approval"] == "lapsed"
        assert shop.told()[-1] == ("hold", "2", "2", "2", "gate")


def test_a_champion_of_other_records_is_not_compared_but_can_be_kept(shop: Shop) -> None:
    shop.champions(0.8)
    run = shop.run(2)
    shop.promote(run, 2, 0.9)
    shop.promote(shop.run(3, required=False), 3, 0.99, records="S")
    with pytest.raises(Refused, match="judged on other records; .*; millrace run pipeline .* compares them anew"):
        approval.settle(shop.client, Run(shop.home, run.folder), YES)
    assert Run(shop.home, run.folder).record["status"] == "awaiting_approval"
    approval.settle(shop.client, Run(shop.home, run.folder), NO)
    assert shop.at("champion") == "3"


def test_what_cannot_be_answered_is_refused(shop: Shop) -> None:
    run = shop.run(1)
    with pytest.raises(Refused, match="running, without a release"):
        approval.settle(shop.client, Run(shop.home, run.folder), YES)
    shop.promote(run, 1, 0.8)
    approval.settle(shop.client, Run(shop.home, run.folder), YES)
    for answer in (YES, NO):
        with pytest.raises(Refused, match="digits version 1 was approved by ada already; .*: millrace rollback digits"):
            approval.settle(shop.client, Run(shop.home, run.folder), answer)
    plain = shop.run(2, required=False)
    shop.promote(plain, 2, 0.9)
    with pytest.raises(Refused, match="completed, digits version 2: champion, with .*; approve answers a run that"):
        approval.settle(shop.client, Run(shop.home, plain.folder), YES)
    gone = shop.run(3)
    shop.promote(gone, 3, 0.95)
    shop.client.delete_model_version("digits", "3")
    with pytest.raises(Refused, match="digits version 3 is not in the registry; .* registers it anew"):
        approval.settle(shop.client, Run(shop.home, gone.folder), YES)


def test_rollback_goes_back_step_by_step_and_gates_do_not_undo_it(shop: Shop) -> None:
    shop.champions(0.7, 0.8, 0.9)
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("3", "2")
    assert shop.promote(shop.run(3, required=False), 3, 0.9) == "rejected"
    assert shop.tags("3")["gate"] == "candidate only: rolled back by bob (system user): too slow"
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("2", "1")
    with pytest.raises(Refused, match="version 1 is the first champion that is known"):
        roll_back(shop.client, shop.home, "digits", None, NO)
    with pytest.raises(Refused, match="--to: digits version 7; .*; choose among 2, 3"):
        roll_back(shop.client, shop.home, "digits", "7", NO)
    assert roll_back(shop.client, shop.home, "digits", "3", YES) == ("1", "3")
    assert "rolled_back" not in shop.tags("3") and shop.tags("3")["champion_by"] == YES.by
    found = shop.champion()
    assert found is not None
    assert found.description.startswith("Champion again, in place of version 1, by ada (as stated): looked at.")
    assert [row[0] for row in shop.told()] == ["promote"] * 3 + ["rollback", "hold", "rollback", "restore"]
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("3", "1")


def test_rollback_knows_a_version_that_was_champion_twice_and_skips_one_that_is_gone(shop: Shop) -> None:
    shop.champions(0.7, 0.8)
    shop.promote(shop.run(1, required=False), 1, 0.7, margin=-1)
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("1", "2")
    shop.promote(shop.run(3, required=False), 3, 0.9)
    shop.client.delete_model_version("digits", "2")
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("3", "1")


def test_rollback_without_a_log_goes_by_the_registry(shop: Shop) -> None:
    shop.champions(0.7, 0.8, 0.9)
    shop.audit.path.unlink()
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("3", "2")
    assert roll_back(shop.client, shop.home, "digits", None, NO) == ("2", "1")


@pytest.mark.parametrize("name", ["other", "digits"])
def test_rollback_without_a_champion_is_refused(shop: Shop, name: str) -> None:
    shop.promote(shop.run(1), 1, 0.8)
    with pytest.raises(Refused, match=f"{name}: no version is champion"):
        roll_back(shop.client, shop.home, name, None, NO)


def promote_second(shop: Shop, client: Any) -> None:
    shop.client = client
    shop.promote(shop.run(2, required=False), 2, 0.9)


def answer_second(answer: Answer) -> Callable[[Shop, Any], None]:
    def act(shop: Shop, client: Any) -> None:
        [run] = [run for run in shop.home.runs.glob("*/release.json") if '"version": "2"' in run.read_text()]
        approval.settle(client, Run(shop.home, run.parent), answer)

    return act


def back(shop: Shop, client: Any) -> None:
    registry.finish(client, shop.audit)
    if shop.at("champion") != "1":
        roll_back(client, shop.home, "digits", None, NO)


ACTS: dict[str, tuple[Callable[[Shop, Any], None], tuple[str, str, str | None, str | None, str]]] = {
    "promote": (promote_second, ("promote", "2", "1", "2", "gate")),
    "approve": (answer_second(YES), ("approve", "2", "1", "2", "ada")),
    "reject": (answer_second(NO), ("reject", "2", "1", "1", "bob")),
    "rollback": (back, ("rollback", "1", "2", "1", "bob")),
}


@pytest.mark.parametrize("act", ACTS)
def test_killed_anywhere_and_run_again_it_is_done_once_and_told_once(
    act: str, new_shop: Callable[[str], Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write to the registry, before the line, and before what was begun is struck off."""
    do, line = ACTS[act]
    kills: list[str] = []
    for point in ("close", "drop", *range(99)):
        shop = new_shop(str(point))
        shop.champions(0.8)
        if act in ("approve", "reject"):
            shop.promote(shop.run(2), 2, 0.9)
        if act == "rollback":
            shop.promote(shop.run(2, required=False), 2, 0.9)
        before = shop.told()
        real = shop.client
        try:
            if isinstance(point, int):
                do(shop, Mortal(real, point))
            else:
                with monkeypatch.context() as patch:
                    patch.setattr(Audit, point, _killed)
                    do(shop, real)
        except Killed:
            kills.append(str(point))
            do(shop, real)
        else:
            break
        finally:
            shop.client = real
        assert shop.told() == [*before, line], point
        assert shop.audit.fault() is None and shop.audit.begun() is None
        assert shop.at("champion") == line[3]
    assert kills[:2] == ["close", "drop"] and len(kills) >= 5


def _killed(self: Audit) -> None:
    raise Killed


def test_what_was_begun_is_dropped_where_somebody_else_has_decided(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.champions(0.8)
    with pytest.raises(Killed):
        promote_second(shop, Mortal(shop.client, 0))
    shop.client = shop.client.client
    shop.register(shop.run(3), 3, 0.95)
    shop.client.set_registered_model_alias("digits", "champion", "3")
    registry.finish(shop.client, shop.audit)
    assert shop.at("champion") == "3" and len(shop.told()) == 1 and shop.audit.begun() is None
    assert "promote digits version 2 was begun" in capsys.readouterr().err
