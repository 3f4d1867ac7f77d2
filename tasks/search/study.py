"""The study of a tuning in Optuna: its trials, which values are tried next, and the database that it is stored in.

A trial's values are chosen in a copy of the study in memory and stored with the trial in one step, so that a kill
leaves a trial with all of its values or none. The random numbers are functions of the seed and the trial's number: a
study that was killed goes on with the values that it would have had.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import optuna
from optuna.trial import FrozenTrial, TrialState

from tasks.environment.secrets import Missing, resolve
from tasks.errors import Failed, of_the_machine
from tasks.search.config import TuneConfig
from tasks.search.space import decoded, distributions
from tasks.search.table import COMPLETE, FAILED, PRUNED, RUNNING, Trial

if TYPE_CHECKING:
    from optuna.storages import RDBStorage


FIELD = "tune.storage"
SQLITE = "sqlite:///"
DATABASES = ("postgresql", "sqlite")

Direction = Literal["minimize", "maximize"]

STATES = {
    TrialState.RUNNING: RUNNING,
    TrialState.WAITING: RUNNING,
    TrialState.COMPLETE: COMPLETE,
    TrialState.PRUNED: PRUNED,
    TrialState.FAIL: FAILED,
}


class Study:
    """The study of a tuning; several threads may use it."""

    def __init__(self, storage: RDBStorage, name: str, config: TuneConfig, direction: Direction, seed: int) -> None:
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
        return Trial(
            number=trial.number,
            state=STATES[trial.state],
            values=decoded(self.config.space, trial.params),
            value=trial.value if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
            steps=max(trial.intermediate_values, default=0),
            seconds=trial.user_attrs.get("seconds"),
            model=trial.user_attrs.get("model"),
            cached=trial.user_attrs.get("cached", False),
            reason=trial.user_attrs.get("reason"),
        )


@contextlib.contextmanager
def opened(path: Path, name: str, config: TuneConfig, *, higher_is_better: bool, seed: int) -> Iterator[Study]:
    """Open the study `name` of a config, in `path` unless `tune.storage` names a database; it is created if needed."""
    direction: Direction = "maximize" if higher_is_better else "minimize"
    with opened_storage(path, config.storage, name, direction) as storage:
        yield Study(storage, name, config, direction, seed)


def open_file(path: Path, name: str, direction: Direction) -> RDBStorage:
    """Return the storage of a file with the study `name`; it is created in one step, as a kill may come at any time."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        for leftover in (draft, draft.with_name(f"{draft.name}-journal")):
            leftover.unlink(missing_ok=True)
        _close(_open(f"{SQLITE}{draft}", name, direction))
        os.rename(draft, path)
    return _open(f"{SQLITE}{path}", name, direction)


def open_database(reference: str, name: str, direction: Direction) -> RDBStorage:
    """Return the storage of the database at the address behind a reference, with the study `name`.

    Raises:
        Failed: it cannot be reached; the message does not contain the address, which may have a password.
    """
    try:
        address = resolve(reference)
    except Missing as missing:
        raise Failed(FIELD, f"{reference}: {missing.saw}", missing.rule, missing.remedy) from None
    if address.partition(":")[0].partition("+")[0] not in DATABASES:
        rule = "the address of a study begins with postgresql://"
        raise Failed(FIELD, reference, rule, "correct it, or leave it out")
    try:
        return _open(address, name, direction)
    except ImportError as error:
        rule, remedy = "PostgreSQL needs the package psycopg2", "install the extra postgres"
        raise Failed(FIELD, reference, rule, remedy) from error
    except RuntimeError:  # of Optuna, which finds another version in `alembic_version`, a name that MLflow uses too
        rule = "the database has tables of another program, such as MLflow, or of another version of Optuna"
        raise Failed(FIELD, reference, rule, "create a database for studies alone, and name that") from None
    except Exception as error:  # of SQLAlchemy, Optuna or the driver
        raise lost(reference, error) from None


def lost(where: str, error: Exception) -> Failed:
    """Return the error of a database that does not answer, without its address."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    rule, remedy = "the database of a study must answer", "repair it, and run again: trials go on where they were"
    return Failed(FIELD, f"{where}: {type(cause).__name__}", rule, remedy)


@contextlib.contextmanager
def opened_storage(path: Path, reference: str | None, name: str, direction: Direction) -> Iterator[RDBStorage]:
    """Open the storage of a study, in `path` unless there is a reference, and close its connections after the block.

    Raises:
        Failed: it cannot be opened, or was lost within the block.
        OSError: the disk is full, or cannot be written.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    storage = open_file(path, name, direction) if reference is None else open_database(reference, name, direction)
    try:
        with held(storage, reference, name) if reference is not None else contextlib.nullcontext():
            yield storage
    except (SQLAlchemyError, StorageInternalError) as error:
        if (cause := of_the_machine(error.__cause__ or error)) is not None:
            raise cause from error
        raise lost(reference or str(path), error) from None
    finally:
        _close(storage)


@contextlib.contextmanager
def held(storage: RDBStorage, reference: str, name: str) -> Iterator[None]:
    """Hold a study of a PostgreSQL database within the block: the server releases it with the connection.

    Raises:
        Failed: a run of another home works on the study.
    """
    from sqlalchemy import text

    with storage.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
            if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}):
                saw, rule = f"{reference}: the study {name[:12]} is in use", "one home at a time works on a study"
                raise Failed(FIELD, saw, rule, "wait for the other run, or use another database")
            connection.commit()  # the lock stays, and no transaction is left open
        yield


def _open(url: str, name: str, direction: Direction) -> RDBStorage:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    storage = optuna.storages.RDBStorage(url)
    optuna.create_study(storage=storage, study_name=name, direction=direction, load_if_exists=True)
    return storage


def _close(storage: RDBStorage) -> None:
    storage.remove_session()
    storage.engine.dispose()
