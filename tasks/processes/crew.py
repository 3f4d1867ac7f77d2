"""The compute processes of a run: one for a stage's work, or a gang, also with processes on other hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tasks.config.roles import CHIEF, Role
from tasks.processes.gang import Gang
from tasks.processes.held_port import HeldPort
from tasks.processes.local import Process
from tasks.processes.meeting import Meeting
from tasks.processes.private_network import PrivateNetwork
from tasks.processes.request import ComputeProcess, Limits, Request


class Crew:
    """Starts the compute processes of a run, new ones for every call."""

    def __init__(self, logs: Path, threads: int, meeting: Meeting | None = None) -> None:
        """Create it; with a meeting, the processes of ranks above 0 are on the hosts that have joined it."""
        self.logs, self.threads, self.meeting = logs, threads, meeting

    @contextlib.contextmanager
    def gang(
        self, stage: str, roles: Sequence[Role] = (CHIEF,), waiting: Callable[[str], None] = lambda line: None
    ) -> Iterator[Gang]:
        """Start processes for a call, one for each role; the first is the chief.

        The log of rank r > 0 is `<stage>-<r>.log`. `waiting` is called with what other hosts are waited for. Several
        processes on one host have a network of their own; where that cannot be, `waiting` is called with a warning.
        """
        with contextlib.ExitStack() as held_open:
            hosts = self.meeting.cluster if self.meeting is not None and len(roles) > 1 else None
            if hosts is None:
                held = [HeldPort() for _ in roles]
                network = _network(waiting) if len(roles) > 1 else None
                if network is not None:
                    held_open.enter_context(network)
            else:
                assert self.meeting is not None
                self.meeting.wait(waiting)
                held, network = [HeldPort(hosts.chief, hosts.port_of(0))], None
            for port in held:
                held_open.callback(port.close)

            def start(rank: int) -> ComputeProcess:
                if rank and hosts is not None:
                    assert self.meeting is not None
                    return self.meeting.process(rank, stage, self.threads)
                name = f"{stage}-{rank}" if rank else stage
                return Process(stage, self.logs / f"{name}.log", self.threads, rank, held[rank].address, network)

            gang = Gang(start, roles)
            try:
                yield gang
            except BaseException:
                gang.kill()
                raise
            gang.close()


def _network(warn: Callable[[str], None]) -> PrivateNetwork | None:
    """Return a network for the processes of a gang; None, with a warning, where the system does not allow it."""
    try:
        return PrivateNetwork()
    except OSError as error:
        warn(
            f"whoever reaches this machine over its network reaches the processes of the training, which have no"
            f" network of their own ({error}; docs/how-to-cluster.md)"
        )
        return None


__all__ = ["Crew", "Limits", "Request"]
