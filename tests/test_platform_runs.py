"""Deployed and ad-hoc runs under a real worker: cancelled, killed, continued."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra import automations
from infra.services import ask
from infra.stack import Stack
from tasks.store.journal import read
from tests.support.homes import DIGITS, compute_processes
from tests.support.servers import Webhook, serving
from tests.support.stacks import Up, wait

pytestmark = pytest.mark.slow

LONG = {"train": {"steps": 20_000, "checkpoint": {"every": 50, "keep": 2}, "evaluate_every": 20_000}}
FLAGS = ["--train.steps", "20001", "--train.checkpoint.every", "50", "--train.evaluate_every", "20001"]


def checkpoints(stack: Up) -> set[str]:
    return {str(path) for path in stack.root.glob("store/.staging/model/*/checkpoints/*.npz")}


def children(stack: Up) -> list[psutil.Process]:
    """The compute processes that work for this home."""
    return compute_processes(stack.root)


def test_a_deployment_trains_by_two_processes(stack: Up, running) -> None:
    few = {"train": {"steps": 40, "schedule": {"warmup": 5}}}
    flow_run = stack.wait_for(stack.start_deployment("training/digits-two-workers", few), timeout=100)
    assert flow_run["state"]["type"] == "COMPLETED", flow_run["state"]
    [model] = stack.newest_run("training")["stages"]["train"]
    layout = json.loads((Path(model["path"]) / "manifest.json").read_bytes())["produced_by"]["layout"]
    assert (layout["strategy"], layout["workers"]) == ("multi_worker", 2)


def test_cancelled_in_the_ui_it_leaves_a_checkpoint_and_the_next_run_goes_on(stack: Up, running) -> None:
    before = checkpoints(stack)
    run = stack.start_deployment("training/digits", LONG)
    wait(lambda: checkpoints(stack) - before)
    assert children(stack)
    stack.ask(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    wait(lambda: not children(stack), 15)
    assert stack.wait_for(run)["state"]["type"] == "CANCELLED"
    assert checkpoints(stack) - before
    assert stack.newest_run("training")["status"] == "stopped"
    again = stack.start_deployment("training/digits", LONG)
    waited = wait(lambda: len(stack.newest_run("training")["attempts"]) == 2 and stack.newest_run("training"))
    assert waited["attempts"][1]["prefect_flow_run_id"] == again
    stack.ask(f"flow_runs/{again}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    stack.wait_for(again)


def test_down_lets_a_training_save_and_after_up_the_next_run_goes_on_from_there(stack: Up, running) -> None:
    before = checkpoints(stack)
    rare = {"train": {"steps": 20_000, "checkpoint": {"every": 1_000, "keep": 2}, "evaluate_every": 20_000}, "seed": 17}
    run = stack.start_deployment("training/digits", rare)
    wait(lambda: checkpoints(stack) - before)
    journal = stack.root / "runs" / stack.newest_run("training")["run_id"] / "metrics.jsonl"
    wait(lambda: any(point.step > 1_000 for point in read(journal)))  # some steps past the checkpoint
    assert stack("down").code == 0
    assert not children(stack)
    saved = max(int(Path(path).stem.removeprefix("step-")) for path in checkpoints(stack) - before)
    stopped = stack.newest_run("training")
    assert stopped["status"] == "stopped"
    last = max(point.step for point in read(stack.root / "runs" / stopped["run_id"] / "metrics.jsonl"))
    assert saved >= last, "what came after the last checkpoint is not saved"
    stack.up()
    state = stack.ask(f"flow_runs/{run}")["state"]
    assert state["type"] == "CRASHED" and state["message"].startswith("stopped by SIGTERM")
    again = stack.start_deployment("training/digits", rare)
    log = stack.root / "runs" / stack.newest_run("training")["run_id"] / "logs/train.log"
    wait(lambda: f"step {saved}: going on from its checkpoint" in log.read_text())
    assert [row["prefect_flow_run_id"] for row in stack.newest_run("training")["attempts"]] == [run, again]
    stack.ask(f"flow_runs/{again}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    assert stack.wait_for(again)["state"]["type"] == "CANCELLED"


def test_a_run_that_beats_after_it_was_marked_crashed_is_running_again(stack: Up, running) -> None:
    before = {child.pid for child in children(stack)}
    run = stack.start_deployment("training/digits", {**LONG, "seed": 5})
    [training] = wait(lambda: [child for child in children(stack) if child.pid not in before])
    training.suspend()  # the flow goes on, and sends heartbeats
    crashed = {"type": "CRASHED", "message": "as the automation says"}
    stack.ask(f"flow_runs/{run}/set_state", {"state": crashed, "force": True})
    waited = wait(lambda: (state := stack.ask(f"flow_runs/{run}")["state"])["type"] == "RUNNING" and state, 60)
    assert "a heartbeat arrived after the run was marked Crashed" in waited["message"]
    training.resume()
    stack.ask(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    assert stack.wait_for(run)["state"]["type"] == "CANCELLED"


@pytest.fixture
def impatient(stack: Up, running: object) -> Iterator[int]:
    """The stack marks a run as Crashed after so many seconds without a heartbeat, instead of `SILENCE`."""
    layout = Stack(stack.root).layout
    assert layout is not None
    installed = ask(layout, "POST", "/automations/filter", {})
    [within] = [each["trigger"]["within"] for each in installed if each["name"] == automations.DEAD_RUNS]
    assert within == automations.SILENCE == 210
    automations.install(layout, silence=45)
    yield 45
    automations.install(layout)


def test_a_killed_ad_hoc_run_is_marked_crashed_and_the_next_one_takes_over(stack: Up, running, impatient: int) -> None:
    before = checkpoints(stack)
    process = stack.start("run", "training", DIGITS, *FLAGS)
    try:
        wait(lambda: checkpoints(stack) - before)
        [training] = [child for child in children(stack) if child.name() == "millrace train"]
        training.suspend()  # the command goes on, and sends heartbeats
        run = stack.newest_run("training")["attempts"][-1]["prefect_flow_run_id"]
        beats = {"resource": {"id": [f"prefect.flow-run.{run}"]}, "event": {"name": [automations.HEARTBEAT]}}
        wait(lambda: stack.ask("events/filter", {"filter": beats})["events"])
        killed = time.monotonic()
        os.killpg(process.pid, signal.SIGKILL)
        flow_run = stack.wait_for(run, timeout=300)
        assert flow_run["state"]["type"] == "CRASHED" and "no heartbeat" in flow_run["state"]["message"]
        assert time.monotonic() - killed < impatient + 30
    finally:
        process.kill()
        process.communicate()
    process = stack.start("run", "training", DIGITS, *FLAGS)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "going on with" in line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert process.returncode == 75
    assert "attempt 2" in line and len(stack.newest_run("training")["attempts"]) == 2


def test_prefect_gone_for_a_minute_stops_no_training_and_the_page_shows_the_outcome(stack: Up, running) -> None:
    steps = {"steps": 2_000, "checkpoint": {"every": 250, "keep": 2}, "evaluate_every": 500}
    run = stack.start_deployment("training/digits", {"train": steps, "seed": 3})
    before = checkpoints(stack)
    wait(lambda: checkpoints(stack) - before)
    victim = psutil.Process(running["pids"]["prefect"])
    victim.kill()
    victim.wait(10)
    gone = time.monotonic()
    saved = checkpoints(stack)
    wait(lambda: checkpoints(stack) - saved)
    [training] = [child for child in children(stack) if child.name() == "millrace train"]
    training.suspend()  # it goes on without Prefect, and must not end before Prefect is back
    time.sleep(max(0.0, 60 - (time.monotonic() - gone)))
    stack.up()
    training.resume()
    flow_run = stack.wait_for(run, timeout=900)
    assert flow_run["state"]["type"] == "COMPLETED", flow_run["state"]
    assert len(stack.newest_run("training")["attempts"]) == 1

    def messages() -> list[str]:
        query = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        return [log["message"] for log in stack.ask("logs/filter", query)]

    # what was logged during the outage comes with the client's next attempt, which may be a minute later
    wait(lambda: any(line.startswith("[train 0] step 500: validation loss") for line in messages()))
    assert any(line.startswith("convert: 1,797 records") or "from the store" in line for line in messages())
    shown = stack.ask(
        "artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}, "type": {"any_": ["progress"]}}}
    )
    [progress] = [artifact for artifact in shown if artifact["key"] == "train-progress"]
    assert progress["data"] == 100.0 and "step" in progress["description"]


def test_a_backfill_runs_once_per_span(stack: Up, running) -> None:
    words = ["backfill", "dataset/digits", "--since", "2026-01-01", "--until", "2026-01-03"]
    words += ["--records.split_seed", "{begin:%-d}", "--json"]
    for _ in range(2):
        answer = stack(*words)
        assert answer.code == 0, answer.stderr
    names = ["dataset-digits-2026-01-01", "dataset-digits-2026-01-02"]
    assert [row["name"] for row in answer.json["runs"]] == names
    query = {"flow_runs": {"tags": {"all_": ["backfill"]}}, "sort": "NAME_ASC"}
    runs = stack.ask("flow_runs/filter", query)
    assert [run["name"] for run in runs] == names
    for number, run in enumerate(runs, start=1):
        ended = stack.wait_for(run["id"])
        assert (ended["state"]["type"], ended["name"]) == ("COMPLETED", names[number - 1])
        assert ended["parameters"]["config"]["records"]["split_seed"] == number
    refused = stack("backfill", "dataset/nothing", *words[2:])
    assert refused.code == 2 and "dataset/digits" in refused.stderr
    refused = stack("backfill", "gc/nightly", *words[2:])
    assert refused.code == 2 and "gc/nightly" in refused.stderr


def test_a_deployed_run_that_is_killed_is_reported_by_its_worker(stack: Up, running, tmp_path: Path) -> None:
    Webhook.got = []
    with serving(Webhook) as port:
        (tmp_path / "webhook").write_text(f"http://127.0.0.1:{port}/crashed")
        long = {**LONG, "seed": 11, "notify": {"webhook": f"file:{tmp_path / 'webhook'}"}}
        before = {child.pid for child in children(stack)}
        run = stack.start_deployment("training/digits", long)
        wait(lambda: [child for child in children(stack) if child.pid not in before])
        [flow] = [
            child
            for child in psutil.Process(running["pids"]["worker"]).children()
            if child.environ().get("PREFECT__FLOW_RUN_ID") == run
        ]
        flow.kill()
        assert stack.wait_for(run)["state"]["type"] == "CRASHED"
        [(_, text)] = wait(lambda: Webhook.got, 60)
    assert text.startswith("*digits: training failed*") and "the process of a run must not be killed" in text
    assert stack.newest_run("training")["status"] == "failed"
