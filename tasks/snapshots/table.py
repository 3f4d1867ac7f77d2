"""The snapshot of rows of any columns, each changed by its transform (`snapshot.transforms`).

Transforms are fitted on the train split in one pass, and applied by `tasks.reader`, which exports carry too: what
a raw row becomes in serving is what it became in training.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome
from tasks.config.task import LABEL, OUTPUT, TARGET, WEIGHT
from tasks.errors import Failed, Refused
from tasks.reader import DESCRIPTION, Reader, Unusable
from tasks.reader.categories import UNKNOWN
from tasks.records.arrays import ArrayWriter, row_bytes
from tasks.records.reading import RecordsReader, missing_of, typed
from tasks.snapshots import LENGTHS, ArrayShard, Progress, lineage_of, parts_of, tags, text, write_array, write_hashes
from tasks.snapshots.fitting import Layout, choose, fit, lay_out, target_names
from tasks.snapshots.transforms import Transform, own_array
from tasks.snapshots.transforms.function import own_code, reader_files
from tasks.snapshots.transforms.statistics import Moments
from tasks.sources.features import PREDICTED, Feature, of_role
from tasks.store.files import pretty
from tasks.store.staging import TEMPORARY

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.processes.workbench import Workbench

log = logging.getLogger(__name__)

TRAIN = "train"
ROWS = {"image": 32, "audio": 32, "text": 512, "words": 512}
"""Rows of a batch with a column of this kind; of others `MOST_ROWS`."""
MOST_ROWS = 4096
READ = ("input", *PREDICTED, WEIGHT)
"""Roles of the columns that are read."""
BATCH_BYTES = 16 << 20
"""Bytes of the arrays of a batch, at most, or one row; `threads` + 1 batches are held."""
PLAIN_REMEDY = "of images with more than 8 bits choose the levels (snapshot: range), else see what they are"

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch:
    """Some rows of a part: the first one's number in the split, and their columns."""

    part: ArrayShard
    start: int
    table: pa.Table


@dataclass(frozen=True)
class Made:
    """The arrays of a batch, and what was counted."""

    part: ArrayShard
    rows: int
    arrays: dict[str, NDArray[Any]]
    counts: dict[str, Counter[str]]
    """By column, how many values are `missing` or `unknown`, and how many images are `plain`, with pixels that are all
    equal; how many `words` there are, are cut and unknown, of all columns of words."""


