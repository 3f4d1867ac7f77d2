"""The one way a stage runs: digest, look up, lock, work, commit, report. No verb does any of this by itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeVar

from prefect.artifacts import create_table_artifact
from prefect.context import FlowRunContext

from tasks import console
from tasks.artifacts import Artifact, Model
from tasks.attempt import Attempt, current
from tasks.config import ReleaseConfig, identity
from tasks.errors import Failed, Refused
from tasks.pages.words import describe
from tasks.store.store import digest_of

Kind = TypeVar("Kind", bound=Artifact)


@dataclass(frozen=True)
class Code:
    """The stage's own version, an integer beside its code, and the libraries that decide its bytes."""

    version: int
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Identity:
    """Everything that can change a stage's result, and nothing else."""

    config: Any
    parents: dict[str, Artifact]
    code: Code
    sources: Iterable[tuple[str, str]] = field(default=())

    def inputs(self, kind: type[Artifact]) -> dict[str, Any]:
        """What goes into the digest, in full."""
        libraries = {name: version(name) for name in sorted(self.code.libraries)}
        return {
            "kind": kind.kind,
            "format": kind.format,
            "config": identity(self.config),
            "parents": {name: parent.digest for name, parent in sorted(self.parents.items())},
            "sources": [list(source) for source in self.sources],
            "code": {"version": self.code.version, "libraries": libraries},
        }


def run_stage(
    stage: str,
    kind: type[Kind],
    identity: Identity,
    work: str,
    arguments: tuple[Any, ...],
    *,
    name: str | None = None,
    fresh: bool = False,
) -> Kind:
    """The artifact of this identity: from the store, or made now by `work` in a compute process.

    `work` is `module:function`, called as `function(bench, *arguments)`; `fresh` asks for a process in which
    nothing has been computed before. Raises what the work raises, and `Failed` for an error of the machine.
    """
    attempt, started = current.get(), time.monotonic()
    name = name or kind.kind
    inputs = identity.inputs(kind)
    digest = digest_of(inputs)
    attempt.run.use(kind.kind, digest)
    with console.stage(stage, name) as shown:
        found = attempt.store.find(kind, digest, name)
        cached = found is not None
        if found is None:
            found, cached = _make(attempt, stage, kind, digest, inputs, work, arguments, name, fresh, shown)
        seconds = time.monotonic() - started
        shown.done(found, cached, seconds)
    attempt.run.made(stage, found, seconds, cached=cached)
    attempt.shipper.record(stage, found, cached, seconds)
    _show_in_prefect(stage, found, cached, seconds)
    return found  # type: ignore[return-value]


def _make(
    attempt: Attempt,
    stage: str,
    kind: type[Artifact],
    digest: str,
    inputs: dict[str, Any],
    work: str,
    arguments: tuple[Any, ...],
    name: str,
    fresh: bool,
    shown: console.Stage,
) -> tuple[Artifact, bool]:
    try:
        with attempt.store.claim(kind, digest, waiting=shown.say) as claim:
            if found := attempt.store.find(kind, digest, name):  # made by whom we waited for
                return found, True
            outcome = attempt.work(stage, work, claim.staging, arguments, fresh=fresh, heard=shown.progress)
            return claim.publish(name, inputs, outcome, attempt.produced_by()), False
    except OSError as error:
        raise Failed(
            str(error.filename or attempt.run.home.root),
            error.strerror or type(error).__name__,
            f"stage {stage} needs to write there",
            "mend it and run again: what was finished is kept",
        ) from error


def _show_in_prefect(stage: str, artifact: Artifact, cached: bool, seconds: float) -> None:
    """A table on the flow run's page; a lost server is no reason to fail."""
    if FlowRunContext.get() is None:
        return
    files = artifact.manifest["files"]
    row = {
        "what": describe(artifact),
        "artifact": f"{artifact.kind}/{artifact.digest}",
        "from the store": "yes" if cached else "no",
        "seconds": f"{seconds:.1f}",
        "bytes": f"{sum(file['bytes'] for file in files):,}",
        "files": len(files),
    }
    try:
        create_table_artifact([row], key=f"{stage}-{artifact.name}".replace("_", "-"), description=describe(artifact))
    except Exception as error:
        console.say(f"warning: Prefect did not take the table of {stage}: {error}", style="yellow")


def parent_of(artifact: Artifact, name: str, kind: type[Kind]) -> Kind:
    """The artifact that this one was made from, checked like any other before its use."""
    attempt = current.get()
    digest = artifact.manifest["parents"][name]
    attempt.run.use(kind.kind, digest)
    found = attempt.store.find(kind, digest, kind.kind)
    if found is None:
        raise Failed(
            str(artifact), f"its {name} {digest[:12]} is not in the store", f"{name} is needed", "make it again"
        )
    return found  # type: ignore[return-value]


def chosen_model(config: ReleaseConfig) -> Model:
    """The model that `release.model` names, from the store."""
    attempt = current.get()
    if config.model is None:
        raise Refused(
            "release.model", "nothing", "the flow release works on a model in the store", "give it by --release.model"
        )
    chosen = attempt.store.resolve(config.model, "model")
    attempt.run.use("model", chosen.digest)
    found = attempt.store.find(Model, chosen.digest, "model")
    assert isinstance(found, Model)
    return found


def measure_stage(stage: str, work: str, arguments: tuple[Any, ...], *, always: bool) -> dict[str, Any]:
    """Time what a stage made, in a run that made any of it, or `always`; the figures go to the measurements."""
    attempt = current.get()
    if not always and all(row["cached"] for row in attempt.run.record["stages"][stage]):
        return {}
    with console.stage(stage, "latency") as shown:
        return attempt.work(stage, work, None, arguments, heard=shown.progress)
