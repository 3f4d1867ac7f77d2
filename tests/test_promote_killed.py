"""A change of the registry that is killed anywhere and run again is made once and told once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tasks.registry import approval, registry
from tasks.registry.rollback import roll_back
from tasks.runs.audit import Answer, Audit
from tasks.runs.runs import Run
from tests.shops import NO, YES, Shop


class Killed(BaseException):
    """A SIGKILL, as far as the code around it can tell."""


class Mortal:
    """A client that is killed at its write number `last`, counted from 0."""

    def __init__(self, client: MlflowClient, last: int) -> None:
        self.client, self.left = client, last

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if not name.startswith(("set_", "update_", "delete_")):
            return found

        def write(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return found(*args, **kwargs)

        return write


def promote_second(shop: Shop, client: Any) -> None:
    shop.client = client
    shop.promote(shop.run(2, required=False), 2, 0.9)


def answer_second(answer: Answer) -> Callable[[Shop, Any], None]:
    def act(shop: Shop, client: Any) -> None:
        [run] = [run for run in shop.home.runs.glob("*/release.json") if '"version": "2"' in run.read_text()]
        approval.settle(client, Run(shop.home, run.parent), answer)

    return act


def back(shop: Shop, client: Any) -> None:
    registry.finish(client, shop.audit)
    if shop.at("champion") != "1":
        roll_back(client, shop.home, "digits", None, NO)


ACTS: dict[str, tuple[Callable[[Shop, Any], None], tuple[str, str, str | None, str | None, str]]] = {
    "promote": (promote_second, ("promote", "2", "1", "2", "gate")),
    "approve": (answer_second(YES), ("approve", "2", "1", "2", "ada")),
    "reject": (answer_second(NO), ("reject", "2", "1", "1", "bob")),
    "rollback": (back, ("rollback", "1", "2", "1", "bob")),
}


@pytest.mark.parametrize("act", ACTS)
def test_killed_anywhere_and_run_again_it_is_done_once_and_told_once(
    act: str, new_shop: Callable[[str], Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write to the registry, before the line, and before what was begun is struck off."""
    do, line = ACTS[act]
    kills: list[str] = []
    for point in ("close", "drop", *range(99)):
        shop = new_shop(str(point))
        shop.champions(0.8)
        if act in ("approve", "reject"):
            shop.promote(shop.run(2), 2, 0.9)
        if act == "rollback":
            shop.promote(shop.run(2, required=False), 2, 0.9)
        before = shop.told()
        real = shop.client
        try:
            if isinstance(point, int):
                do(shop, Mortal(real, point))
            else:
                with monkeypatch.context() as patch:
                    patch.setattr(Audit, point, _killed)
                    do(shop, real)
        except Killed:
            kills.append(str(point))
            do(shop, real)
        else:
            break
        finally:
            shop.client = real
        assert shop.told() == [*before, line], point
        assert shop.audit.fault() is None and shop.audit.begun() is None
        assert shop.at("champion") == line[3]
    assert kills[:2] == ["close", "drop"] and len(kills) >= 5


def _killed(self: Audit) -> None:
    raise Killed


def test_what_was_begun_is_dropped_where_somebody_else_has_decided(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.champions(0.8)
    with pytest.raises(Killed):
        promote_second(shop, Mortal(shop.client, 0))
    shop.client = shop.client.client
    shop.register(shop.run(3), 3, 0.95)
    shop.client.set_registered_model_alias("digits", "champion", "3")
    registry.finish(shop.client, shop.audit)
    assert shop.at("champion") == "3" and len(shop.told()) == 1 and shop.audit.begun() is None
    assert "promote digits version 2 was begun" in capsys.readouterr().err
