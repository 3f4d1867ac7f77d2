"""Messages about runs that did not start, and dead ones, sent by Prefect's server to a real receiver."""

from __future__ import annotations

import contextlib
import os
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from infra import automations
from infra.services import ask
from infra.stack import Stack
from tests.support.servers import Webhook, serving
from tests.support.stacks import Up, wait

pytestmark = pytest.mark.slow


def installed(stack: Up) -> dict[str, dict[str, Any]]:
    """Our automations in Prefect, by name."""
    layout = Stack(stack.root).layout
    assert layout is not None
    return {automations["name"]: automations for automations in ask(layout, "POST", "/automations/filter", {})}


def test_a_run_that_did_not_begin_is_reported_and_status_says_so(
    stack: Up, running: dict[str, Any], tmp_path: Path
) -> None:
    refused = stack("up", "--alert", "http://127.0.0.1/T0PS3CRET", "--json")
    assert refused.code == 2 and "must be a reference" in refused.stderr
    assert "T0PS3CRET" not in refused.stdout + refused.stderr
    Webhook.got = []
    with serving(Webhook) as port:
        (tmp_path / "hook").write_text(f"http://127.0.0.1:{port}/T0PS3CRET")
        answer = stack("up", "--alert", f"file:{tmp_path / 'hook'}", "--json", timeout=400)
        assert answer.code == 0, answer.stderr
        os.kill(answer.json["pids"]["worker"], signal.SIGKILL)
        run = stack.start_deployment("dataset/digits")
        flow_run = stack.ask(f"flow_runs/{run}")
        planned = f"{datetime.fromisoformat(flow_run['expected_start_time']):%H:%M:%S.%f}"
        [(path, text)] = wait(lambda: [got for got in Webhook.got if planned in got[1]])
    assert path == "/T0PS3CRET"
    assert text.startswith("*dataset/digits is late*") and "millrace status" in text
    status = stack("status", "--json")
    assert status.code == 1
    assert [row["deployment"] for row in status.json["late"] if row["run"] == flow_run["name"]] == ["dataset/digits"]
    assert "late     " in stack("status").stdout
    stack.up()
    assert stack.wait_for(run)["state"]["type"] == "COMPLETED"
    wait(lambda: stack("status", "--json").json["late"] == [])
    for file in stack.root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # what runs makes and drops files
            assert not file.is_file() or b"T0PS3CRET" not in file.read_bytes(), file


def test_the_receiver_may_change_or_go_while_the_stack_is_up(
    stack: Up, running: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "hook").write_text("http://127.0.0.1:9/")
    again = stack("up", "--alert", f"file:{tmp_path / 'hook'}", "--json", timeout=400)
    assert again.code == 0 and again.json["pids"] == running["pids"], again.stderr
    (tmp_path / "hook").unlink()  # as from a shell without the variable: what is known stays
    assert stack("up", "--json", timeout=400).code == 0
    automations_read = installed(stack)
    assert automations_read.keys() >= {automations.DEAD_RUNS, automations.LATE_RUNS}
    assert [action["type"] for action in automations_read[automations.DEAD_RUNS]["actions"]] == [
        "change-flow-run-state",
        "send-notification",
    ]
    assert stack("up", "--alert", "off", "--json", timeout=400).code == 0
    automations_read = installed(stack)
    assert (
        automations.LATE_RUNS not in automations_read and len(automations_read[automations.DEAD_RUNS]["actions"]) == 1
    )
    (tmp_path / "hook").write_text("mailto:me@example.org")
    refused = stack("up", "--alert", f"file:{tmp_path / 'hook'}")
    assert refused.code == 2 and "begins with http" in refused.stderr
