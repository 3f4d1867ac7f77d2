"""Registered versions: NAME@ALIAS and NAME@VERSION, and those that a run begins with or learns from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.session import use_stack
from tasks.artifacts import Export
from tasks.errors import Refused
from tasks.runs.home import Home
from tasks.store.lock import locked
from tasks.store.store import Store
from tasks.view import terminal

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.config.compose import Config
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
def connected(home: Home, lock: AbstractContextManager[object] | None = None) -> Iterator[MlflowClient]:
    """Connect to the registry of the home, or of its stack; where a lock is given, under it."""
    from tasks.tracking import shipping

    shipping.set_environment()
    with terminal.waiting("importing MLflow"):
        from tasks.registry import registry
        from tasks.tracking.runs import connect

    with lock or nullcontext(), registry.user_errors(home.mlflow_uri):
        with terminal.waiting(f"connecting to the registry at {home.mlflow_uri}"):
            client = connect(home.mlflow_uri)
        yield client


@contextmanager
def registry_of(home: Home) -> Iterator[MlflowClient]:
    """Connect to the registry of this home, with a lock against other decisions."""
    use_stack(home)
    if not home.has_registry():
        rule = "decisions are stored in MLflow's registry"
        raise Refused(home.mlflow_uri, "no such database", rule, "set MLFLOW_TRACKING_URI, or correct MILLRACE_HOME")
    with connected(home, locked(home.root / ".registry.lock", terminal.say)) as client:
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


INIT = "train.init"
WITHOUT_TRAINING = ("dataset", "release")
"""Flows that train nothing, but by a method of compression."""
WITHOUT_COMPRESSION = ("dataset", "training")
"""Flows that compress nothing."""
TEACHER = "compress.methods"


def pinned(flow: str, home: Home, config: Config) -> Config:
    """Return the config of a flow with models of the store in place of `train.init: {kind: champion}` and of registered
    teachers of methods of compression.

    Raises:
        Refused: there is no such version, or the model that it was made from is no longer in the store.
    """
    from tasks.training.initial import ChampionInit

    if flow not in WITHOUT_COMPRESSION:
        compress = config.compress.taught_by(
            lambda reference: model_of(home, reference, TEACHER, "leave out the teacher")
        )
        config = config.model_copy(update={"compress": compress})
    init = config.train.init
    if not isinstance(init, ChampionInit) or flow in WITHOUT_TRAINING:
        return config
    champion = model_of(home, f"{config.name}@champion", INIT, "leave out train.init")
    train = config.train.model_copy(update={"init": init.of_model(champion)})
    return config.model_copy(update={"train": train})


def model_of(home: Home, reference: str, field: str, otherwise: str) -> str:
    """Return the digest of the model in the store that a registered version, NAME@ALIAS, was made from.

    Args:
        field: the setting that names it.
        otherwise: what else the user can do.
    """
    from tasks.store.store import Store

    name, _, alias = reference.partition("@")
    store = Store(home.store)
    try:
        with resolved(home, reference) as found:
            digest = str(store.resolve(f"export/{found.registered.export}").manifest["parents"]["model"])
            store.resolve(f"model/{digest}")
    except Refused as unknown:
        rule = f"its model is not in this store: {unknown.field}: {unknown.saw}"
        raise Refused(field, f"{alias} of {name}", rule, f"release one first, or {otherwise}") from None
    return digest
