"""A host of a training that does not run the flow: it serves the chief's calls until the run has ended.

The chief's host may end and come back, and this one connects again; what it computes for a lost chief it kills.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tasks.errors import Failed, Stopped
from tasks.processes.config import ClusterConfig
from tasks.processes.local_process import HeldPort, Process
from tasks.processes.messages import Channel, Find, Table, error_from_json, error_to_json, request_from_json
from tasks.processes.threads import processor
from tasks.processes.workbench import BEAT

SILENT_SECONDS = 60.0
"""Seconds without a message after which the chief's host counts as lost."""

CONNECT_EVERY = 0.5
"""Seconds between two attempts to connect."""


@dataclass(frozen=True)
class End:
    """How the run ended on the chief's host."""

    exit_code: int
    error: dict[str, str] | None


@dataclass
class Member:
    """A host with rank above 0."""

    cluster: ClusterConfig
    rank: int
    expects: dict[str, Any]
    """Versions and settings by name, which must be those of the chief."""
    logs: Path
    threads: int
    table: Table
    """What the chief may name."""
    find: Find
    """Returns an artifact of a request on this host."""
    stop: Callable[[], int]
    """Returns the number of the signal that came, or 0."""
    say: Callable[[str], None]

    def serve(self) -> End:
        """Serve the chief's calls; return how the run ended.

        Raises:
            Refused: this host has other settings or versions than the chief.
            Failed: the chief did not answer for `train.cluster.wait` seconds.
            Stopped: a signal came while nothing was computed.
        """
        while True:
            channel = self._connect()
            try:
                end = self._attend(channel)
            finally:
                self._leave(channel)
            if end is not None:
                return end
            self.say(f"{self.cluster.chief} is lost; waiting for it")

    def _connect(self) -> Channel:
        """Join the rendezvous; wait for it up to `train.cluster.wait` seconds."""
        until, said = time.monotonic() + self.cluster.wait, False
        where = f"{self.cluster.chief}:{self.cluster.port}"
        while True:
            try:
                channel = Channel(socket.create_connection((self.cluster.chief, self.cluster.port), CONNECT_EVERY * 10))
                return self._join(channel)
            except (OSError, EOFError) as error:
                if time.monotonic() > until:
                    rule = f"the first host must answer within {self.cluster.wait} s (train.cluster.wait)"
                    remedy = "run `millrace worker PRESET.yaml` there"
                    raise Failed("train.cluster", f"{where}: {error or 'no answer'}", rule, remedy) from error
            if not said:
                self.say(f"waiting for {where}, which runs the flow")
                said = True
            if number := self.stop():
                raise Stopped(number)
            time.sleep(CONNECT_EVERY)

    def _join(self, channel: Channel) -> Channel:
        """Say who this is; raise the chief's refusal."""
        self._port = HeldPort(channel.own_host, self.cluster.port_of(self.rank))
        who = {"rank": self.rank, "host": socket.gethostname(), "address": self._port.address, "expects": self.expects}
        who |= {"threads": self.threads, "processor": processor()}
        try:
            channel.send("join", who)
            answer, *values = channel.recv()
            if answer == "refused":
                raise error_from_json(values[0], self.cluster.chief)
        except BaseException:
            self._leave(channel)
            raise
        self.say(f"rank {self.rank} has joined {self.cluster.chief}:{self.cluster.port}")
        return channel

    def _leave(self, channel: Channel) -> None:
        channel.close()
        self._port.close()

    def _attend(self, channel: Channel) -> End | None:
        """Serve calls until the run has ended; return None where the chief is lost."""
        process: Process | None = None
        signalled, heard, shown = 0, time.monotonic(), 0.0
        try:
            while time.monotonic() - heard < SILENT_SECONDS:
                ready: list[Any] = wait([channel, process.connection] if process else [channel], 0.1)  # type: ignore[list-item]
                if channel in ready:
                    kind, *values = channel.recv()
                    heard = time.monotonic()
                    if kind == "end":
                        return End(*values)
                    if kind == "call":
                        process = self._start(channel, *values)
                    elif process is not None and kind == "signal":
                        process.send_signal(values[0])
                    elif process is not None and kind == "close":
                        process.close()
                        process = None
                elif process is not None:
                    process = self._relay(channel, process, process.connection in ready)
                if process is not None and process.seen is None and time.monotonic() - shown > BEAT:
                    channel.send("alive")  # for the process, which is being started
                    shown = time.monotonic()
                number = self.stop()
                if number and process is None:
                    raise Stopped(number)
                if number and process is not None and not signalled:
                    signalled = number
                    process.send_signal(number)
        except (EOFError, OSError):
            return None
        finally:
            if process is not None:
                process.kill()
        return None

    def _start(self, channel: Channel, stage: str, values: dict[str, Any]) -> Process | None:
        """Start a compute process for a call; an artifact that is missing here is the call's error."""
        try:
            request = request_from_json(values, self.table, self.threads, self.find)
        except Failed as error:
            channel.send("error", error_to_json(error))
            return None
        process = Process(stage, self.logs / f"{stage}-{self.rank}.log", self.threads, self.rank, self._port.address)
        process.call(request)
        self.say(f"{stage}: computing as rank {self.rank} of {len(request.peers)}")
        return process

    def _relay(self, channel: Channel, process: Process, ready: bool) -> Process | None:
        """Pass on log lines and a message; return None where the process has ended."""
        message: tuple[Any, ...] | None = None
        if ready:
            try:
                message = process.connection.recv()
                process.seen = time.monotonic()
            except (EOFError, ConnectionResetError):
                message = None
        for line in process.lines():
            channel.send("log", self.rank, line)
        if message is not None:
            channel.send(*encoded(message))
        elif ready:
            name = f"rank {self.rank} on {socket.gethostname()}"
            channel.send("died", process.death("its process", "its process").saw)
            self.say(f"{name}: its process was lost")
            process.kill()
            return None
        return process


def encoded(message: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a compute process' message as JSON; the result of one that is not the chief is not passed on."""
    kind, *values = message
    if kind == "done":
        return kind, None
    if kind in ("error", "stopped", "interrupted"):
        return kind, error_to_json(values[0])
    return message
