"""Where a study is stored: a SQLite file in the home, or a PostgreSQL database."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tasks.environment.secrets import Missing, resolve
from tasks.errors import Failed, of_the_machine

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

FIELD = "tune.storage"
SQLITE = "sqlite:///"
DATABASES = ("postgresql", "sqlite")

Direction = Literal["minimize", "maximize"]


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
def opened(path: Path, reference: str | None, name: str, direction: Direction) -> Iterator[RDBStorage]:
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
