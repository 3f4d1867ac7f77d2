"""Backups of what cannot be recomputed: the history of both servers, the registry, studies, and released artifacts.

`DIR/<time>/` is created by one rename when it is complete; `manifest.json` has the SHA-256 of every file.
Databases are copied before files: a file is written before a database refers to it, so that no referenced file is
missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra import databases
from tasks.errors import Failed, Refused

DATABASES = {"mlflow.db": "mlflow.db", "prefect.db": "prefect/prefect.db"}
"""SQLite files of a home: path in the home by name in the backup."""

STUDIES = "studies/*.db"
"""SQLite files of tunings, which have the same name in the backup."""

FOLDERS = ("mlartifacts", "runs")
FILES = ("audit.jsonl", "audit.begun.json")
DUMP = "postgresql.dump"
MANIFEST = "manifest.json"
TEMPORARY = {"lock", ".lock"}
"""Names of files that are not copied."""


def back_up(home: Path, into: Path, artifacts: Iterable[str], address: str | None) -> Path:
    """Copy a home, also while it is in use, and return the new folder.

    Args:
        artifacts: `kind/digest` of the artifacts that are copied from the store.
        address: the PostgreSQL database with the history; None if it is in files.

    Raises:
        Refused: there is nothing to back up, or `into` is in the home.
    """
    if into.resolve().is_relative_to(home.resolve()):
        rule = f"a backup in the home {home} is lost with it"
        raise Refused(str(into), "a folder in the home", rule, "use a folder outside, on another disk if possible")
    contents = [
        *(home / path for path in DATABASES.values()),
        *(path for name in FOLDERS for path in files_of(home / name)),
    ]
    if address is None and not any(path.exists() for path in contents):
        saw = "it has neither runs nor a registry" if home.exists() else "no such folder"
        raise Refused(str(home), saw, "there must be something to back up", "correct MILLRACE_HOME")
    into.mkdir(parents=True, exist_ok=True)
    folder = into / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    draft = into / f".{folder.name}.partial"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    if address is None:
        for name, path in DATABASES.items():
            if (home / path).exists():
                copy_database(home / path, draft / name)
    else:
        databases.dump(address, draft / DUMP)
    for study in sorted(home.glob(STUDIES)):
        copied = draft / study.relative_to(home)
        copied.parent.mkdir(exist_ok=True)
        copy_database(study, copied)
    for name in (*FOLDERS, *(f"store/{artifact}" for artifact in sorted(set(artifacts)))):
        copy(home / name, draft / name)
    for name in FILES:
        if (home / name).exists():
            shutil.copy2(home / name, draft / name)
    rows = [{"path": path.relative_to(draft).as_posix(), **sums(path)} for path in files_of(draft)]
    manifest = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "home": str(home), "files": rows}
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=1))
    for made in (*draft.rglob("*"), draft):
        sync(made)
    draft.rename(folder)
    sync(into)
    return folder


def rotate_out(home: Path, into: Path, keep: int) -> None:
    """Delete the backups of a home, except the newest `keep` and the newest that has a registry."""
    of_home = [backup for backup in backups_in(into) if home_of(backup) == str(home)]
    with_registry = [backup for backup in of_home if (backup / "mlflow.db").exists() or (backup / DUMP).exists()]
    for old in set(of_home[:-keep]) - set(with_registry[-1:]):
        shutil.rmtree(old)


def home_of(backup: Path) -> str | None:
    """Return the home of which a backup was made; None if its manifest does not tell."""
    with contextlib.suppress(ValueError):
        home: str | None = json.loads((backup / MANIFEST).read_bytes()).get("home")
        return home
    return None


def check(backup: Path, home: Path, address: str | None) -> None:
    """Check before `restore` whether it is possible, from file names alone.

    Raises:
        Refused: the home is not empty, or the history needs a database that is not given, or the other way round.
    """
    if home.exists() and any(home.iterdir()):
        raise Refused(str(home), "it is not empty", "a backup is restored into an empty home", "set MILLRACE_HOME")
    if (backup / DUMP).exists() != (address is not None):
        saw = "its history is a PostgreSQL dump" if address is None else "its history is in SQLite files"
        remedy = "add --database-url with an empty database" if address is None else "leave out --database-url"
        raise Refused(str(backup), saw, "a history is restored into a database of the same kind", remedy)


def restore(backup: Path, home: Path, address: str | None) -> dict[str, Any]:
    """Verify a backup, copy it into the empty `home`, rewrite paths, and return the manifest.

    Raises:
        Failed: the backup is damaged.
    """
    manifest = verify(backup)
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = home.with_name(f".{home.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    for name in (row["path"] for row in manifest["files"] if row["path"] not in {DUMP, *DATABASES}):
        (draft / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(backup / name, draft / name)
    moves = list(spellings(manifest["home"], str(home)))
    for name, relative in DATABASES.items():
        if (backup / name).exists():
            (draft / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(backup / name, draft / relative)
            rewrite_database(draft / relative, moves)
    if address is not None:
        databases.restore(address, backup / DUMP, moves)
    for path in draft.glob("runs/**/*.json"):
        text = path.read_text()
        for old, new in moves:
            text = text.replace(old, new)
        path.write_text(text)
    if home.exists():
        home.rmdir()
    draft.rename(home)
    return manifest


def find_backup(folder: Path) -> Path:
    """Return the folder if it is a backup, or the newest backup in it."""
    if (folder / MANIFEST).exists():
        return folder
    if backups := backups_in(folder):
        return backups[-1]
    raise Refused(str(folder), "no backup", "a backup has a manifest.json", "use a folder that millrace backup printed")


def backups_in(folder: Path) -> list[Path]:
    """Return the complete backups in a folder, oldest first."""
    return sorted(path.parent for path in folder.glob(f"[0-9]*/{MANIFEST}"))


def verify(backup: Path) -> dict[str, Any]:
    """Verify every file of a backup, and return its manifest.

    Raises:
        Failed: a file is missing or differs from the manifest, or the manifest is no JSON.
    """
    try:
        manifest: dict[str, Any] = json.loads((backup / MANIFEST).read_bytes())
    except ValueError:
        saw, rule = "not JSON", "a backup has a valid manifest"
        raise Failed(str(backup / MANIFEST), saw, rule, "use another backup") from None
    for row in manifest["files"]:
        path = backup / row["path"]
        if Path(row["path"]).is_absolute() or ".." in Path(row["path"]).parts:
            raise Failed(str(path), "a file elsewhere", "the files of a backup are in its folder", "use another backup")
        if not path.is_file() or {"path": row["path"], **sums(path)} != row:
            saw = "its content has changed" if path.is_file() else "missing"
            raise Failed(str(path), saw, "the files of a backup match its manifest", "use another backup")
    return manifest


def sync(path: Path) -> None:
    """Sync a file or folder to the disk: a backup is for the day of the power cut, too.

    The store has the same in `tasks.store.files`, which `infra` may not import.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy(source: Path, target: Path) -> None:
    """Copy the files of a folder, except temporary ones and those that are deleted meanwhile."""
    for path in files_of(source):
        if path.name in TEMPORARY or path.name.endswith(".partial"):
            continue
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(path, copied)


def copy_database(source: Path, target: Path) -> None:
    """Copy a database with SQLite's online backup, which is consistent while others write."""
    with contextlib.closing(sqlite3.connect(source)) as read, contextlib.closing(sqlite3.connect(target)) as written:
        read.backup(written)


def rewrite_database(file: Path, moves: list[tuple[str, str]]) -> None:
    """Replace the paths of the old home in all texts of all tables."""
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        for (table,) in tables.fetchall():
            for _, column, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
                for old, new in moves:
                    connection.execute(
                        f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?) '
                        f'WHERE typeof("{column}") = \'text\' AND instr("{column}", ?)',
                        (old, new, old),
                    )


def spellings(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the replacements of a path, as it is and percent-encoded as in a URI."""
    yield f"{old}/", f"{new}/"
    if quote(old) != old or quote(new) != new:
        yield f"{quote(old)}/", f"{quote(new)}/"


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sums(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file."""
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
