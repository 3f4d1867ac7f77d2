"""Decisions on the registry of a home: one process at a time, so that each begins with what the last one left."""

from __future__ import annotations

import pytest

from flows.references import registry_of
from tests.support.registries import RegistryHome
from tests.support.waiting import order_of


def test_a_second_decision_waits_for_the_first(registry_home: RegistryHome, capfd: pytest.CaptureFixture[str]) -> None:
    home = registry_home.home

    def decide() -> None:
        with registry_of(home):
            pass

    assert order_of(registry_of(home), decide, capfd) == "held"
