"""Decisions on the registry of a home: one process at a time, so that each begins with what the last one left."""

from __future__ import annotations

import pytest

from flows.commands import decisions
from flows.references import registry_of
from flows.reply import Reply
from tasks.store.lock import locked
from tests.support.registries import RegistryHome
from tests.support.waiting import order_of


def test_a_second_decision_waits_for_the_first(registry_home: RegistryHome, capfd: pytest.CaptureFixture[str]) -> None:
    home = registry_home.home

    def decide() -> None:
        with registry_of(home):
            pass

    assert order_of(registry_of(home), decide, capfd) == "held"


def test_a_decision_waits_for_the_process_that_works_on_the_run(
    registry_home: RegistryHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes the record of the run."""
    home = registry_home.home
    folder = home.runs / "20260101-000000-digits-0000"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    monkeypatch.setenv("MILLRACE_HOME", str(home.root))

    def decide() -> None:
        with pytest.raises(KeyError):  # the run of this test has nothing to decide, which is found under the lock
            decisions.decide(Reply("approve", False), folder.name, True, "fine")

    assert order_of(locked(folder / "lock"), decide, capfd) == "held"
