"""The journal's way to MLflow: in batches, later where the server is away; and which metrics go there.

Everything that tracking does for a run is queued here. What fails is tried again, and once more at the end; a
run is neither slowed nor stopped by it, and the journal keeps what could not be sent for the next attempt. Metrics are
sent by which runs are compared; the page and `--json` have all.
"""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import Artifact
from tasks.errors import Failed, of_the_machine
from tasks.exporting import LITERT
from tasks.runs.runs import Run
from tasks.store.files import pretty, write
from tasks.store.journal import FILE as JOURNAL
from tasks.store.journal import JournalFile, read
from tasks.training.seeds import OVER_SEEDS
from tasks.view import terminal

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient


MAX_LENGTH = 160
"""Characters of an unknown error, at most."""


def reason(error: BaseException) -> str:
    """Return the cause of an error, such as `connection refused`, without addresses, retries and object names."""
    if (error_of_machine := of_the_machine(error)) is not None:
        return str(error_of_machine.strerror).lower()
    text = " ".join(str(error).partition("(Background on this error")[0].split()) or type(error).__name__
    if errors := re.findall(r"\[Errno -?\d+\] ([A-Z][\w ]+)", text):
        return str(errors[-1]).lower()
    if re.search(r"timed? ?out", text, re.IGNORECASE):
        return "no answer in time"
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def machine_error(uri: str, error: BaseException) -> OSError | None:
    """Return the error of this machine that caused a tracking error; None if a server reported it."""
    served = uri.startswith("http") and not isinstance(error, OSError)
    return None if served else of_the_machine(error)


EVERY = 2.0
LATE = 15.0
"""Seconds after which a point counts as late, unless `MILLRACE_TRACKING_LATE` says otherwise: more than a server that
answers ever takes."""

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}

WARN_AFTER = 2
"""Faults in a row after which a message is printed."""

Send = Callable[["MlflowClient", str], None]


