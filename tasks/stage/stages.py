"""The one way a stage runs: digest, look up, lock, work, commit, report. No verb does any of this by itself."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from tasks.artifacts import Artifact, Model
from tasks.config import Config, ReleaseConfig
from tasks.display import terminal
from tasks.display.words import told
from tasks.errors import Failed, Lost, Refused
from tasks.stage.attempt import current, machine_errors
from tasks.stage.identities import Identity
from tasks.stage.looking import looker
from tasks.store.files import write
from tasks.store.store import Store, digest_of
from tasks.tracking import prefect_page

Kind = TypeVar("Kind", bound=Artifact)
P = ParamSpec("P")
Made = TypeVar("Made")

AGAIN = [5.0, 20.0]
"""Seconds before each further try of a stage whose process or server was lost; what it had finished is kept."""


def verb(body: Callable[P, Made]) -> Callable[P, Made]:
    """A stage as a task of Prefect's: under the stage's own name, never from Prefect's cache, its state in words."""
    stage = body.__name__

    @functools.wraps(body)
    def task_of(*args: P.args, **kwargs: P.kwargs) -> Any:
        made = body(*args, **kwargs)
        rows = current.get().run.record["stages"].get(stage, [])
        return Completed(message=told(made, cached=all(row["cached"] for row in rows)), data=made)

    prefect_task: Task[P, Any] = task(
        name=stage,
        task_run_name=stage,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=len(AGAIN),
        retry_delay_seconds=AGAIN,
        retry_condition_fn=_may_mend,
    )(task_of)

    @functools.wraps(body)
    def run_or_look(*args: P.args, **kwargs: P.kwargs) -> Any:
        looks = looker()
        return prefect_task(*args, **kwargs) if looks is None else looks.call(stage, body, *args, **kwargs)

    return run_or_look


def _may_mend(stage: Task[..., Any], task_run: Any, state: State[Any]) -> bool:
    """Whether trying again can help: never after a wrong config or a bad input."""
    error = state.data
    if isinstance(error, Lost):
        terminal.say(f"  … {stage.name:<9} {error.field}: {error.saw}; trying again soon", style="yellow")
    return isinstance(error, Lost)


def run_stage(
    stage: str,
    kind: type[Kind],
    identity: Identity,
    work: str,
    arguments: tuple[Any, ...],
    *,
    name: str | None = None,
    check: Callable[[], None] = lambda: None,
    keep: str | None = None,
    threads: int | None = None,
) -> Kind:
    """The artifact of this identity: from the store, or made now by `work` in a compute process.

    `work` is `module:function`, called as `function(bench, *arguments)` in a process in which nothing has been
    computed before. `check` is called first, and may refuse the parents; a copy of the artifact's file `keep` is put
    into the run's folder; `threads` is given where the bytes are defined by a number of them. Raises what the work
    raises, and `Failed` for an error of the machine.
    """
    name = name or kind.kind
    if (looks := looker()) is not None:
        return cast(Kind, looks.plan(stage, kind, identity, name))
    check()
    attempt, started = current.get(), time.monotonic()
    attempt.raise_if_stopped()
    with (
        terminal.stage(stage, name) as shown,
        prefect_page.progress(stage, shown.progress) as heard,
        machine_errors(f"stage {stage}", attempt.run.home.root),
    ):
        inputs = identity.inputs(kind)
        digest = digest_of(inputs)
        attempt.run.use(kind.kind, digest)
        with attempt.store.claim(kind, digest, name, shown.say, attempt.raise_if_stopped) as claim:
            found = claim.published()
            cached = found is not None
            if found is None:
                outcome = attempt.work(stage, work, claim.staging, arguments, heard=heard, threads=threads)
                identity.check_sources(inputs)
                found = claim.publish(inputs, outcome, attempt.produced_by())
        seconds = time.monotonic() - started
        shown.done(found, cached, seconds)
    attempt.run.made(stage, found, seconds, cached=cached)
    attempt.shipper.record(stage, found, cached, seconds)
    prefect_page.table(stage, found, cached, seconds)
    if keep is not None:  # where people look for it
        write(attempt.run.folder / Path(keep).name, (found.path / keep).read_bytes())
    return found


def parent_of(artifact: Artifact, name: str, kind: type[Kind]) -> Kind:
    """The artifact that this one was made from, checked like any other before its use."""
    digest = artifact.manifest["parents"][name]
    if (looks := looker()) is not None:
        return cast(Kind, looks.find(kind.kind, digest))
    attempt = current.get()
    attempt.run.use(kind.kind, digest)
    found = attempt.store.find(kind, digest, kind.kind)
    if found is None:
        raise Failed(
            str(artifact), f"its {name} {digest[:12]} is not in the store", f"{name} is needed", "make it again"
        )
    return found


def store_of_run() -> Store:
    """The store that the running flow, or the runner that only looks, works on."""
    looks = looker()
    return current.get().store if looks is None else looks.store


def _config_of_run() -> Config:
    looks = looker()
    return current.get().config if looks is None else looks.config


def chosen_model(config: ReleaseConfig) -> Model:
    """The model that `release.model` names, from the store."""
    if config.model is None:
        raise Refused(
            "release.model", "nothing", "the flow release works on a model in the store", "give it by --release.model"
        )
    model = model_of_store(config.model, "release.model")
    task, asked = model.manifest["inputs"]["config"]["model"]["task"], _config_of_run().model.task
    if task != asked:
        rule = f"the model {model.digest[:12]} was trained for {task}"
        raise Refused("model.task", asked, rule, "release it with the preset that it was trained by")
    return model


def model_of_store(reference: str, field: str) -> Model:
    """The model that a field of the config names, checked before its use."""
    try:
        chosen = store_of_run().resolve(reference, "model")
    except Refused as unknown:
        raise Refused(field, unknown.saw, unknown.rule, unknown.remedy) from None
    if looker() is not None:
        return cast(Model, chosen)
    attempt = current.get()
    attempt.run.use("model", chosen.digest)
    found = attempt.store.find(Model, chosen.digest, "model")
    assert found is not None
    return found


def measure_stage(stage: str, work: str, arguments: tuple[Any, ...], *, always: bool) -> dict[str, Any]:
    """Time what a stage made, in a run that made any of it, or `always`; the figures go to the measurements."""
    if looker() is not None:
        return {}
    attempt = current.get()
    if not always and all(row["cached"] for row in attempt.run.record["stages"][stage]):
        return {}
    attempt.raise_if_stopped()
    with terminal.stage(stage, "latency") as shown:
        return attempt.work(stage, work, None, arguments, heard=shown.progress)
