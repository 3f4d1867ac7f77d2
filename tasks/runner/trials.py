"""A trial of a tuning: one training as a run of its own, which may end early, as a task of Prefect."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tasks.artifacts import Artifact, Model, Records, Snapshot
from tasks.config.compose import Config
from tasks.errors import Lost, Refused, Stopped, UserError
from tasks.evaluation.config import EvaluateConfig
from tasks.feed.orders import steps_of
from tasks.processes.workbench import Result, Work, work
from tasks.runner.attempt import Attempt, as_current, threads_of_trials
from tasks.runner.showing import Quiet, Shown
from tasks.runner.stages import body_of, parent_of
from tasks.runs.collection import drop_staging
from tasks.runs.runs import TrialRun
from tasks.search import monitor
from tasks.search.monitor import TrialMonitor
from tasks.search.study import Study
from tasks.search.table import COMPLETE, FAILED, PRUNED
from tasks.store.staging import Staging
from tasks.training.config import TrainConfig

Train = Callable[[Snapshot, Any, Any, int, EvaluateConfig], Model]
"""The verb train."""

OF_A_TRIAL = ("model", "train")
"""Sections whose errors are a trial's own: another one has other values."""


ENDS = {COMPLETE: (0, "completed"), PRUNED: (0, "pruned"), FAILED: (1, "failed")}
"""Exit code and status of a trial's run by the state in which it ends; another one was stopped."""

SECONDS = "trial/seconds"


class TrialAttempt(Attempt):
    """An attempt within that of the tuning: same signals and threads, with a journal and an MLflow run of its own."""

    def __init__(
        self,
        parent: Attempt,
        run: TrialRun,
        judge: TrialMonitor,
        ending: threading.Event,
        progress: Callable[..., None],
    ) -> None:
        """Create it; it also stops when `ending` is set. `progress` receives what `terminal.Stage.progress` does."""
        threads = threads_of_trials(parent.config, parent.threads)
        super().__init__(run, parent.decision_on, parent.signals, threads, parent.rendezvous)
        self.began = time.monotonic()
        self.judge, self._ending, self._progress = judge, ending, progress

    @property
    def seconds(self) -> float:
        """The seconds of the trial over all its attempts."""
        before: float = self.run.measurements().get(SECONDS, 0.0)
        return round(before + time.monotonic() - self.began, 3)

    def end(self, state: str) -> None:
        """Record the end of the trial, or that it was stopped."""
        self.run.measure(SECONDS, self.seconds)
        self.run.end(*ENDS.get(state, (75, "stopped")), None)

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` after a signal, or an error of another trial."""
        super().raise_if_stopped()
        if self._ending.is_set():
            raise Stopped(signal.SIGTERM)

    def stopping(self) -> int:
        """Return a signal's number after one, after an error of another trial, and where this one should end early."""
        if self.signals.number:
            return self.signals.number
        return signal.SIGTERM if self._ending.is_set() or self.judge.take(self.journal) else 0

    def work(self, stage: str, work: Work[Result], staging: Staging | None, **options: Any) -> Result:
        """Do work in compute processes, as `Attempt.work`; a training that was pruned as it ended is not kept.

        Raises:
            Stopped: after a signal, or where the trial ends early.
        """
        outcome = super().work(stage, work, staging, **options)
        if self.judge.take(self.journal):
            raise Stopped(signal.SIGTERM)
        return outcome

    def shown(self, stage: str, name: str) -> AbstractContextManager[Shown]:
        """Show messages alone."""
        return nullcontext(Quiet(f"trial {self.judge.number}", self._progress))

    def made(self, stage: str, artifact: Artifact, seconds: float, *, cached: bool) -> None:
        """Record the artifact of a stage."""
        self.run.made(stage, artifact, seconds, cached=cached)
        self.shipper.record(stage, artifact, cached, seconds)


def run_trial(
    study: Study,
    number: int,
    config: Config | Refused,
    open_attempt: Callable[[Config, TrialMonitor], TrialAttempt],
    close_attempt: Callable[[TrialAttempt, str], None],
    train: Train,
    examples: Snapshot,
) -> None:
    """Train a trial of the study to its end, or to where it is pruned, and store its score and state.

    Args:
        config: that of the trial, or why there is none.
        open_attempt: returns its attempt.
        close_attempt: ends the attempt with a state of the trial, or `stopped`.
        train: the verb.

    Raises:
        Stopped: after a signal; the training goes on from its checkpoint.
        Failed: an error that is not the trial's own.
    """
    if isinstance(config, Refused):
        study.fail(number, reason=str(config))
        return
    metric, _ = study.config.judged_by(config.watched)
    judge = TrialMonitor(study, number, metric, config.train, planned_steps(config.train, examples))
    attempt = open_attempt(config, judge)
    state = "stopped"
    try:
        with as_current(attempt):
            state = _trained(attempt, judge, config, train, examples)
    finally:
        close_attempt(attempt, state)


def _trained(attempt: TrialAttempt, judge: TrialMonitor, config: Config, train: Train, examples: Snapshot) -> str:
    """Return the state in which a trial ends."""
    study, number = judge.study, judge.number
    made = None
    try:
        if not judge.take(attempt.journal):  # of earlier attempts
            made = body_of(train)(examples, config.model, config.train, config.seed, config.evaluate)
            _judge_to_the_end(attempt, judge, config, made, examples)
    except Stopped:
        if attempt.signals.number or not judge.pruned:
            raise
    except UserError as error:
        if isinstance(error, Lost) or error.field.partition(".")[0] not in OF_A_TRIAL:
            raise
        study.fail(number, reason=str(error), seconds=attempt.seconds)
        return FAILED
    if judge.pruned:
        study.prune(number, seconds=attempt.seconds)
        drop_staging(attempt.run)
        return PRUNED
    assert made is not None and judge.score is not None
    row = attempt.run.record["stages"]["train"][0]
    study.complete(number, judge.score, model=made.digest, cached=row["cached"], seconds=attempt.seconds)
    return COMPLETE


def _judge_to_the_end(
    attempt: TrialAttempt, judge: TrialMonitor, config: Config, made: Model, examples: Snapshot
) -> None:
    """Take the evaluations that were not taken; of a model of the store those of the run that made it, if it is there,
    or else one evaluation."""
    steps = made.manifest["steps"]
    journals = (attempt.journal, attempt.run.home.runs / made.manifest["produced_by"]["run"] / attempt.journal.name)
    for journal in journals:
        if judge.step < steps and not judge.pruned:
            judge.take(journal)
    if judge.step < steps and not judge.pruned:
        records = parent_of(examples, "records", Records)
        sections = (config.model, config.train, config.seed)
        scores = attempt.work("train", work(monitor.score, made, examples, *sections, records, config.evaluate), None)
        judge.add(steps, scores[judge.metric], scores["loss"])


def planned_steps(train: TrainConfig, examples: Snapshot) -> int:
    """Return the number of steps of a training that does not end early."""
    if train.steps is not None:
        return train.steps
    assert train.epochs is not None
    return steps_of(train.epochs, examples.manifest["counts"]["train"], train.batch_size)
