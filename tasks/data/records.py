"""Conversion of raw data to records: TFRecord shards by split, an offset index, statistics and tfds metadata."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Outcome
from tasks.config import RecordsConfig, SourceConfig
from tasks.data import tfds
from tasks.data.ahead import examined
from tasks.data.duplicates import Copy, Duplicates
from tasks.data.duplicates import summary as summarize
from tasks.data.features import KEY, KEY_FEATURE, Example, Feature
from tasks.data.sources import Item, Skipped, Source, Unreadable, name_some, open_source
from tasks.data.split import Shard, plan
from tasks.data.statistics import ShardStatistics, merged, summary
from tasks.data.tfrecord import Offsets, RecordFile, RecordWriter, encode
from tasks.errors import Failed
from tasks.store.files import canonical

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

RECORDS_VERSION = 2
RECORDS_LIBRARIES = ("numpy", "pillow")

HOPELESS = 1000
"""Number of bad examples over the budget after which no more are looked for."""

REPORT_EVERY = 0.5
"""Seconds between progress reports."""


@dataclass(frozen=True)
class WrittenShard:
    """The result of a finished shard; stored in its sidecar, so that the next attempt can use the shard."""

    plan: str
    examples: int
    bytes: int
    bad: list[list[str]]
    """[key, reason] of each unreadable example."""
    statistics: dict[str, Any]
    skipped: list[list[str]] = field(default_factory=list)
    """[key, reason] of each example that the config skips."""
    copies: list[Copy] = field(default_factory=list)
    """The examples whose content occurs more than once in the source."""


def build(bench: Workbench, source: SourceConfig, config: RecordsConfig, memory: Path | None = None) -> Outcome:
    """Convert a source to records (contract 6).

    Returns counts (`examples`, `bad`, `skipped` and `duplicates` where there are any, and each split; all examples of
    the source are examples + bad + skipped, + duplicates where `records.duplicates` drops them), features by name as
    `Feature.as_json`, and statistics by split and feature, and of `duplicates`.

    Raises:
        Failed: there are more unreadable examples than `records.bad_budget`, a split without examples, or labels of
            one class only, or the source changed while it was read.
    """
    return convert(bench, source.name, open_source(source, memory), config)


def convert(bench: Workbench, name: str, source: Source, config: RecordsConfig) -> Outcome:
    """Convert an open source; `name` is the prefix of the files."""
    bench.staging.reserve(source.size())
    before = source.fingerprint()
    items = source.listing()
    if len({item.key for item in items}) < len(items):
        raise Failed("source", "a key occurs twice in the listing", "keys must be unique", "give each example its own")
    features = {KEY: KEY_FEATURE, **source.features}
    duplicates = Duplicates.of(items, config.duplicates)
    shards = plan(items, config.splits, config.split_seed, config.shards, config.duplicates)
    _refuse_empty(config.splits, [(shard.split, len(shard.items)) for shard in shards], len(duplicates.extra))

    written: list[WrittenShard] = []
    bad: list[list[str]] = []
    done = 0
    for shard in shards:
        result = _adopted(bench, name, shard, duplicates)
        if result is None:
            report = partial(_report, bench, done, len(items), len(bad))
            result = _write(bench, name, shard, source, features, duplicates, config.max_pixels, report)
        written.append(result)
        bad, done = bad + result.bad, done + len(shard.items)
        bench.progress(done, len(items), "examples", bad=len(bad))
        if len(bad) > config.bad_budget + HOPELESS:
            break
    skipped = sorted(entry for result in written for entry in result.skipped)
    _refuse_bad(bad, config.bad_budget, len(items) - done)
    source.check_skipped(skipped)

    _refuse_changed(before, source.fingerprint())
    splits = {
        split: [result for shard, result in zip(shards, written, strict=True) if shard.split == split]
        for split in config.splits
    }
    lengths = [(split, result.examples) for split, parts in splits.items() for result in parts]
    _refuse_empty(config.splits, lengths, len(duplicates.extra))
    statistics = {split: merged(result.statistics for result in parts) for split, parts in splits.items()}
    _refuse_one_class(features, merged(statistics.values()))

    sizes = {split: [(result.examples, result.bytes) for result in parts] for split, parts in splits.items()}
    for path, content in tfds.metadata(name, features, sizes).items():
        bench.staging.put(path, content)
    counts = {split: sum(result.examples for result in parts) for split, parts in splits.items()}
    examples = sum(counts.values())
    copies = summarize((copy for result in written for copy in result.copies), config.duplicates)
    nonzero = {name: count for name, count in (("skipped", len(skipped)), ("duplicates", copies["examples"])) if count}
    return Outcome(
        counts={"examples": examples, "bad": len(bad), **nonzero, **counts},
        features={name: feature.as_json() for name, feature in sorted(features.items())},
        statistics={
            "splits": {split: summary(features, state) for split, state in statistics.items()},
            "bad": sorted(bad),
            **({"skipped": skipped} if skipped else {}),
            **({"duplicates": copies} if copies["examples"] else {}),
            "metrics": {
                "convert/examples": examples,
                "convert/bad": len(bad),
                **{f"convert/{name}": count for name, count in nonzero.items()},
                **({"convert/label_conflicts": copies["label_conflicts"]} if copies["examples"] else {}),
            },
        },
    )


def _report(bench: Workbench, before: int, total: int, bad_before: int, number: int, bad: int) -> None:
    bench.progress(before + number, total, "examples", bad=bad_before + bad)


def shard_name(name: str, shard: Shard) -> str:
    """Return the file name of a shard, as in tensorflow-datasets."""
    return f"{name}-{shard.split}.tfrecord-{shard.number:05d}-of-{shard.total:05d}"


def _adopted(bench: Workbench, name: str, shard: Shard, duplicates: Duplicates) -> WrittenShard | None:
    """Return the shard of an earlier attempt, if it was made of the same items with the same duplicates."""
    path = shard_name(name, shard)
    note = bench.staging.adopt(path)
    if note is None or note["plan"] != _plan_digest(shard, duplicates):
        return None
    index = bench.staging.adopt(f"index/{path}.npy")
    if index is None or index["plan"] != shard.digest:
        _write_index(bench, path, RecordFile(bench.staging.root / path).offsets, shard)
    return WrittenShard(**note)


def _write(
    bench: Workbench,
    name: str,
    shard: Shard,
    source: Source,
    features: dict[str, Feature],
    duplicates: Duplicates,
    max_pixels: int,
    progress: Callable[[int, int], None],
) -> WrittenShard:
    path = shard_name(name, shard)
    statistics = ShardStatistics(features, max_pixels)
    bad: list[list[str]] = []
    skipped: list[list[str]] = []
    copies: list[Copy] = []
    reported = time.monotonic()

    def read(item: Item) -> Example:
        return {KEY: item.key.encode(), **source.read(item)}

    with bench.staging.piece(path) as piece:
        with RecordWriter(piece.path) as writer:
            examples = examined(shard.items, read, statistics, bench.threads, max_pixels)
            for number, (item, result) in enumerate(examples, start=1):
                try:
                    example, states = result()
                    if not duplicates.drops(item):
                        statistics.merge(states)
                        writer.write(encode(example))
                    if copy := duplicates.copy(item, shard.split, example, features):
                        copies.append(copy)
                except Skipped as reason:
                    skipped.append([item.key, str(reason)])
                except Unreadable as reason:
                    bad.append([item.key, str(reason)])
                if time.monotonic() - reported > REPORT_EVERY:
                    reported = time.monotonic()
                    progress(number, len(bad))
        size = len(writer.offsets) - 1, int(writer.offsets[-1])
        written = WrittenShard(_plan_digest(shard, duplicates), *size, bad, statistics.state, skipped, copies)
        piece.note.update(vars(written))
    _write_index(bench, path, writer.offsets, shard)
    return written


def _plan_digest(shard: Shard, duplicates: Duplicates) -> str:
    """Return a digest of the shard's items, and of which of them are duplicates."""
    copies = [item.key in duplicates.extra for item in shard.items if item.content in duplicates.contents]
    return hashlib.sha256(canonical([shard.digest, copies])).hexdigest()


