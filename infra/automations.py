"""What Prefect's server does by itself: it finds dead runs, and tells of them and of runs that did not begin in time.

The receiver's address is a secret. `stack.json` holds its reference; the address itself lies, encrypted, in a block of
Prefect's database, for the server must be able to tell when everything else is gone.
"""

from __future__ import annotations

import re
from typing import Any

from infra.services import Answered, Layout, ask
from tasks.config.secrets import REMEDY, RULE, Missing, resolve, unreferenced
from tasks.errors import Refused

SILENCE = 210
"""Seconds without a heartbeat (one comes every 30) after which a run is marked Crashed. An API that is gone for a
minute marks no live run: its client may sleep for two more before it asks again (PREFECT_CLIENT_MAX_RETRIES)."""

BEAT = "prefect.flow-run.heartbeat"
LEFT = "millrace.flow-run.left"
"""The last that is heard of a suspended run's process: its last heartbeat may come after `Suspended`."""

STATES = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")
ENDS = (*(f"prefect.flow-run.{state}" for state in STATES), LEFT)
"""After which a run that does not beat is not taken for dead."""

DEAD_RUNS, REVIVED_RUNS, LATE_RUNS = "millrace: dead runs", "millrace: revived runs", "millrace: late runs"

DAY = 86_400

RECEIVER = "millrace-alert"
KIND = "custom-webhook"

OPTION = "--alert"
OFF = "off"
"""Instead of a reference: nobody is told any more."""


def address_of(given: str) -> str:
    """The address that a reference names.

    Raises:
        Refused: it is no reference, or what it names is no address of the web; neither is repeated.
        tasks.config.secrets.Missing: it names nothing.
    """
    if unreferenced(given):
        raise Refused(OPTION, "an address written out", RULE, REMEDY)
    address = resolve(given)
    if not re.fullmatch(r"https?://\S+", address):
        rule = "a webhook's address begins with http:// or https:// and is one word"
        raise Refused(OPTION, f"{given}: no address of the web", rule, "correct it")
    return address


def install(layout: Layout) -> None:
    """Bring the automations up to date; those that tell need a receiver. Raises as `address_of`."""
    receiver = None if layout.alert is None else _receiver(layout, layout.alert)
    _ensure(layout, dead_runs(receiver))
    _ensure(layout, revived_runs())
    if receiver is not None:
        _ensure(layout, late_runs(receiver))
        return
    if found := _find(layout, LATE_RUNS):
        ask(layout, "DELETE", f"/automations/{found['id']}")
    if block := _block(layout):
        ask(layout, "DELETE", f"/block_documents/{block}")


def dead_runs(receiver: str | None) -> dict[str, Any]:
    """A run that stops to beat, because its process or machine is gone, is marked Crashed."""
    message = f"no sign of life for {SILENCE} s; run it again: it goes on from what is finished"
    actions: list[dict[str, Any]] = [{"type": "change-flow-run-state", "state": "CRASHED", "message": message}]
    if receiver is not None:
        actions.append(_tell(receiver, "{{ flow_run.name }} is dead", message))
    told = f"A run without a heartbeat for {SILENCE} s is marked Crashed; run it again and it goes on."
    return _automation(DEAD_RUNS, told, "Proactive", [BEAT], [BEAT, *ENDS], SILENCE, actions)


def revived_runs() -> dict[str, Any]:
    """A run that beats after it was marked Crashed runs: a machine that slept, a network that was gone for long."""
    message = "a heartbeat came after it was marked Crashed: it lives, and goes on"
    actions = [{"type": "change-flow-run-state", "state": "RUNNING", "message": message}]
    told = "A run that beats again is marked Running again."
    return _automation(REVIVED_RUNS, told, "Reactive", ["prefect.flow-run.Crashed"], [BEAT], DAY, actions)


def late_runs(receiver: str) -> dict[str, Any]:
    """Somebody is told of a scheduled run that nobody has begun."""
    body = "planned for {{ flow_run.expected_start_time }}, and no worker has begun it; millrace status tells more"
    actions = [_tell(receiver, "{{ flow.name }}/{{ deployment.name }} is late", body)]
    told = "Tells of a run that did not begin in time."
    return _automation(LATE_RUNS, told, "Reactive", [], ["prefect.flow-run.Late"], 0, actions)


def _automation(
    name: str, told: str, posture: str, after: list[str], expect: list[str], within: int, actions: list[dict[str, Any]]
) -> dict[str, Any]:
    """For each flow run: what is done if an event came (Proactive: did not come) `within` seconds `after` another."""
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
    return {"name": name, "description": told, "enabled": True, "trigger": trigger, "actions": actions}


def _tell(receiver: str, subject: str, body: str) -> dict[str, Any]:
    return {"type": "send-notification", "block_document_id": receiver, "subject": subject, "body": body}


def _ensure(layout: Layout, wanted: dict[str, Any]) -> None:
    found = _find(layout, wanted["name"])
    if found:
        ask(layout, "PUT", f"/automations/{found['id']}", wanted)
    else:
        ask(layout, "POST", "/automations/", wanted)


def _find(layout: Layout, name: str) -> dict[str, Any] | None:
    found = ask(layout, "POST", "/automations/filter", {"automations": {"name": {"any_": [name]}}})
    return found[0] if found else None


def _receiver(layout: Layout, reference: str) -> str:
    """The id of the block that posts `{"text": ...}` to an address, as Slack and others take it."""
    found = _block(layout)
    try:
        address = address_of(reference)
    except Missing:
        if found:
            return found  # told by an `up` from a shell that had the variable
        raise
    data = {
        "name": "millrace",
        "url": "{{address}}",
        "json_data": {"text": "*{{subject}}*\n{{body}}"},
        "secrets": {"address": address},
    }
    if found:
        ask(layout, "PATCH", f"/block_documents/{found}", {"data": data, "merge_existing_data": False})
        return found
    kind = ask(layout, "GET", f"/block_types/slug/{KIND}")["id"]
    [schema, *_] = ask(layout, "POST", "/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind]}}})
    wanted = {"name": RECEIVER, "block_type_id": kind, "block_schema_id": schema["id"], "data": data}
    return str(ask(layout, "POST", "/block_documents/", wanted)["id"])


def _block(layout: Layout) -> str | None:
    try:
        found = ask(layout, "GET", f"/block_types/slug/{KIND}/block_documents/name/{RECEIVER}")
        return str(found["id"])
    except Answered as error:
        if error.code != 404:
            raise
        return None
