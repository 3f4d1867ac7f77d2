"""Running a stage: digest, look-up, lock, work, commit and tracking, the same for all verbs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from tasks.artifacts import Artifact, Model, Outcome
from tasks.errors import Failed, Lost, Refused
from tasks.evaluation.config import ReleaseConfig
from tasks.processes.config import CHIEF, Role
from tasks.processes.workbench import Result, Work
from tasks.runner.attempt import current
from tasks.runner.identities import Identity
from tasks.runner.modes import Stage, runner
from tasks.view import terminal
from tasks.view.words import state_message

Kind = TypeVar("Kind", bound=Artifact)
P = ParamSpec("P")
Made = TypeVar("Made")

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