def build(bench: Workbench, records: RecordsReader, transforms: Mapping[str, Transform], shards: int) -> Outcome:
    """Preprocess records to `numbers` float32 [n], `categories` int32 [m], an array for each other input, and `label`
    int64 [] (of tags int32 [length]), `target` float32 [k] and `weight` float32 [], where the records have them.

    Returns counts (rows of each split), features (layout by name; of float32 arrays mean and variance over the train
    split, by which a model standardises) and statistics (shares of missing and unknown values, what was fitted).

    Raises:
        Refused: a transform does not fit its column, or names collide.
        Failed: a value cannot be transformed; the error names the example.
    """
    text.pin(bench.threads)
    layout, summaries = _fitted(bench, records, transforms)
    total = sum(records.counts.values())
    bench.staging.reserve(total * row_bytes(layout.features))
    reader = Reader.open(bench.staging.root / "transform")
    report = Progress(bench, total, "examples", MOST_ROWS)
    shares, words, images = {}, dict[str, Counter[str]](), Counter[str]()
    for split, count in sorted(records.counts.items()):
        parts = parts_of(split, count, shards)
        write_hashes(bench, records.row_hashes(split), split)
        for part in parts:
            for name, array in lineage_of(np.arange(part.start, part.stop, dtype=np.int64)).items():
                write_array(bench, part.file(name), array)
        unfinished = [part for part in parts if not _is_finished(bench, layout, part)]
        report.finish(count - sum(part.stop - part.start for part in unfinished))
        _write(bench, records, reader, layout, unfinished, report)
        counts = [json.loads((bench.staging.root / _counts_of(part)).read_bytes()) for part in parts]
        shares[split] = {
            what: {name: sum(each[what].get(name, 0) for each in counts) / count for name in reader.columns}
            for what in ("missing", "unknown")
        }
        words[split] = sum((Counter(each["words"]) for each in counts), Counter[str]())
        images += sum((Counter(each["plain"]) for each in counts), Counter[str]())
    for name, plain in images.items():
        if plain > total / 2:
            log.warning("%s: the pixels of %d of %d images are all equal; %s", name, plain, total, PLAIN_REMEDY)
    features = dict(layout.features)
    if features.get(LABEL, {}).get("shape"):
        features[LABEL] = {**features[LABEL], tags.CUT: {split: each[tags.CUT] for split, each in words.items()}}
    return Outcome(
        counts=dict(records.counts),
        features=features,
        statistics={
            "transforms": {
                name: {
                    **summary,
                    "missing": {split: share["missing"][name] for split, share in shares.items()},
                    "unknown": {split: share["unknown"][name] for split, share in shares.items()},
                }
                for name, summary in summaries.items()
            },
            "metrics": {
                **{f"snapshot/{split}": count for split, count in records.counts.items()},
                **{
                    f"snapshot/{split}/{what}": float(np.mean(list(of_column.values())))
                    for split, share in shares.items()
                    for what, of_column in share.items()
                },
                **{
                    f"snapshot/{split}/{what}": share
                    for split, each in words.items()
                    for what, share in tags.shares_of(each).items()
                },
            },
        },
    )


def transformed(records: RecordsReader, transform: Path) -> Iterator[int]:
    """Transform the train split by a fitted state; yield the rows of each batch."""
    reader = Reader.open(transform)
    description = json.loads((transform / DESCRIPTION).read_bytes())
    layout = Layout(description["arrays"], description)
    for batch in _batches(records, layout, parts_of(TRAIN, records.counts[TRAIN], 1)):
        yield _make(records, reader, layout, batch).rows


def _fitted(bench: Workbench, records: RecordsReader, given: Mapping[str, Transform]) -> tuple[Layout, dict[str, Any]]:
    """Fit the transforms, or take what an earlier attempt fitted; return the layout, and a summary by column."""
    name = f"transform/{DESCRIPTION}"
    note = bench.staging.adopt(name)
    if note is None:
        transforms = choose(records.features, given)
        for file, content in own_code(transforms).items():
            bench.staging.put(f"transform/{file}", content)
        targets, further = of_role(records.features, "target"), of_role(records.features, "output")
        numbers = {name: {name: each} for name, each in further.items() if each.kind == "number"}
        groups = {TARGET: targets, **numbers} if targets else numbers
        moments = {name: Moments((len(target_names(group)),)) for name, group in groups.items()}

        def read(names: list[str]) -> Iterator[pa.Table]:
            if not (wanted := [*names, *targets, *numbers]):
                return
            for table in records.tables(TRAIN, wanted, _rows_of(records.features, wanted)):
                for name, group in groups.items():
                    moments[name].add(_target(table, group))
                yield table

        fitted = fit(transforms, records.features, read, bench.staging.root / "transform")
        source = records.manifest.get("inputs", {}).get("config", {}).get("source", {})
        layout = lay_out(records.features, fitted, source)
        files = reader_files(transform.kind for transform in transforms.values())
        for each in fitted.values():
            files |= each.files
        for file, content in files.items():
            bench.staging.put(f"transform/{file}", content)
        outputs = _outputs(records, layout, moments)
        features = {**layout.features, **outputs}
        summaries = {column: {"kind": each.state["kind"], **each.summary} for column, each in fitted.items()}
        note = {"features": features, "summaries": summaries}
        bench.staging.put(name, pretty(layout.description), **note)  # the last one: with it all are there
    description = json.loads((bench.staging.root / name).read_bytes())
    return Layout(note["features"], description), note["summaries"]


