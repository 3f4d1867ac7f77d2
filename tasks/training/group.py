"""The processes that compute a training together, and what they agree on between two calls of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.training.ledger import hash_of


@dataclass(frozen=True)
class Cluster:
    """The place of this process among those of a training."""

    rank: int = 0
    addresses: tuple[str, ...] = ("127.0.0.1:0",)
    """`host:port` of each process, by rank."""

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self.addresses)


class ProcessGroup(Protocol):
    """Exchanges integers and bytes. Every process must make the same calls in the same order."""

    cluster: Cluster

    def totals(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all processes, modulo 2^64, as numbers from -2^63."""
        ...

    def share(self, content: bytes | None) -> bytes:
        """Return the content that the chief gives; the others give None."""
        ...


class Alone:
    """The group of one process."""

    cluster = Cluster()

    def totals(self, values: Sequence[int]) -> list[int]:
        """Return the values."""
        return [signed(value) for value in values]

    def share(self, content: bytes | None) -> bytes:
        """Return the content."""
        assert content is not None
        return content


class Seconds(NamedTuple):
    """The seconds of a call in one process."""

    call: float
    """Of the whole call."""
    waiting: float
    """Waiting for input."""
    computing: float = 0.0
    """Computing gradients, before they are added up; 0 where that is not measured."""
    reducing: float = 0.0
    """Until the sums of all processes are there: sending them, and waiting for slower processes."""


@dataclass(frozen=True)
class Agreed:
    """What the processes report of a call."""

    fed: int
    """Number of rows with a weight above 0, of all processes."""
    fed_hash: int
    """Their hash (`tasks.training.ledger.hash_of`)."""
    ranks: list[Seconds]
    """Seconds of the call, by rank."""


def agree(group: ProcessGroup, fed: NDArray[np.int64], seconds: Seconds) -> Agreed:
    """Exchange the rows that each process was fed and its seconds, which are rounded to microseconds."""
    size, rank = group.cluster.size, group.cluster.rank
    times = np.zeros((size, len(seconds)), np.int64)
    times[rank] = [round(1e6 * value) for value in seconds]
    count, sum_of_hashes, *rest = group.totals([len(fed), hash_of(fed), *times.ravel().tolist()])
    ranks = [Seconds(*row) for row in (1e-6 * np.array(rest).reshape(times.shape)).tolist()]
    return Agreed(count, sum_of_hashes % 2**64, ranks)


def signed(value: int) -> int:
    """Return the number in [-2^63, 2^63) that equals a value modulo 2^64."""
    return (value + 2**63) % 2**64 - 2**63
