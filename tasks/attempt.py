"""One process life of a run: its processes, its journal on the way to MLflow, its signals, its end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from tasks import children, console
from tasks.config import Config
from tasks.errors import Damaged, Failed, Stopped, UserError
from tasks.pages import run_page
from tasks.store.home import find_home
from tasks.store.provenance import produced_by
from tasks.store.runs import Run, opened
from tasks.store.staging import Staging
from tasks.store.store import Store
from tasks.tracking.shipping import Shipper


class Attempt:
    """What the stages of a flow run share."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.store: Store = run.store
        self.config = run.config
        self.threads = self.config.resources.threads or psutil.cpu_count(logical=False) or os.cpu_count() or 1
        self.crew = children.Crew(run.folder / "logs", self.threads)
        self.shipper = Shipper(run)
        self.signal_number = 0
        self.rejected: str | None = None

    @property
    def journal(self) -> Path:
        """Metrics by step, before they are shipped."""
        return self.run.folder / "metrics.jsonl"

    def heed(self) -> None:
        """End a wait after a signal: where no process is at work, there is nobody else to hear it."""
        if self.signal_number:
            raise Stopped(self.signal_number)

    def work(
        self,
        stage: str,
        work: str,
        staging: Staging | None,
        arguments: tuple[Any, ...],
        *,
        fresh: bool = False,
        heard: Callable[..., None] = lambda *progress: None,
    ) -> Any:
        """Have `module:function` done in a compute process; measurements go to the run, progress to `heard`."""

        def hear(kind: str, *values: Any) -> None:
            if kind == "measure":
                self.run.measure(*values)
            else:
                heard(*values)

        with self.crew.process(stage, fresh) as process:
            return process.call(
                work,
                staging,
                self.journal,
                arguments,
                timeout=self.config.resources.timeout,
                heard=hear,
                stop=lambda: self.signal_number,
            )

    def produced_by(self) -> dict[str, Any]:
        """The manifest's `produced_by` for whatever is made now."""
        layout = {"threads": self.threads, "strategy": self.config.train.strategy.kind}
        return produced_by(self.run.run_id, self.run.attempt, layout)


@dataclass
class Ticket:
    """What a command asks of the run that its flow will be, and where it finds that run afterwards."""

    new: bool = False
    run: Run | None = None


current: ContextVar[Attempt] = ContextVar("attempt")
"""The attempt that this flow is."""


def attempt_run(flow: str, config: Config, body: Callable[[], Any], ticket: Ticket, prefect_id: str | None) -> Any:
    """Run a flow's body as one attempt: once more from the top where the store was damaged, and to a recorded end."""
    with opened(find_home(), flow, config, new=ticket.new, prefect_id=prefect_id, waiting=console.say) as run:
        ticket.run = run
        if run.attempt > 1:
            console.say(f"  … going on with {run.run_id}, attempt {run.attempt}")
        attempt = Attempt(run)
        token = current.set(attempt)
        try:
            with signals_of(attempt):
                result = _with_one_repair(body)
            run.end(3 if attempt.rejected else 0, "rejected" if attempt.rejected else "completed", None)
            return result
        except Stopped as stop:
            run.end(stop.exit_code, stop.status, None)
            raise
        except UserError as error:
            run.end(error.exit_code, error.status, error.as_json())
            raise
        except BaseException as error:
            bug = Failed(flow, f"{type(error).__name__}: {error}", "this is a bug of ours", "report it with the log")
            run.end(1, "failed", bug.as_json())
            raise
        finally:
            console.wait("writing the run's page, sending the rest to MLflow")
            attempt.crew.close()
            _publish_page(attempt)
            attempt.shipper.close()
            current.reset(token)


def _publish_page(attempt: Attempt) -> None:
    """The run's page, also of a failed run, on the disk and in MLflow; a page that fails is a warning."""
    try:
        pages, description = run_page.publish(attempt.run)
    except Exception as error:
        console.say(f"warning: the run's page could not be made: {type(error).__name__}: {error}", style="yellow")
        pages, description = [], attempt.run.record["status"]
    attempt.shipper.end(pages, description)


def _with_one_repair(body: Callable[[], Any]) -> Any:
    try:
        return body()
    except Damaged as damage:
        console.say(f"warning: {damage}", style="yellow")
        console.say("  … starting once more from the top")
        return body()


@contextmanager
def signals_of(attempt: Attempt) -> Iterator[None]:
    """Let SIGTERM and SIGINT reach the work: it saves and leaves, then the run ends as stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        attempt.signal_number = number
        console.say("  … saving, then stopping")

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