def _outputs(records: RecordsReader, layout: Layout, moments: Mapping[str, Moments]) -> dict[str, dict[str, Any]]:
    """Return the features of label, target, further outputs and weight; `moments` are those of the numbers that are
    predicted over the train split, of `target` or by column."""
    outputs: dict[str, dict[str, Any]] = {}
    further = of_role(records.features, "output")
    for name, feature in of_role(records.features, "label").items():
        outputs[LABEL] = _of_classes(feature)
        if feature.kind == "tags":
            outputs[LABEL] |= {"dtype": "int32", "shape": [_length(records, layout)]}
        if further:
            outputs[LABEL]["column"] = name
    if names := target_names(of_role(records.features, "target")):
        outputs[TARGET] = _of_numbers(names, "target", moments[TARGET])
    for name, feature in further.items():
        if (array := f"{OUTPUT}{own_array(name)}") in {*layout.features, *outputs}:
            raise Refused("source.columns", name, f"another column's array is called {array}", "rename the column")
        described = _of_classes(feature) if feature.kind == "label" else _of_numbers([name], "output", moments[name])
        outputs[array] = {**described, "column": name}
    if of_role(records.features, "weight"):
        outputs[WEIGHT] = {"dtype": "float32", "shape": [], "role": "weight"}
    return outputs


def _of_classes(feature: Feature) -> dict[str, Any]:
    return {"dtype": "int64", "shape": [], "classes": list(feature.classes or ()), "role": feature.role}


def _of_numbers(names: list[str], role: str, moments: Moments) -> dict[str, Any]:
    return {"dtype": "float32", "shape": [len(names)], "names": names, "role": role, **moments.as_json()}


def _length(records: RecordsReader, layout: Layout) -> int:
    """Return the length of the rows of words."""
    return tags.length_of(records.features, layout.features, layout.description["transforms"])


def _is_finished(bench: Workbench, layout: Layout, part: ArrayShard) -> bool:
    """Return whether an earlier attempt wrote all arrays of a part."""
    files = [_counts_of(part), *(part.file(name) for name in _stored(layout))]
    return all(bench.staging.adopt(file) is not None for file in files)


def _write(
    bench: Workbench, records: RecordsReader, reader: Reader, layout: Layout, parts: list[ArrayShard], report: Progress
) -> None:
    """Write the arrays of some parts of a split."""
    made = in_order(
        lambda batch: _make(records, reader, layout, batch), _batches(records, layout, parts), bench.threads
    )
    for part, batches in groupby(made, key=lambda each: each.part):
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        with ExitStack() as stack:
            writers: dict[str, ArrayWriter] = {}
            for name, feature in _stored(layout).items():
                path = stack.enter_context(bench.staging.piece(part.file(name))).path
                shape = (part.stop - part.start, *feature["shape"])
                writers[name] = stack.enter_context(ArrayWriter(path, feature["dtype"], shape))
            for batch in batches:
                for name, array in batch.arrays.items():
                    writers[name].append(array)
                for what, found in batch.counts.items():
                    counts[what] += found
                report.finish(batch.rows)
        bench.staging.put(_counts_of(part), pretty(counts))


