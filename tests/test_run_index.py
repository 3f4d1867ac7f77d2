"""The index of runs: what is looked for among all of them is that of their records, read once while they stay."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.config.compose import load
from tasks.errors import Failed
from tasks.runs import runs
from tasks.runs.home import Home
from tasks.runs.runs import Row, Run, finished_before, opened, rows
from tests.support.homes import DIGITS


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").make()
    for number in range(20):
        folder = home.runs / f"20260101-0000{number:02d}-digits-0000"
        folder.mkdir()
        write(folder, identity=f"i{number % 7}", exit_code=number % 2, flow_run=f"f{number}")
    return home


def write(folder: Path, identity: str, exit_code: int | None, flow_run: str | None) -> None:
    attempts = [] if flow_run is None else [{"prefect_flow_run_id": flow_run}]
    (folder / "new").write_text(json.dumps({"identity": identity, "exit_code": exit_code, "attempts": attempts}))
    os.replace(folder / "new", folder / "run.json")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose records are read."""
    read: list[str] = []
    real = runs.read

    def reading(path: Path) -> dict[str, Any]:
        read.append(path.parent.name)
        return real(path)

    monkeypatch.setattr(runs, "read", reading)
    return read


def test_only_records_that_have_changed_are_read(home: Home, reads: list[str]) -> None:
    first = list(rows(home))
    assert [row.run_id for row in first] == sorted((path.name for path in home.runs.glob("2*")), reverse=True)
    assert first[0] == Row("20260101-000019-digits-0000", "i5", 1, "f19") and len(reads) == 20
    assert list(rows(home)) == first and len(reads) == 20
    changed = home.runs / first[3].run_id
    write(changed, "other", None, None)
    (home.runs / first[5].run_id / "run.json").unlink()
    assert list(rows(home)) == [*first[:3], Row(changed.name, "other", None, None), first[4], *first[6:]]
    assert reads[20:] == [changed.name]


def test_a_record_that_has_changed_and_is_as_long_as_before_is_read(home: Home, reads: list[str]) -> None:
    before = list(rows(home))[6]
    assert before.exit_code == 1
    write(home.runs / before.run_id, before.identity, 0, before.prefect_id)
    assert list(rows(home))[6].exit_code == 0 and reads[20:] == [before.run_id]


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[]",
        '{"a": 1}',
        '{"20260101-000019-digits-0000": {"key": [1]}}',
        '{"20260101-000019-digits-0000": [[1], [2]]}',
        None,
    ],
)
def test_a_damaged_index_costs_a_reading_of_all(damage: str | None, home: Home, reads: list[str]) -> None:
    first = list(rows(home))
    (home.runs / runs.FILE).unlink() if damage is None else (home.runs / runs.FILE).write_text(damage)
    assert list(rows(home)) == first and len(reads) == 40


def test_a_record_that_is_no_json_is_named(home: Home) -> None:
    (home.runs / "20260101-000007-digits-0000/run.json").write_text("{")
    with pytest.raises(Failed, match=r"20260101-000007-digits-0000/run\.json: not JSON"):
        list(rows(home))


def test_a_run_begins_and_goes_on_by_the_records_that_are_there(home: Home, reads: list[str]) -> None:
    """Beside twenty others, of which none is read a second time."""
    list(rows(home))
    before = len(reads)

    config = load(DIGITS, [("seed", "3")])

    def one(exit_code: int, prefect_id: str | None = None) -> str:
        with opened(home, "dataset", config, new=False, prefect_id=prefect_id, waiting=print) as run:
            run.end(exit_code, "completed", None)
        return run.run_id

    first = one(1)
    assert one(75) == first and not finished_before(home, "dataset", config)
    assert one(0, "of prefect") == first and finished_before(home, "dataset", config)
    second = one(1)
    assert second != first
    assert one(0, "of prefect") == first, "a flow run of Prefect that is retried"
    assert not finished_before(home, "dataset", config), "the newer run"
    assert one(0) == second and Run(home, home.runs / second).attempt == 2
    assert finished_before(home, "dataset", config)
    assert set(reads[before:]) == {first, second}
    assert finished_before(Home(home.root / "none"), "dataset", load(DIGITS)) is False
