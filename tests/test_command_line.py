"""The command line: invalid arguments give one line that names the fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

from flows.session import check_server
from tasks.environment.process import Output
from tasks.errors import Failed
from tests.support.homes import DIGITS, MILLRACE, PLAIN, Answer, CommandHome


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "MILLRACE_HOME": str(home)}


def test_without_a_command_the_help_comes_and_an_error_that_says_why(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home")()
    assert answer.code == 2
    assert "Usage: millrace" in answer.stdout
    assert answer.stderr == "error: millrace: no command; see the usage; run millrace --help\n"


def test_an_option_before_the_command_does_not_become_its_name(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home").here("--json", "list")
    assert answer.code == 2
    assert answer.json["command"] == "list"
    assert answer.json["status"] == "refused"


def test_the_version_names_the_libraries_too(tmp_path: Path) -> None:
    lines = CommandHome(tmp_path / "home")("--version").stdout.splitlines()
    assert lines[0] == f"millrace {version('millrace')}"
    assert f"tensorflow {version('tensorflow')}" in lines[1] and f"mlflow {version('mlflow')}" in lines[1]


@pytest.mark.parametrize("words", [(), ("run",), ("list",)])
def test_h_is_help(words: tuple[str, ...], tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home").here(*words, "-h")
    assert answer.code == 0 and "Usage: millrace" in answer.stdout


@pytest.mark.parametrize("words", [("list",), ("list", "--json")])
def test_a_full_disk_behind_the_output_is_not_blamed_on_the_home(words: tuple[str, ...], tmp_path: Path) -> None:
    command = f"{MILLRACE} {' '.join(words)} > /dev/full"
    done = subprocess.run(["bash", "-c", command], env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 1
    says = "error: standard output: No space left on device; the command must be able to write its output; write it to"
    assert done.stderr.startswith(says) and done.stderr.count("\n") == 1


def test_a_reader_that_goes_away_ends_a_command_quietly(finished: CommandHome) -> None:
    """Of `verify` both streams end early; the command still ends with its own exit code."""
    command = f"set -o pipefail; {{ {MILLRACE} verify --all; echo $? >&3; }} 2>&1 | true"
    with tempfile.TemporaryFile("w+") as code:
        done = subprocess.run(
            ["bash", "-c", f"exec 3>&{code.fileno()}; {command}"],
            env=environment(finished.root),
            capture_output=True,
            text=True,
            pass_fds=[code.fileno()],
        )
        code.seek(0)
        assert (done.stdout, done.stderr, code.read()) == ("", "", "0\n")


def test_a_terminal_that_was_closed_is_no_error() -> None:
    master, slave = os.openpty()
    with open(slave, "w") as terminal:
        os.close(master)
        output = Output(terminal, "standard output")
        output.write("a line\n")
        output.flush()


@pytest.mark.parametrize("words", [("show", ""), ("show", "**"), ("diff", "", ""), ("verify", "*")])
def test_an_empty_or_starred_name_is_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    run = tmp_path / "home/runs/20260101-000000-digits-0000/run.json"
    run.parent.mkdir(parents=True)
    run.write_text("{}")
    answer = CommandHome(tmp_path / "home").here(*words)
    assert answer.code == 2, answer.stderr
    assert [message.startswith("error: ") for message in answer.messages] == [True]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "nonsense"])
def test_a_prefect_server_that_is_down_is_one_line(url: str) -> None:
    with pytest.raises(Failed, match=r"PREFECT_API_URL: .*unset PREFECT_API_URL"):
        check_server(url)


COMMANDS = [
    ("list",),
    ("verify", "--all"),
    ("show", "abc"),
    ("gc",),
    ("diff", "a", "b"),
    ("why", "convert", DIGITS),
    ("predict", "digits@champion", DIGITS),
    ("run", DIGITS),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("inside", ["", "home"])
def test_a_home_that_is_a_file_is_not_an_empty_one(words: tuple[str | Path, ...], inside: str, tmp_path: Path) -> None:
    """Half of these are processes of their own, so that each command is one once."""
    (tmp_path / "file").write_text("no folder")
    home = CommandHome(tmp_path / "file" / inside, own_processes=True)
    answer = home.here(*words) if inside else home(*words)
    assert answer.code == 2, answer.stderr
    assert "the home must be a folder that can be read; fix it, or set MILLRACE_HOME" in answer.stderr
    assert len(answer.messages) == 1 and answer.stdout == ""


ELSEWHERE = [
    ("init", "nowhere"),
    ("approve", "nobody", "--reason", "x"),
    ("reject", "nobody", "--reason", "x"),
    ("rollback", "nobody", "--reason", "x"),
    ("backup", "/nowhere"),
    ("restore", "/nowhere"),
    ("board", "nobody"),
    ("backfill", "dataset/nothing", "--since", "2026-01-01", "--until", "2026-01-02"),
    ("status",),
    ("down",),
]
"""The commands that no other test of this suite starts as a process."""


def test_a_command_answers_in_this_process_what_it_answers_in_its_own(tmp_path: Path) -> None:
    """Most tests rely on that."""
    processes = [CommandHome(tmp_path / "home" / words[0]).start(*words) for words in ELSEWHERE]
    outputs = [process.communicate(timeout=120) for process in processes]
    shutil.rmtree(tmp_path / "home", ignore_errors=True)
    for words, process, (stdout, stderr) in zip(ELSEWHERE, processes, outputs, strict=True):
        answer = CommandHome(tmp_path / "home" / words[0]).here(*words)
        assert (answer.code, answer.stdout) == (process.returncode, stdout), words
        assert answer.messages == Answer(0, stdout, stderr).messages, words
        assert stdout or stderr


LOCKED = [*(("list", locked) for locked in ("home/store", "home", ".")), *(("run", "home"), ("doctor", "home"))]


@pytest.mark.parametrize(("command", "locked"), LOCKED)
def test_a_home_that_may_not_be_looked_into_is_not_an_empty_one(command: str, locked: str, tmp_path: Path) -> None:
    (tmp_path / "home/store").mkdir(parents=True)
    words = [command, *([DIGITS] if command == "run" else [])]
    (tmp_path / locked).chmod(0)
    try:
        answer = CommandHome(tmp_path / "home", PLAIN, own_processes=True)(*words)
    finally:
        (tmp_path / locked).chmod(0o700)
    if command == "doctor":
        assert answer.code == 1
        return
    assert answer.code == 2, answer.stderr
    assert "the home must be a folder that can be read" in answer.stderr
    assert len(answer.messages) == 1 and answer.stdout == ""


def test_what_is_no_manifest_and_no_record_is_named(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    for name in ("store/model/abc/manifest.json", "runs/20260101-000000-digits-0000/run.json"):
        (home.root / name).parent.mkdir(parents=True)
        (home.root / name).write_text("{")
    answer = home.here("verify", "--all")
    assert answer.code == 1
    assert "DAMAGED  model/abc: manifest.json cannot be read" in answer.stdout
    for words, says in [(("list",), "model/abc/manifest.json: cannot be read"), (("diff", "0000", "0000"), "not JSON")]:
        answer = home.here(*words)
        assert answer.code == 1
        assert says in answer.stderr and "remove " in answer.stderr
        assert len(answer.messages) == 1


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:nine"])
def test_a_url_that_is_none_is_one_line_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from infra.health import servers

    with pytest.raises(Failed, match="PREFECT_API_URL: ") as failed:
        check_server(url)
    cause = str(failed.value.saw).removeprefix(f"{url}: ")
    assert cause not in ("", "None") and cause != failed.value.saw
    monkeypatch.setenv("PREFECT_API_URL", url)
    assert next(servers()).verdict == "fault"
