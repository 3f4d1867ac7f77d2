"""Templates of the SQLite databases of Prefect and MLflow, created once per version and copied into new homes.

Their migrations take seconds. The templates are in `share/millrace` of the Python environment; if that cannot be
written, migrations run in every new home.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote


def template_of(package: str) -> Path:
    """Return the path of a package's template."""
    return Path(sys.prefix) / "share" / "millrace" / f"{package}-{version(package)}.db"


@contextlib.contextmanager
def creating(database: Path) -> Iterator[None]:
    """Let one process at a time create a database, or migrate it; the others wait.

    A second copy would replace a file that the first process has opened, and has written to.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    with open(database.with_name(f".{database.name}.lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def copy_template(package: str, database: Path) -> bool:
    """Create a database from the template, unless it exists; return whether it was created."""
    template = template_of(package)
    if database.exists() or not template.is_file():
        return False
    _copy(template, database)
    return True


def keep_template(package: str, database: Path) -> None:
    """Store a new database as the template, unless there is one or it cannot be written."""
    template = template_of(package)
    if not template.exists():
        with contextlib.suppress(OSError, sqlite3.Error):
            _copy(database, template)


def is_current(package: str, database: Path) -> bool:
    """Return whether a database needs no migration: it has the schema of the template, or will be a copy of it."""
    template = template_of(package)
    if not database.exists():
        return template.is_file()

    def revision(path: Path) -> list[tuple[str]]:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as opened:
            return opened.execute("SELECT version_num FROM alembic_version").fetchall()

    try:
        return revision(database) == revision(template)
    except sqlite3.Error:  # no template, or not such a database
        return False


def _copy(source: Path, target: Path) -> None:
    """Copy a database with SQLite's backup, and rename it when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(draft)) as new:
            old.backup(new)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
