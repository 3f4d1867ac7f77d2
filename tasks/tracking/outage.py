"""Why tracking does not answer: in a few words, and whether it is this machine's fault."""

from __future__ import annotations

import re

from tasks.errors import of_the_machine

MAX_LENGTH = 160
"""Characters of a reason that we do not know."""


def reason(error: BaseException) -> str:
    """`connection refused` and the like; clients bury it under addresses, retries and the names of objects."""
    if (error_of_machine := of_the_machine(error)) is not None:
        return str(error_of_machine.strerror).lower()
    text = " ".join(str(error).partition("(Background on this error")[0].split()) or type(error).__name__
    if errors := re.findall(r"\[Errno -?\d+\] ([A-Z][\w ]+)", text):
        return str(errors[-1]).lower()
    if re.search(r"timed? ?out", text, re.IGNORECASE):
        return "no answer in time"
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def machine_error(uri: str, error: BaseException) -> OSError | None:
    """The error of this machine behind one of tracking's; what a server says of itself is none."""
    served = uri.startswith("http") and not isinstance(error, OSError)
    return None if served else of_the_machine(error)
