"""The command line itself: whatever is typed, one line tells what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.commands.run import check_server
from tasks.errors import Failed
from tests.homes import CommandHome


def test_without_a_command_the_help_comes_and_an_error_that_says_why(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home")()
    assert answer.code == 2
    assert "Usage: millrace" in answer.stdout
    assert answer.stderr == "error: millrace: no command; see the usage; millrace --help\n"


def test_an_option_before_the_command_does_not_become_its_name(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home")("--json", "list")
    assert answer.code == 2
    assert answer.json["command"] == "list"
    assert answer.json["status"] == "refused"


@pytest.mark.parametrize("words", [("show", ""), ("show", "**"), ("diff", "", ""), ("verify", "*")])
def test_an_empty_or_starred_name_is_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    run = tmp_path / "home/runs/20260101-000000-digits-0000/run.json"
    run.parent.mkdir(parents=True)
    run.write_text("{}")
    answer = CommandHome(tmp_path / "home")(*words)
    assert answer.code == 2, answer.stderr
    assert answer.stderr.startswith("error: ") and answer.stderr.count("\n") == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "nonsense"])
def test_a_prefect_server_that_is_down_is_one_line(url: str) -> None:
    with pytest.raises(Failed, match=r"PREFECT_API_URL: .*unset PREFECT_API_URL"):
        check_server(url)
