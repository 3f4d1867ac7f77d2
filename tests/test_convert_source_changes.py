"""A source that changes between its digest and its reading is not published under that digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.artifacts import Outcome, Records
from tasks.config.compose import load
from tasks.errors import Failed
from tasks.processes.workbench import Work
from tasks.runner.attempt import Attempt, RunRequest, attempt_run, current
from tasks.runner.identities import Code, Identity
from tasks.runner.stages import run_stage
from tests.support.homes import DIGITS


@pytest.mark.parametrize("changes", [True, False])
def test_what_was_read_is_what_the_digest_names(changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader itself sees one consistent source, the changed one: only the comparison afterwards can tell."""
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    content = ["a" * 64]

    def work(*_: object, **__: object) -> Outcome:
        if changes:
            content[0] = "b" * 64
        return Outcome(counts={"examples": 1})

    monkeypatch.setattr(Attempt, "work", work)
    identity = Identity({}, {}, Code(1), sources=lambda: [("one.txt", content[0])])
    stores = []

    def body() -> None:
        stores.append(current.get().store)
        run_stage("convert", Records, identity, Work(print))

    request = RunRequest()
    if not changes:
        attempt_run("dataset", load(DIGITS), body, request, None)
        assert len(stores[0].artifacts()) == 1
        return
    with pytest.raises(Failed, match="changed during the run"):
        attempt_run("dataset", load(DIGITS), body, request, None)
    assert stores[0].artifacts() == []
