"""Planning of a flow: computes the identity of every artifact, and makes none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from tasks.artifacts import Artifact
from tasks.config.compose import Config
from tasks.runner.identities import Identity
from tasks.runs.differences import PlannedArtifact
from tasks.store.store import Store, handle

Made = TypeVar("Made")

NOT_PLANNED = ("promote",)
"""Stages that always run, as their result is not in the store."""


class Planner:
    """Plans the stages of a flow over a store."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store, self.config = store, config
        self.planned: dict[str, list[PlannedArtifact]] = {}
        """Planned artifacts by stage, in the order in which they would be made."""

    def call(self, stage: str, body: Callable[..., Made], *args: Any, **kwargs: Any) -> Made | None:
        """Call a verb's body without Prefect; return None for a stage that always runs."""
        return None if stage in NOT_PLANNED else body(*args, **kwargs)

    def plan(self, stage: str, kind: type[Artifact], identity: Identity, name: str) -> Artifact:
        """Return the artifact that a stage would make, in the store or not."""
        inputs = identity.inputs(kind)
        known = {planned.digest: planned for rows in self.planned.values() for planned in rows}
        parents = {role: known[digest] for role, digest in inputs["parents"].items() if digest in known}
        planned = PlannedArtifact(name, inputs, parents)
        self.planned.setdefault(stage, []).append(planned)
        return planned.handle(self.store)

    def find(self, kind: str, digest: str) -> Artifact:
        """Return a planned artifact, or one of the store."""
        for planned in (planned for rows in self.planned.values() for planned in rows):
            if planned.digest == digest:
                return planned.handle(self.store)
        return handle(self.store.path(kind, digest))


_planner: ContextVar[Planner | None] = ContextVar("planner", default=None)


def planner() -> Planner | None:
    """Return the current planner, or None where the flow is run."""
    return _planner.get()


@contextmanager
def planning(store: Store, config: Config) -> Iterator[Planner]:
    """Plan stages within the block instead of running them."""
    runner = Planner(store, config)
    token = _planner.set(runner)
    try:
        yield runner
    finally:
        _planner.reset(token)
