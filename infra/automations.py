"""Automations of Prefect's server: dead runs are marked Crashed, and messages are sent about dead and late runs.

The address of the webhook is a secret. `stack.json` stores its reference; the address itself is stored, encrypted, in a
block in Prefect's database, as the server sends messages also when no other process runs.
"""

from __future__ import annotations

import re
from typing import Any

from infra.services import Answered, Layout, ask
from tasks.environment.secrets import REMEDY, RULE, Missing, resolve, unreferenced
from tasks.errors import Refused

SILENCE = 210
"""Seconds without a heartbeat (sent every 30) after which a run is marked Crashed. If the API is down for a minute, a
client may wait two more before its next request (PREFECT_CLIENT_MAX_RETRIES)."""

HEARTBEAT = "prefect.flow-run.heartbeat"
LEFT = "millrace.flow-run.left"
"""Sent by a suspended run's process when it exits, as its last heartbeat may come after `Suspended`."""

STATES = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")
OWN_STATES = ("Rejected", "Awaiting approval", "Stopped")
"""Names that Millrace gives to final states: an event is called by the name of the state and not by its type."""
ENDS = (*(f"prefect.flow-run.{state}" for state in (*STATES, *OWN_STATES)), LEFT)
"""Events after which a run without heartbeats is not dead."""

DEAD_RUNS, REVIVED_RUNS, LATE_RUNS = "millrace: dead runs", "millrace: revived runs", "millrace: late runs"

DAY = 86_400

RECEIVER = "millrace-alert"
KIND = "custom-webhook"

OPTION = "--alert"
OFF = "off"
"""Value of `--alert` that turns messages off."""


def address_of(reference: str) -> str:
    """Return the address that a reference names.

    Raises:
        Refused: it is no reference, or the value is no HTTP address; the message contains neither.
        tasks.environment.secrets.Missing: the variable or file does not exist.
    """
    if unreferenced(reference):
        raise Refused(OPTION, "a literal address", RULE, REMEDY)
    address = resolve(reference)
    if not re.fullmatch(r"https?://\S+", address):
        rule = "the address of a webhook begins with http:// or https:// and has no spaces"
        raise Refused(OPTION, f"{reference}: no HTTP address", rule, "correct it")
    return address


def install(layout: Layout, silence: int = SILENCE) -> None:
    """Create or update the automations; those that send messages only with an alert address. Raises as `address_of`.

    Args:
        silence: seconds without a heartbeat after which a run is dead.
    """
    receiver = None if layout.alert is None else _receiver(layout, layout.alert)
    _ensure(layout, dead_runs(receiver, silence))
    _ensure(layout, revived_runs())
    if receiver is not None:
        _ensure(layout, late_runs(receiver))
        return
    if installed := _find(layout, LATE_RUNS):
        ask(layout, "DELETE", f"/automations/{installed['id']}")
    if block := _block(layout):
        ask(layout, "DELETE", f"/block_documents/{block}")


def dead_runs(receiver: str | None, silence: int = SILENCE) -> dict[str, Any]:
    """Return the automation that marks a run without heartbeats as Crashed."""
    message = f"no heartbeat for {silence} s; run it again to continue from the finished stages"
    actions: list[dict[str, Any]] = [{"type": "change-flow-run-state", "state": "CRASHED", "message": message}]
    if receiver is not None:
        actions.append(_notification(receiver, "{{ flow_run.name }} is dead", message))
    description = f"Marks a run without a heartbeat for {silence} s as Crashed."
    return _automation(DEAD_RUNS, description, "Proactive", [HEARTBEAT], [HEARTBEAT, *ENDS], silence, actions)


def revived_runs() -> dict[str, Any]:
    """Return the automation that marks a Crashed run as Running after a heartbeat (of a machine that was suspended)."""
    message = "a heartbeat arrived after the run was marked Crashed: it is running"
    actions = [{"type": "change-flow-run-state", "state": "RUNNING", "message": message}]
    description = "Marks a Crashed run as Running after a heartbeat."
    return _automation(REVIVED_RUNS, description, "Reactive", ["prefect.flow-run.Crashed"], [HEARTBEAT], DAY, actions)


def late_runs(receiver: str) -> dict[str, Any]:
    """Return the automation that sends a message about a scheduled run that has not started."""
    body = "scheduled for {{ flow_run.expected_start_time }} and not started by any worker; see millrace status"
    actions = [_notification(receiver, "{{ flow.name }}/{{ deployment.name }} is late", body)]
    description = "Sends a message about a run that has not started in time."
    return _automation(LATE_RUNS, description, "Reactive", [], ["prefect.flow-run.Late"], 0, actions)


def _automation(
    name: str,
    description: str,
    posture: str,
    after: list[str],
    expect: list[str],
    within: int,
    actions: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return an automation that acts if an event came (Proactive: did not come) `within` seconds `after` another."""
    trigger = {
        "type": "event",
        "posture": posture,
        "match": {"prefect.resource.id": "prefect.flow-run.*"},
        "for_each": ["prefect.resource.id"],
        "after": after,
        "expect": expect,
        "threshold": 1,
        "within": within,
    }
    return {"name": name, "description": description, "enabled": True, "trigger": trigger, "actions": actions}


def _notification(receiver: str, subject: str, body: str) -> dict[str, Any]:
    return {"type": "send-notification", "block_document_id": receiver, "subject": subject, "body": body}


def _ensure(layout: Layout, wanted: dict[str, Any]) -> None:
    installed = _find(layout, wanted["name"])
    if installed:
        ask(layout, "PUT", f"/automations/{installed['id']}", wanted)
    else:
        ask(layout, "POST", "/automations/", wanted)


def _find(layout: Layout, name: str) -> dict[str, Any] | None:
    rows = ask(layout, "POST", "/automations/filter", {"automations": {"name": {"any_": [name]}}})
    return rows[0] if rows else None


def _receiver(layout: Layout, reference: str) -> str:
    """Return the id of the block that posts `{"text": ...}` to the address, in Slack's format; create or update it."""
    block = _block(layout)
    try:
        address = address_of(reference)
    except Missing:
        if block:
            return block  # of an earlier `up` from a shell that had the variable
        raise
    data = {
        "name": "millrace",
        "url": "{{address}}",
        "json_data": {"text": "*{{subject}}*\n{{body}}"},
        "secrets": {"address": address},
    }
    if block:
        ask(layout, "PATCH", f"/block_documents/{block}", {"data": data, "merge_existing_data": False})
        return block
    kind = ask(layout, "GET", f"/block_types/slug/{KIND}")["id"]
    [schema, *_] = ask(layout, "POST", "/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind]}}})
    wanted = {"name": RECEIVER, "block_type_id": kind, "block_schema_id": schema["id"], "data": data}
    return str(ask(layout, "POST", "/block_documents/", wanted)["id"])


def _block(layout: Layout) -> str | None:
    try:
        document = ask(layout, "GET", f"/block_types/slug/{KIND}/block_documents/name/{RECEIVER}")
        return str(document["id"])
    except Answered as error:
        if error.code != 404:
            raise
        return None
