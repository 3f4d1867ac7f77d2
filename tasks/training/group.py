"""The processes that compute a training together, and what they agree on between two calls of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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


class Group(Protocol):
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


@dataclass(frozen=True)
class Agreed:
    """What the processes report of a call."""

    fed: int
    """Number of rows with a weight above 0, of all processes."""
    fed_hash: int
    """Their hash (`tasks.training.ledger.hash_of`)."""
    seconds: list[float]
    """Seconds of the call by rank, waiting for input included."""
    waited: list[float]
    """Seconds of it spent waiting for input, by rank."""


def agree(group: Group, fed: NDArray[np.int64], seconds: float, waited: float) -> Agreed:
    """Exchange the rows that each process was fed and its seconds, which are rounded to microseconds."""
    size, rank = group.cluster.size, group.cluster.rank
    times = np.zeros((2, size), np.int64)
    times[:, rank] = round(1e6 * seconds), round(1e6 * waited)
    count, sum_of_hashes, *rest = group.totals([len(fed), hash_of(fed), *times.ravel().tolist()])
    microseconds = [1e-6 * value for value in rest]
    return Agreed(count, sum_of_hashes % 2**64, microseconds[:size], microseconds[size:])


def signed(value: int) -> int:
    """Return the number in [-2^63, 2^63) that equals a value modulo 2^64."""
    return (value + 2**63) % 2**64 - 2**63
