"""The errors a user can mend, each one line: where, what was seen, the rule, the remedy."""

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
"""What a machine answers that is full, read-only, closed to us or broken."""


class UserError(Exception):
    """An error that the user can mend; rendered alike in the command, the flow's state and the JSON."""

    exit_code = 1
    status = "failed"

    def __init__(self, field: str, saw: Any, rule: str, remedy: str) -> None:
        self.field, self.saw, self.rule, self.remedy = str(field), saw, rule, remedy
        super().__init__(field, saw, rule, remedy)

    def __str__(self) -> str:
        return f"{self.field}: {self.saw}; {self.rule}; {self.remedy}"

    def as_json(self) -> dict[str, str]:
        return {"field": self.field, "saw": str(self.saw), "rule": self.rule, "remedy": self.remedy}


class Refused(UserError):
    """Found from config, `stat` and listing alone, before anything was written."""

    exit_code = 2
    status = "refused"


class Failed(UserError):
    """Found in the data, or while working."""


class Lost(Failed):
    """What the work leaned on went away, a process or a server: the same again may well succeed."""


class Damaged(Failed):
    """A published artifact is not what its manifest says; the store has moved it away."""


class Superseded(Failed):
    """A newer attempt has taken over; this one may publish nothing."""


class Stopped(BaseException):
    """SIGTERM or SIGINT, after saving; not an Exception, so that no `except` on the way eats it."""

    status = "stopped"

    def __init__(self, signal_number: int, saved: str | None = None) -> None:
        super().__init__(signal_number, saved)
        self.signal_number = signal_number
        self.saved = saved
        """The training's state that was saved, as "step 120"; None where no training was at work, or none was saved."""

    def __str__(self) -> str:
        saved = f"{self.saved} is saved" if self.saved else "finished pieces are kept"
        return f"stopped by {signal.Signals(self.signal_number).name}; {saved}"

    @property
    def exit_code(self) -> int:
        return 130 if self.signal_number == 2 else 75


def of_the_machine(error: BaseException) -> OSError | None:
    """The disk that is full or the permission that is missing behind an error; libraries tell it in their own words."""
    if isinstance(error, OSError) and error.errno in MACHINE:
        return error
    text = str(error)
    if re.fullmatch(r"\d+ requested and \d+ written", text):  # numpy keeps the number to itself
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    words = {"disk is full": errno.ENOSPC, "readonly database": errno.EROFS}  # SQLite
    words |= {os.strerror(number): number for number in MACHINE}
    number = next((number for said, number in words.items() if said in text), None)
    return None if number is None else OSError(number, os.strerror(number))
