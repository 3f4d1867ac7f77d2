"""How the processes of a Horovod training find one another: by an HTTP server of rank 0, on the address held for it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from tasks.errors import Lost

CONNECT_SECONDS = 60
"""Seconds that a process waits for another one to start. Horovod has one limit for this and for every later answer."""


class Slot(NamedTuple):
    """The place of a process among all, among those of its host (`local`), and among those of its local rank
    (`cross`)."""

    hostname: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int

    def environment(self, server: str) -> dict[str, str]:
        """Return the variables by which Horovod reads its place and the server's address, `host:port`."""
        host, port = split(server)
        return {
            **{f"HOROVOD_{name.upper()}": str(value) for name, value in self._asdict().items()},
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_IFACE": interface(self.hostname),
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(CONNECT_SECONDS),
        }


def slots(addresses: Sequence[str]) -> list[Slot]:
    """Return the places of all processes, by rank, from the hosts in their addresses."""
    hosts = [split(address)[0] for address in addresses]
    ranks = {host: [rank for rank, other in enumerate(hosts) if other == host] for host in hosts}
    places = []
    for rank, host in enumerate(hosts):
        local = ranks[host].index(rank)
        cross = [of_host[local] for of_host in ranks.values() if len(of_host) > local]
        places.append(Slot(host, rank, len(hosts), local, len(ranks[host]), cross.index(rank), len(cross)))
    return places


def serve(addresses: Sequence[str]) -> None:
    """Start the server on the address of rank 0, in a thread that ends with this process."""
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    server = RendezvousHTTPServer(split(addresses[0]), RendezvousHandler, False)
    server.init(slots(addresses))
    threading.Thread(target=server.serve_forever, name="rendezvous", daemon=True).start()


def await_server(address: str, patience: float = CONNECT_SECONDS) -> None:
    """Wait until the server answers; Horovod itself tries for a second and a half.

    Raises:
        Lost: it has not answered for `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(split(address), 5.0).close()
            return
        time.sleep(0.05)
    saw = f"rank 0 at {address} has not answered for {patience:g} s"
    raise Lost("train.strategy", saw, "all workers must answer", "run again: it continues")


def interface(host: str) -> str:
    """Return the network interface with this host's address; where there is none, Gloo chooses by the host's name."""
    address = socket.gethostbyname(host)
    of_host = (name for name, own in psutil.net_if_addrs().items() if address in [entry.address for entry in own])
    return next(of_host, "")


def split(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`."""
    host, _, port = address.rpartition(":")
    return host, int(port)
