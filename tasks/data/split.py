"""Which split, which shard and which place an example has: keyed hashes of the example, and of nothing else.

The split is a hash of its content, so that copies stand in one split; the place in it a hash of its key. So an example
stays where it is when others are added, copies of it included, and the order of a split is the same for every number
of shards: shards are cuts through one keyed order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Literal

from tasks.data.sources import Item
from tasks.store.files import canonical

SPACE = 2**64

Handling = Literal["group", "drop", "keep"]
"""As `records.duplicates` has it."""


@dataclass(frozen=True)
class Shard:
    """What one shard file is made of, in order."""

    split: str
    number: int
    total: int
    items: tuple[Item, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the keys and contents in order: a shard file of an earlier attempt must have the same."""
        return hashlib.sha256(canonical([[item.key, item.sha256, item.content] for item in self.items])).hexdigest()


def keyed_hash(text: str, seed: int, purpose: str) -> int:
    """A uniform integer in [0, 2^64) from a text, a seed below 2^63 and what it is for."""
    digest = hashlib.blake2b(
        text.encode(), digest_size=8, key=seed.to_bytes(8, "little"), person=purpose.encode()
    ).digest()
    return int.from_bytes(digest, "little")


def bounds(shares: Mapping[str, float]) -> list[tuple[int, str]]:
    """The upper end of each split in the hash space, rising.

    In order of name, since digests do not see the order of a mapping; the last split takes what rounding leaves.
    """
    names = sorted(shares)
    ends = [int(fsum(shares[name] for name in names[: place + 1]) * SPACE) for place in range(len(names))]
    return list(zip([*ends[:-1], SPACE], names, strict=True))


def split_of(item: Item, ends: list[tuple[int, str]], seed: int, duplicates: Handling = "group") -> str:
    """The split of one item, given `bounds`: by its group where it has one, else by its content.

    By its key instead of its content where copies are to be kept apart (`records.duplicates: keep`).
    """
    alone = item.key if duplicates == "keep" else item.content
    drawn = keyed_hash(alone if item.group is None else item.group, seed, "split")
    return next(name for end, name in ends if drawn < end)


def plan(
    items: Iterable[Item], shares: Mapping[str, float], seed: int, shards: int, duplicates: Handling = "group"
) -> list[Shard]:
    """Every shard of every split, in order of split name and number; some may be empty."""
    ends = bounds(shares)
    shelves: dict[tuple[str, int], list[tuple[int, str, Item]]] = {
        (name, number): [] for _, name in ends for number in range(shards)
    }
    for item in items:
        place = keyed_hash(item.key, seed, "place")
        shelves[split_of(item, ends, seed, duplicates), place * shards // SPACE].append((place, item.key, item))
    return [
        Shard(split, number, shards, tuple(item for _, _, item in sorted(shelf, key=lambda entry: entry[:2])))
        for (split, number), shelf in shelves.items()
    ]
