"""References to registered versions: NAME@ALIAS and NAME@VERSION."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.session import use_stack
from tasks.artifacts import Export
from tasks.errors import Refused
from tasks.runs.home import Home
from tasks.store.store import Store
from tasks.view import terminal

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.registry.registry import Registered


@dataclass(frozen=True)
class Reference:
    """A version of a registered model."""

    name: str
    registered: Registered
    aliases: list[str]
    client: MlflowClient

    def fetch(self, store: Store) -> Export:
        """Return its export, from the store or downloaded into it."""
        from tasks.registry import registry

        return registry.fetch(self.client, store, self.name, self.registered)


@contextmanager
def connected(home: Home) -> Iterator[MlflowClient]:
    """Connect to the registry of the home, or of its stack, to read it."""
    from tasks.tracking import shipping

    shipping.set_environment()
    with terminal.waiting(f"connecting to the registry at {home.mlflow_uri}"):
        from tasks.registry import registry
        from tasks.tracking.runs import connect

        with registry.user_errors(home.mlflow_uri):
            client = connect(home.mlflow_uri)
    with registry.user_errors(home.mlflow_uri):
        yield client


@contextmanager
def resolved(home: Home, reference: str) -> Iterator[Reference]:
    """Find the version of NAME@ALIAS or NAME@VERSION; raises `Refused` where there is none."""
    use_stack(home)  # it may have the registry
    name, _, which = reference.partition("@")
    rule = "NAME@ALIAS or NAME@VERSION names a registered model"
    unknown = Refused(reference, "no such version", rule, "see `millrace list models`")
    if not name or not which or not home.has_registry():
        raise unknown
    with connected(home) as client:
        from tasks.registry import registry

        find = registry.version if which.isdecimal() else registry.aliased
        registered = find(client, name, which)
        if registered is None:
            raise unknown
        yield Reference(name, registered, registry.aliases(client, name).get(registered.version, []), client)
