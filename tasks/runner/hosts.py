"""A training on several hosts: what must be equal on all of them, and the work of those that do not run the flow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.artifacts import KINDS, Artifact, Model
from tasks.compression import changed
from tasks.config.base import Section, identity, subclasses
from tasks.config.compose import Config
from tasks.errors import Damaged, Failed
from tasks.processes.config import Place
from tasks.processes.member import End, Member
from tasks.processes.messages import Table
from tasks.processes.rendezvous import Rendezvous
from tasks.processes.threads import threads_of
from tasks.runner.identities import installed
from tasks.runs.home import Home
from tasks.store.store import Store
from tasks.training import MODEL_VERSION, libraries_of
from tasks.training.fit import fit, test_strategy
from tasks.training.starting import loss_files


def rendezvous_of(config: Config) -> Rendezvous | None:
    """Return the rendezvous of the hosts of a config, which listens already; None without `train.cluster`."""
    cluster = config.train.cluster
    return None if cluster is None else Rendezvous(cluster, expectations(config))


def serve(place: Place, config: Config, home: Home, stop: Callable[[], int], say: Callable[[str], None]) -> End:
    """Serve the calls of the host that runs the flow; return how its run ended."""
    return Member(
        cluster=place.cluster,
        rank=place.rank,
        expects=expectations(config),
        logs=home.root / "logs" / "worker",
        threads=threads_of(config.resources),
        table=table(),
        find=lambda reference: find(reference, home, place),
        stop=stop,
        say=say,
    ).serve()


def table() -> Table:
    """Return the work that several hosts do together, and the sections of its arguments."""
    return Table((fit, test_strategy, changed.train), subclasses(Section))


def expectations(config: Config) -> dict[str, Any]:
    """Return what decides a training's result, by name: settings, the user's files, versions of code and packages."""
    sections = {"model": identity(config.model), "train": identity(config.train), "seed": config.seed}
    versions = {name: installed(name) for name in libraries_of(config.train)}
    own = [*config.model.source_files(), *loss_files(config.train)]
    values = {**dict(_flat("", sections)), "code of training": MODEL_VERSION, **versions, **dict(own)}
    strategy = config.train.strategy.model_dump(mode="json")
    values |= {f"train.strategy.{name}": value for name, value in strategy.items()}
    kept: dict[str, Any] = json.loads(json.dumps(values))
    return kept


def find(reference: dict[str, Any], home: Home, place: Place) -> Artifact:
    """Return an artifact by its digest: of this home's store, or at the path that it has on the chief's host.

    A model that is at neither place is returned all the same: often the chief alone reads it.

    Raises:
        Failed: it is damaged, or a snapshot that is at neither place.
    """
    kind, digest, path = KINDS[reference["artifact"]], str(reference["digest"]), Path(reference["path"])
    name = str(reference["name"])
    saw = f"neither in {home.store} nor at {path}"
    try:
        if (own := Store(home.store).find(kind, digest, name)) is not None:
            return own
    except Damaged as damage:
        saw = f"the copy here is damaged ({damage.field}: {damage.saw}), and there is none at {path}"
    if (path / "manifest.json").exists():
        fault = Store(home.store).fault(kind.kind, digest, path)  # its verdict is kept here: that store is the chief's
        if fault is None:
            return kind(digest, path, name)
        saw = f"{path / fault[0]} {fault[1]}"
    elif kind is Model:
        return kind(digest, path, name)
    rule = f"rank {place.rank} reads it from its own store, or from a path shared with {place.cluster.chief}"
    remedy = f"copy {path} of {place.cluster.chief} to {home.store / kind.kind}, or share MILLRACE_HOME"
    raise Failed(f"{kind.kind}/{digest[:12]}", saw, rule, remedy)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield prefix, value
        return
    for name, inner in value.items():
        yield from _flat(f"{prefix}.{name}".lstrip("."), inner)
