"""Conversion of raw data to records: TFRecord shards by split, an offset index, statistics and tfds metadata.

Two passes, each over what the processes of the machine share: partitions of the source become sorted spills of checked
rows, and spills become shards. Memory does not grow with the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Outcome
from tasks.config.base import identity
from tasks.environment.hardware import return_freed
from tasks.errors import Failed
from tasks.records import duplicates
from tasks.records.column_types import TFDS, column_type, merged, summary
from tasks.records.config import RecordsConfig
from tasks.records.duplicates import Dropped
from tasks.records.merging import Merger, Regrouper, Shard, Spills, WrittenShard
from tasks.records.near import Compared, search
from tasks.records.near.search import Near
from tasks.records.profile import profile
from tasks.records.sorting import NAMED, SPILL_VERSION, Sorter, Spill
from tasks.sources import Bad, Partition, Source, name_some
from tasks.sources.features import CLASSED, Feature, in_order
from tasks.sources.kinds import SourceConfig
from tasks.store.files import canonical, pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


ALONE_BYTES = 8 << 20
"""Bytes of a source that one process converts sooner than others begin."""
MAX_CLASSES = 10_000
"""Classes of a label at most."""
HOPELESS = 1000
"""Number of bad examples over the budget after which no more are looked for."""


def build(bench: Workbench, source: SourceConfig, config: RecordsConfig, memory: Path | None = None) -> Outcome:
    """Convert a source to records (docs/contracts.md, Records).

    Returns counts (`read`, `examples` that are written, `quarantined`, `filtered`, which sum to `read`; of the filtered
    ones the `skipped`, `duplicates` and `near_duplicates`; and each split), features by name as `Feature.as_json`, and
    statistics by split and feature, and of `duplicates`, `near_duplicates` and `shared` inputs.

    Raises:
        Failed: there are more bad examples than `records.bad_budget`, a split without examples, labels of one class
            only, or a key twice, or the source changed while it was read.
    """
    return convert(bench, source.name, source.open(memory), config)


def convert(bench: Workbench, name: str, source: Source, config: RecordsConfig) -> Outcome:
    """Convert an open source; `name` is the prefix of the files."""
    return_freed()
    bench.staging.reserve(2 * source.size())  # the spills are dropped at the end
    before, partitions = source.fingerprint(), source.partitions()
    sorter = Sorter(source, config, bench.staging, _digest(source, config, before, partitions))
    notes = _sort(bench, sorter, partitions, config)
    source.check_skipped([Bad(*row) for note in notes for row in note.left_out])
    _refuse_changed(before, source.fingerprint())

    spills = Spills(bench.staging, notes, config.names)
    duplicates.check_keys(spills)
    features = _with_classes(sorter.features, notes)
    spills, near = _settled(bench, spills, config, sorter.compared, features)
    copies = duplicates.find(spills, features, config.duplicates, near.dropped if near else {})
    dropped = _together(copies.dropped, near.dropped if near else {})
    _refuse_empty(config, spills.counts, copies.examples)
    merger = Merger(bench.staging, name, features, spills, dropped)
    shards = [Shard(split, number, config.shards) for split in spills.splits for number in range(config.shards)]
    parts: dict[str, list[WrittenShard]] = {split: [] for split in spills.splits}
    for shard, part in zip(shards, _merge(bench, merger, shards, spills), strict=True):
        parts[shard.split].append(part)

    counts = {split: sum(part.examples for part in of_split) for split, of_split in parts.items()}
    _refuse_empty(config, counts, copies.examples)
    states = {split: merged(features, (part.statistics for part in of_split)) for split, of_split in parts.items()}
    _refuse_one_class(features, merged(features, states.values()))
    sizes = {split: [(part.examples, part.bytes) for part in of_split] for split, of_split in parts.items()}
    for path, content in tfds_metadata(name, features, sizes).items():
        bench.staging.put(path, content)
    summaries = {split: summary(features, state) for split, state in states.items()}
    everything = _counts(notes, copies, near)
    of_columns, twice = profile(spills, features, summaries), duplicates.find_shared(spills, features, dropped)
    of_columns["suspicions"] += duplicates.suspicions(twice, features)
    statistics = _statistics(notes, everything, copies, near) | {"splits": summaries, "profile": of_columns}
    return Outcome(
        counts={**everything, **counts},
        features={name: feature.as_json() for name, feature in features.items()},
        statistics={**statistics, **({"shared": twice} if twice else {})},
    )


def _settled(
    bench: Workbench, spills: Spills, config: RecordsConfig, compared: Compared | None, features: Mapping[str, Feature]
) -> tuple[Spills, Near | None]:
    """Return the spills with each row in its split, and near-duplicates, which name rows by their place in them."""
    if config.duplicates == "group":
        duplicates.tie(spills)
    if compared is not None and compared.handling == "group":
        near = _near(bench, spills, compared, features)  # first, as it moves rows as well
        return _regrouped(bench, spills), near
    spills = _regrouped(bench, spills)
    return spills, _near(bench, spills, compared, features)


def _near(bench: Workbench, spills: Spills, compared: Compared | None, features: Mapping[str, Feature]) -> Near | None:
    if compared is None:
        return None
    return search.find(spills, compared, features, lambda done, total: bench.progress(done, total, "bands"))


def _regrouped(bench: Workbench, spills: Spills) -> Spills:
    """Return the spills, written anew where rows have moved."""
    if not spills.moved:
        return spills
    share = bench.share if spills.bytes > ALONE_BYTES else map
    notes = dict(enumerate(spills.notes))
    moved = sorted(spills.moved)
    notes |= zip(moved, share(Regrouper(bench.staging, spills).regroup, moved), strict=True)
    return Spills(bench.staging, list(notes.values()), spills.splits)


def _together(one: Dropped, other: Dropped) -> Dropped:
    """Return the rows that either of two drops."""
    masks = {spill: [mask[spill] for mask in (one, other) if spill in mask] for spill in sorted({*one, *other})}
    return {spill: np.logical_or.reduce(of_spill) for spill, of_spill in masks.items()}


def _digest(
    source: Source, config: RecordsConfig, fingerprint: list[tuple[str, str]], partitions: list[Partition]
) -> str:
    """Return a digest of what the spills are made of, by which those of an earlier attempt are recognised."""
    features = {name: feature.as_json() for name, feature in source.features.items()}
    settings = {name: value for name, value in identity(config).items() if name != "bad_budget"}
    listed = [[partition.name, partition.bytes] for partition in partitions]
    return hashlib.sha256(canonical([SPILL_VERSION, features, settings, fingerprint, listed])).hexdigest()


def _sort(bench: Workbench, sorter: Sorter, partitions: list[Partition], config: RecordsConfig) -> list[Spill]:
    """Sort all partitions; stop early where there are far too many bad rows."""
    total, done, notes = sum(partition.bytes for partition in partitions), 0, list[Spill]()
    numbered = list(enumerate(partitions))
    share = bench.share if total > ALONE_BYTES else map
    for partition, spills in zip(partitions, share(sorter.sort, numbered), strict=True):
        notes += spills
        done += partition.bytes
        bad = sum(note.quarantined for note in notes)
        bench.progress(done, total, "bytes", bad=bad)
        if isinstance(config.bad_budget, int) and bad > config.bad_budget + HOPELESS:
            break
    _refuse_bad(notes, config.bad_budget, len(partitions) - len({note.partition for note in notes}))
    return notes


def _merge(bench: Workbench, merger: Merger, shards: list[Shard], spills: Spills) -> Iterator[WrittenShard]:
    done, share = 0, bench.share if spills.bytes > ALONE_BYTES else map
    for part in share(merger.write, shards):
        done += part.examples
        bench.progress(done, spills.total, "examples")
        yield part


def _with_classes(features: Mapping[str, Feature], notes: list[Spill]) -> dict[str, Feature]:
    """Return the features by name, sorted, with the classes of the data where a column of classes names none."""
    named = dict(sorted(features.items()))
    for name, feature in named.items():
        if feature.kind in CLASSED and feature.classes is None:
            found = in_order(set().union(*(note.classes.get(name, {}) for note in notes)))
            named[name] = replace(feature, classes=tuple(found))
        if feature.kind in CLASSED and (count := len(named[name].classes or ())) > MAX_CLASSES:
            field = "source.outputs" if feature.role == "output" else "source.label"
            saw, rule = f"{count:,} classes", f"a {feature.role} has at most {MAX_CLASSES:,}"
            raise Failed(f"{field} {name}", saw, rule, "make it a target or an input, or group its values")
    return named


def _counts(notes: list[Spill], copies: duplicates.Copies, near: Near | None) -> dict[str, int]:
    """Return the counts of all rows; `read` is the sum of `examples`, `quarantined` and `filtered`."""
    read, quarantined = sum(note.read for note in notes), sum(note.quarantined for note in notes)
    masks = [*copies.dropped.values(), *(near.dropped.values() if near else ())]
    skipped = sum(note.skipped for note in notes)
    filtered = sum(note.filtered for note in notes) + skipped + sum(int(mask.sum()) for mask in masks)
    some = {"skipped": skipped, "duplicates": copies.examples, "near_duplicates": near.examples if near else 0}
    nonzero = {name: count for name, count in some.items() if count}
    written = read - quarantined - filtered
    return {"read": read, "examples": written, "quarantined": quarantined, "filtered": filtered, **nonzero}


def _statistics(
    notes: list[Spill], counts: dict[str, int], copies: duplicates.Copies, near: Near | None
) -> dict[str, Any]:
    """Return the statistics of all rows."""
    skipped = sorted(row for note in notes for row in note.left_out)
    conflicts = {"convert/label_conflicts": copies.label_conflicts} if copies.examples else {}
    conflicts |= {"convert/near_label_conflicts": near.label_conflicts} if near else {}
    return {
        "quarantined": sorted(row for note in notes for row in note.bad)[:NAMED],
        **({"skipped": skipped[:NAMED]} if skipped else {}),
        **({"duplicates": copies.as_json()} if copies.examples else {}),
        **({"near_duplicates": near.as_json()} if near else {}),
        "metrics": {**{f"convert/{name}": count for name, count in counts.items()}, **conflicts},
    }


def _refuse_empty(config: RecordsConfig, counts: Mapping[str, int], copies: int) -> None:
    for split in config.splits if isinstance(config.splits, dict) else config.names:
        if counts[split]:
            continue
        saw = f"no example of {sum(counts.values())}" + (f", {copies} of them copies" if copies else "")
        rule = "every split needs at least one"
        if isinstance(config.splits, dict):
            remedy = f"raise its share (now {config.splits[split]:g}), add data or change records.split_seed"
            raise Failed(f"records.splits.{split}", saw, rule, remedy)
        setting = "records.split_times" if config.splits == "time" else "records.official"
        raise Failed(f"records.splits {config.splits}: {split}", saw, rule, f"add data, or change {setting}")


def _refuse_bad(notes: list[Spill], budget: float, unseen: int) -> None:
    """Raise `Failed` for more bad rows than the budget; `unseen` partitions were not looked at."""
    count, read = sum(note.quarantined for note in notes), sum(note.read for note in notes)
    allowed = budget if isinstance(budget, int) else int(budget * read)
    if count > allowed:
        bad = [Bad(*row) for note in notes for row in note.bad]
        rest = f", and {unseen:,} partitions of the source were not looked at" if unseen else ""
        share = "" if isinstance(budget, int) else f" ({budget:g} of {read:,})"
        raise Failed(
            "records.bad_budget",
            f"{count:,} bad: {name_some(bad, count)}{rest}",
            f"at most {allowed:,} examples may be bad{share}",
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


def _refuse_one_class(features: Mapping[str, Feature], states: Mapping[str, Any]) -> None:
    for name, feature in features.items():
        if feature.kind in CLASSED and len(classes := states[name]["classes"]) < 2:
            rule, remedy = f"{feature.role}s need at least two", "add examples of another class"
            raise Failed(name, f"one class only, {next(iter(classes))}", rule, remedy)


def tfds_metadata(
    name: str, features: Mapping[str, Feature], shards: Mapping[str, list[tuple[int, int]]]
) -> dict[str, bytes]:
    """Return the files by which `tfds.builder_from_directory` reads records, by name: without date and host.

    Args:
        shards: (examples, bytes) of every shard of each split, in order.
    """
    info = {
        "name": name,
        "version": "1.0.0",
        "description": f"Records of the source {name}, made by Millrace.",
        "fileFormat": "tfrecord",
        "splits": [
            {
                "name": split,
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                "shardLengths": [str(examples) for examples, _ in lengths],
                "numBytes": str(sum(size for _, size in lengths)),
            }
            for split, lengths in sorted(shards.items())
        ],
    }
    schema = {
        "pythonClassName": f"{TFDS}.features_dict.FeaturesDict",
        "featuresDict": {"features": {name: _connector(feature) for name, feature in sorted(features.items())}},
    }
    labels = {
        f"{name}.labels.txt": "".join(f"{label}\n" for label in feature.classes).encode()
        for name, feature in features.items()
        if feature.classes is not None and feature.kind in CLASSED
    }
    return {"dataset_info.json": pretty(info), "features.json": pretty(schema), **labels}


def _connector(feature: Feature) -> dict[str, Any]:
    """Return the tfds description of a feature; sizes are strings, as protobuf's JSON has 64-bit integers."""
    connector = column_type(feature).connector()
    return {**connector, "pythonClassName": f"{TFDS}.{connector['pythonClassName']}"}
