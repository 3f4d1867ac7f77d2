"""The stack of `millrace up` with real servers and a real worker: started, used, killed, restarted, stopped."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from infra.services import Answered, call
from infra.stack import GRACE, MARK, Stack
from tests.support.homes import DIGITS
from tests.support.stacks import Up, wait

pytestmark = pytest.mark.slow

SCHEDULED = {"pipeline/digits", "dataset/digits", "pipeline/stdlib-lm", "gc/nightly", "backup/nightly"}
"""Those with a schedule, of which one is turned on here."""
ON = "pipeline/stdlib-lm"
ALL = SCHEDULED | {"training/digits", "training/digits-two-workers", "tuning/digits", "release/digits"}

COMPLETED = {"state": {"type": {"any_": ["COMPLETED"]}}}


def tracked(running: dict[str, Any], run: str) -> Any:
    """A run, as MLflow's server tells it."""
    return call("GET", f"{running['mlflow_url']}/api/2.0/mlflow/runs/get?run_id={run}")["run"]


def idle(stack: Up, running: dict[str, Any]) -> Any:
    """What `status` says while no deployment runs, for a run's processes count as the worker's; else nothing."""
    worker = psutil.Process(running["pids"]["worker"])
    before, status, after = worker.children(), stack("status", "--json"), worker.children()
    return None if before or after else status


def test_what_ran_before_there_was_a_stack_is_in_its_history(stack: Up) -> None:
    assert not Stack(stack.root).living()
    before = stack("run", "dataset", DIGITS, "--records.split_seed", "3", "--json")
    assert before.code == 0 and "warning" not in before.stderr, before.stderr
    running = stack.up()
    assert stack.ask(f"flow_runs/{before.json['prefect_flow_run_id']}")["state"]["type"] == "COMPLETED"
    assert tracked(running, before.json["mlflow_run_id"])["info"]["status"] == "FINISHED"


def test_up_brings_everything_and_a_second_one_changes_nothing(stack: Up, running: dict[str, Any]) -> None:
    assert running["pids"].keys() == {"prefect", "mlflow", "worker"}
    assert {row["name"] for row in running["deployments"]} == ALL
    assert {row["name"] for row in running["deployments"] if row["off"]} == SCHEDULED, "nobody has turned one on"
    assert all("Europe/Zurich" in row["off"] or "UTC" in row["off"] for row in running["deployments"] if row["off"])
    assert not any(row["next"] or row["schedule"] for row in running["deployments"])
    second = stack("up", "--json")
    assert second.json["pids"] == running["pids"] and second.stderr == ""
    status = wait(lambda: idle(stack, running))
    assert status.code == 0
    assert status.json["services"] == {"prefect": "up", "mlflow": "up", "worker": "up"}
    assert sum(status.json["memory"].values()) < 1.2e9
    for page in (running["prefect_url"], running["mlflow_url"]):
        with urllib.request.urlopen(page) as answer:
            assert b"<title>" in answer.read()


def test_a_deployment_that_was_changed_by_hand_is_deployed_again_and_a_schedule_that_was_turned_on_stays_on(
    stack: Up, running: dict[str, Any]
) -> None:
    api = f"{running['prefect_url']}/api/deployments"
    before, planned = (stack.ask(f"deployments/name/{name}") for name in ("release/digits", ON))
    call("PATCH", f"{api}/{planned['id']}/schedules/{planned['schedules'][0]['id']}", {"active": True})
    answer = stack("up")
    assert answer.code == 0 and "deploying" not in answer.stderr and f"next     {ON}" in answer.stdout
    assert "off      schedules of backup/nightly, dataset/digits" in answer.stdout
    assert f"its switch on {running['prefect_url']}/deployments" in answer.stdout
    call("PATCH", f"{api}/{before['id']}", {"description": "by hand"})
    answer = stack("up")
    assert answer.code == 0 and "deploying prefect.yaml" in answer.stderr and f"next     {ON}" in answer.stdout
    assert stack.ask("deployments/name/release/digits")["description"] == before["description"]
    assert "schedule off (30 5 * * * Europe/Zurich)" in stack("status").stdout


