"""Empty SQLite databases of Prefect and MLflow, made once for each of their versions and copied from then on.

Their migrations take seconds in every new home. The templates lie beside the environment,
in `share/millrace`; where nothing can be written there, every home makes its own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from importlib.metadata import version
from pathlib import Path


def template_of(package: str) -> Path:
    """Where the template of a package's database lies."""
    return Path(sys.prefix) / "share" / "millrace" / f"{package}-{version(package)}.db"


def copy_template(package: str, database: Path) -> bool:
    """Make an empty database from the template; whether there was one. An existing database is left alone."""
    template = template_of(package)
    if database.exists() or not template.is_file():
        return False
    _copy(template, database)
    return True


def keep_template(package: str, database: Path) -> None:
    """Keep a database that has just been made as the template, unless there is one or nothing can be written there."""
    template = template_of(package)
    if not template.exists():
        with contextlib.suppress(OSError, sqlite3.Error):
            _copy(database, template)


def _copy(source: Path, target: Path) -> None:
    """Copy a database whole: by SQLite itself, which knows of its journal, under the target's name only at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(draft)) as new:
            old.backup(new)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
