"""Approval in Prefect: a deployed run is suspended until its form is submitted or `millrace approve` is run."""

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
from pydantic import Field, StringConstraints

from infra.automations import LEFT
from tasks.runs.audit import REASON, Decision
from tasks.runs.runs import Run

PATIENCE = 30 * 24 * 3600
"""Seconds after which Prefect marks a suspended run as Failed; `millrace approve` still works then."""

AWAITING = "Awaiting approval"
"""Name of the state of an ad-hoc run whose version awaits approval."""

MOST = 200
"""Inputs of a flow run that are read, at most."""

Text = StringConstraints(strip_whitespace=True, min_length=1, max_length=REASON, pattern=r"\S")


class Approval(RunInput):
    """Whether this version becomes champion. The decision is stored in the registry and in the audit log."""

    # descriptions, as pydantic needs a tenth of a second to read attribute docstrings where so much is imported
    decision: Literal["accept", "reject"] = Field(
        description="Accept: the alias `champion` moves to this version. Reject: it stays."
    )
    name: Annotated[str, Text] = Field(description="Your name, which is stored unchecked.")
    reason: Annotated[str, Text] = Field(description="The reason, which is shown in the registry.")


def suspend(run: Run, export: str) -> None:
    """Suspend the flow run, which ends this process; after the decision the flow starts again from its first stage."""
    description = run.folder / "description.md"
    form = Approval.with_initial_data(description=description.read_text() if description.exists() else None)
    atexit.register(_leave, str(run.record["attempts"][-1]["prefect_flow_run_id"]))
    suspend_flow_run(wait_for_input=form, timeout=PATIENCE, key=f"{_key(export)}{run.attempt}")


def _leave(flow_run: str) -> None:
    """Send the event that this process has exited, as a heartbeat may have been sent after `Suspended`."""
    resource = {"prefect.resource.id": f"prefect.flow-run.{flow_run}", "prefect.resource.role": "flow-run"}
    event = Event(event=LEFT, resource=Resource(resource))
    with contextlib.suppress(httpx.HTTPError), get_client(sync_client=True) as client:
        client.request("POST", "/events", json=[event.model_dump(mode="json")])


def decisions_on(flow_run: str) -> Callable[[str], Decision | None]:
    """Return a function that reads the decision on an export from the inputs of a flow run."""

    def decision_on(export: str) -> Decision | None:
        with get_client(sync_client=True) as client:
            inputs = client.filter_flow_run_input(UUID(flow_run), f"suspended-{_key(export)}", MOST, set())
        responses = [each for each in inputs if each.key.endswith("-response")]
        if not responses:
            return None
        response = Approval(**orjson.loads(max(responses, key=lambda each: str(each.created)).value))
        return Decision.stated(response.decision == "accept", response.name, response.reason, account())

    return decision_on


def finish_flow_run(flow_run: str, decision: Decision, run: Run, verdict: str) -> str | None:
    """Resume a suspended flow run after a decision, or rename the final state of one that awaited it.

    Returns `resumed`, `renamed`, or None if the server does not know the flow run or it ended in another state.
    """
    with get_client(sync_client=True) as client:
        try:
            state = client.read_flow_run(UUID(flow_run)).state
        except ObjectNotFound:
            return None
        if state is not None and state.is_paused():
            choice = "accept" if decision.accepted else "reject"
            answer = {"decision": choice, "name": decision.who, "reason": decision.reason}
            done = client.resume_flow_run(UUID(flow_run), run_input=answer)
            if done.status != SetStateStatus.ACCEPT:
                raise RuntimeError(str(getattr(done.details, "reason", None) or done.status.value))
            return "resumed"
        if state is None or state.name != AWAITING:
            return None
        client.set_flow_run_state(UUID(flow_run), Completed(name=state_name(run), message=verdict), force=True)
        return "renamed"


def account() -> str | None:
    """Return the account of Prefect's API; None without a login. A server of this version has one account."""
    return os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")[0] or None


def state_name(run: Run) -> str:
    """Return the name of the final state of a flow run: `Completed`, `Rejected`, `Awaiting approval`."""
    return str(run.record["status"]).replace("_", " ").capitalize()


def _key(export: str) -> str:
    return f"approval-{export[:12]}-"