def test_a_schedule_of_the_home_is_deployed_at_once_kept_by_up_and_removed(stack: Up, running: dict[str, Any]) -> None:
    def planned() -> list[str]:
        row = stack.ask(f"deployments/name/{name}")
        query = {
            "deployments": {"id": {"any_": [row["id"]]}},
            "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        }
        return sorted({run["expected_start_time"][11:16] for run in stack.ask("flow_runs/filter", query)})

    flags = ("--records.split_seed", "4", "--flow", "dataset", "--missed", "skip")
    refused = stack("schedule", DIGITS, *flags, "--cron", "15 4 * * *", "--pool", "elsewhere")
    assert refused.code == 1 and "work pool elsewhere; Prefect's server has no work pool of that name" in refused.stderr
    made = stack("schedule", DIGITS, *flags, "--cron", "15 4 * * *", "--json")
    assert made.code == 0 and len(stack("list", "schedules", "--json").json["schedules"]) == 1, made.stderr
    assert "deploying schedules.yaml" in made.stderr and "prefect.yaml" not in made.stderr
    name = made.json["name"]
    deployed = stack.ask(f"deployments/name/{name}")
    assert name == "dataset/digits-scheduled" and deployed["parameters"]["config"]["records"]["split_seed"] == 4
    assert deployed["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    assert wait(planned) == ["04:15"]
    spans = ("--since", "2026-11-01", "--until", "2026-11-03", "--records.split_seed", "{begin:%-d}")
    backfill = stack("backfill", name, *spans)
    assert backfill.code == 2 and "scheduled with --missed skip; of its runs that wait" in backfill.stderr
    assert wait(planned) == ["04:15"], "nothing is queued"
    assert "deploying" not in stack("up").stderr
    [row] = stack("list", "schedules", "--json").json["schedules"]
    assert (row["name"], row["next"][11:16]) == (name, "04:15")
    call(
        "PATCH",
        f"{running['prefect_url']}/api/deployments/{deployed['id']}/schedules/{deployed['schedules'][0]['id']}",
        {"active": False},
    )
    again = stack("schedule", DIGITS, *flags, "--cron", "15 5 * * *")
    assert "was 15 4 * * * UTC" in again.stdout and "next     not planned: it was switched off" in again.stdout
    assert stack("schedule", name, "--remove").stdout == f"removed  {name} (15 5 * * * UTC)\n"
    assert name not in {row["name"] for row in stack("status", "--json").json["deployments"]}
    assert stack("list", "schedules", "--json").json["schedules"] == []


def test_a_deployed_run_says_what_it_did_and_the_next_one_that_nothing_is_new(stack: Up, running) -> None:
    config = {"records": {"split_seed": 9}}
    first, again = (stack.wait_for(stack.start_deployment("dataset/digits", config)) for _ in range(2))
    assert first["name"].startswith("digits-dataset-"), "and the beginning of its id"
    assert first["state"]["message"] == "1,797 examples, image 8 x 8 x 1"
    assert again["state"]["type"] == "COMPLETED"
    assert again["state"]["message"] == "nothing new: 1,797 examples, image 8 x 8 x 1"
    wait(lambda: stack("status", "--json").json["last"]["dataset/digits"] == f"Completed: {again['name']}")
    tasks = stack.ask("task_runs/filter", {"flow_runs": {"id": {"any_": [again["id"]]}}})
    assert {task["name"] for task in tasks} == {"convert", "snapshot"}
    assert all(task["state"]["message"].startswith("from the store: 1,797") for task in tasks)


def test_an_ad_hoc_run_uses_the_servers(stack: Up, running) -> None:
    answer = stack("run", "dataset", DIGITS, "--records.split_seed", "7", "--json")
    assert answer.code == 0, answer.stderr
    assert stack.ask(f"flow_runs/{answer.json['prefect_flow_run_id']}")["state"]["type"] == "COMPLETED"
    mlflow_run = tracked(running, answer.json["mlflow_run_id"])
    assert mlflow_run["info"]["status"] == "FINISHED"
    assert mlflow_run["info"]["artifact_uri"].startswith(
        f"file://{stack.root}/mlartifacts/"
    )  # within reach when it is down
    page = f"{running['mlflow_url']}/get-artifact?run_id={answer.json['mlflow_run_id']}&path=page.html"
    with urllib.request.urlopen(page) as shown:
        assert b"<html" in shown.read()


def test_a_wrong_value_is_refused_before_a_run_begins(stack: Up, running) -> None:
    deployed = stack.ask("deployments/name/dataset/digits")
    wrong = {**deployed["parameters"]["config"], "records": {"shards": 0}}
    with pytest.raises(Answered) as refused:
        stack.ask(f"deployments/{deployed['id']}/create_flow_run", {"parameters": {"config": wrong}})
    assert refused.value.code == 409
    assert "shards" in str(refused.value)


def test_foreign_hosts_and_origins_are_refused(stack: Up, running) -> None:
    for headers in ({"Host": "example.com"}, {"Origin": "http://example.com"}):
        with pytest.raises(Answered) as refused:
            stack.ask("health", headers=headers)
        assert refused.value.code == 403
    assert stack.ask("health", headers={"Origin": running["prefect_url"]}) is True
    experiments = f"{running['mlflow_url']}/api/2.0/mlflow/experiments"
    read = ("GET", f"{experiments}/get?experiment_id=0", None)
    write = ("POST", f"{experiments}/set-experiment-tag", {"experiment_id": "0", "key": "asked", "value": "here"})
    foreign = {"Host": "example.com"}, {"Origin": "http://example.com"}
    for request, headers in ((read, foreign[0]), (write, foreign[0]), (write, foreign[1])):
        with pytest.raises(Answered) as refused:
            call(*request, headers)
        assert refused.value.code == 403
    call(*write, {"Origin": running["mlflow_url"]})


def test_killed_services_are_restarted_and_nothing_is_lost(stack: Up, running: dict[str, Any]) -> None:
    """As Prefect's is, in `test_platform_runs.py`, while a run needs it."""
    runs, killed = stack.ask("flow_runs/filter", {"flow_runs": COMPLETED}), ("mlflow", "worker")
    for service in killed:
        victim = psutil.Process(running["pids"][service])
        victim.kill()
        victim.wait(10)
    status = stack("status", "--json")
    assert status.code == 1
    assert status.json["services"] == {"prefect": "up", "mlflow": "down", "worker": "down"}
    restarted = stack.up()
    assert [name for name, pid in restarted["pids"].items() if pid != running["pids"][name]] == list(killed)
    after = stack.ask("flow_runs/filter", {"flow_runs": COMPLETED})
    assert {run["id"] for run in runs} <= {run["id"] for run in after}
    assert {row["name"] for row in restarted["deployments"] if row["next"]} == {ON}


def test_down_leaves_nothing_and_a_port_in_use_is_named(stack: Up, running) -> None:
    mark = Stack(stack.root).mark
    answer = stack("down", "--json")
    assert answer.json["stopped"] == ["worker", "mlflow", "prefect"]
    assert not [process for process in psutil.process_iter() if _mark_of(process) == mark]
    assert stack("down").stdout == "no service was running\n"
    server = http.server.HTTPServer(("127.0.0.1", int(stack.given["MLFLOW_PORT"])), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        refused = stack("up")
    finally:
        server.shutdown()
        server.server_close()
    assert refused.code == 1
    assert f"in use by process {os.getpid()}" in refused.stderr and "--mlflow-port" in refused.stderr
    assert not Stack(stack.root).living()


@contextmanager
def foreground(stack: Up, line_start: str) -> Iterator[subprocess.Popen[str]]:
    """`millrace up --foreground`, from the moment it printed this line; at its end no service runs."""
    process = stack.start("up", "--foreground")
    try:
        for line in (process.stderr if line_start.startswith("starting") else process.stdout) or ():
            if line.startswith(line_start):
                break
        assert process.poll() is None
        yield process
        assert not Stack(stack.root).living()
    finally:
        process.kill()
        process.communicate()


def test_in_the_foreground_it_mends_itself_and_ends_with_down(stack: Up) -> None:
    with foreground(stack, "started") as process:
        before = Stack(stack.root).living()["mlflow"]
        os.kill(before.pid, signal.SIGKILL)
        wait(lambda: Stack(stack.root).living().get("mlflow") not in (None, before), 120)
        assert stack("down").code == 0
        assert process.wait(60) == 0


def test_a_signal_while_it_starts_leaves_nothing_up(stack: Up) -> None:
    with foreground(stack, "starting prefect, mlflow") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(6 * GRACE) == 75, "each service has it twice: its children, then itself; then what is left"


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None
