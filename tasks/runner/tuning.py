"""The search of a tuning: trials one after the other, or some at a time, until its budget is spent."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from tasks.artifacts import Snapshot
from tasks.artifacts import Study as StudyOfRun
from tasks.config.compose import Config, searched, with_values
from tasks.errors import Failed, Refused, Stopped
from tasks.models import ModelConfig
from tasks.runner import identities
from tasks.runner.attempt import FLUSH_SECONDS, FLUSH_SECONDS_AFTER_SIGNAL, Attempt, current, machine_errors
from tasks.runner.showing import Shown
from tasks.runner.stages import runner
from tasks.runner.starting_models import continued_model, initial_model
from tasks.runner.trials import ENDS, Train, TrialAttempt, run_trial
from tasks.runs.runs import find_runs, open_trial, trials_of
from tasks.search import study as studies
from tasks.search import table
from tasks.search.monitor import TrialMonitor
from tasks.search.study import Study
from tasks.search.table import COMPLETE, RUNNING, Table, Trial
from tasks.store.journal import JournalFile
from tasks.store.lock import locked
from tasks.store.store import digest_of
from tasks.tracking import prefect_page
from tasks.tracking.shipping import Shipper
from tasks.training.config import TrainConfig
from tasks.view import terminal
from tasks.view.words import describe_search, describe_trial

STAGE = "tune"
SPENT = "tune/seconds"
"""The measurement of the seconds that all attempts have spent on trials."""

CLOSE_SECONDS = 60.0
"""Seconds to send the rest of a trial to MLflow."""


@dataclass(frozen=True)
class Winner:
    """The best trial of a tuning, and the config with its values."""

    trial: Trial
    config: Config

    @property
    def model(self) -> ModelConfig:
        """The architecture."""
        return self.config.model

    @property
    def train(self) -> TrainConfig:
        """The training."""
        return self.config.train


def search(examples: Snapshot, config: Config, train: Train) -> Winner:
    """Run the trials of `tune` that the study does not have yet, and return the best of all; see the verb `tune`."""
    tune = config.tune
    if tune is None:
        raise Refused("tune", "nothing", "the flow tuning needs to know what to search", "add the section tune")
    base, start = continued_model(config.train), initial_model(config.train)
    trials = [(trial.model, trial.train) for trial in searched(config)]
    what = (examples, config.model, config.train, config.seed, tune, base, start, trials, config.evaluate)
    name = digest_of(identities.study(*what))
    if not runner().computes:
        return known_winner(name, config)
    attempt = current.get()
    attempt.run.use("study", name)
    path = attempt.run.home.studies / f"{name}.db"
    metric, higher = tune.judged_by(config.watched)
    with (
        attempt.shown(STAGE, metric) as line,
        machine_errors(f"stage {STAGE}", attempt.run.home.root),
        locked(path.with_suffix(".lock"), line.say, attempt.raise_if_stopped),
        studies.opened(path, name, tune, higher_is_better=higher, seed=config.seed) as study,
    ):
        return Search(attempt, study, name, examples, config, train, line).run()


def known_winner(name: str, config: Config) -> Winner:
    """Return the winner of a search that has ended, for a preview; raise `Refused` where it has not."""
    assert config.tune is not None
    tables = (table.read(run.folder) for run in reversed(find_runs(runner().home)))
    known = next((each for each in tables if each is not None and each.study == name), None)
    if known is None or known.best is None or not known.covers(config.tune):
        saw = "none yet" if known is None else f"{len(known.trials)} trials"
        rule = "what comes after the search is made of its best trial, and it has not ended"
        raise Refused("tune", saw, rule, "run the flow tuning, or ask about the preset's own values by --tune null")
    return winner_of(known, config)


def winner_of(made: Table, config: Config) -> Winner:
    """Return the winner of a table.

    Raises:
        Failed: no trial has a score.
    """
    best = made.best
    if best is None or best.value is None:
        failed = next((trial.reason for trial in made.trials if trial.reason), "no trial ended")
        rule, remedy = "the best trial is released", "change tune.space, and run again"
        raise Failed("tune.space", f"none of {len(made.trials)} trials has a score; the first: {failed}", rule, remedy)
    return Winner(best, with_values(config, best.values))


class Search:
    """The trials of a study, in threads: each waits for its compute processes."""

    def __init__(
        self, attempt: Attempt, study: Study, name: str, examples: Snapshot, config: Config, train: Train, line: Shown
    ) -> None:
        assert config.tune is not None
        self.attempt, self.study, self.name, self.examples = attempt, study, name, examples
        self.config, self.tune, self.train, self.line = config, config.tune, train, line
        self.metric, self.higher = config.tune.judged_by(config.watched)
        self.started = time.monotonic()
        self.before: float = attempt.run.measurements().get(SPENT, 0.0)
        self.ending, self.recording = threading.Event(), threading.Lock()
        self.journal = JournalFile(attempt.journal)
        self.senders = ThreadPoolExecutor(1, "sending trials")
        self.ran = 0
        """Trials that this attempt has run."""
        self.sending: list[Future[None]] = []
        self.ended = 0
        self.best: Trial | None = None
        self.figures: dict[int, str] = {}
        """The progress of the trials under way."""

    def run(self) -> Winner:
        """Run trials until the budget is spent; return the best one.

        Raises:
            Stopped: after a signal; trials under way go on from their checkpoints.
            Failed: no trial has a score, or an error that is not a trial's own.
        """
        self.settle()
        waiting = deque(trial.number for trial in self.study.trials() if trial.state == RUNNING)
        running: dict[Future[None], int] = {}
        with self.attempt.signals.working(), ThreadPoolExecutor(self.tune.parallel, "trial") as threads:
            try:
                while not self.attempt.signals.number:
                    while len(running) < self.tune.parallel and (number := self.next(waiting)) is not None:
                        running[threads.submit(contextvars.copy_context().run, self.try_one, number)] = number
                    if not running:
                        break
                    for future in wait(running, 0.1, FIRST_COMPLETED).done:
                        del running[future]
                        future.result()
            finally:
                self.ending.set()
                wait(running)
                self.attempt.run.measure(SPENT, round(self.spent, 3))
                self.finish_sending()
        if self.attempt.signals.number:
            stopped = {number: future.exception() for future, number in running.items()}
            saved = [
                f"trial {n} at {stop.saved}" for n, stop in stopped.items() if isinstance(stop, Stopped) and stop.saved
            ]
            raise Stopped(self.attempt.signals.number, ", ".join(saved) or None)
        return self.end()

    def settle(self) -> None:
        """Complete what a killed attempt left of trials that have ended: records, runs in MLflow, the table."""
        states = {trial.number: trial.state for trial in self.study.trials()}
        for trial in trials_of(self.attempt.run):
            state = states.get(trial.number, RUNNING)
            if state in ENDS and trial.exit_code not in (0, 1):
                trial.end(*ENDS[state], None)
            if trial.exit_code is not None and not trial.record.get("sent"):
                self.send(Shipper(trial))
        self.record()

    def finish_sending(self) -> None:
        """Wait until the ended trials are sent to MLflow; the next attempt sends what was not."""
        patience = FLUSH_SECONDS_AFTER_SIGNAL if self.attempt.signals.number else FLUSH_SECONDS
        left = wait(self.sending, patience).not_done
        self.senders.shutdown(wait=False, cancel_futures=True)
        if left:
            terminal.say(f"warning: {len(left)} trials were not sent to MLflow", style="yellow")

    @property
    def spent(self) -> float:
        """The seconds of all attempts."""
        return self.before + time.monotonic() - self.started

    def next(self, waiting: deque[int]) -> int | None:
        """Return the number of the next trial, an interrupted one or a new one; None where the budget is spent."""
        if waiting:
            return waiting.popleft()
        late = self.tune.minutes is not None and self.spent > 60 * self.tune.minutes
        if late or self.study.count >= self.tune.most:
            return None
        return self.study.ask().number

    def try_one(self, number: int) -> None:
        """Run a trial as a task of Prefect, whose state has the trial's."""
        values = self.study.trial(number).values

        def body() -> Any:
            run_trial(self.study, number, self.config_of(values), self.open, self.close, self.train, self.examples)
            ended = self.study.trial(number)
            return Completed(name=ended.state.capitalize(), message=describe_trial(ended, self.table()), data=None)

        name = f"trial-{number}"
        trial: Task[[], Any] = task(name="trial", task_run_name=name, cache_policy=NO_CACHE, persist_result=False)(body)
        _ = trial()
        self.note(self.study.trial(number))

    def config_of(self, values: dict[str, Any]) -> Config | Refused:
        """Return the config of a trial, or why it is not valid."""
        try:
            return with_values(self.config, values)
        except Refused as refused:
            return refused

    def open(self, config: Config, judge: TrialMonitor) -> TrialAttempt:
        """Return the attempt of a trial."""

        def progress(done: int, total: int, unit: str, figures: dict[str, Any]) -> None:
            self.figures[judge.number] = f"{judge.number}: {unit} {done:,}/{total:,}"
            self.show()

        run = open_trial(self.attempt.run, judge.number, config)
        return TrialAttempt(self.attempt, run, judge, self.ending, progress)

    def close(self, attempt: TrialAttempt, state: str) -> None:
        """End the attempt of a trial."""
        attempt.end(state)
        self.figures.pop(attempt.judge.number, None)
        self.send(attempt.shipper)

    def send(self, shipper: Shipper) -> None:
        """Send the rest of a trial to MLflow, beside the next one."""

        def close() -> None:
            run = shipper.run
            shipper.end([], f"{run.title.capitalize()} of the tuning `{self.attempt.run.run_id}`.")
            shipper.close(CLOSE_SECONDS)
            if shipper.fault is None and run.exit_code is not None:
                run.note(sent=True)

        self.sending.append(self.senders.submit(contextvars.copy_context().run, close))

    def record(self) -> Table:
        """Write the table of the trials, and the best score so far by trial, and return the table."""
        with self.recording:
            made = self.table()
            made.save(self.attempt.run.folder)
            best, better = None, max if self.higher else min
            for trial in made.trials:
                if trial.state == COMPLETE and trial.value is not None:
                    best = trial.value if best is None else better(best, trial.value)
                    self.journal.append(trial.number + 1, {"tune/score": trial.value, "tune/best": best})
        self.best, self.ended = made.best, len(made.trials) - made.count(RUNNING)
        return made

    def note(self, trial: Trial) -> None:
        """Record and show the end of a trial."""
        self.ran += 1
        self.line.say(f"trial {trial.number}: {describe_trial(trial, self.record())}")
        self.show()

    def show(self) -> None:
        """Show the progress of the search."""
        figures: dict[str, Any] = {}
        if self.best is not None and self.best.value is not None:
            figures[f"best {self.metric}"] = self.best.value
        if under_way := dict(self.figures):
            figures["now"] = ", ".join(under_way[number] for number in sorted(under_way))
        self.line.progress(self.ended, self.tune.most, "trials", figures)

    def table(self) -> Table:
        """Return the table of all trials."""
        return Table(self.name, self.metric, self.higher, self.study.trials())

    def end(self) -> Winner:
        """Record the table with importances, and return the winner."""
        made = replace(self.table(), importances=self.study.importances())
        made.save(self.attempt.run.folder)
        prefect_page.trials(made)
        winner = winner_of(made, self.config)
        run, took, cached = self.attempt.run, time.monotonic() - self.started, self.ran == 0
        run.made(STAGE, StudyOfRun(self.name, run.home.studies / f"{self.name}.db", "trials"), took, cached=cached)
        self.line.finish(describe_search(made), cached, took)
        return winner
