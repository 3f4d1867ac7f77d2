"""Splits for `millrace init`: those of the source, or shares and a seed with which no split is empty."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import TypeAdapter

from tasks.errors import Refused
from tasks.records import column_types
from tasks.records.assignment import COLUMN, Assignment
from tasks.records.column_types import column_type
from tasks.records.column_types.categories import Category
from tasks.records.config import USUAL_NAMES, RecordsConfig
from tasks.records.sorting import one_chunk
from tasks.sources import Rows, Source
from tasks.sources.encoding import Encoded, bytes_entry, join, values_of
from tasks.sources.features import Feature, of_role
from tasks.sources.hashes import SPACE, Hashes, digests, hashes_of, split_numbers
from tasks.sources.kinds import SourceConfig
from tasks.sources.table_files import hashes_of_rows

SHARES = ({"train": 0.8, "validation": 0.1, "test": 0.1}, {"train": 0.6, "validation": 0.2, "test": 0.2})
HELD_OUT_BYTES = 500_000
"""Bytes of text that are enough for validation and for test."""
FEW_TEXTS = 30
SEEDS = 1000
FEW_EXAMPLES = 1000
"""With fewer examples a split may be empty by chance: all are read, and seeds are tried."""
LAST = np.uint64(SPACE - 1)
PAYLOADS = ("image", "audio", "text")
"""Kinds of features that are in records as they are in the source."""


@dataclass(frozen=True)
class Splits:
    """Splits of a preset."""

    shares: dict[str, float] | None
    """None: those of the source are kept."""
    seed: int = 0
    """The value of `records.split_seed`."""
    official: dict[str, list[str]] = field(default_factory=dict)
    """The value of `records.official`; empty where the usual names are meant."""
    said: str = ""
    """A line for the user."""

    @property
    def train_share(self) -> float:
        """The share of train, about."""
        return SHARES[0]["train"] if self.shares is None else self.shares["train"]


def draw_splits(
    source: dict[str, Any], count: int, remedy: str, shares: Iterable[dict[str, float]] = SHARES, exact: bool = True
) -> Splits:
    """Return the first of these shares, and a seed, with which no split is empty or, of few examples, too small.

    Args:
        count: the number of examples; of many their number serves in place of their hash, as any uniform one does.
        exact: whether it is known, so that few examples can be read.
    """
    drawn = examples_of(source) if exact and count < FEW_EXAMPLES else Drawn(_numbers(count))
    found = choose(drawn, shares)
    if found is None:
        rule, different = "train, validation and test need one each, of different content", len(np.unique(drawn.hashes))
        few = len(drawn.hashes)
        saw = f"{few} examples" + (f", {different} of different content" if different < few else "")
        raise Refused("PATH", saw, rule, remedy)
    return Splits(*found)


def keep_splits(source: dict[str, Any], names: Collection[str], count: int, exact: bool = True) -> Splits | None:
    """Return the splits that the source has by these usual names; None where they are not train and one other."""
    meant = {name: USUAL_NAMES[name.lower()] for name in sorted(names)}
    if not {"train"} < set(meant.values()):
        return None
    official: dict[str, list[str]] = {}
    said = f"its splits are kept: {', '.join(meant)}"
    if {"validation", "test"} <= set(meant.values()):
        return Splits(None, said=said)
    if "test" not in meant.values() or "split" in source:
        official = {"train": [], "test": []}
        for name, split in meant.items():
            official["train" if split == "train" else "test"].append(name)
    if "test" not in meant.values():
        said += f"; {', '.join(official['test'])} becomes test, as there is none"
    share = RecordsConfig().validation_share
    said += f"; {share:.0%} of train becomes validation"
    train = [name for name, split in meant.items() if split == "train"]
    few = exact and count < FEW_EXAMPLES
    found = choose(examples_of(source, train), [{"train": 1 - share, "validation": share}]) if few else (None, 0)
    if found is None:
        raise Refused("PATH", "too few examples in train", "validation is a part of it", "add examples")
    return Splits(None, found[1], official, said)


def shares_of_text(size: int, count: int) -> tuple[dict[str, float], ...]:
    """Return candidate splits: a smaller share of much text, a larger one of few texts."""
    share = float(f"{min(0.1, HELD_OUT_BYTES / max(size, 1)):.1g}")
    much = {"train": round(1 - 2 * share, 9), "validation": share, "test": share}
    return SHARES[1:] if count < FEW_TEXTS else (much, *SHARES)


def listed(section: dict[str, Any]) -> Source:
    """Return the source of a section, open, and with what it has listed."""
    config: SourceConfig = TypeAdapter(SourceConfig).validate_python(section)
    source = config.open()
    source.fingerprint()
    return source


class Drawn(NamedTuple):
    """Examples to be drawn into splits."""

    hashes: Hashes
    """The hash that decides the split of each, copies together."""
    labels: NDArray[np.int64] | None = None
    """The number of each one's class, below 0 where it has none; None without classes."""


