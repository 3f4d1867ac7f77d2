"""Python's garbage collection in a process that begins with seconds of imports.

What is imported stays, and a collection searches all of it, so that imports take longer with Python's defaults
(docs/decisions.md, 2026-11-23).
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLD = 50_000
"""Objects between two collections of the youngest; Python's default is 700. Libraries are also imported later, on use,
and a compiled function is traced with many objects."""


def pause() -> None:
    """Collect nothing until `resume`."""
    gc.disable()


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing within the context."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def skip_at_exit() -> None:
    """Skip the collection of all objects with which Python ends; the system frees their memory."""
    atexit.register(gc.freeze)


def resume() -> None:
    """Exclude existing objects from later collections, and collect new ones every `THRESHOLD` objects."""
    gc.freeze()
    gc.set_threshold(THRESHOLD)
    gc.enable()
