"""A hundred runs in MLflow: how many rows they are, and how long a browser takes to show and to compare them.

    python -m tests.benchmarks.review HOME     a home in which `millrace run pipeline` has finished

The newest run's journal is written a hundred times, each point a little off, and goes through our own shipping.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from websockets.asyncio.client import connect as websocket

from infra.services import Layout, answers, mlflow_server
from tasks.store.home import Home
from tasks.store.runs import Run, find_runs, opened
from tasks.tracking.journal import JournalFile, read
from tasks.tracking.shipping import set_environment
from tests.stacks import free_ports

RUNS = 100
COMPARED = (2, 10, 100)
ROUNDS = 5
PATIENCE = 60.0
IDLE = 1.0
"""Seconds without a request after which a page counts as loaded."""
TABLES = ("runs", "metrics", "latest_metrics", "params", "tags")


def fill(home: Home, model: Run) -> list[str]:
    """Write runs like `model` into a home; their MLflow ids."""
    set_environment()
    from tasks.tracking import runs

    client, points = runs.connect(home.mlflow_uri), list(read(model.folder / "metrics.jsonl"))
    found = []
    for number in range(RUNS):
        random.seed(number)
        with opened(home, "pipeline", model.config, new=True, prefect_id=None, waiting=print) as run:
            journal = JournalFile(run.folder / "metrics.jsonl")
            for point in points:
                journal.append(point.step, {n: v * random.uniform(0.95, 1.05) for n, v in point.metrics.items()})
            mlflow_id = runs.find_or_begin(client, run)
            runs.ship(client, mlflow_id, list(read(journal.path)))
            run.end(0, "completed", None)
            runs.end(client, mlflow_id, run, [], f"run {number}")
            found.append(mlflow_id)
    return found


def rows(database: Path) -> dict[str, int]:
    """Rows by table."""
    with sqlite3.connect(database) as connection:
        return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES}


@contextmanager
def served(home: Home) -> Iterator[str]:
    """MLflow's server over a home, as `millrace up` starts it; its address."""
    layout = Layout(home.root, home.root, mlflow_port=int(free_ports()[0]))
    service = mlflow_server(layout)
    environment = {**os.environ, **service.environment}
    with open(home.root / "mlflow.log", "wb") as log:
        process = subprocess.Popen(service.command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        while not service.works():
            time.sleep(0.1)
        yield layout.mlflow_url
    finally:
        os.killpg(process.pid, 15)
        process.wait()


@contextmanager
def browser(folder: Path) -> Iterator[str]:
    """Chromium without a window; the address of its debugger."""
    port = free_ports()[0]
    options = ["--headless", "--no-sandbox", "--window-size=1400,1400", f"--user-data-dir={folder}"]
    command = [str(shutil.which("chromium")), *options, f"--remote-debugging-port={port}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while not answers(f"http://127.0.0.1:{port}/json/version"):
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            yield next(page["webSocketDebuggerUrl"] for page in json.load(answer) if page["type"] == "page")
    finally:
        os.killpg(process.pid, 9)
        process.wait()


async def load(debugger: str, address: str, wanted: str) -> tuple[float, int]:
    """Seconds from asking for a page until its last request is answered and `wanted` stands on it; its requests."""
    async with websocket(debugger, max_size=None) as socket:
        asked = 0

        async def ask(method: str, **values: Any) -> int:
            nonlocal asked
            asked += 1
            await socket.send(json.dumps({"id": asked, "method": method, "params": values}))
            return asked

        await ask("Network.enable")
        await ask("Page.enable")
        await ask("Page.navigate", url="about:blank")
        await asyncio.sleep(0.5)
        started = last = time.monotonic()
        await ask("Page.navigate", url=address)
        pending: dict[str, str] = {}
        requests, shown, look = 0, False, 0
        while pending or not shown or time.monotonic() - last < IDLE:
            if time.monotonic() - started > PATIENCE:
                saw = f"shown: {shown}, unanswered: {', '.join(pending.values()) or 'nothing'}"
                raise TimeoutError(f"{address}: not loaded in {PATIENCE:.0f} s; {saw}")
            try:
                event = json.loads(await asyncio.wait_for(socket.recv(), 0.1))
            except TimeoutError:
                script = f"document.body.innerText.includes({json.dumps(wanted)})"
                look = await ask("Runtime.evaluate", expression=script)
                continue
            if event.get("id") == look and look:
                if not shown and event["result"]["result"].get("value"):
                    shown, last = True, time.monotonic()
                continue
            about = event.get("params", {}).get("requestId")
            if event.get("method") == "Network.requestWillBeSent":
                asked_for = event["params"]["request"]["url"]
                if asked_for.startswith(address.partition("#")[0]) and not asked_for.endswith(".worker.js"):
                    pending[about] = asked_for
                    requests, last = requests + 1, time.monotonic()
            elif event.get("method") in ("Network.loadingFinished", "Network.loadingFailed") and about in pending:
                del pending[about]
                last = time.monotonic()
        return last - started, requests


def pages(url: str, experiment: str, found: list[str]) -> dict[str, tuple[str, str]]:
    """The pages that a reviewer opens, and a word that each shows when it is there."""
    base = f"{url}/#/experiments/{experiment}/runs"
    addresses = {
        "the table of runs": (base, "digits"),
        "their charts": (f"{base}?compareRunsMode=CHART", "test"),
        "one run": (f"{base}/{found[0]}", "test/"),
    }
    for count in COMPARED:
        query = f"runs={quote(json.dumps(found[:count]))}&experiments={quote(json.dumps([experiment]))}"
        addresses[f"{count} runs compared"] = (f"{url}/#/compare-runs?{query}", "Parameters")
    return addresses


def main() -> None:
    """Fill, count, time."""
    given = find_runs(Home(Path(sys.argv[1]).resolve()))
    model = next(run for run in reversed(given) if run.record["flow"] == "pipeline" and run.exit_code == 0)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").make()
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        began = time.monotonic()
        found = fill(home, model)
        print(f"{RUNS} runs written in {time.monotonic() - began:.0f} s")
        counted = rows(home.mlflow_file)
        size = home.mlflow_file.stat().st_size
        print(", ".join(f"{table} {count:,}" for table, count in counted.items()), f"({size / 1e6:.1f} MB)")
        print(f"of a run: {counted['latest_metrics'] // RUNS} metrics, {counted['metrics'] // RUNS} points")
        with served(home) as url, browser(Path(folder) / "chromium") as debugger:
            for title, (address, wanted) in pages(url, "1", found).items():
                times = [asyncio.run(load(debugger, address, wanted)) for _ in range(ROUNDS)]
                taken = [seconds for seconds, _ in times[1:]]
                print(
                    f"  {title:<20} {statistics.median(taken):5.1f} s [{min(taken):.1f}, {max(taken):.1f}], "
                    f"first {times[0][0]:.1f} s, {times[-1][1]} requests"
                )


if __name__ == "__main__":
    main()
