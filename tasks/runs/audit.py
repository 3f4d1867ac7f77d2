"""The audit log: who made which version champion, when and why. Lines are only added, each bound to the one before.

A change is noted as begun before the registry is touched and struck off after its line is written: whoever comes
after a kill finishes it, so that no change is without its line and none has two.
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
from tasks.store.files import canonical, pretty, sync, write

START = "0" * 64
"""What the first line follows."""

REASON = 1000
"""Characters that a reason may have."""


@dataclass(frozen=True)
class Decision:
    """What a person says to a run that awaits it, and how we know who it was."""

    accepted: bool
    who: str
    known: str
    """`as stated` in a form, or `system user`; with the account, where a login was asked for."""
    reason: str

    @property
    def by(self) -> str:
        """Who said why, in one line."""
        return f"{self.who} ({self.known}): {' '.join(self.reason.split())}"

    @staticmethod
    def stated(accepted: bool, who: str, reason: str, account: str | None = None) -> Decision:
        """What somebody who had to log in to `account` filled into a form."""
        return Decision(accepted, _plain(who), _known("as stated", account), _plain(reason))

    @staticmethod
    def of_user(accepted: bool, reason: str, account: str | None = None) -> Decision:
        """What the user of this process says, who is logged in to `account`."""
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            name = f"uid {os.getuid()}"
        return Decision(accepted, name, _known("system user", account), _plain(reason))


@dataclass(frozen=True)
class Entry:
    """One line: what was decided about a version, by whom, and where the alias pointed before and after."""

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
    """`audit.jsonl` of a home. Whoever writes holds the registry's lock."""

    def __init__(self, home: Home) -> None:
        self.path = home.root / "audit.jsonl"
        self._begun = home.root / "audit.begun.json"

    def begin(self, entry: Entry, change: dict[str, Any]) -> None:
        """Note a change, in full, before the first of its writes."""
        row = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **asdict(entry)}
        write(self._begun, pretty({"entry": row, "change": change}))

    def begun(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The line and the change of what was begun and not struck off."""
        if not self._begun.exists():
            return None
        pending = json.loads(self._begun.read_bytes())
        return pending["entry"], pending["change"]

    def close(self) -> None:
        """Write the line of what was begun, unless a killed process has, and strike it off."""
        pending = self.begun()
        assert pending is not None
        whole = self._whole()
        last = whole[:-1].rpartition(b"\n")[2]
        if _entry_of(last) != pending[0]:
            self._append(whole, {**pending[0], "previous": hashlib.sha256(last).hexdigest() if last else START})
        self.drop()

    def drop(self) -> None:
        """Strike off what was begun."""
        self._begun.unlink()
        sync(self._begun.parent)

    def rows(self) -> list[dict[str, Any]]:
        """The lines, oldest first; raises `Failed` where the log is damaged."""
        if (fault := self.fault()) is not None:
            rule, remedy = "a line of the audit log never changes", "restore it from a backup"
            raise Failed(f"{self.path} line {fault[0]}", fault[1], rule, remedy)
        return [json.loads(line) for line in self._read().split(b"\n")[:-1]]

    def champions(self, model: str) -> list[str]:
        """The versions that were champion, the present one last, without those that were rolled back."""
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
        """The versions that were champion at any time."""
        rows = [row for row in self.rows() if row["model"] == model and row["alias"] == "champion"]
        return {version for row in rows for version in (row["before"], row["after"]) if version is not None}

    def fault(self) -> tuple[int, str] | None:
        """The first line, counted from 1, that is not as it was written where it was written, and its fault."""
        return next(self._faults(), None)

    def _faults(self) -> Iterator[tuple[int, str]]:
        *lines, rest = self._read().split(b"\n")
        previous = START
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                checksum = row.pop("sum")
            except (ValueError, KeyError, AttributeError, TypeError):
                yield number, "is no line of the log"
                return
            if checksum != _sum(row) or line != canonical({**row, "sum": checksum}):
                yield number, "was changed"
            elif row.get("previous") != previous:
                yield number, "does not follow the line before: one was removed, put in or replaced there"
            previous = hashlib.sha256(line).hexdigest()
        if rest:
            yield len(lines) + 1, "is cut off"

    def _append(self, whole: bytes, row: dict[str, Any]) -> None:
        """One write, durable; what a crash has left of a line goes first, for it was never acknowledged."""
        line = canonical({**row, "sum": _sum(row)}) + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.ftruncate(descriptor, len(whole))
            while line:
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync(self.path.parent)

    def _whole(self) -> bytes:
        content = self._read()
        return content[: content.rfind(b"\n") + 1]

    def _read(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""


def _plain(text: str) -> str:
    """Text that UTF-8 can hold, whatever a terminal or a form gave."""
    return text.encode(errors="replace").decode().strip()


def _known(how: str, account: str | None) -> str:
    return f"{how}, account {account}" if account else how


def _sum(row: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(row)).hexdigest()


def _entry_of(line: bytes) -> dict[str, Any] | None:
    """A line without what binds it."""
    try:
        return {name: value for name, value in json.loads(line).items() if name not in ("previous", "sum")}
    except (ValueError, AttributeError):
        return None
