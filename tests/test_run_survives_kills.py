"""Killed once in each stage and run again, the pipeline ends with the bytes of an unbroken one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.homes import DIGITS, SMALL, CommandHome

WORKPLACES = {
    "convert": "records",
    "snapshot": "snapshot",
    "train": "model",
    "evaluate": "report",
    "compress": "variant",
    "export": "export",
}


def at_work(home: CommandHome, stage: str) -> Callable[[], bool]:
    """Whether the stage has begun and left at least one finished piece."""
    if stage == "promote":
        return lambda: "export" in home.newest_run()["stages"]
    return lambda: any((home.root / "store/.staging" / WORKPLACES[stage]).glob("*/.pieces/**/*.json"))


@pytest.mark.timeout(900)
def test_killed_once_in_each_stage(finished: CommandHome, tmp_path: Path) -> None:
    home = CommandHome(tmp_path)
    for stage in [*WORKPLACES, "promote"]:
        assert home.kill_when(at_work(home, stage), "run", "pipeline", DIGITS, *SMALL), (
            f"{stage}: ended before the kill"
        )
        assert stage not in home.newest_run()["stages"] or stage == "compress", f"{stage}: done before the kill"
    answer = home("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == 8
    assert len(list(tmp_path.glob("runs/*/run.json"))) == 1
    assert home.artifacts() == finished.artifacts()
    assert home("show", answer.json["run_id"], "--json").json["ledger"]["missing"] == 0
