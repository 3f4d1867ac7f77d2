"""Predictions come from a verified export, downloaded from the registry if the store has lost it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.homes import PLAIN, ROOT, Answer, CommandHome, move_registry

MODEL = "litert/model.tflite"


@pytest.fixture
def home(finished: CommandHome, tmp_path: Path) -> CommandHome:
    """A copy of the finished home, none of whose files is linked: they are to be damaged."""
    copy = CommandHome(tmp_path / "home")
    shutil.copytree(finished.root, copy.root)
    move_registry(finished.root, copy.root)
    return copy


def ask(home: CommandHome, export: str) -> Answer:
    picture = home.root / "picture.png"
    Image.fromarray(np.full((8, 8), 90, np.uint8)).save(picture)
    return home.here("predict", export, picture, "--json")


def folder_of(home: CommandHome) -> Path:
    [folder] = (home.root / "store/export").iterdir()
    return folder


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_a_damaged_export_is_moved_away_and_its_other_copy_fetched(home: CommandHome, finished: CommandHome) -> None:
    expected = ask(home, "digits@champion")
    assert expected.code == 0, expected.stderr
    flip(folder_of(home) / MODEL)
    answer = ask(home, "digits@champion")
    assert answer.code == 0, answer.stderr
    assert answer.json["predictions"] == expected.json["predictions"]
    assert answer.stderr.count("warning: ") == 1 and "the registry has another copy" in answer.stderr
    assert home.artifacts() == finished.artifacts()


@pytest.mark.slow
def test_an_export_that_the_store_has_no_more_is_fetched_and_checked(home: CommandHome, finished: CommandHome) -> None:
    shutil.rmtree(folder_of(home))
    answer = ask(home, "digits@champion")
    assert answer.code == 0, answer.stderr
    assert "warning" not in answer.stderr
    assert home.artifacts() == finished.artifacts()

    flip(folder_of(home) / MODEL)
    answer = ask(home, folder_of(home).name[:12])
    assert answer.code == 1
    assert "a published file never changes" in answer.stderr and len(answer.messages) == 1

    [registered] = home.root.glob(f"mlartifacts/models/**/{MODEL}")
    flip(registered)
    answer = ask(home, "digits@champion")
    assert answer.code == 1
    assert f"digits version 1: {MODEL}: has sha256" in answer.stderr and len(answer.messages) == 1
    assert not list((home.root / "store/export").iterdir())


EACH = """
import sys
from flows.commands import app
*names, picture = sys.argv[1:]
sys.exit(max(app(["predict", name, picture, "--json"], standalone_mode=False) for name in names))
"""
"""The command for each of several exports in one process, which loads TensorFlow once."""


@pytest.mark.slow
def test_a_home_that_cannot_be_written_predicts(home: CommandHome, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    Image.fromarray(np.full((8, 8), 90, np.uint8)).save(picture)
    expected = home.here("predict", "digits@1", picture, "--json").json["predictions"]
    paths = [home.root, *home.root.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        names = [folder_of(home).name[:12], "digits@champion"]
        command = [*PLAIN, sys.executable, "-P", "-c", EACH, *names, str(picture)]
        variables = {**home.variables("predict"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert [answer["predictions"] for answer in answers] == [expected, expected]
    finally:
        for path in paths:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("name", ["digits@nobody", "nobody@champion", "@champion", "digits@"])
def test_a_release_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    home.root.mkdir()
    answer = ask(home, name)
    assert answer.code == 2, answer.stderr
    assert len(answer.messages) == 1
    assert not (home.root / "mlflow.db").exists()


def test_one_bad_file_of_three_leaves_the_others_answered(finished: CommandHome, tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("one.png", "two.png", "three.png")]
    for name in names:
        Image.fromarray(np.full((8, 8), 90, np.uint8)).save(name)
    names[1].write_text("not a picture")
    answer = finished.here("predict", folder_of(finished), *names, "--json")
    assert answer.code == 1
    assert [row["input"] for row in answer.json["predictions"]] == [str(names[0]), str(names[2])]
    assert answer.json["error"]["field"] == str(names[1])
    assert answer.stderr.count("error: ") == 1
