"""A change of the registry, killed anywhere and run again, is applied and logged once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tasks.registry import approval, registry
from tasks.registry.rollback import roll_back
from tasks.runs.audit import Audit, Decision
from tasks.runs.runs import Run
from tests.support.registries import NO, YES, RegistryHome, export_of


class Killed(BaseException):
    """A SIGKILL, as far as the code around it can tell."""


class Mortal:
    """A client that is killed at its write number `last`, counted from 0."""

    def __init__(self, client: MlflowClient, last: int) -> None:
        self.client, self.left = client, last

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.client, name)
        if not name.startswith(("set_", "update_", "delete_")):
            return attribute

        def write(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return attribute(*args, **kwargs)

        return write


def promote_second(registry_home: RegistryHome, client: Any) -> None:
    registry_home.client = client
    registry_home.promote(registry_home.run(2, required=False), 2, 0.9)


def answer_second(answer: Decision) -> Callable[[RegistryHome, Any], None]:
    def act(registry_home: RegistryHome, client: Any) -> None:
        [run] = [run for run in registry_home.home.runs.glob("*/release.json") if '"version": "2"' in run.read_text()]
        approval.settle(client, Run(registry_home.home, run.parent), answer)

    return act


def back(registry_home: RegistryHome, client: Any) -> None:
    registry.finish(client, registry_home.audit)
    if registry_home.at("champion") != "1":
        roll_back(client, registry_home.home, "digits", None, NO)


ACTS: dict[str, tuple[Callable[[RegistryHome, Any], None], tuple[str, str, str | None, str | None, str]]] = {
    "promote": (promote_second, ("promote", "2", "1", "2", "gate")),
    "approve": (answer_second(YES), ("approve", "2", "1", "2", "ada")),
    "reject": (answer_second(NO), ("reject", "2", "1", "1", "bob")),
    "rollback": (back, ("rollback", "1", "2", "1", "bob")),
}


@pytest.mark.parametrize(
    "act", ["promote", "approve", *(pytest.param(act, marks=pytest.mark.slow) for act in ("reject", "rollback"))]
)
def test_killed_anywhere_and_run_again_it_is_done_once_and_logged_once(
    act: str, new_registry_home: Callable[[str], RegistryHome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write to the registry, before the line, and before what was begun is struck off."""
    do, line = ACTS[act]
    kills: list[str] = []
    untouched = new_registry_home("untouched")
    untouched.champions(0.8)
    if act in ("approve", "reject"):
        untouched.promote(untouched.run(2), 2, 0.9)
    if act == "rollback":
        untouched.promote(untouched.run(2, required=False), 2, 0.9)
    for point in ("close", "drop", *range(99)):
        registry_home = untouched.copied_to(untouched.home.root.with_name(str(point)))
        before = registry_home.audit_lines()
        real = registry_home.client
        try:
            if isinstance(point, int):
                do(registry_home, Mortal(real, point))
            else:
                with monkeypatch.context() as patch:
                    patch.setattr(Audit, point, _killed)
                    do(registry_home, real)
        except Killed:
            kills.append(str(point))
            do(registry_home, real)
        else:
            break
        finally:
            registry_home.client = real
        assert registry_home.audit_lines() == [*before, line], point
        assert registry_home.audit.fault() is None and registry_home.audit.begun() is None
        assert registry_home.at("champion") == line[3]
    assert kills[:2] == ["close", "drop"] and len(kills) >= 5


def _killed(self: Audit) -> None:
    raise Killed


def test_what_was_begun_is_dropped_where_somebody_else_has_decided(
    registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry_home.champions(0.8)
    with pytest.raises(Killed):
        promote_second(registry_home, Mortal(registry_home.client, 0))
    registry_home.client = registry_home.client.client
    registry_home.register(registry_home.run(3), 3, 0.95)
    registry_home.client.set_registered_model_alias("digits", "champion", "3")
    registry.finish(registry_home.client, registry_home.audit)
    assert (
        registry_home.at("champion") == "3"
        and len(registry_home.audit_lines()) == 1
        and registry_home.audit.begun() is None
    )
    assert "promote digits version 2 was not completed" in capsys.readouterr().err


@pytest.mark.parametrize("export", [None, export_of(7)])
def test_what_was_begun_is_dropped_where_its_version_is_gone_or_has_another_export(
    export: str | None, registry_home: RegistryHome, capsys: pytest.CaptureFixture[str]
) -> None:
    registry_home.champions(0.8)
    with pytest.raises(Killed):
        promote_second(registry_home, Mortal(registry_home.client, 0))
    registry_home.client = registry_home.client.client
    if export is None:
        registry_home.client.delete_model_version("digits", "2")
    else:
        registry_home.client.set_model_version_tag("digits", "2", "millrace.export", export)
    assert not registry.finish(registry_home.client, registry_home.audit)
    assert registry_home.at("champion") == "1" and registry_home.audit.begun() is None
    assert len(registry_home.audit_lines()) == 1 and registry.finish(registry_home.client, registry_home.audit)
    assert "promote digits version 2 was not completed" in capsys.readouterr().err
