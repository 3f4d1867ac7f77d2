"""The platform's how-tos: every command is run on a real stack."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.services import answers
from tests.support.documents import blocks, followed
from tests.support.homes import SMALL
from tests.support.shared import MILLRACE
from tests.support.stacks import Up, free_ports, wait

pytestmark = pytest.mark.slow


def test_run_by_hand(stack: Up, running: object) -> None:
    output = followed(stack, "how-to-run", {})
    assert "dataset completed" in output and "Completed" in output


def test_review(running: object, ran: list[dict[str, Any]], stack: Up, tmp_path: Path) -> None:
    page = tmp_path / "comparison.html"
    released, trained = (run["run_id"] for run in ran[:2])
    output = followed(stack, "how-to-review", {"comparison.html": str(page)}, RUN_A=released, RUN_B=trained)
    assert "seed" in output and "<html" in page.read_text()
    [line] = [line for block in blocks("docs/how-to-review.md") for line in block.splitlines() if "mlflow ui" in line]
    port = free_ports()[0]
    script = line.replace("5001", port).replace("$PWD/.millrace", str(stack.root))
    words = ["bash", "-c", f'PATH="{MILLRACE.parent}:$PATH" {script}']
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait(lambda: answers(f"http://127.0.0.1:{port}/health"))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_approve_and_roll_back(running: object, ran: list[dict[str, Any]], stack: Up, tmp_path: Path) -> None:
    flags = " ".join(["--promote.approval required --promote.margin -1 --seed 5", *SMALL])
    asked = "--seed 2 --promote.margin -0.05 --promote.approval required"
    output = followed(stack, "how-to-approve", {asked: flags, "asked.json": str(tmp_path / "asked.json")})
    assert "confusion of 3 and 8 is gone" in output
    [(now, before)] = re.findall(r"digits@champion: version (\d+) → version (\d+)", output)
    assert int(now) > int(before)


def test_back_up_and_make_room(running: object, ran: list[dict[str, Any]], stack: Up, tmp_path: Path) -> None:
    folders = {"BACKUPS": str(tmp_path / "backups"), "ELSEWHERE": str(tmp_path / "home")}
    trained = ran[1]["run_id"]
    output = followed(stack, "how-to-backup", {}, **folders, RUN=trained)
    assert f"run {trained}" in output and trained in {
        run["run_id"] for run in stack("list", "runs", "--json").json["runs"]
    }
    assert (tmp_path / "home" / "mlflow.db").exists()


def test_get_through_an_outage(stack: Up, running: dict[str, dict[str, int]]) -> None:
    os.kill(running["pids"]["worker"], signal.SIGKILL)
    output = followed(stack, "how-to-outage", {})
    assert re.search(r"^started .*\bworker\b", output, re.M), output  # beside a server that was too busy to answer


def test_schedule_and_watch(stack: Up, running: object) -> None:
    """Last, for it ends with `millrace down`; the runs of the backfill before it are let end, and with them a slot."""
    output = followed(stack, "how-to-schedule", {"millrace down": "millrace status"})
    busy = {"flow_runs": {"state": {"type": {"any_": ["PENDING", "RUNNING"]}}}}
    planned = {"flow_runs": {"tags": {"all_": ["backfill"]}, "state": {"type": {"any_": ["SCHEDULED"]}}}}
    wait(lambda: not stack.ask("flow_runs/filter", planned) and not stack.ask("flow_runs/filter", busy))
    assert stack("down").code == 0
    assert "backup/nightly" in output and not stack("status", "--json").json["services"]
