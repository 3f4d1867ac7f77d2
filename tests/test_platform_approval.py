"""Deployed runs that await approval: suspended in Prefect, resumed there or by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.asking import Approval
from infra.automations import ENDS, LEFT
from tests.support.stacks import Up, wait

pytestmark = pytest.mark.slow

SMALL = {
    "train": {"steps": 60, "schedule": {"warmup": 5}, "checkpoint": {"every": 10}},
    "export": {"golden": 12},
    "promote": {"approval": "required", "margin": -1.0},
}


def run_of(stack: Up, flow_run: str) -> dict[str, Any]:
    """The run whose attempts were this flow run's."""
    records_of_runs = [json.loads(path.read_bytes()) for path in stack.root.glob("runs/*/run.json")]
    [record] = [run for run in records_of_runs if flow_run in [each["prefect_flow_run_id"] for each in run["attempts"]]]
    return record


def version_of(stack: Up, run: str) -> str:
    """The version that a run registered: not always the next number, for at night the worker registers others."""
    return str(json.loads((stack.root / "runs" / run / "release.json").read_bytes())["version"])


def tags(stack: Up, version: str) -> dict[str, str]:
    from tasks.registry import registry
    from tasks.tracking.runs import connect

    version_now = registry.version(connect(f"sqlite:///{stack.root}/mlflow.db"), "digits", version)
    assert version_now is not None
    return {name.removeprefix("millrace."): value for name, value in version_now.tags.items()}


def lines(stack: Up) -> list[dict[str, str]]:
    return [json.loads(line) for line in (stack.root / "audit.jsonl").read_text().splitlines()]


def test_two_suspended_runs_are_answered_in_prefect_and_by_the_command(stack: Up, running: dict[str, Any]) -> None:
    first = stack.start_deployment("pipeline/digits", SMALL)
    assert stack.wait_for(first, "PAUSED")["state"]["name"] == "Suspended"
    second = stack.start_deployment("pipeline/digits", {**SMALL, "export": {"golden": 16}})
    assert stack.wait_for(second, "PAUSED")["state"]["name"] == "Suspended"
    records = [run_of(stack, flow_run) for flow_run in (first, second)]
    earlier, later = versions = [version_of(stack, record["run_id"]) for record in records]
    assert earlier != later
    for record, version in zip(records, versions, strict=True):
        assert (record["status"], record["exit_code"], len(record["attempts"])) == ("awaiting_approval", 3, 1)
        tags_now = tags(stack, version)
        assert (tags_now["approval"], tags_now["approval_run"]) == ("pending", record["run_id"])
    again = stack.wait_for(stack.start_deployment("pipeline/digits", SMALL))
    assert (again["state"]["type"], again["state"]["name"]) == ("COMPLETED", "Awaiting approval")
    assert run_of(stack, first)["run_id"] in again["state"]["message"]

    state = stack.ask(f"flow_runs/{first}")["state"]
    keys = state["state_details"]["run_input_keyset"]
    schema = stack.ask(f"flow_runs/{first}/input/{keys['schema']}")
    assert schema["properties"].keys() == Approval.model_fields.keys()
    assert schema["properties"]["decision"]["enum"] == ["accept", "reject"]
    assert all(field["description"] for field in schema["properties"].values())
    assert "awaiting approval" in stack.ask(f"flow_runs/{first}/input/{keys['description']}").lower()
    refused = stack.ask(f"flow_runs/{first}/resume", {"run_input": {"decision": "accept", "name": "", "reason": "x"}})
    assert refused["status"] == "REJECT"

    query = {"resource": {"id": [f"prefect.flow-run.{first}"]}, "event": {"name": ["prefect.flow-run.heartbeat", LEFT]}}
    heard = wait(lambda: stack.ask("events/filter", {"filter": {**query, "order": "DESC"}})["events"])
    assert {"prefect.flow-run.Paused", "prefect.flow-run.Suspended"} <= set(ENDS)
    assert heard[0]["event"] == LEFT and LEFT in ENDS  # so a heartbeat after `Suspended` makes it no dead run

    given = {"decision": "accept", "name": "Ada", "reason": "reads sevens well"}
    assert stack.ask(f"flow_runs/{first}/resume", {"run_input": given})["status"] == "ACCEPT"
    ended = stack.wait_for(first)["state"]
    assert (ended["type"], ended["name"]) == ("COMPLETED", "Completed")
    assert "approved by Ada (as stated): reads sevens well" in ended["message"]
    record = run_of(stack, first)
    assert (record["status"], record["exit_code"], len(record["attempts"])) == ("completed", 0, 2)
    tags_now = tags(stack, earlier)
    assert (tags_now["approval"], tags_now["approved_by"], tags_now["approval_known"]) == (
        "approved",
        "Ada",
        "as stated",
    )

    run = run_of(stack, second)["run_id"]
    answer = stack("reject", run, "--reason", "too large", "--json")
    assert answer.code == 0 and answer.json["prefect"] == "resumed", answer.stderr
    ended = stack.wait_for(second)["state"]
    assert (ended["type"], ended["name"]) == ("COMPLETED", "Rejected") and "too large" in ended["message"]
    record = run_of(stack, second)
    assert (record["status"], record["exit_code"], len(record["attempts"])) == ("rejected", 3, 2)

    ours = {run_of(stack, flow_run)["run_id"] for flow_run in (first, second, again["id"])}
    moves = [(line["action"], line["version"], line["known"]) for line in lines(stack) if line["run"] in ours]
    assert moves == [
        ("await", earlier, "by the gate"),
        ("await", later, "by the gate"),
        ("approve", earlier, "as stated"),
        ("reject", later, "system user"),
    ]
    assert stack("verify", "--all").code == 0
    assert Path(stack.root / "runs" / run / "page.html").exists()


def test_an_ad_hoc_run_that_is_approved_ends_completed_in_prefect(stack: Up, running: dict[str, Any]) -> None:
    flags = ["--train.steps", "60", "--train.schedule.warmup", "5", "--train.checkpoint.every", "10"]
    flags += ["--promote.approval", "required", "--promote.margin", "-1", "--export.golden", "8", "--json"]
    asked = stack("run", "pipeline", "flows/presets/digits.yaml", *flags)
    assert asked.code == 3 and asked.json["status"] == "awaiting_approval", asked.stderr
    flow_run = asked.json["prefect_flow_run_id"]
    assert stack.ask(f"flow_runs/{flow_run}")["state"]["name"] == "Awaiting approval"
    answer = stack("approve", asked.json["run_id"], "--reason", "fine", "--json")
    assert answer.code == 0 and answer.json["prefect"] == "renamed", answer.stderr
    state = stack.ask(f"flow_runs/{flow_run}")["state"]
    assert (state["type"], state["name"]) == ("COMPLETED", "Completed") and "approved by" in state["message"]
