"""Sources of raw data: what an open one is, and the rows that it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tasks.sources.features import Feature

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.sources.hashes import Hashes


@dataclass(frozen=True)
class Partition:
    """A part of a source that one process reads: some files, a range of a file, a row group; picklable."""

    name: str
    """Name for messages: the first file, a row group."""

    bytes: int
    """Bytes of raw data, approximately."""

    where: tuple[Any, ...]
    """What `Source.read` needs to find it."""


@dataclass(frozen=True)
class Bad:
    """A row that is left out."""

    key: str
    reason: str
    place: str
    """Where a person finds it: `people.csv line 17`."""


@dataclass
class Rows:
    """Rows of a partition as the source has them, before their columns are cast to the types of the features."""

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    """By the name of the feature. Of an image or sound: its bytes."""

    keys: pa.Array
    """Key of each row, string: a relative path, or file and number; replaced by the column with the role `key`."""

    place: Callable[[int], str]
    """From the number of a row here to where a person finds it."""

    splits: pa.Array | None = None
    """Official split of each row, string; None where the source has none."""

    hashes: Hashes | None = None
    """Hash of all that the source has of each row, uint64 [n], also what is no feature; None: of `columns`."""

    bad: list[Bad] = field(default_factory=list)
    """Rows that could not be read at all, counted against `records.bad_budget`."""

    skipped: list[Bad] = field(default_factory=list)
    """Rows that the source's config leaves out, not counted against the budget."""


class Source(Protocol):
    """An open source of raw data, read one partition after another in any order and by several processes.

    Instances are picklable or are inherited by forked processes: `partitions` is called once, before these start.
    """

    @property
    def features(self) -> Mapping[str, Feature]:
        """The schema of the examples, without the key."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the data is available; otherwise it is downloaded first."""
        return True

    @property
    def official(self) -> tuple[str, ...]:
        """The names of the splits that the source itself has."""
        return ()

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return what enters the digest: sorted (key, sha256) of every file behind the examples, or of every row."""
        ...

    def partitions(self) -> list[Partition]:
        """Return all, in a fixed order that depends on the content alone; one has about `PARTITION_BYTES`."""
        ...

    def read(self, partition: Partition) -> Iterator[Rows]:
        """Yield the rows of a partition in order, in batches that fit into memory together.

        Raises:
            Failed: its content has changed since `fingerprint`.
        """
        ...

    def size(self) -> int:
        """Return the bytes of the raw data by `stat`; 0 where unknown."""
        return 0

    def newest(self) -> float | None:
        """Return the modification time of the newest file, in seconds since 1970; None where there are no files."""
        return None

    def check_skipped(self, skipped: list[Bad]) -> None:
        """Raise `Failed` where the config does not allow to leave out these rows."""
        return


PARTITION_BYTES = 32 << 20
"""Bytes of raw data that one process holds, about; a larger row is a partition of its own."""

MAX_NAMED = 10
"""Number of rows that an error names."""


def name_some(bad: list[Bad], count: int) -> str:
    """Return the first `MAX_NAMED` rows by key with their reasons, and the number of the others of `count` in all."""
    named = "; ".join(
        f"{row.key} ({row.reason})" if row.place in ("", row.key) else f"{row.place} ({row.reason})"
        for row in sorted(bad, key=lambda row: row.key)[:MAX_NAMED]
    )
    others = count - min(len(bad), MAX_NAMED)
    return named + (f" and {others:,} more" if others else "")


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return the reason why bytes are no text."""
    return f"byte {error.start} (0x{error.object[error.start]:02x}) is not UTF-8"
