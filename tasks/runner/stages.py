"""Running a stage, the same for all verbs: digest, look-up, lock, work, commit and tracking.

A flow is run in one of two modes: `Execute` makes its artifacts, `Preview` tells which it would make.
"""

from __future__ import annotations

import functools
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from tasks.artifacts import Artifact, Model, Outcome
from tasks.config.compose import Config
from tasks.errors import Failed, Lost, Refused
from tasks.evaluation.gating import ReleaseConfig
from tasks.processes.config import CHIEF, Role
from tasks.processes.workbench import Result, Work
from tasks.runner.attempt import current, machine_errors
from tasks.runner.identities import Identity
from tasks.runs.differences import PlannedArtifact
from tasks.runs.home import Home
from tasks.store.files import write
from tasks.store.store import Store, digest_of, handle
from tasks.view import terminal
from tasks.view.words import state_message

Kind = TypeVar("Kind", bound=Artifact)
Made = TypeVar("Made")

NOT_PLANNED = ("promote",)
"""Stages that always run, as their result is not in the store."""


@dataclass(frozen=True)
class Stage(Generic[Kind]):
    """An artifact that a verb asks for; the fields are those of `tasks.runner.stages.run_stage`."""

    stage: str
    kind: type[Kind]
    identity: Identity
    work: Work[Outcome | None]
    name: str
    check: Callable[[], None]
    prepare: Callable[[], None]
    keep: tuple[str, str] | None
    threads: int | None
    roles: Sequence[Role]
    restarts: int | None


