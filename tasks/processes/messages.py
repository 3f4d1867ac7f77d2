"""Messages between hosts: JSON with a length before it, so that whoever connects can pass data and no code."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tasks import errors
from tasks.artifacts import Artifact
from tasks.config.base import Section
from tasks.errors import Failed, Stopped, UserError
from tasks.processes.workbench import Request, Work

LENGTH = struct.Struct("!I")
MOST_BYTES = 16 << 20
"""Bytes of a message at most."""
SECONDS = 30.0
"""Seconds for a message to be sent, or to arrive once it has begun."""

Find = Callable[[dict[str, Any]], Artifact]
"""Returns the artifact of `{"artifact": kind, "digest", "path", "name"}` on this host."""


class Table:
    """What hosts may name to one another: functions that several do together, and sections of the config.

    It is closed: nothing is imported by a name that another host has sent.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]], sections: Iterable[type[Section]]) -> None:
        self.functions = {function.__name__: function for function in functions}
        self.sections = {section.__name__: section for section in sections}


class Channel:
    """A TCP connection with messages, which are lists; a thread may send while another receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """Return the file descriptor, for `multiprocessing.connection.wait`."""
        return self._socket.fileno()

    @property
    def own_host(self) -> str:
        """The address of this host by which the other one is reached."""
        return str(self._socket.getsockname()[0])

    def open(self) -> bool:
        """Return whether the connection has not ended; messages may be waiting."""
        if self._socket.fileno() < 0:
            return False
        try:
            readable = select.select([self._socket], [], [], 0)[0]
            return not readable or bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def send(self, *message: Any) -> None:
        """Send a message; raises `OSError` where the connection is lost."""
        content = json.dumps(message, allow_nan=False).encode()
        with self._sending:
            self._socket.sendall(LENGTH.pack(len(content)) + content)

    def recv(self) -> list[Any]:
        """Receive a message; raises `EOFError` where the connection has ended, is lost, or carries something else."""
        try:
            [size] = LENGTH.unpack(self._exactly(LENGTH.size))
            message = json.loads(self._exactly(size)) if size <= MOST_BYTES else None
        except (OSError, ValueError, RecursionError) as error:  # the last for JSON that is nested too deeply
            raise EOFError from error
        if not isinstance(message, list) or not message:
            raise EOFError
        return message

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            part = self._socket.recv(size - len(content))
            if not part:
                raise EOFError
            content += part
        return bytes(content)


def request_to_json(request: Request) -> dict[str, Any]:
    """Return a request without staging and journal, which only the chief has."""
    return {
        "work": request.work.function.__name__,
        "arguments": [to_json(value) for value in request.work.arguments],
        **request.membership,
    }


def request_from_json(values: dict[str, Any], table: Table, threads: int, find: Find) -> Request:
    """Return a request of another host.

    Raises:
        Failed: it is no training, or an artifact is not on this host.
    """
    function = table.functions.get(name := str(values["work"]))
    if function is None:
        raise refused(name, "trainings are all that several hosts do together")
    return Request(
        work=Work(function, tuple(from_json(value, table, find) for value in values["arguments"])),
        staging=None,
        journal=None,
        threads=threads,
        layout={},
        role=str(values["role"]),
        rank=int(values["rank"]),
        peers=tuple(values["peers"]),
        addresses=tuple(values["addresses"]),
        hosts=tuple(values["hosts"]),
        key=str(values["key"]),
    )


def refused(saw: str, rule: str) -> Failed:
    """Return the error for something that another host has sent and that is not done."""
    return Failed("train.cluster", saw, rule, "use the same version of Millrace on all hosts")


def to_json(value: Any) -> Any:
    """Return an argument of a request as JSON."""
    if isinstance(value, Section):
        return {"section": type(value).__name__, "values": value.model_dump(mode="json")}
    if isinstance(value, Artifact):
        return {"artifact": value.kind, "digest": value.digest, "path": str(value.path), "name": value.name}
    assert value is None or isinstance(value, str | int | float | bool), type(value)
    return value


def from_json(value: Any, table: Table, find: Find) -> Any:
    """Return an argument from its JSON: a section of the config, an artifact, or a plain value.

    Raises:
        Failed: it is none of them, or the artifact is not on this host.
    """
    if isinstance(value, dict) and "section" in value:
        section = table.sections.get(name := str(value["section"]))
        if section is None:
            raise refused(name, "an argument is a section of the config")
        return section.model_validate(value["values"])
    if isinstance(value, dict):
        return find(value)
    return value


def error_to_json(error: BaseException) -> dict[str, Any]:
    """Return an error of a compute process as JSON."""
    if isinstance(error, UserError):
        return {"kind": type(error).__name__, **error.as_json()}
    if isinstance(error, Stopped):
        return {"kind": "Stopped", "signal": error.signal_number}
    assert isinstance(error, OSError)
    return {"kind": "OSError", "errno": error.errno, "text": error.strerror, "file": error.filename}


def error_from_json(values: dict[str, Any], host: str) -> BaseException:
    """Return the error of a compute process of another host."""
    if values["kind"] == "Stopped":
        return Stopped(int(values["signal"]))
    if values["kind"] == "OSError":
        return OSError(values["errno"], values["text"], f"{host}:{values['file'] or ''}")
    kind = next((kind for kind in errors.of_users() if kind.__name__ == values["kind"]), Failed)
    return kind(values["field"], values["saw"], values["rule"], values["remedy"])
