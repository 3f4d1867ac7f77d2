"""why, diff, gc and doctor on a home in which a pipeline has run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.homes import DIGITS, SMALL, CommandHome


@pytest.fixture(scope="module")
def home(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A copy of the finished home, to be changed."""
    copy = CommandHome(tmp_path_factory.mktemp("questions") / "home")
    shutil.copytree(finished.root, copy.root)
    return copy


@pytest.mark.parametrize("stage", ["convert", "snapshot", "train", "evaluate", "compress", "export"])
def test_why_foresees_the_very_digests_that_a_run_makes(finished: CommandHome, stage: str) -> None:
    made = {f"{row['kind']}/{row['digest']}" for row in finished.newest_run()["stages"][stage]}
    answers = finished("why", stage, DIGITS, *SMALL, "--json").json["answers"]
    assert {answer["artifact"] for answer in answers} == made
    assert all(answer["in_store"] for answer in answers)


def test_why_names_the_field_also_of_an_earlier_stage(finished: CommandHome) -> None:
    answer = finished("why", "train", DIGITS, *SMALL, "--train.clip_norm", "0.5", "--snapshot.height", "9")
    assert answer.code == 0
    assert "train would run" in answer.stdout
    assert "train.clip_norm: 1.0 → 0.5" in answer.stdout
    assert "snapshot.height: 8 → 9" in answer.stdout
    assert len(answer.stdout.splitlines()) == 3


def test_why_of_an_empty_store_says_so(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path)("why", "convert", DIGITS)
    assert answer.stdout == "convert would run: the store has no records yet\n"


def test_diff_shows_config_and_whether_results_lie_apart(home: CommandHome) -> None:
    first = home.newest_run()["run_id"]
    second = home("run", "training", DIGITS, *SMALL, "--seed", "3", "--json").json["run_id"]
    answer = home("diff", first, second)
    assert answer.code == 0, answer.stderr
    assert "  seed: 1 → 3" in answer.stdout
    assert "data: the same" in answer.stdout
    assert "environment: the same" in answer.stdout
    assert "test/accuracy" in answer.stdout
    [row] = [row for row in home("diff", first, second, "--json").json["results"] if row["metric"] == "test/accuracy"]
    assert row["intervals_apart"] in (True, False)


def test_gc_keeps_what_runs_and_releases_need(home: CommandHome) -> None:
    """After the run of another seed, whose artifacts go when only a later run is kept; the champion's stay."""
    before = {row["digest"] for row in home("list", "--json").json["artifacts"]}
    assert home("gc", "--keep", "9", "--json").json["dropped"] == []
    home("run", "dataset", DIGITS, *SMALL)
    foreseen = home("gc", "--keep", "1", "--dry-run", "--json").json["dropped"]
    assert {row["digest"] for row in home("list", "--json").json["artifacts"]} == before
    dropped = home("gc", "--keep", "1", "--json").json["dropped"]
    assert dropped == foreseen
    assert sorted(row["what"].partition("/")[0] for row in dropped) == ["model", "report"]
    assert home("verify", "--all").code == 0


def test_doctor_finds_this_machine_fit(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path)("doctor", "--json")
    findings = {finding["what"]: finding for finding in answer.json["findings"]}
    assert findings["python"]["verdict"] == findings["packages"]["verdict"] == findings["home"]["verdict"] == "ok"
    assert answer.code == (1 if any(found["verdict"] == "fault" for found in findings.values()) else 0)


def test_doctor_refuses_a_home_that_cannot_be_one() -> None:
    answer = CommandHome(Path("/proc/home"))("doctor", "--json")
    assert answer.code == 1
    [place] = [finding for finding in answer.json["findings"] if finding["what"] == "home"]
    assert place["verdict"] == "fault" and "MILLRACE_HOME" in place["remedy"]
