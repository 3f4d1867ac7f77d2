"""Decisions on the registry of a home: one process at a time, so that each begins with what the last one left."""

from __future__ import annotations

import threading
import time

import pytest

from flows.session import registry_of
from tests.support.registries import RegistryHome


def test_a_second_decision_waits_for_the_first(registry_home: RegistryHome, capfd: pytest.CaptureFixture[str]) -> None:
    order, home = list[str](), registry_home.home

    def decide() -> None:
        with registry_of(home):
            order.append("second")

    second, said = threading.Thread(target=decide), ""
    with registry_of(home):
        second.start()
        while "waiting for process" not in said and second.is_alive():
            said += capfd.readouterr().err
            time.sleep(0.02)
        order.append("first")
    second.join(60)
    assert order == ["first", "second"] and "waiting for process" in said
