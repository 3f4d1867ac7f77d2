"""Assignment of examples to splits, shards and positions, by keyed hashes of each example alone.

The split is a hash of the example's content, so that duplicates are in one split; the position is a hash of its key.
An example keeps both when others are added. The order within a split does not depend on the number of shards.
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
"""Values of `records.duplicates`."""


@dataclass(frozen=True)
class Shard:
    """The items of a shard file, in order."""

    split: str
    number: int
    total: int
    items: tuple[Item, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over keys and contents in order, to recognise the shard file of an earlier attempt."""
        return hashlib.sha256(canonical([[item.key, item.sha256, item.content] for item in self.items])).hexdigest()


def keyed_hash(text: str, seed: int, purpose: str) -> int:
    """Return a uniform integer in [0, 2^64): keyed BLAKE2b of a text, with a seed below 2^63 and a purpose."""
    digest = hashlib.blake2b(
        text.encode(), digest_size=8, key=seed.to_bytes(8, "little"), person=purpose.encode()
    ).digest()
    return int.from_bytes(digest, "little")


def bounds(shares: Mapping[str, float]) -> list[tuple[int, str]]:
    """Return the upper end of each split in the hash space, ascending, in order of name.

    Digests do not depend on the order of a mapping, so neither may this. The last split ends at 2^64.
    """
    names = sorted(shares)
    ends = [int(fsum(shares[name] for name in names[: index + 1]) * SPACE) for index in range(len(names))]
    return list(zip([*ends[:-1], SPACE], names, strict=True))


def split_of(item: Item, ends: list[tuple[int, str]], seed: int, duplicates: Handling = "group") -> str:
    """Return the split of an item, given `bounds`: a hash of its group where it has one, else of its content.

    With `duplicates="keep"` the key replaces the content.
    """
    alone = item.key if duplicates == "keep" else item.content
    value = keyed_hash(alone if item.group is None else item.group, seed, "split")
    return next(name for end, name in ends if value < end)


def plan(
    items: Iterable[Item], shares: Mapping[str, float], seed: int, shards: int, duplicates: Handling = "group"
) -> list[Shard]:
    """Return every shard of every split, in order of split name and number; some may be empty."""
    ends = bounds(shares)
    items_by_shard: dict[tuple[str, int], list[tuple[int, str, Item]]] = {
        (name, number): [] for _, name in ends for number in range(shards)
    }
    for item in items:
        index = keyed_hash(item.key, seed, "place")
        items_by_shard[split_of(item, ends, seed, duplicates), index * shards // SPACE].append((index, item.key, item))
    return [
        Shard(split, number, shards, tuple(item for _, _, item in sorted(of_shard, key=lambda entry: entry[:2])))
        for (split, number), of_shard in items_by_shard.items()
    ]
