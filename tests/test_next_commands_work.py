"""The commands that a run names at its end can be pasted: the program, the home and the input are there."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.reader.values import NO_TIME
from tasks.runs.home import Home
from tasks.runs.runs import find_runs
from tasks.sources.features import Feature
from tasks.view import speed, try_it
from tasks.view.summary import lines
from tests.support.homes import CommandHome


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, path: str = "") -> Path:
    """An environment in a folder, which is the one that runs."""
    own = folder / "bin/millrace"
    own.parent.mkdir(parents=True)
    own.touch(0o755)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setenv("PATH", path)
    return own


def test_the_program_is_called_by_its_name_where_the_shell_finds_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = installed(tmp_path / "one env", monkeypatch)
    assert try_it.program() == shlex.quote(str(own)), "not on the path: quoted, as it has a blank"
    monkeypatch.chdir(tmp_path)
    assert try_it.program() == "'one env/bin/millrace'"
    monkeypatch.setenv("PATH", str(own.parent))
    assert try_it.program() == "millrace"
    other = tmp_path / "other/millrace"
    other.parent.mkdir()
    other.touch(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:{own.parent}")
    assert try_it.program() == "'one env/bin/millrace'", "the shell would find another one"
    own.unlink()
    assert try_it.program() == f"{sys.executable} -m flows"


def test_the_home_is_named_where_the_working_directory_does_not_lead_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = installed(tmp_path / "env", monkeypatch)
    monkeypatch.setenv("PATH", str(own.parent))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILLRACE_HOME", raising=False)
    assert try_it.command("show", "a run") == "millrace show 'a run'"
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / ".millrace"))
    assert try_it.command("list") == "millrace list"
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "the home"))
    assert try_it.command("list") == f"MILLRACE_HOME='{tmp_path}/the home' millrace list"


FEATURES = {
    "Größe": Feature("number", "float32"),
    "pixels": Feature("number", "float32", shape=(2, 2)),
    "plan": Feature("category", "string"),
    "day": Feature("time", "int64"),
    "took": Feature("time", "int64"),
    "notes": Feature("text", "string"),
    "tags": Feature("words", "string"),
    "photo": Feature("image", "uint8"),
}


def column(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": FEATURES[name].kind, "shape": list(FEATURES[name].shape), **more}


def test_rows_are_written_as_their_source_has_them() -> None:
    columns = [column(name) for name in ("Größe", "pixels", "plan", "day", "notes", "tags")]
    columns.insert(4, column("took", format={"kind": "dates", "date": "%H:%M:%S"}))
    full = {
        "Größe": np.array([0.1], np.float32),
        "pixels": np.array([1, 2, 3, np.nan], np.float32),
        "plan": ["größer".encode()],
        "day": [86_400_000_000],
        "took": [-2_208_988_800_000_000 + 2_049_000_000],
        "notes": [b"a\nb"],
        "tags": [b"x", b"y"],
    }
    empty = {"Größe": [np.nan], "pixels": [np.nan] * 4, "plan": [b""], "day": [NO_TIME], "took": [NO_TIME]}
    made = try_it.raw(columns, FEATURES, [full, {**empty, "notes": [b""], "tags": []}], "ROWS.csv")
    assert made is not None and made[0] == ".jsonl"
    first, second = map(json.loads, made[1].decode().splitlines())
    assert first == {
        "Größe": 0.1,
        "pixels": [[1.0, 2.0], [3.0, None]],
        "plan": "größer",
        "day": "1970-01-02T00:00:00",
        "took": "00:34:09",
        "notes": "a\nb",
        "tags": ["x", "y"],
    }
    assert [value for name, value in second.items() if name not in ("pixels", "tags")] == [None] * 5


@pytest.mark.parametrize(
    ("name", "usual", "payload", "ending"),
    [
        ("photo", "IMAGE.png", b"\x89PNG1", ".png"),
        ("photo", "IMAGE.png", b"\xff\xd8", ".jpg"),
        ("notes", "FILE.txt", b"text", ".txt"),
        ("notes", "ROWS.jsonl", b"text", ".jsonl"),
    ],
)
def test_a_file_alone_has_the_ending_of_what_it_is(name: str, usual: str, payload: bytes, ending: str) -> None:
    made = try_it.raw([column(name)], FEATURES, [{name: [payload]}], usual)
    assert made is not None and made[0] == ending and (payload in made[1] or ending == ".jsonl")


def test_what_no_file_can_have_is_no_example() -> None:
    row = {"photo": [b"\x89PNG"], "plan": [b"a"], "Größe": np.array([1.0], np.float32)}
    assert try_it.raw([column("photo"), column("plan")], FEATURES, [row], "ROWS.csv") is None, "a row with an image"
    shifted = column("Größe", format={"kind": "numbers", "offset": 5.0})
    assert try_it.raw([shifted], FEATURES, [row], "ROWS.csv") is None, "it would be subtracted twice"
    assert try_it.raw([column("photo")], FEATURES, [{"photo": [b""]}], "IMAGE.png") is None, "a missing one"


def test_a_ratio_of_times_says_which_is_faster() -> None:
    assert [speed(ratio) for ratio in (1.4, 0.5, 1.0, 0.9951)] == [
        "1.40 x slower",
        "2.00 x faster",
        "as fast",
        "as fast",
    ]


def test_the_next_command_of_a_run_predicts(finished: CommandHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(finished.root))
    [run] = find_runs(Home(finished.root))
    named = [line.removeprefix("  next").strip() for line in lines(run, 1.0)]
    [next_one] = [line for line in named if " predict " in line]
    assert any(line.endswith("init YOURDATA    (a preset for data of your own)") for line in named)
    words = shlex.split(next_one)
    answer = finished.here(*words[words.index("predict") :], "--json")
    assert answer.code == 0 and len(answer.json["predictions"]) == 1
