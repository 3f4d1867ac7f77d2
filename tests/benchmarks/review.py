"""A hundred runs in MLflow: how many rows they are, and how long a browser takes to show and to compare them.

    python -m tests.benchmarks.review HOME     a home in which `millrace run pipeline` has finished

The newest run's journal is written a hundred times, each point a little off, and goes through our own shipping.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, Request

from infra.services import Layout, mlflow_server
from tasks.runs.home import Home
from tasks.runs.runs import Run, find_runs, opened
from tasks.store.journal import JournalFile, read
from tasks.tracking.shipping import set_environment
from tests.support.browser import browsing
from tests.support.stacks import free_ports

RUNS = 100
COMPARED = (2, 10, 100)
ROUNDS = 5
IDLE = 1.0
"""Seconds without a request after which a page counts as loaded."""
TABLES = ("runs", "metrics", "latest_metrics", "params", "tags")


def fill(home: Home, model: Run) -> list[str]:
    """Write runs like `model` into a home; their MLflow ids."""
    set_environment()
    from tasks.tracking import runs

    client, points = runs.connect(home.mlflow_uri), list(read(model.folder / "metrics.jsonl"))
    collected = []
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
            collected.append(mlflow_id)
    return collected


def rows(database: Path) -> dict[str, int]:
    """Rows by table."""
    with sqlite3.connect(database) as connection:
        return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES}


@contextmanager
def served(home: Home) -> Iterator[str]:
    """MLflow's server over a home, as `millrace up` starts it; its address."""
    layout = Layout(home.root, home.root, mlflow_port=int(free_ports()[0]))
    service = mlflow_server(layout)
    environment = {**os.environ, **service.environment()}
    with open(home.root / "mlflow.log", "wb") as log:
        process = subprocess.Popen(service.command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        while not service.works():
            time.sleep(0.1)
        yield layout.mlflow_url
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def load(page: Page, address: str, wanted: str) -> tuple[float, int]:
    """Seconds from asking for a page until its last request is answered and `wanted` stands on it; its requests."""
    page.goto("about:blank")
    asked: list[Request] = []
    answered: list[Request] = []
    last = started = time.monotonic()

    def ask(request: Request) -> None:
        if not request.url.endswith(".worker.js"):  # of a worker's own script Chromium never says that it came
            asked.append(request)

    def answer(request: Request) -> None:
        nonlocal last
        answered.append(request)
        last = time.monotonic()

    heard = {"request": ask, "requestfinished": answer, "requestfailed": answer}
    for event, handler in heard.items():
        page.on(event, handler)  # type: ignore[call-overload]
    page.goto(address, wait_until="commit")
    page.get_by_text(wanted).first.wait_for()
    last = max(last, time.monotonic())
    while len(answered) < len(asked) or time.monotonic() - last < IDLE:
        page.wait_for_timeout(20)
    for event, handler in heard.items():
        page.remove_listener(event, handler)
    return last - started, len(asked)


def pages(url: str, experiment: str, run_ids: list[str]) -> dict[str, tuple[str, str]]:
    """The pages that a reviewer opens, and a word that each shows when it is there."""
    base = f"{url}/#/experiments/{experiment}/runs"
    addresses = {
        "the table of runs": (base, "digits"),
        "their charts": (f"{base}?compareRunsMode=CHART", "test"),
        "one run": (f"{base}/{run_ids[0]}", "test/"),
    }
    for count in COMPARED:
        query = f"runs={quote(json.dumps(run_ids[:count]))}&experiments={quote(json.dumps([experiment]))}"
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
        home_filled = fill(home, model)
        print(f"{RUNS} runs written in {time.monotonic() - began:.0f} s")
        counted = rows(home.mlflow_file)
        size = home.mlflow_file.stat().st_size
        print(", ".join(f"{table} {count:,}" for table, count in counted.items()), f"({size / 1e6:.1f} MB)")
        print(f"of a run: {counted['latest_metrics'] // RUNS} metrics, {counted['metrics'] // RUNS} points")
        with served(home) as url, browsing() as page:
            for title, (address, wanted) in pages(url, "1", home_filled).items():
                times = [load(page, address, wanted) for _ in range(ROUNDS)]
                taken = [seconds for seconds, _ in times[1:]]
                print(
                    f"  {title:<20} {statistics.median(taken):5.1f} s [{min(taken):.1f}, {max(taken):.1f}], "
                    f"first {times[0][0]:.1f} s, {times[-1][1]} requests"
                )


if __name__ == "__main__":
    main()
