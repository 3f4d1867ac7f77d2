"""`records.max_age`: data that is too old is refused at once and in one line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tasks.config.compose import load
from tasks.errors import Refused
from tasks.sources.kinds import SourceConfig
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.sources.kinds.folders import TextFilesSource
from tests.support.homes import DIGITS, CommandHome


def aged(folder: Path, *hours: float) -> TextFilesSource:
    for number, age in enumerate(hours):
        path = folder / f"{number}.txt"
        path.write_text("text")
        written = time.time() - 3600 * age
        os.utime(path, (written, written))
    return TextFilesSource(path=str(folder), glob="*.txt", name="texts")


def refusal(source: SourceConfig, age: str) -> Refused:
    with pytest.raises(Refused) as refused:
        source.check_age(load(DIGITS, [("records.max_age", age)]).records.oldest())
    return refused.value


def test_the_newest_file_decides(tmp_path: Path) -> None:
    source = aged(tmp_path, 100, 30.5)
    source.check_age(load(DIGITS, [("records.max_age", "31h")]).records.oldest())
    source.check_age(None)
    error = refusal(source, "30h")
    assert "its newest file is 1 day, 6:30" in str(error) and "allows 1 day, 6:00:00" in str(error)
    assert "1 day" in str(refusal(source, "1d"))


def test_a_source_without_files_has_no_age() -> None:
    assert refusal(SklearnSource(), "1d").field == "records.max_age"


@pytest.mark.parametrize("age", ["7", "0d", "1.5h", "-1d", "d"])
def test_an_age_has_a_unit(age: str) -> None:
    with pytest.raises(Refused, match="records.max_age"):
        load(DIGITS, [("records.max_age", f"'{age}'")])


def test_the_command_refuses_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    source = aged(tmp_path / "texts", 50)
    preset = tmp_path / "texts.yaml"
    given = f"{{kind: text_files, name: texts, path: {source.path}, glob: '*.txt'}}"
    preset.write_text(f"name: texts\nsource: {given}\nsnapshot: {{kind: tokens}}\ntrain: {{steps: 1}}\n")
    home = CommandHome(tmp_path / "home")
    answer = home("run", "dataset", preset, "--records.max_age", "2d", "--json")
    assert answer.code == 2 and answer.json["error"]["field"] == "source"
    assert not home.root.exists()
