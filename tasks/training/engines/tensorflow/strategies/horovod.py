"""Horovod, one process a device, and the server by which its processes find each other.

Horovod's own wrappers of Keras are not used: with Keras 3 its `DistributedOptimizer` reduces nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import horovod.tensorflow as hvd
import numpy as np
import psutil
import tensorflow as tf

from tasks.config.strategy import Horovod
from tasks.errors import Failed, Lost
from tasks.training.engines.tensorflow.strategies.multi_worker import lost_processes
from tasks.training.engines.tensorflow.strategies.one_device import OneDeviceStrategy
from tasks.training.group import Cluster, signed

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


lost = partial(lost_processes, (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.CancelledError))
"""Converts what Horovod reports where another process has died, does not answer, or has left."""


class Processes:
    """The group of a Horovod training, by operations between the processes' CPUs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def totals(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all processes, modulo 2^64."""
        own = np.array([signed(value) for value in values], np.int64)
        with lost(), tf.device("CPU:0"):
            numbers: list[int] = hvd.allreduce(tf.constant(own), op=hvd.Sum, name="totals").numpy().tolist()
        return numbers

    def share(self, content: bytes | None) -> bytes:
        """Return the chief's content."""
        [size] = self.totals([len(content or b"")])
        own = np.zeros(size, np.uint8) if content is None else np.frombuffer(content, np.uint8)
        with lost(), tf.device("CPU:0"):
            shared: bytes = hvd.broadcast(tf.constant(own), root_rank=0, name="share").numpy().tobytes()
        return shared


def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return the sums over all processes; a group of tensors is always added in the same order."""
    sums: list[tf.Tensor] = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="sums")
    return sums


class HorovodStrategy(OneDeviceStrategy):
    """A plain model on the device of this process."""

    def close(self) -> None:
        """Tell the other processes that this one ends; without it they log that the connection was lost."""
        hvd.shutdown()


def create(config: Horovod, cluster: Cluster) -> HorovodStrategy:
    """Create the strategy, which connects to the other processes.

    Raises:
        Failed: the host has accelerators, but not one for each of its processes.
    """
    slot = slots(cluster.addresses)[cluster.rank]
    if accelerators := tf.config.list_physical_devices("GPU"):
        if slot.local_size > len(accelerators):
            rule = f"{slot.hostname} has {len(accelerators)} accelerators, one for each process"
            raise Failed("train.strategy.workers", slot.local_size, rule, "use as many")
        tf.config.set_visible_devices(accelerators[slot.local_rank], "GPU")
    os.environ.update(slot.environment(cluster.addresses[0]))
    if cluster.rank == 0:
        serve(cluster.addresses)
    else:
        await_server(cluster.addresses[0])
    with lost_processes((ValueError,)):  # what `init` raises where another process has died meanwhile
        hvd.init()
    return HorovodStrategy(Processes(cluster), reduce, lost)
