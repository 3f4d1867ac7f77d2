"""The decorator that makes a flow an attempt of a run, and the final state of its flow run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from copy import deepcopy
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.context import FlowRunContext
from prefect.states import Cancelled, Completed, Crashed
from pydantic import BeforeValidator

from flows.asking import decisions_on, state_name, suspend
from flows.references import pinned
from flows.session import has_form
from tasks.config.compose import Config, in_folder, resolve
from tasks.errors import Failed, Stopped
from tasks.runner.attempt import RunRequest as RunRequest
from tasks.runner.attempt import attempt_run
from tasks.runs.home import find_home, find_project
from tasks.runs.runs import find_runs
from tasks.tracking import notifications, prefect_page
from tasks.view.headline import AGAIN, FIRST, differing
from tasks.view.summary import in_a_line

Made = TypeVar("Made")

STOPPED = "Stopped"
"""Name of the final state of a flow run that was stopped after saving: Prefect's pages show the name of a state."""

run_request: ContextVar[RunRequest] = ContextVar("run_request")

NO_FORM = Signature(
    [
        Parameter(
            "config", Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[Any, BeforeValidator(Config.model_validate)]
        )
    ]
)
"""The signature of a flow whose config is validated as well, but not described."""


def as_run(body: Callable[[Config], Made]) -> Callable[[Config], Made]:
    """Run the body as an attempt of the run of its flow and config."""

    @functools.wraps(body)
    def attempt(config: Config) -> Any:
        request = run_request.get(RunRequest())
        deployed = _is_deployed()
        if deployed:
            config = in_folder(config, find_project())
        config = pinned(body.__name__, find_home(), config)
        if deployed:
            request.decision_on = decisions_on(str(runtime.flow_run.id))
        try:
            made = attempt_run(body.__name__, config, lambda: body(config), request, runtime.flow_run.id)
        except Stopped as stop:
            return _ended_by(stop, deployed)
        finally:
            if request.run is not None:
                prefect_page.description(request.run)
        assert request.run is not None
        if deployed and request.awaiting_export is not None:
            suspend(request.run, request.awaiting_export)
        return Completed(name=state_name(request.run), message=in_a_line(request.run), data=made)

    if not has_form.get():
        attempt.__signature__ = NO_FORM  # type: ignore[attr-defined]
    return attempt


def _is_deployed() -> bool:
    """Return whether the flow run is one of a deployment; unlike `prefect.runtime`, without a request."""
    context = FlowRunContext.get()
    return context is not None and context.flow_run is not None and context.flow_run.deployment_id is not None


def _ended_by(stop: Stopped, deployed: bool) -> State:
    """Return the final state after a signal: of a deployed run Cancelled if Prefect is cancelling it."""
    message = f"{stop}; a new run with the same config continues from there"
    if not deployed:
        return Cancelled(name=STOPPED, message=message, data=stop)  # Prefect raises the data
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(str(runtime.flow_run.id))).state
    if state is not None and state.is_cancelling():
        return Cancelled(message=message)
    return Crashed(name=STOPPED, message=message)  # by its worker: Prefect's pages offer to retry it


def report_crash(flow: Any, flow_run: Any, state: State[Any]) -> None:
    """End the run of a killed process; Prefect's worker calls this in another process."""
    for run in reversed(find_runs(find_home())):
        if run.record["attempts"] and run.record["attempts"][-1]["prefect_flow_run_id"] == str(flow_run.id):
            if run.record["status"] == "running":
                rule, remedy = (
                    "the process of a run must not be killed",
                    "run it again to continue from the finished stages",
                )
                run.end(1, "failed", Failed(flow_run.name, state.message or "its process died", rule, remedy).as_json())
                notifications.notify(run)
            return


def run_name() -> str:
    """Return the name of a flow run: preset and flow, the beginning of its id, and what differs from the run before it;
    in a backfill the name that it has already."""
    if "backfill" in runtime.flow_run.tags:
        return str(runtime.flow_run.name)
    config, flow = runtime.flow_run.parameters["config"], runtime.flow_run.flow_name
    values = config.model_dump(mode="json") if isinstance(config, Config) else deepcopy(config)
    resolve(values, find_project())  # in a deployment paths are relative, and in the run before it they are not
    what = differing(find_home(), {"flow": flow, "name": values["name"], "config": values})
    differs = "" if what in (FIRST, AGAIN) else f": {what}"
    return f"{values['name']}-{flow}-{str(runtime.flow_run.id)[:6]}{differs}"
