"""Errors that a user can fix, in one line: field, value, rule and fix."""

from __future__ import annotations

import errno
import os
import re
import signal
from typing import Any

MACHINE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.EFBIG,
)
"""Error numbers of a full, read-only or broken disk, missing permissions and exceeded limits."""


UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters, and what else ends a line."""


def one_line(text: str) -> str:
    """Return a text with what ends a line, or is not printed, as Python writes it: names in data may have anything."""
    return UNPRINTED.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


class UserError(Exception):
    """An error that the user can fix, with the same text in the command, the state of the flow run and the JSON."""

    exit_code = 1
    status = "failed"

    def __init__(self, field: str, saw: Any, rule: str, remedy: str) -> None:
        self.field, self.saw, self.rule, self.remedy = str(field), saw, rule, remedy
        super().__init__(field, saw, rule, remedy)

    def __str__(self) -> str:
        return one_line(f"{self.field}: {self.saw}; {self.rule}; {self.remedy}")

    def as_json(self) -> dict[str, str]:
        return {"field": self.field, "saw": str(self.saw), "rule": self.rule, "remedy": self.remedy}


class Refused(UserError):
    """An error in config or command line, raised before anything is written."""

    exit_code = 2
    status = "refused"


class Failed(UserError):
    """An error in the data or during the work."""


class Lost(Failed):
    """A process or server was lost; a retry may succeed."""


class Damaged(Failed):
    """A published artifact differs from its manifest; the store has moved it away."""


class Superseded(Failed):
    """A newer attempt has taken over; this one must not publish."""


def of_users() -> list[type[UserError]]:
    """Return the classes of errors that a user can fix."""
    return [Refused, Failed, Lost, Damaged, Superseded]


class Stopped(BaseException):
    """A stop signal, raised when the state is saved; no Exception, so that `except Exception` does not catch it."""

    status = "stopped"

    def __init__(self, signal_number: int, saved: str | None = None) -> None:
        super().__init__(signal_number, saved)
        self.signal_number = signal_number
        self.saved = saved
        """The saved state of a training, such as "step 120"; None if none was saved."""

    def __str__(self) -> str:
        saved = f"{self.saved} is saved" if self.saved else "finished pieces are kept"
        return f"stopped by {signal.Signals(self.signal_number).name}; {saved}"

    @property
    def exit_code(self) -> int:
        return 130 if self.signal_number == 2 else 75


def of_the_machine(error: BaseException) -> OSError | None:
    """Return the `OSError` of `MACHINE` behind an error, also if a library reports it as text; None without one."""
    if isinstance(error, OSError) and error.errno in MACHINE:
        return error
    text = str(error)
    if re.fullmatch(r"\d+ requested and \d+ written", text):  # numpy
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    words = {"disk is full": errno.ENOSPC, "readonly database": errno.EROFS}  # SQLite
    words |= {os.strerror(number): number for number in MACHINE}
    number = next((number for phrase, number in words.items() if phrase in text), None)
    return None if number is None else OSError(number, os.strerror(number))
