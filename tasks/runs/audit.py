"""The audit log: who made which version champion, when and why. Lines are appended, each with the hash of the last.

A change is stored before the registry is changed, and deleted after its line is written: after a kill the next process
completes it, so that every change has exactly one line.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from tasks.errors import Failed
from tasks.runs.home import Home
from tasks.store import files
from tasks.store.files import canonical, pretty, sync, write

START = "0" * 64
"""The previous hash of the first line."""

REASON = 1000
"""Characters of a reason, at most."""


@dataclass(frozen=True)
class Decision:
    """A decision on a run that awaits approval, and how the person is known."""

    accepted: bool
    who: str
    known: str
    """`as stated` in a form, or `system user`; with the account if there is a login."""
    reason: str

    @property
    def by(self) -> str:
        """Person and reason in one line."""
        return f"{self.who} ({self.known}): {' '.join(self.reason.split())}"

    @staticmethod
    def stated(accepted: bool, who: str, reason: str, account: str | None = None) -> Decision:
        """Return a decision from a form, submitted with a login as `account`."""
        return Decision(accepted, _plain(who), _known("as stated", account), _plain(reason))

    @staticmethod
    def of_user(accepted: bool, reason: str, account: str | None = None) -> Decision:
        """Return a decision of the user of this process, with a login as `account`."""
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            name = f"uid {os.getuid()}"
        return Decision(accepted, name, _known("system user", account), _plain(reason))


@dataclass(frozen=True)
class Entry:
    """A line: action, version, person, and the version of the alias before and after."""

    action: str
    """`promote`, `hold`, `await`, `approve`, `reject`, `rollback`, `restore`."""
    model: str
    version: str
    export: str
    alias: str
    before: str | None
    after: str | None
    run: str | None
    who: str
    known: str
    reason: str


class Audit:
    """`audit.jsonl` of a home. A writer must have the lock of the registry."""

    def __init__(self, home: Home) -> None:
        self.path = home.root / "audit.jsonl"
        self._begun = home.root / "audit.begun.json"

    def begin(self, entry: Entry, change: dict[str, Any]) -> None:
        """Store a change before it is applied."""
        row = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **asdict(entry)}
        write(self._begun, pretty({"entry": row, "change": change}))

    def begun(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the entry and the change that were begun and not completed; None without any."""
        if not self._begun.exists():
            return None
        pending = json.loads(self._begun.read_bytes())
        return pending["entry"], pending["change"]

    def close(self) -> None:
        """Write the line of the begun change, unless a killed process wrote it, and delete the stored change."""
        pending = self.begun()
        assert pending is not None
        last = self._last()
        if _entry_of(last) != pending[0]:
            row = {**pending[0], "previous": hashlib.sha256(last).hexdigest() if last else START}
            files.append(self.path, {**row, "sum": _sum(row)})
            files.sync_lines(self.path)
        self.drop()

    def drop(self) -> None:
        """Delete the stored change."""
        self._begun.unlink()
        sync(self._begun.parent)

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines, oldest first; raise `Failed` if the log is damaged."""
        if (fault := self.fault()) is not None:
            rule, remedy = "a line of the audit log never changes", "restore it from a backup"
            raise Failed(f"{self.path} line {fault[0]}", fault[1], rule, remedy)
        return [json.loads(line) for line in self._read().split(b"\n")[:-1]]

    def champions(self, model: str) -> list[str]:
        """Return the champions, the present one last, without those that were rolled back."""
        versions: list[str] = []
        for row in self.rows():
            before, after = row["before"], row["after"]
            if row["model"] != model or row["alias"] != "champion" or before == after:
                continue
            if before is not None and versions[-1:] != [before]:  # moved by hand, or from another home
                versions.append(before)
            if row["action"] == "rollback":
                versions.pop()
                while after in versions and versions[-1] != after:
                    versions.pop()
            if versions[-1:] != [after]:
                versions.append(after)
        return versions

    def ever_champion(self, model: str) -> set[str]:
        """Return all versions that were ever champion."""
        rows = [row for row in self.rows() if row["model"] == model and row["alias"] == "champion"]
        return {version for row in rows for version in (row["before"], row["after"]) if version is not None}

    def fault(self) -> tuple[int, str] | None:
        """Return number (from 1) and fault of the first damaged line; None if the log is intact."""
        return next(self._faults(), None)

    def _faults(self) -> Iterator[tuple[int, str]]:
        *whole, rest = self._read().split(b"\n")
        previous = START
        for number, line in enumerate(whole, 1):
            try:
                row = json.loads(line)
                checksum = row.pop("sum")
            except (ValueError, KeyError, AttributeError, TypeError):
                yield number, "is no entry"
                return
            if checksum != _sum(row) or line != canonical({**row, "sum": checksum}):
                yield number, "was changed"
            elif row.get("previous") != previous:
                yield number, "does not follow the previous line: a line was deleted, inserted or replaced"
            previous = hashlib.sha256(line).hexdigest()
        if rest:
            yield len(whole) + 1, "is cut off"

    def _last(self) -> bytes:
        """Return the last whole line; nothing where there is none."""
        content = self._read()
        return content[: content.rfind(b"\n") + 1][:-1].rpartition(b"\n")[2]

    def _read(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""


def _plain(text: str) -> str:
    """Strip a text, and replace what UTF-8 cannot encode."""
    return text.encode(errors="replace").decode().strip()


def _known(how: str, account: str | None) -> str:
    return f"{how}, account {account}" if account else how


def _sum(row: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(row)).hexdigest()


def _entry_of(line: bytes) -> dict[str, Any] | None:
    """Return the content of a line without `previous` and `sum`; None if it is damaged."""
    try:
        return {name: value for name, value in json.loads(line).items() if name not in ("previous", "sum")}
    except (ValueError, AttributeError):
        return None