def set_environment() -> None:
    """Set MLflow's environment, which it reads when it is imported: short time-outs, no output."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def import_store(uri: str) -> None:
    """Import the tracking store of `uri` ahead of its use; for a database, its tables are mapped."""
    set_environment()
    from tasks.tracking import runs

    if uri.startswith(runs.SQLITE):
        runs.import_database_store()


class Shipper:
    """Sends the metrics and results of an attempt to MLflow in a thread."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.journal = run.folder / JOURNAL
        self.client: MlflowClient | None = None
        self.mlflow_id: str | None = run.record["mlflow_run_id"]
        self.fault: Exception | None = None
        self._faults, self._warned = 0, False
        self._late = float(os.environ.get("MILLRACE_TRACKING_LATE", LATE))
        self._queue: queue.SimpleQueue[Send] = queue.SimpleQueue()
        self._unsent: Send | None = None
        self._acknowledged = run.folder / "shipped.json"
        self._ending = threading.Event()
        self._ready = threading.Event()
        set_environment()
        self._thread = threading.Thread(target=self._go, name="shipping", daemon=True)
        self._thread.start()

    def record(self, stage: str, artifact: Artifact, cached: bool, seconds: float) -> None:
        """Send the metrics of an artifact through the journal, and its digest and lineage."""
        primary = self.run.config.evaluate.primary_of(self.run.config.model.task)[0]
        self.metrics(of_stage(primary, stage, artifact, seconds, cached))

        def send(client: MlflowClient, mlflow_id: str) -> None:
            from tasks.tracking import runs

            runs.note_stage(client, mlflow_id, stage, artifact, cached)

        self._queue.put(send)

    def tags(self, tags: dict[str, str]) -> None:
        """Send tags of the run."""

        def send(client: MlflowClient, mlflow_id: str) -> None:
            for name, value in tags.items():
                client.set_tag(mlflow_id, name, value)

        self._queue.put(send)

    def metrics(self, metrics: dict[str, float]) -> None:
        """Append summary metrics at step 0, except those that have a curve of the training.

        The last value of such a curve (validation/accuracy) is that of the report.
        """
        curves = {name for point in read(self.journal) if point.step > 0 for name in point.metrics}
        JournalFile(self.journal).append(0, {name: value for name, value in metrics.items() if name not in curves})

    def end(self, pages: list[tuple[Path, str]], description: str) -> None:
        """Send measurements, files for the artifact viewer, description and status of the run."""
        self.metrics(of_measurements(self.run.measurements()))

        def send(client: MlflowClient, mlflow_id: str) -> None:
            from tasks.tracking import runs

            if late := self._state()["late"]:
                client.set_tag(mlflow_id, "millrace.late_points", str(late))
            runs.end(client, mlflow_id, self.run, pages, description)

        self._queue.put(send)

    def connected(self, patience: float, waiting: Callable[[float], None]) -> tuple[MlflowClient, str]:
        """Return the client and the id of the MLflow run; while it waits, `waiting` is called with the seconds.

        Raises the last error after `patience` seconds, or at once if it is permanent.
        """
        started = time.monotonic()
        while not self._ready.wait(0.1):
            spent, fault = time.monotonic() - started, self.fault
            if fault is not None and (spent > patience or self._is_permanent(fault)):
                raise fault
            if spent > patience:
                raise TimeoutError("timed out")
            waiting(spent)
        assert self.client is not None and self.mlflow_id is not None
        return self.client, self.mlflow_id

    def _is_permanent(self, fault: Exception) -> bool:
        return isinstance(fault, Failed) or machine_error(self.run.home.mlflow_uri, fault) is not None

    def reconnect(self) -> None:
        """Let `connected` wait until the server answers again."""
        self._ready.clear()

    def close(self, patience: float) -> None:
        """Send the rest for `patience` seconds; what is not sent stays in the journal."""
        self._ending.set()
        self._thread.join(patience)
        state = self._state()
        left = sum(len(point.metrics) for point in read(self.journal, state["offset"]))
        if state["late"]:
            self.run.measure("tracking/late_points", state["late"])
        if self._warned and not left:
            terminal.say(f"  tracking: MLflow has all {state['points']:,} points; {state['late']:,} of them waited")
        if left or self._thread.is_alive() or not self._ready.is_set():
            cause = f" ({reason(self.fault)})" if self.fault and not self._warned else ""
            terminal.say(
                f"warning: {left} points were not sent to MLflow, and are kept in {self.journal}{cause}", style="yellow"
            )

    def _go(self) -> None:
        while True:
            ending = self._ending.is_set()
            try:
                self._connect()
                self._ship()
                self._send_queued()
                self.fault, self._faults = None, 0
            except Exception as error:
                self.fault, self._faults = error, self._faults + 1
                if self._faults == WARN_AFTER and not ending:
                    self._warned = True
                    where = self.run.home.mlflow_uri
                    terminal.say(f"warning: tracking at {where}: {reason(error)}; metrics wait", style="yellow")
            if ending:
                return
            self._ending.wait(EVERY)

    def _connect(self) -> None:
        if self.client is not None and self.mlflow_id is not None and self._ready.is_set():
            return
        from tasks.store.lock import locked
        from tasks.tracking import runs

        with locked(self.run.home.root / ".mlflow.lock"):  # only one run creates the database
            self.client = runs.connect(self.run.home.mlflow_uri)
            self.mlflow_id = runs.find_or_begin(self.client, self.run)
        self.run.note(mlflow_run_id=self.mlflow_id)
        self._ready.set()

    def _ship(self) -> None:
        from tasks.tracking import runs

        state = self._state()
        points = list(read(self.journal, state["offset"]))
        if not points:
            return
        assert self.client is not None and self.mlflow_id is not None
        runs.ship(self.client, self.mlflow_id, points)
        state["points"] += sum(len(point.metrics) for point in points)
        state["late"] += sum(len(point.metrics) for point in points if time.time() - point.time > self._late)
        state["offset"] = points[-1].end
        write(self._acknowledged, pretty(state))

    def _send_queued(self) -> None:
        assert self.client is not None and self.mlflow_id is not None
        while True:
            if self._unsent is None:
                try:
                    self._unsent = self._queue.get_nowait()
                except queue.Empty:
                    return
            self._unsent(self.client, self.mlflow_id)
            self._unsent = None

    def _state(self) -> dict[str, Any]:
        path: Path = self._acknowledged
        return json.loads(path.read_bytes()) if path.exists() else {"offset": 0, "points": 0, "late": 0}


