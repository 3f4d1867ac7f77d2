"""A copy of what cannot be made again: both servers' history, the registry, releases and what they need.

`DIR/<time>/` appears by one rename when it is whole; `manifest.json` in it holds every file's SHA-256. Databases are
copied first: what they name is written before it is named, so the files that are copied after them have it all.
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
"""Files of a home that SQLite holds: by name in the backup, where they lie."""

FOLDERS = ("mlartifacts", "runs")
FILES = ("audit.jsonl", "audit.begun.json")
DUMP = "postgresql.dump"
MANIFEST = "manifest.json"
PASSING = {"lock", ".lock"}
"""Names that mean something only while somebody runs."""


def back_up(home: Path, into: Path, artifacts: Iterable[str], address: str | None, keep: int | None) -> Path:
    """Copy a home, running or not; `artifacts` are the `kind/digest` of its store that go along.

    `address` is that of the PostgreSQL database that holds the history, if one does. Of earlier backups in `into` the
    newest `keep` stay, this one included. Returns the new folder.
    """
    into.mkdir(parents=True, exist_ok=True)
    folder = into / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    draft = into / f".{folder.name}.partial"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    if address is None:
        for name, place in DATABASES.items():
            if (home / place).exists():
                copy_database(home / place, draft / name)
    else:
        databases.dump(address, draft / DUMP)
    for name in (*FOLDERS, *(f"store/{artifact}" for artifact in sorted(set(artifacts)))):
        copy(home / name, draft / name)
    for name in FILES:
        if (home / name).exists():
            shutil.copy2(home / name, draft / name)
    rows = [{"path": path.relative_to(draft).as_posix(), **sums(path)} for path in files_of(draft)]
    told = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "home": str(home), "files": rows}
    with open(draft / MANIFEST, "w") as file:
        json.dump(told, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(folder)
    if keep is not None:
        for old in found_in(into)[:-keep]:
            shutil.rmtree(old)
    return folder


def check(backup: Path, home: Path, address: str | None) -> None:
    """Refuse by listing alone what `restore` could not do.

    Raises:
        Refused: the home holds something, or the backup's history needs a database, or none.
    """
    if home.exists() and any(home.iterdir()):
        raise Refused(str(home), "it is not empty", "a backup is restored into an empty home", "set MILLRACE_HOME")
    if (backup / DUMP).exists() != (address is not None):
        saw = "its history is a dump of PostgreSQL" if address is None else "its history lies in files"
        remedy = "give --database-url of an empty database" if address is None else "leave out --database-url"
        raise Refused(str(backup), saw, "it goes back to where it came from", remedy)


def restore(backup: Path, home: Path, address: str | None) -> dict[str, Any]:
    """Make `home`, which must be empty, from a backup: verified first, its paths rewritten to the new place.

    Returns the backup's manifest.

    Raises:
        Failed: the backup is damaged.
    """
    told = verify(backup)
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = home.with_name(f".{home.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    own = {MANIFEST, DUMP, *DATABASES}
    shutil.copytree(backup, draft, ignore=lambda folder, names: own & set(names) if Path(folder) == backup else set())
    moves = list(spellings(told["home"], str(home)))
    for name, place in DATABASES.items():
        if (backup / name).exists():
            (draft / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(backup / name, draft / place)
            rewrite_database(draft / place, moves)
    if address is not None:
        databases.restore(address, backup / DUMP, moves)
    for path in draft.glob("runs/*/*.json"):
        rewrite_text(path, moves)
    if home.exists():
        home.rmdir()
    draft.rename(home)
    return told


def chosen(folder: Path) -> Path:
    """A backup, or the newest one in a folder of them."""
    if (folder / MANIFEST).exists():
        return folder
    if found := found_in(folder):
        return found[-1]
    raise Refused(str(folder), "no backup", "a backup holds a manifest.json", "give the folder that backup named")


def found_in(folder: Path) -> list[Path]:
    """The whole backups in a folder, oldest first."""
    return sorted(path.parent for path in folder.glob(f"[0-9]*/{MANIFEST}"))


def verify(backup: Path) -> dict[str, Any]:
    """The manifest, once every file was found to be what it says.

    Raises:
        Failed: naming the first file that is not, or the manifest if that is damaged.
    """
    try:
        told: dict[str, Any] = json.loads((backup / MANIFEST).read_bytes())
    except ValueError:
        saw, rule = "not JSON", "a backup is what its manifest says"
        raise Failed(str(backup / MANIFEST), saw, rule, "use another one") from None
    for row in told["files"]:
        path = backup / row["path"]
        if not path.is_file() or {"path": row["path"], **sums(path)} != row:
            saw = "other bytes" if path.is_file() else "missing"
            raise Failed(str(path), saw, "a backup is what its manifest says", "use another one")
    return told


def copy(source: Path, target: Path) -> None:
    """A folder's files, but for what is passing or vanishes meanwhile."""
    for path in files_of(source):
        if path.name in PASSING or path.name.endswith(".partial"):
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(path, place)


def copy_database(source: Path, target: Path) -> None:
    """SQLite's own way, which gives one moment's state while others write."""
    with contextlib.closing(sqlite3.connect(source)) as read, contextlib.closing(sqlite3.connect(target)) as written:
        read.backup(written)


def rewrite_database(file: Path, moves: list[tuple[str, str]]) -> None:
    """Every text of every table in which the old home stands, put into the new one."""
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


def rewrite_text(path: Path, moves: list[tuple[str, str]]) -> None:
    """The same in a file."""
    text = path.read_text()
    for old, new in moves:
        text = text.replace(old, new)
    path.write_text(text)


def spellings(old: str, new: str) -> Iterator[tuple[str, str]]:
    """A path as it stands in texts, followed by more of it: as it is, and as a URI has it."""
    yield f"{old}/", f"{new}/"
    if quote(old) != old or quote(new) != new:
        yield f"{quote(old)}/", f"{quote(new)}/"


def files_of(folder: Path) -> list[Path]:
    """Every file below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sums(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