def _write_index(bench: Workbench, path: str, offsets: Offsets, shard: Shard) -> None:
    with bench.staging.piece(f"index/{path}.npy", plan=shard.digest) as piece, open(piece.path, "wb") as file:
        np.save(file, offsets)


def _refuse_empty(splits: Mapping[str, float], lengths: list[tuple[str, int]], copies: int) -> None:
    for split in splits:
        if not sum(length for name, length in lengths if name == split):
            raise Failed(
                f"records.splits.{split}",
                f"no example of {sum(length for _, length in lengths)}"
                + (f", {copies} of them copies" if copies else ""),
                "every split needs at least one",
                f"raise its share (now {splits[split]:g}), add data or change records.split_seed",
            )


def _refuse_bad(bad: list[list[str]], budget: int, unseen: int) -> None:
    """Raise `Failed` for more unreadable examples than the budget; `unseen` were not looked at."""
    if len(bad) > budget:
        rest = f", and {unseen:,} were not looked at" if unseen else ""
        raise Failed(
            "records.bad_budget",
            f"unreadable: {name_some(bad)}{rest}",
            f"at most {budget} examples may be unreadable",
            "fix or remove them, or raise records.bad_budget",
        )


def _refuse_changed(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    changed = sorted(key for key, _ in set(before) ^ set(after))
    if changed:
        raise Failed(
            changed[0],
            f"added, removed or changed while it was read (with it {len(set(changed)) - 1} others)",
            "a source must not change while it is read",
            "run again when it is at rest",
        )


def _refuse_one_class(features: Mapping[str, Feature], statistics: Mapping[str, Any]) -> None:
    for name, feature in features.items():
        if feature.kind == "label" and len(seen := statistics[name]["classes"]) < 2:
            class_name = (feature.classes or ())[int(next(iter(seen)))]
            raise Failed(
                name, f"one class only, {class_name}", "labels need at least two", "add examples of another class"
            )