LEARNED = "evaluate/learned_baseline_seconds"
"""The measurement of the learned baseline."""


def of_stage(primary: str, stage: str, artifact: Artifact, seconds: float, cached: bool) -> dict[str, float]:
    """Return the metrics of an artifact, and if it was made in this attempt the seconds.

    `primary` is the name of the metric that decides.
    """
    metrics = {name: value for name, value in artifact.metrics.items() if _compares(name, artifact, primary)}
    if artifact.kind == "report":
        metrics |= quality(artifact.metrics, primary)
    what = stage if artifact.name == artifact.kind else f"{stage}.{artifact.name}"
    return metrics if cached else {**metrics, f"seconds/{what}": seconds}


QUALITY = "Quality"
"""MLflow's pages (3.17.2) have a section of charts for what is before the last slash of a name, in the order of code
points: `convert` and the variants are before `test`. So what decides is there once more, in a section that is first."""


def quality(metrics: Mapping[str, float], primary: str) -> dict[str, float]:
    """Return the primary metric on the test split with its interval and the simple model's, by the names of the first
    section."""
    names = {
        f"test/{primary}": primary,
        f"test/{primary}/low": f"{primary}_low",
        f"test/{primary}/high": f"{primary}_high",
        f"test/learned_baseline/{primary}": f"{primary}_of_simple_model",
    }
    return {f"{QUALITY}/{name}": metrics[key] for key, name in names.items() if key in metrics}


def _compares(name: str, artifact: Artifact, metric: str) -> bool:
    if artifact.kind == "variant":
        figures = ("bytes", "size_ratio", f"test/{metric}", f"test/{metric}_loss")
        return name in {f"{artifact.name}/{figure}" for figure in figures}
    if artifact.kind == "export":  # its verification is a check, not a metric
        return False
    return not name.endswith(("/low", "/high")) or name.startswith((f"test/{metric}/", f"{OVER_SEEDS}/"))


def of_measurements(measured: dict[str, Any]) -> dict[str, float]:
    """Return the latency of each variant by batch size and threads relative to the float LiteRT file, where it is
    conclusive, the memory that it takes, and what its fresh process measured: median and 99th percentile of a call with
    one example, and the peak memory; and the seconds of the learned baseline.

    Other milliseconds are on the page.
    """
    latency = measured.get("latency", {})
    fresh = {
        f"{name}/fresh/{figure}": value
        for name, figures in measured.get("fresh_process", {}).items()
        for figure, value in figures.items()
        if figure in ("p50_seconds", "p99_seconds", "peak_bytes")
    }
    memory = {f"{name}/model_peak_bytes": float(value) for name, value in latency.get("peak_bytes", {}).items()}
    simple = {"seconds/learned_baseline": measured[LEARNED]} if LEARNED in measured else {}
    return {**fresh, **memory, **simple} | {
        f"{name}/latency_ratio_{_setting(row)}": figures["ratio"]
        for row in latency.get("settings", ())
        for name, figures in row["variants"].items()
        if row["conclusive"] and name != LITERT  # that file itself
    }


def _setting(row: dict[str, Any]) -> str:
    """Return the name of a setting of latency: the batch size, and the threads where they are several."""
    return str(row["batch"]) if row["threads"] == 1 else f"{row['batch']}_threads_{row['threads']}"
