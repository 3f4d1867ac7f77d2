"""Work that must wait for a lock which somebody else holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest


def order_of(held: AbstractContextManager[Any], work: Callable[[], None], capfd: pytest.CaptureFixture[str]) -> str:
    """Do `work` in a thread while `held` is held, until it says that it waits; what has ended first: "held" or "work".

    It must say so: AssertionError where it ends without a word.
    """
    ended: list[str] = []

    def second() -> None:
        work()
        ended.append("work")

    thread, said = threading.Thread(target=second), ""
    with held:
        thread.start()
        while "waiting for process" not in said and thread.is_alive():
            said += capfd.readouterr().err
            time.sleep(0.02)
        ended.append("held")
    thread.join(60)
    assert "waiting for process" in said and len(ended) == 2
    return ended[0]
