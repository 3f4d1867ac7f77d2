"""Output of a command whose reader or terminal has gone, or whose disk is full."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Any, TextIO

from tasks.errors import Failed


class Output:
    """A text stream that discards its output once the reader of its pipe has gone: `millrace show RUN | head`.

    The command goes on, as it may be in the middle of its work. The same holds for a terminal that was closed: writing
    to it fails a moment before its SIGHUP arrives, which decides whether the command stops.
    """

    def __init__(self, stream: TextIO, name: str | None) -> None:
        """`name` is that of the error where it cannot be written; without a name there is none."""
        self._stream, self._name = stream, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._stream, attribute)

    def write(self, text: str) -> int:
        """Write a text; raises `Failed` where that is not possible, once."""
        if text == "":  # libraries probe a stream so, and take its error for another kind of stream
            return 0
        try:
            return self._stream.write(text)
        except OSError as error:
            self._leave(error)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered; raises `Failed` where that is not possible, once."""
        try:
            self._stream.flush()
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        """Discard the output from now on, also what is buffered."""
        closed = isinstance(error, BrokenPipeError) or (
            error.errno == errno.EIO and stat.S_ISCHR(os.fstat(self._stream.fileno()).st_mode)
        )
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if self._name is not None and not closed:
            rule, remedy = "the command must be able to write its output", "write it to another file"
            raise Failed(self._name, error.strerror, rule, remedy) from None


def install() -> None:
    """Let standard output and standard error be such streams."""
    sys.stdout = Output(sys.stdout, "standard output")
    sys.stderr = Output(sys.stderr, None)
