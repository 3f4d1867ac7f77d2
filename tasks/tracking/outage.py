"""Short descriptions of tracking errors, and whether this machine caused them."""

from __future__ import annotations

import re

from tasks.errors import of_the_machine

MAX_LENGTH = 160
"""Characters of an unknown error, at most."""


def reason(error: BaseException) -> str:
    """Return the cause of an error, such as `connection refused`, without addresses, retries and object names."""
    if (error_of_machine := of_the_machine(error)) is not None:
        return str(error_of_machine.strerror).lower()
    text = " ".join(str(error).partition("(Background on this error")[0].split()) or type(error).__name__
    if errors := re.findall(r"\[Errno -?\d+\] ([A-Z][\w ]+)", text):
        return str(errors[-1]).lower()
    if re.search(r"timed? ?out", text, re.IGNORECASE):
        return "no answer in time"
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def machine_error(uri: str, error: BaseException) -> OSError | None:
    """Return the error of this machine that caused a tracking error; None if a server reported it."""
    served = uri.startswith("http") and not isinstance(error, OSError)
    return None if served else of_the_machine(error)