def examples_of(source: dict[str, Any], only: Collection[str] = ()) -> Drawn:
    """Return the examples of a source as a conversion draws them.

    Args:
        only: splits of the source whose examples are taken; empty: all.
    """
    opened = listed(source)
    features = dict(opened.features)
    assignment = Assignment(RecordsConfig(), features, ())
    column = next(iter(of_role(features, "split")), None)
    label = next((name for name, each in of_role(features, "label").items() if each.kind == "label"), None)
    found: list[tuple[Hashes, Hashes, NDArray[np.bool_]]] = []
    classes: list[pa.Array] = []
    for partition in opened.partitions():
        for rows in opened.read(partition):
            if len(rows.keys):
                raw = {name: one_chunk(values) for name, values in rows.columns.items()}
                hashes, alone = assignment.hashes(raw, hashes_of_rows(rows, raw, _keys(raw, features)))
                splits = rows.columns[column] if column else rows.splits
                taken = _given(rows) if splits is None or not only else np.isin(splits.to_pylist(), list(only))
                contents = _contents(raw, of_role(features, "input"))
                found.append((hashes[taken], contents[taken], alone[taken]))
                if label is not None:
                    classes.append(_classes(features[label], raw[label]).filter(pa.array(taken)))
    if not found:
        return Drawn(np.empty(0, np.uint64))
    hashes, contents, alone = map(np.concatenate, zip(*found, strict=True))
    hashes = np.where(alone, _smallest_of_copies(np.where(alone, hashes, LAST), contents), hashes)
    if not classes:
        return Drawn(hashes)
    numbers = pa.concat_arrays(classes).dictionary_encode().indices
    return Drawn(hashes, pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False))


def choose(drawn: Drawn, shares: Iterable[dict[str, float]]) -> tuple[dict[str, float], int] | None:
    """Return the first shares with which no split is empty, and a seed; or None.

    Of few examples the seed is the first with which, if any does it, no split is too small, and with which most classes
    are in each of them.
    """
    few = len(drawn.hashes) < FEW_EXAMPLES
    labels = np.zeros(len(drawn.hashes), np.int64) if drawn.labels is None else drawn.labels
    classes = len(np.unique(labels[labels >= 0]))
    for candidate in shares:
        names = sorted(candidate)
        wanted = [1 if name == "train" or not few else max(1, round(candidate[name] * len(labels))) for name in names]
        best, chosen = (False, 0), None
        for seed in range(SEEDS if few else 1):
            splits = split_numbers(drawn.hashes, candidate, seed)
            filled = np.bincount(splits, minlength=len(names))
            if not filled.all():
                continue
            there = len(np.unique(splits[labels >= 0] * classes + labels[labels >= 0]))
            rank = bool((filled >= wanted).all()), there
            if chosen is None or rank > best:
                best, chosen = rank, seed
            if best == (True, classes * len(names)):
                break
        if chosen is not None:
            return candidate, chosen
    return None


def _classes(feature: Feature, raw: pa.Array) -> pa.Array:
    """Return the class of each row, null of rows without one."""
    typed = column_types.typed(feature, raw, 0)
    bad = np.isin(np.arange(len(raw)), list(typed.bad))
    return pc.if_else(pa.array(bad), None, typed.values)


def _keys(raw: dict[str, pa.Array], features: dict[str, Feature]) -> Hashes | None:
    """Return a hash of the key of each row; None where none is named."""
    name = next(iter(of_role(features, "key")), None)
    if name is None:
        return None
    return hashes_of([text.encode() for text in Category(COLUMN).typed(raw[name]).values.to_pylist()])


def _contents(raw: dict[str, pa.Array], features: dict[str, Feature]) -> Hashes:
    entries: list[Encoded] = []
    for name, feature in features.items():
        if feature.kind in PAYLOADS:
            entries += bytes_entry(name, pc.fill_null(raw[name].cast(pa.large_binary()), b""))
        else:
            typed = column_types.typed(feature, raw[name], 0)
            entries += typed.exact or column_type(feature).entry(name, typed.values)
    return digests(values_of(join(*entries)))[:, 0]


def _smallest_of_copies(hashes: Hashes, contents: Hashes) -> Hashes:
    """Return for each row the smallest hash among the rows of its content."""
    values, places = np.unique(contents, return_inverse=True)
    smallest = np.full(len(values), LAST, np.uint64)
    np.minimum.at(smallest, places, hashes)
    return smallest[places]


def _given(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows have more than an empty text: without one a split would have nothing to learn from."""
    if list(rows.columns) != ["text"]:
        return np.ones(len(rows.keys), bool)
    return np.asarray(pc.greater(pc.binary_length(rows.columns["text"]), 0))


def _numbers(count: int) -> Hashes:
    return digests([str(number).encode() for number in range(count)])[:, 0]