def _batches(records: RecordsReader, layout: Layout, parts: list[ArrayShard]) -> Iterator[Batch]:
    """Yield the rows of these parts in order, none of two parts together."""
    names = [name for name, feature in records.features.items() if feature.role in READ]
    size = max(1, min(MOST_ROWS, BATCH_BYTES // row_bytes(layout.features)))
    rows = min(size, _rows_of(records.features, names))
    for part in parts:
        start = part.start
        for table in records.tables(part.split, names, rows, part.start, part.stop):
            yield Batch(part, start, table)
            start += table.num_rows


def _make(records: RecordsReader, reader: Reader, layout: Layout, batch: Batch) -> Made:
    """Return the arrays of a batch; raises `Failed` naming the example."""
    table, split = batch.table, batch.part.split
    inputs = of_role(records.features, "input")
    values = {name: typed(table[name], feature) for name, feature in inputs.items()}
    try:
        arrays = reader.apply(values, table.num_rows)
    except Unusable as error:
        key = records.key(split, batch.start + error.row)
        raise Failed(key, f"{error.column}: {error.saw}", error.rule, "fix it, or leave it out") from error
    except ValueError as error:
        raise Failed("snapshot.transforms", str(error), "a transform must take every row", "correct it") from error
    for name, feature in of_role(records.features, "label").items():
        labels = typed(table[name], feature)
        arrays[LABEL] = labels if feature.kind == "label" else tags.padded_tags(labels, _length(records, layout))
    if targets := of_role(records.features, "target"):
        arrays[TARGET] = _target(table, targets)
    for name, feature in of_role(records.features, "output").items():
        number = feature.kind == "number"
        answers = _target(table, {name: feature}) if number else typed(table[name], feature)
        arrays[f"{OUTPUT}{own_array(name)}"] = answers
    for name, feature in of_role(records.features, "weight").items():
        arrays[WEIGHT] = typed(table[name], feature)
    if texts := padded(layout.features):
        lengths = [np.count_nonzero(arrays[name] != padding, axis=1) for name, padding in texts.items()]
        arrays[LENGTHS] = np.max(lengths, axis=0).astype(np.int32)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))[0])
            saw = f"{name} {array[row].tolist()}"
            raise Failed(records.key(split, batch.start + row), saw, "must be finite", "fix it, or leave it out")
    unknown = {
        place["column"]: int((arrays[place["array"]][:, place["start"]] == UNKNOWN).sum())
        for place in _places(layout, "vocabulary")
    }
    plain = {  # from which nothing can be learnt
        place["column"]: int((np.ptp(arrays[place["array"]], axis=(1, 2, 3)) == 0).sum())
        for place in _places(layout, "image")
    }
    words = (tags.counted(values[place["column"]], arrays[place["array"]]) for place in _places(layout, "words"))
    counts = {
        "missing": Counter({name: missing_of(values[name], feature) for name, feature in inputs.items()}),
        "unknown": Counter(unknown),
        "words": sum(words, Counter[str]()),
        "plain": Counter(plain),
    }
    return Made(batch.part, table.num_rows, arrays, counts)


def _places(layout: Layout, kind: str) -> list[dict[str, Any]]:
    """Return where the results of the transforms of a kind are."""
    states = layout.description["transforms"]
    return [place for place in layout.description["layout"] if states[place["column"]]["kind"] == kind]


def _stored(layout: Layout) -> dict[str, dict[str, Any]]:
    """Return dtype and shape of an example's arrays: the features, and the length of the longest text."""
    lengths = {LENGTHS: {"dtype": "int32", "shape": []}} if padded(layout.features) else {}
    return layout.features | lengths


def padded(features: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the id of padding of each text's tokens, by feature."""
    return {name: feature["padding"] for name, feature in features.items() if "padding" in feature}


def _target(table: pa.Table, targets: dict[str, Feature]) -> NDArray[np.float32]:
    """Return the targets of rows, float32 [rows, targets]."""
    columns = [typed(table[name], feature).reshape(table.num_rows, -1) for name, feature in targets.items()]
    return np.concatenate(columns, axis=1)


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield the results of work in the order of the items, which `threads` threads do; few are held."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _rows_of(features: dict[str, Feature], names: list[str]) -> int:
    return min((ROWS.get(features[name].kind, MOST_ROWS) for name in names), default=MOST_ROWS)


def _counts_of(part: ArrayShard) -> str:
    return f"{TEMPORARY}{part.split}-{part.number:05d}.json"