class Runner(ABC):
    """Runs the verbs of a flow."""

    computes: ClassVar[bool]
    """Whether it computes what is not known yet."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store of the artifacts."""

    @property
    @abstractmethod
    def config(self) -> Config:
        """The config of the flow."""

    @property
    @abstractmethod
    def home(self) -> Home:
        """The home of the store."""

    @abstractmethod
    def call(self, stage: str, task: Callable[..., Any], body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a verb: the task of Prefect, or its body."""

    @abstractmethod
    def make(self, asked: Stage[Kind]) -> Kind:
        """Return an artifact that a verb asks for."""

    @abstractmethod
    def find(self, kind: type[Kind], digest: str, name: str) -> Kind | None:
        """Return an artifact of the store, checked; None where it is not there."""


class Execute(Runner):
    """Makes what is not in the store, as the current attempt of a run."""

    computes = True

    @property
    def store(self) -> Store:
        return current.get().store

    @property
    def config(self) -> Config:
        return current.get().config

    @property
    def home(self) -> Home:
        return current.get().run.home

    def call(self, stage: str, task: Callable[..., Any], body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return task(*args, **kwargs)

    def make(self, asked: Stage[Kind]) -> Kind:
        """Look it up, or make it under its lock and publish it; record it in the run.

        Raises:
            Failed: an error of the machine; errors raised by the work are raised again.
        """
        asked.check()
        attempt, started = current.get(), time.monotonic()
        attempt.raise_if_stopped()
        stage = asked.stage
        with attempt.shown(stage, asked.name) as line, machine_errors(f"stage {stage}", attempt.run.home.root):
            inputs = asked.identity.inputs(asked.kind)
            digest = digest_of(inputs)
            attempt.run.use(asked.kind.kind, digest)
            with attempt.store.claim(asked.kind, digest, asked.name, line.say, attempt.raise_if_stopped) as claim:
                published = claim.published()
                cached = published is not None
                if published is None:
                    asked.prepare()
                    outcome = attempt.work(
                        stage,
                        asked.work,
                        claim.staging,
                        on_progress=line.progress,
                        threads=asked.threads,
                        roles=asked.roles,
                        restarts=asked.restarts,
                    )
                    assert outcome is not None  # of several processes the chief has one
                    asked.identity.check_sources(inputs)
                    with attempt.signals.working():  # a signal waits for the publication
                        published = claim.publish(inputs, outcome, attempt.produced_by())
                    if outcome.layouts:
                        since = outcome.layouts[-1]["from"]
                        line.say(f"another layout from step {since} on: equal, not bit-identical")
            seconds = time.monotonic() - started
            line.finish(state_message(published, cached=cached), cached, seconds)
        attempt.made(stage, published, seconds, cached=cached)
        if asked.keep is not None:  # where users look for it
            write(attempt.run.folder / asked.keep[1], (published.path / asked.keep[0]).read_bytes())
        return published

    def find(self, kind: type[Kind], digest: str, name: str) -> Kind | None:
        attempt = current.get()
        attempt.run.use(kind.kind, digest)
        return attempt.store.find(kind, digest, name)


class Preview(Runner):
    """Computes the identity of every artifact that a flow would make, and makes none."""

    computes = False

    def __init__(self, store: Store, config: Config) -> None:
        self._store, self._config = store, config
        self.planned: dict[str, list[PlannedArtifact]] = {}
        """Planned artifacts by stage, in the order in which they would be made."""

    @property
    def store(self) -> Store:
        return self._store

    @property
    def config(self) -> Config:
        return self._config

    @property
    def home(self) -> Home:
        return Home(self._store.root.parent)

    def call(self, stage: str, task: Callable[..., Any], body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return None if stage in NOT_PLANNED else body(*args, **kwargs)

    def make(self, asked: Stage[Kind]) -> Kind:
        """Plan it, whether it is in the store or not."""
        return cast(Kind, self.plan(asked.stage, asked.kind, asked.identity, asked.name))

    def plan(self, stage: str, kind: type[Artifact], identity: Identity, name: str) -> Artifact:
        """Return the artifact of an identity, and keep it in the plan."""
        inputs = identity.inputs(kind)
        parents = {role: self._known[digest] for role, digest in inputs["parents"].items() if digest in self._known}
        planned = PlannedArtifact(name, inputs, parents)
        self.planned.setdefault(stage, []).append(planned)
        return planned.handle(self._store)

    def find(self, kind: type[Kind], digest: str, name: str) -> Kind | None:
        """Return a planned artifact, or one of the store, unchecked."""
        planned = self._known.get(digest)
        return cast(Kind, planned.handle(self._store) if planned else handle(self._store.path(kind.kind, digest)))

    @property
    def _known(self) -> dict[str, PlannedArtifact]:
        return {planned.digest: planned for rows in self.planned.values() for planned in rows}


_preview: ContextVar[Preview | None] = ContextVar("preview", default=None)


def runner() -> Runner:
    """Return what runs the current flow."""
    return _preview.get() or Execute()


@contextmanager
def previewing(store: Store, config: Config) -> Iterator[Preview]:
    """Preview the stages within the block instead of running them."""
    preview = Preview(store, config)
    token = _preview.set(preview)
    try:
        yield preview
    finally:
        _preview.reset(token)


P = ParamSpec("P")

RETRY_DELAYS = [5.0, 20.0]
"""Seconds before each retry of a stage whose process or server was lost; finished pieces are kept."""


def verb(body: Callable[P, Made]) -> Callable[P, Made]:
    """Decorate a verb as a Prefect task with the stage's name, without Prefect's cache; the state has a message."""
    stage = body.__name__

    @functools.wraps(body)
    def task_of(*args: P.args, **kwargs: P.kwargs) -> Any:
        made = body(*args, **kwargs)
        rows = current.get().run.record["stages"].get(stage, [])
        return Completed(
            message=state_message(made, cached=bool(rows) and all(row["cached"] for row in rows)), data=made
        )

    prefect_task: Task[P, Any] = task(
        name=stage,
        task_run_name=stage,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=len(RETRY_DELAYS),
        retry_delay_seconds=RETRY_DELAYS,
        retry_condition_fn=_may_retry,
    )(task_of)

    @functools.wraps(body)
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        return runner().call(stage, prefect_task, body, *args, **kwargs)

    return called


def body_of(verb: Callable[P, Made]) -> Callable[P, Made]:
    """Return a verb without its task, to be called within that of another verb: a task returns a state of Prefect."""
    return inspect.unwrap(verb)


def _may_retry(stage: Task[..., Any], task_run: Any, state: State[Any]) -> bool:
    """Return whether to retry: only after `Lost`, not after a wrong config or a bad input."""
    error = state.data
    if isinstance(error, Lost):
        terminal.say(f"  … {stage.name:<9} {error.field}: {error.saw}; trying again soon", style="yellow")
    return isinstance(error, Lost)


def run_stage(
    stage: str,
    kind: type[Kind],
    identity: Identity,
    work: Work[Outcome | None],
    *,
    name: str | None = None,
    check: Callable[[], None] = lambda: None,
    prepare: Callable[[], None] = lambda: None,
    keep: tuple[str, str] | None = None,
    threads: int | None = None,
    roles: Sequence[Role] = (CHIEF,),
    restarts: int | None = None,
) -> Kind:
    """Return the artifact of an identity from the store, or make it with `work` in a compute process.

    Args:
        work: a function and its arguments, called in a new process.
        check: called first; may raise `Refused`.
        prepare: called before the work, and not where the artifact is in the store.
        keep: file of the artifact that is copied to the run's folder, and its name there.
        threads: number of threads where it decides the bytes; None for that of the run.
        roles: those of the processes that do the work together.
        restarts: how often lost processes are started again without a new checkpoint; None: the task is retried.

    Raises:
        Failed: an error of the machine; errors raised by the work are raised again.
    """
    asked = Stage(stage, kind, identity, work, name or kind.kind, check, prepare, keep, threads, tuple(roles), restarts)
    return runner().make(asked)


def parent_of(artifact: Artifact, name: str, kind: type[Kind]) -> Kind:
    """Return the artifact that this one was made from, checked; raises `Failed` where it is not in the store."""
    digest = artifact.manifest["parents"][name]
    parent = runner().find(kind, digest, kind.kind)
    if parent is None:
        raise Failed(
            str(artifact), f"its {name} {digest[:12]} is not in the store", f"{name} is needed", "make it again"
        )
    return parent


def chosen_model(config: ReleaseConfig) -> Model:
    """Return the model of `release.model`; raises `Refused` where there is none, or for another task."""
    if config.model is None:
        raise Refused(
            "release.model", "nothing", "the flow release works on a model in the store", "give it by --release.model"
        )
    model = model_of_store(config.model, "release.model")
    configured = runner().config.model.task
    if model.task != configured:
        rule = f"the model {model.digest[:12]} was trained for {model.task}"
        raise Refused("model.task", configured, rule, "release it with the preset that it was trained by")
    return model


def model_of_store(reference: str, field: str) -> Model:
    """Return the model that a field of the config names, checked; raises `Refused` where there is none."""
    named = runner().store.resolve_model(reference, field)
    model = runner().find(Model, named.digest, "model")
    assert model is not None
    return model


def measure_stage(stage: str, name: str, work: Work[Result]) -> Result:
    """Run a measurement of a stage's artifacts in a compute process; return its result."""
    attempt = current.get()
    attempt.raise_if_stopped()
    with terminal.stage(stage, name) as line:
        return attempt.work(stage, work, None, on_progress=line.progress)
