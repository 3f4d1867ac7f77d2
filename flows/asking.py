"""Asking a person: a deployed run is suspended until somebody answers in Prefect's pages or by `millrace approve`."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable
from typing import Annotated, Literal
from uuid import UUID

import httpx
import orjson
from prefect.client.orchestration import get_client
from prefect.client.schemas.responses import SetStateStatus
from prefect.events.schemas.events import Event, Resource
from prefect.exceptions import ObjectNotFound
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.states import Completed
from pydantic import ConfigDict, StringConstraints

from infra.automations import LEFT
from tasks.runs.audit import REASON, Decision
from tasks.runs.runs import Run

PATIENCE = 30 * 24 * 3600
"""Seconds for which a run stays suspended; after that Prefect calls it Failed, and the command still answers it."""

AWAITING = "Awaiting approval"
"""How the state of an ad-hoc run is called whose version a person must still approve."""

MOST = 200
"""Inputs of a flow run that are looked through."""

Text = StringConstraints(strip_whitespace=True, min_length=1, max_length=REASON, pattern=r"\S")


class Approval(RunInput):
    """Whether this version becomes champion. The answer stands in the registry and in the audit log."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    decision: Literal["accept", "reject"]
    """Accept: the alias `champion` moves to this version. Reject: it stays where it is."""

    name: Annotated[str, Text]
    """Your name. It is written down as stated."""

    reason: Annotated[str, Text]
    """Why; whoever looks at the registry reads it."""


def suspend(run: Run, export: str) -> None:
    """End this process until somebody answers whether an export may be champion: the flow then starts from the top."""
    description = run.folder / "description.md"
    form = Approval.with_initial_data(description=description.read_text() if description.exists() else None)
    atexit.register(_leave, str(run.record["attempts"][-1]["prefect_flow_run_id"]))
    suspend_flow_run(wait_for_input=form, timeout=PATIENCE, key=f"{_key(export)}{run.attempt}")


def _leave(flow_run: str) -> None:
    """Say that this process is gone on purpose: Prefect's thread may have sent a heartbeat after `Suspended`."""
    resource = {"prefect.resource.id": f"prefect.flow-run.{flow_run}", "prefect.resource.role": "flow-run"}
    event = Event(event=LEFT, resource=Resource(resource))
    with contextlib.suppress(httpx.HTTPError), get_client(sync_client=True) as client:
        client.request("POST", "/events", json=[event.model_dump(mode="json")])


def decisions_on(flow_run: str) -> Callable[[str], Decision | None]:
    """What has been answered to this flow run about an export."""

    def decision_on(export: str) -> Decision | None:
        with get_client(sync_client=True) as client:
            inputs = client.filter_flow_run_input(UUID(flow_run), f"suspended-{_key(export)}", MOST, set())
        given = [each for each in inputs if each.key.endswith("-response")]
        if not given:
            return None
        response = Approval(**orjson.loads(max(given, key=lambda each: str(each.created)).value))
        return Decision.stated(response.decision == "accept", response.name, response.reason, account())

    return decision_on


def finish_flow_run(flow_run: str, decision: Decision, run: Run, verdict: str) -> str | None:
    """Have a flow run end in Prefect as its run has ended: one that is suspended goes on, one that waited is renamed.

    Returns `resumed`, `renamed`, or None where this server does not know it or it has ended otherwise.
    """
    with get_client(sync_client=True) as client:
        try:
            state = client.read_flow_run(UUID(flow_run)).state
        except ObjectNotFound:
            return None
        if state is not None and state.is_paused():
            choice = "accept" if decision.accepted else "reject"
            given = {"decision": choice, "name": decision.who, "reason": decision.reason}
            done = client.resume_flow_run(UUID(flow_run), run_input=given)
            if done.status != SetStateStatus.ACCEPT:
                raise RuntimeError(str(getattr(done.details, "reason", None) or done.status.value))
            return "resumed"
        if state is None or state.name != AWAITING:
            return None
        client.set_flow_run_state(UUID(flow_run), Completed(name=spoken(run), message=verdict), force=True)
        return "renamed"


def account() -> str | None:
    """The account of Prefect's pages and API, where they ask for one; a server of this version has one in all."""
    return os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")[0] or None


def spoken(run: Run) -> str:
    """The name of the state with which a run's flow run ends: `Completed`, `Rejected`, `Awaiting approval`."""
    return str(run.record["status"]).replace("_", " ").capitalize()


def _key(export: str) -> str:
    return f"approval-{export[:12]}-"
