"""An attempt of a run: its compute processes, tracking, signals, and recorded end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifacts import Artifact
from tasks.config.compose import Config
from tasks.errors import Damaged, Failed, Lost, Stopped, UserError
from tasks.processes.config import CHIEF, Role
from tasks.processes.fork_server import fork_server
from tasks.processes.gang import ProcessLauncher
from tasks.processes.local_process import remove_left
from tasks.processes.rendezvous import Rendezvous
from tasks.processes.threads import processor, threads_of
from tasks.processes.workbench import Limits, Result, Work
from tasks.runner.hosts import rendezvous_of
from tasks.runner.showing import Presence, Shown, in_terminal
from tasks.runner.signals import Restarts, Signals
from tasks.runs.audit import Decision
from tasks.runs.home import Home, find_home
from tasks.runs.provenance import produced_by
from tasks.runs.runs import Run, finished_before, opened
from tasks.store.journal import FILE as JOURNAL
from tasks.store.staging import Staging
from tasks.store.store import Store
from tasks.tracking import notifications
from tasks.tracking.shipping import Shipper, import_store
from tasks.view import run_page, terminal

FLUSH_SECONDS, FLUSH_SECONDS_AFTER_SIGNAL = 60.0, 5.0
"""Seconds to send the remaining metrics to MLflow at the end of a run, and after a signal."""


log = logging.getLogger("tasks.processes.gang")
"""Receives the log lines of the compute processes, with stage and rank."""


class Attempt:
    """The state that the stages of a flow run share."""

    def __init__(
        self,
        run: Run,
        decision_on: Callable[[str], Decision | None],
        signals: Signals,
        threads: int,
        rendezvous: Rendezvous | None,
    ) -> None:
        self.run = run
        self.signals = signals
        self.decision_on = decision_on
        """Returns a person's decision on whether an export, by its digest, may be champion; None if there is none."""
        self.store: Store = run.store
        self.config = run.config
        self.threads, self.rendezvous = threads, rendezvous
        self.launcher = ProcessLauncher(run.folder / "logs", self.threads, self.rendezvous)
        self.shipper = Shipper(run)
        self.outcome = "completed"
        """The status with which the run ends, unless an error or a signal ends it."""
        self.awaiting_export: str | None = None

    @property
    def journal(self) -> Path:
        """Metrics by step, before they are shipped."""
        return self.run.folder / JOURNAL

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` after a signal that came during a compute process' work or that a library ignored."""
        self.signals.raise_if_stopped()

    def stopping(self) -> int:
        """Return the number of the signal after which compute processes save and exit; 0 if there was none."""
        if self.signals.number:
            terminal.say("  … saving, then stopping")
        return self.signals.number

    def shown(self, stage: str, name: str) -> AbstractContextManager[Shown]:
        """Show a stage to the user within the block."""
        return in_terminal(stage, name)

    def made(self, stage: str, artifact: Artifact, seconds: float, *, cached: bool) -> None:
        """Record and announce the artifact of a stage."""
        from tasks.tracking import prefect_page  # not before a run's servers start, which it would delay

        self.run.made(stage, artifact, seconds, cached=cached)
        self.shipper.record(stage, artifact, cached, seconds)
        prefect_page.table(stage, artifact, cached, seconds)

    def work(
        self,
        stage: str,
        work: Work[Result],
        staging: Staging | None,
        *,
        on_progress: Callable[..., None] = lambda *progress: None,
        threads: int | None = None,
        roles: Sequence[Role] = (CHIEF,),
        restarts: int | None = None,
    ) -> Result:
        """Do work in compute processes; measurements go to the run, progress to `on_progress`.

        Lost processes are started again up to `restarts` times without a new checkpoint; `Failed` is raised then, or
        with None the `Lost` of the first time.
        """
        saved, allowed = 0, None if restarts is None else Restarts(restarts)
        presence = Presence(stage, roles, self.run)

        def on_report(kind: str, *values: Any) -> None:
            nonlocal saved
            if kind == "saving":
                return
            if kind == "saved":
                saved = values[0]
            elif kind == "stopping":
                with suppress(OSError):  # `millrace down` then waits as long as it does without a training
                    self.run.note(stops_by=time.time() + values[0])
            elif kind == "measure":
                self.run.measure(*values)
            elif kind == "log":
                log.info("[%s %d] %s", stage, *values)
            elif kind == "process":
                presence.note(*values)
            else:
                on_progress(*values)

        strategy = self.config.train.strategy  # a process that evaluates beside it uses the threads of the training
        limits = Limits(*self.config.resources.limit(stage), self.config.resources.grace)

        def say(line: str) -> None:
            terminal.say(f"  … {stage:<9} {line}", style="yellow")

        def once() -> Result:
            with self.launcher.gang(stage, roles, self._waiting(stage)) as gang:
                return gang.call(
                    work,
                    staging,
                    self.journal,
                    limits=limits,
                    on_report=on_report,
                    stop=self.stopping,
                    say=say,
                    threads=threads or self.threads_of_each(1 if len(roles) == 1 else strategy.processes),
                    layout=self.layout,
                )

        with self.signals.working():
            while True:
                self.raise_if_stopped()
                try:
                    return once()
                except Lost as lost:
                    if allowed is None:
                        raise
                    pause = allowed.pause(lost, saved)
                    again = f"starting again in {pause:.0f} s ({allowed.number} of {restarts} without a new checkpoint)"
                    say(f"{lost.saw}; {again}")
                self._pause(pause)

    def _waiting(self, stage: str) -> Callable[[str], None]:
        """Return a function that says once which hosts are waited for, and raises `Stopped` after a signal."""
        said = set[str]()

        def waiting(line: str) -> None:
            self.raise_if_stopped()
            if line not in said:
                said.add(line)
                terminal.say(f"  … {stage:<9} {line}")

        return waiting

    def _pause(self, seconds: float) -> None:
        """Wait, unless a signal comes."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.signals.number:
            time.sleep(0.1)

    @property
    def layout(self) -> dict[str, Any]:
        """The layout of computations now, which decides the last bits of a training and is not part of its digest.

        Of several hosts that differ, threads and processor are those of each, by rank.
        """
        strategy = self.config.train.strategy
        layout = {"strategy": strategy.kind, "devices": strategy.devices_of_each, "processor": processor()}
        if strategy.micro_batches_of_each > 1:
            layout["micro_batches"] = strategy.micro_batches_of_each
        if strategy.processes == 1:
            return {"threads": self.threads, **layout}
        layout = {"threads": self.threads_of_each(strategy.processes), **layout, "workers": strategy.processes}
        others = [] if self.rendezvous is None else self.rendezvous.machines()
        for name, values in zip(("threads", "processor"), zip(*others, strict=True), strict=False):
            if set(values) != {layout[name]}:
                layout[name] = ", ".join(map(str, (layout[name], *values)))
        return layout

    def threads_of_each(self, processes: int) -> int:
        """Return the threads of each of several processes, which share those of a host, or have one each."""
        return self.threads if self.rendezvous is not None else max(1, self.threads // processes)

    def produced_by(self) -> dict[str, Any]:
        """Return `produced_by` for a manifest written now."""
        return produced_by(self.run.run_id, self.run.attempt, self.layout)


def start_fork_server(home: Home, flow: str, config: Config) -> bool:
    """Start importing TensorFlow in the fork server, and return True, unless the same run has finished before.

    All its artifacts are in the store then.
    """
    if finished_before(home, flow, config):
        return False
    for threads in {threads_of(config.resources), threads_of_trials(config, threads_of(config.resources))}:
        fork_server(threads, home.root / "logs" / "fork-server.log")
    return True


def threads_of_trials(config: Config, threads: int) -> int:
    """Return the threads of each trial of a tuning, of which several share those of the run."""
    return threads if config.tune is None else max(1, threads // config.tune.parallel)


def import_tracking(home: Home) -> None:
    """Import the tracking store, and compile the page's template: most of the work where no stage computes."""
    import_store(home.mlflow_uri)
    run_page.compile_template()


@dataclass
class RunRequest:
    """Options of a run from the caller of its flow, and the resulting run."""

    new: bool = False
    decision_on: Callable[[str], Decision | None] = lambda export: None
    run: Run | None = None
    awaiting_export: str | None = None
    """The digest of the export that awaits a person's approval."""


current: ContextVar[Attempt] = ContextVar("attempt")
"""The attempt of the running flow."""


def attempt_run(flow: str, config: Config, body: Callable[[], Any], request: RunRequest, prefect_id: str | None) -> Any:
    """Run a flow's body as an attempt, a second time after a damaged artifact, and record its end."""
    home = find_home()
    start_fork_server(home, flow, config)
    notifications.check(config.notify)
    remove_left()
    signals = Signals()
    opened_run = opened(home, flow, config, new=request.new, prefect_id=prefect_id, waiting=terminal.say)
    with machine_errors("the run", home.root), signals.handled(), opened_run as run:
        attempt = None
        try:
            request.run = run
            attempt = Attempt(run, request.decision_on, signals, threads_of(config.resources), rendezvous_of(config))
            with as_current(attempt), signals.translated(), machine_errors("the run", home.root):
                if run.attempt > 1:
                    terminal.say(f"  … going on with {run.run_id}, attempt {run.attempt}")
                result = _with_one_repair(body)
                run.end(0 if attempt.outcome == "completed" else 3, attempt.outcome, None)
                request.awaiting_export = attempt.awaiting_export
            return result
        except Stopped as stop:
            _end(run, stop.exit_code, stop.status, None)
            raise
        except UserError as error:
            _end(run, error.exit_code, error.status, error.as_json())
            raise
        except BaseException as error:
            bug = Failed(flow, f"{type(error).__name__}: {error}", "this is a bug of ours", "report it with the log")
            _end(run, 1, "failed", bug.as_json())
            raise
        finally:
            signals.release()
            if attempt is not None and attempt.rendezvous is not None:
                attempt.rendezvous.close(run.record["exit_code"] or 0, run.record["error"])
            if attempt is not None:
                with terminal.waiting("writing the run's page, sending the rest to MLflow"):
                    _publish_page(attempt)
                    attempt.shipper.close(FLUSH_SECONDS_AFTER_SIGNAL if signals.number else FLUSH_SECONDS)
                    notifications.notify(run)


@contextmanager
def as_current(attempt: Attempt) -> Iterator[None]:
    """Set the current attempt within the block."""
    token = current.set(attempt)
    try:
        yield
    finally:
        current.reset(token)


@contextmanager
def machine_errors(who: str, home: Path) -> Iterator[None]:
    """Convert an error of the machine (disk full, no permission) to `Failed`."""
    try:
        yield
    except OSError as error:
        where = str(error.filename2 or error.filename or home)
        saw = error.strerror or str(error) or type(error).__name__
        rule, remedy = f"{who} needs to read and write there", "fix it and run again: what was finished is kept"
        raise Failed(where, saw, rule, remedy) from error


def _end(run: Run, exit_code: int, status: str, error: dict[str, str] | None) -> None:
    """Record the end; where that cannot be written, print a warning, and the run counts as unfinished."""
    try:
        run.end(exit_code, status, error)
    except OSError as full:
        terminal.say(f"warning: {run.folder / 'run.json'}: {full.strerror}; it lacks this end", style="yellow")


def _publish_page(attempt: Attempt) -> None:
    """Write the run's page, also of a failed run, and send it to MLflow; an error becomes a warning."""
    try:
        pages, description = run_page.publish(attempt.run)
    except Exception as error:
        terminal.say(f"warning: the run's page could not be made: {type(error).__name__}: {error}", style="yellow")
        pages, description = [], attempt.run.record["status"]
    attempt.shipper.end(pages, description)


def _with_one_repair(body: Callable[[], Any]) -> Any:
    try:
        return body()
    except Damaged as damage:
        terminal.say(f"warning: {damage}", style="yellow")
        terminal.say("  … starting once more from the top")
        return body()
