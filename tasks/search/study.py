"""The study of a tuning in Optuna: its trials, and which values are tried next.

A trial's values are chosen in a copy of the study in memory and stored with the trial in one step, so that a kill
leaves a trial with all of its values or none. The random numbers are functions of the seed and the trial's number: a
study that was killed goes on with the values that it would have had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from tasks.search import storage as storages
from tasks.search.config import TuneConfig
from tasks.search.space import decoded, distributions
from tasks.search.table import COMPLETE, FAILED, PRUNED, RUNNING, Trial

if TYPE_CHECKING:
    from optuna.storages import RDBStorage


STATES = {
    TrialState.RUNNING: RUNNING,
    TrialState.WAITING: RUNNING,
    TrialState.COMPLETE: COMPLETE,
    TrialState.PRUNED: PRUNED,
    TrialState.FAIL: FAILED,
}
ENDED = {state: ours for ours, state in ((COMPLETE, TrialState.COMPLETE), (PRUNED, TrialState.PRUNED))}


class Study:
    """The study of a tuning; several threads may use it."""

    def __init__(
        self, storage: RDBStorage, name: str, config: TuneConfig, direction: storages.Direction, seed: int
    ) -> None:
        self.config, self.direction, self.seed = config, direction, seed
        self._storage, self._mutex = storage, threading.RLock()
        self._study = optuna.load_study(study_name=name, storage=storage, pruner=config.pruner.pruner())
        self._id = storage.get_study_id_from_name(name)

    @property
    def count(self) -> int:
        """The number of trials, those under way included."""
        return len(self._frozen())

    def trials(self) -> list[Trial]:
        """Return all trials, in order of their numbers."""
        return [self._row(trial) for trial in self._frozen()]

    def trial(self, number: int) -> Trial:
        """Return a trial."""
        return self._row(self._frozen()[number])

    def ask(self) -> Trial:
        """Choose the values of the next trial, and store it."""
        with self._mutex:
            number = self.count
            sampler = self.config.sampler.sampler(self.config.space, self.seed, number)
            memory = optuna.create_study(direction=self.direction, sampler=sampler)
            memory.add_trials(self._frozen())
            memory.ask(distributions(self.config.space))
            self._study.add_trial(memory.get_trials(deepcopy=False)[-1])
            return self.trial(number)

    def report(self, number: int, step: int, value: float) -> None:
        """Store the score of a trial at a step; one that is stored stays as it is."""
        with self._mutex:
            if step not in self._frozen()[number].intermediate_values:
                self._storage.set_trial_intermediate_value(self._trial_id(number), step, value)

    def prunes(self, number: int, step: int) -> bool:
        """Return whether a trial should end at a step, by its score there and those of the others.

        False where a later score is stored: it went on.
        """
        with self._mutex:
            trial = self._frozen()[number]
            return trial.last_step == step and bool(self._study.pruner.prune(self._study, trial))

    def complete(self, number: int, value: float, **facts: Any) -> None:
        """End a trial with its score, and store facts about it."""
        self._end(number, TrialState.COMPLETE, value, facts)

    def prune(self, number: int, **facts: Any) -> None:
        """End a trial early; its score is the last one."""
        self._end(number, TrialState.PRUNED, None, facts)

    def fail(self, number: int, **facts: Any) -> None:
        """End a trial without a score."""
        self._end(number, TrialState.FAIL, None, facts)

    def importances(self) -> dict[str, float]:
        """Return each key's share of the variance of the scores (fANOVA, Hutter et al. 2014).

        It is empty with fewer than four complete trials, or equal scores.
        """
        complete = [trial for trial in self._frozen() if trial.state == TrialState.COMPLETE]
        if len(complete) < 4 or len({trial.value for trial in complete}) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        shares = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {key: float(share) for key, share in shares.items()}

    def _end(self, number: int, state: TrialState, value: float | None, facts: dict[str, Any]) -> None:
        with self._mutex:
            for name, fact in facts.items():
                self._storage.set_trial_user_attr(self._trial_id(number), name, fact)
            self._study.tell(number, value, state)

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)

    def _frozen(self) -> list[FrozenTrial]:
        with self._mutex:
            return self._study.get_trials(deepcopy=False)

    def _row(self, trial: FrozenTrial) -> Trial:
        value = trial.value if trial.state in ENDED else None
        return Trial(
            number=trial.number,
            state=STATES[trial.state],
            values=decoded(self.config.space, trial.params),
            value=value,
            steps=max(trial.intermediate_values, default=0),
            seconds=trial.user_attrs.get("seconds"),
            model=trial.user_attrs.get("model"),
            cached=trial.user_attrs.get("cached", False),
            reason=trial.user_attrs.get("reason"),
        )


@contextmanager
def opened(path: Path, name: str, config: TuneConfig, *, higher_is_better: bool, seed: int) -> Iterator[Study]:
    """Open the study `name` of a config, in `path` unless `tune.storage` names a database; it is created if needed."""
    direction: storages.Direction = "maximize" if higher_is_better else "minimize"
    with storages.opened(path, config.storage, name, direction) as storage:
        yield Study(storage, name, config, direction, seed)
