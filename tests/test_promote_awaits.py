"""`millrace run` that awaits approval, and the commands that decide, on a real run."""

from __future__ import annotations

import getpass
import json
import re

import pytest

from tests.support.homes import ASKING, DIGITS, SMALL, Answer, CommandHome


@pytest.fixture(scope="module")
def home(asking: CommandHome) -> CommandHome:
    return asking


def rows(home: CommandHome) -> list[dict[str, str]]:
    return [json.loads(line) for line in (home.root / "audit.jsonl").read_text().splitlines()]


def champion(home: CommandHome) -> str:
    from tasks.registry import registry
    from tasks.tracking.runs import connect

    version_now = registry.aliased(connect(f"sqlite:///{home.root}/mlflow.db"), "digits", "champion")
    assert version_now is not None
    return version_now.version


def test_it_ends_with_exit_code_3_and_says_what_to_type(home: CommandHome, asked: Answer) -> None:
    assert asked.code == 3, asked.stderr
    assert (asked.json["status"], asked.json["exit_code"], asked.json["error"]) == ("awaiting_approval", 3, None)
    run = asked.json["run_id"]
    assert f"to approve: millrace approve {run} --reason TEXT" in asked.stderr
    folder = home.root / "runs" / run
    for name in ("page.html", "description.md"):
        assert "awaiting approval" in (folder / name).read_text().lower()
    assert not re.search(r"badge[^>]*>rejected", (folder / "page.html").read_text()), "a variant is, and not the run"
    assert champion(home) == "1" and rows(home)[-1]["action"] == "await"


def test_its_answers_are_refused_in_one_line_where_there_is_nothing_to_answer(home: CommandHome, asked: Answer) -> None:
    first = next(path.name for path in home.root.glob("runs/2*") if path.name != asked.json["run_id"])
    for words, says in [
        (("approve", asked.json["run_id"], "--reason", " "), '--reason: ""; a decision needs a reason'),
        (("approve", "nobody", "--reason", "x"), "nobody: no such run"),
        (("reject", first, "--reason", "x"), "completed, digits version 1: champion, with"),
        (("rollback", "digits", "--reason", "x"), "version 1 is the first known champion"),
    ]:
        answer = home.here(*words, "--json")
        assert answer.code == 2, answer.stderr
        assert says in answer.stderr and len(answer.messages) == 1
        assert (answer.json["status"], answer.json["command"]) == ("refused", words[0])
    assert home.here("approve", asked.json["run_id"], "--json").code == 2
    assert len(rows(home)) == 2


def test_approve_ends_the_run_and_rollback_takes_it_back(home: CommandHome, asked: Answer) -> None:
    run = asked.json["run_id"]
    answer = home.here("approve", run[-4:], "--reason", "seen by two", "--json")
    assert answer.code == 0, answer.stderr
    reply = answer.json
    assert (reply["status"], reply["run_id"], reply["version"], reply["alias"]) == ("completed", run, "2", "champion")
    assert champion(home) == "2"
    line = rows(home)[-1]
    assert (line["who"], line["known"], line["reason"]) == (getpass.getuser(), "system user", "seen by two")
    record = json.loads((home.root / "runs" / run / "run.json").read_bytes())
    assert (record["status"], record["exit_code"]) == ("completed", 0)
    assert "seen by two" in (home.root / "runs" / run / "page.html").read_text()
    again = home.here("approve", run, "--reason", "twice", "--json")
    assert again.code == 2 and "was approved by" in again.stderr
    back = home.here("rollback", "digits", "--reason", "slow in production", "--json")
    assert (back.code, back.json["before"], back.json["after"]) == (0, "2", "1"), back.stderr
    assert champion(home) == "1"
    later = home.here("run", "pipeline", DIGITS, *SMALL, *ASKING, "--json")
    assert later.code == 3 and later.json["status"] == "rejected", later.stderr
    assert "rolled back by" in later.stderr and champion(home) == "1"


def test_verify_checks_the_log_and_names_the_damaged_line(home: CommandHome, asked: Answer) -> None:
    whole = home.here("verify", "--all")
    assert whole.code == 0 and "intact   audit.jsonl" in whole.stdout, whole.stdout
    log = home.root / "audit.jsonl"
    log.write_text(log.read_text().replace('"await"', '"waits"'))
    damaged = home.here("verify", "--all", "--json")
    assert damaged.code == 1
    assert damaged.json["damaged"] == [{"artifact": "audit.jsonl", "file": "line 2", "what": "was changed"}]
