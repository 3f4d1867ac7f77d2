"""The parts that the processes of a training have."""

from __future__ import annotations

from typing import NamedTuple


class Role(NamedTuple):
    """The part of a process in a gang."""

    name: str
    serves: bool = False
    """Whether it works for the chief until the chief has ended, and has no result of its own."""
    replaced: bool = False
    """Whether it is started again alone where it is lost, while the others go on."""


CHIEF, WORKER, SIDECAR = Role("chief"), Role("worker"), Role("sidecar", serves=True)
