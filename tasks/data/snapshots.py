"""Records to a snapshot: fixed-layout arrays (contract 7), made by a tf.data pipeline.

TensorFlow is imported inside functions: the flow's process reads the constants here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks import runtime
from tasks.artifacts import Records
from tasks.config import SnapshotConfig
from tasks.data.arrays import ArrayWriter
from tasks.data.features import Feature
from tasks.data.reading import RecordsReader
from tasks.errors import Failed
from tasks.store.files import pretty
from tasks.workbench import Outcome, Workbench

if TYPE_CHECKING:
    import tensorflow as tf

SNAPSHOT_VERSION = 1
SNAPSHOT_LIBRARIES = ("numpy", "tensorflow")

BATCH = 64
"""Records of one Python call, and examples of one write."""
BATCH_BYTES = 32 << 20
"""Examples of a write are fewer where they are large."""


@dataclass(frozen=True)
class Column:
    """One feature of the snapshot: dtype and shape of each example."""

    dtype: str
    shape: tuple[int, ...]
    classes: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape)}
        return found if self.classes is None else {**found, "classes": list(self.classes)}


@dataclass(frozen=True)
class Part:
    """One shard of a split: the rows [start, stop)."""

    split: str
    number: int
    total: int
    start: int
    stop: int

    def file(self, name: str) -> str:
        return f"{self.split}/{name}-{self.number:05d}-of-{self.total:05d}.npy"


def build(bench: Workbench, records: Records, config: SnapshotConfig) -> Outcome:
    """Preprocess records to images uint8 [height, width, channels] and labels int64 [].

    Counts: rows of each split; features: dtype, shape and classes by name. Row i is record i of its split, and
    `origin` and `pieces` say so. Raises `Failed` for records without an image or with one that TensorFlow cannot
    decode.
    """
    runtime.pin(bench.threads)
    reader = RecordsReader(records.path)
    columns = columns_of(reader.features, config)
    parts = [part for split, count in reader.counts.items() for part in parts_of(split, count, config.shards)]
    rows = sum(reader.counts.values())
    done = 0
    for part in parts:
        _write(bench, reader, columns, config, part)
        done += part.stop - part.start
        bench.progress(done, rows, "examples")
    bench.staging.put("transform/image.json", pretty(transform(columns, config)))
    return Outcome(
        counts=dict(reader.counts),
        features={name: column.as_json() for name, column in columns.items()},
        statistics={"metrics": {f"snapshot/{split}": count for split, count in reader.counts.items()}},
    )


def columns_of(features: dict[str, Feature], config: SnapshotConfig) -> dict[str, Column]:
    """The layout that the config gives to these records."""
    if (image := features.get("image")) is None or image.kind != "image":
        raise Failed(
            "snapshot.kind",
            config.kind,
            f"needs a feature image, the records have {', '.join(features)}",
            "choose a source of images",
        )
    columns = {"image": Column("uint8", (config.height, config.width, config.channels))}
    if (label := features.get("label")) is not None:
        columns["label"] = Column("int64", (), label.classes)
    return columns


def parts_of(split: str, count: int, shards: int) -> list[Part]:
    """The rows of a split in at most `shards` files, none empty, all but the last of equal length."""
    each = -(-count // shards)
    total = -(-count // each)
    return [Part(split, number, total, number * each, min(count, (number + 1) * each)) for number in range(total)]


def transform(columns: dict[str, Column], config: SnapshotConfig) -> dict[str, Any]:
    """How raw input becomes the model's input and what its outputs mean; travels with every export."""
    return {
        "kind": config.kind,
        "height": config.height,
        "width": config.width,
        "channels": config.channels,
        "dtype": "uint8",
        "resize": "bilinear, antialiased",
        "classes": list(columns["label"].classes or ()) if "label" in columns else [],
    }


def _write(
    bench: Workbench, reader: RecordsReader, columns: dict[str, Column], config: SnapshotConfig, part: Part
) -> None:
    """The files of one shard, but those that an earlier attempt finished."""
    rows = np.arange(part.start, part.stop, dtype=np.int64)
    ones, zeros = np.ones_like(rows), np.zeros_like(rows)
    lineage = {"origin": np.stack([rows, ones], axis=1), "pieces": np.stack([rows, zeros, ones, zeros], axis=1)}
    for name, array in lineage.items():
        if bench.staging.adopt(part.file(name)) is None:
            with (
                bench.staging.piece(part.file(name)) as piece,
                ArrayWriter(piece.path, array.dtype, array.shape) as writer,
            ):
                writer.append(array)

    missing = {name: column for name, column in columns.items() if bench.staging.adopt(part.file(name)) is None}
    if not missing:
        return
    with ExitStack() as stack:
        writers: dict[str, ArrayWriter] = {}
        for name, column in missing.items():
            path = stack.enter_context(bench.staging.piece(part.file(name))).path
            writers[name] = stack.enter_context(ArrayWriter(path, column.dtype, (len(rows), *column.shape)))
        for batch in preprocessed(reader, missing, config, part, bench.threads):
            for name, values in batch.items():
                writers[name].append(values)


def preprocessed(
    reader: RecordsReader, columns: dict[str, Column], config: SnapshotConfig, part: Part, threads: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """The part's rows in order, in batches of arrays by feature. Raises `Failed`, naming the example."""
    import tensorflow as tf

    damage: list[Failed] = []  # TensorFlow carries an exception out of a pipeline by its text alone

    def read(first: np.int64) -> NDArray[np.object_]:
        try:
            rows = range(int(first), min(int(first) + BATCH, part.stop))
            return np.array([reader.raw(part.split, row) for row in rows], dtype=object)
        except Failed as error:
            damage.append(error)
            raise

    def fetch(first: tf.Tensor) -> tf.Tensor:
        payloads = tf.numpy_function(read, [first], tf.string, stateful=False)
        payloads.set_shape([None])
        return payloads

    size = max(1, min(BATCH, BATCH_BYTES // sum(int(np.prod(column.shape)) for column in columns.values())))
    dataset = (
        tf.data.Dataset.range(part.start, part.stop, BATCH)
        .map(fetch)
        .map(lambda payloads: _parse(payloads, columns))
        .unbatch()
        .map(lambda example: _example(example, config), num_parallel_calls=threads, deterministic=True)
        .batch(size)
        .prefetch(1)
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.autotune.enabled = False
    done = part.start
    try:
        for batch in dataset.with_options(options).as_numpy_iterator():
            yield batch
            done += len(next(iter(batch.values())))
    except tf.errors.OpError as error:
        raise (damage[0] if damage else _blame(reader, columns, config, part, done, error)) from error


def _parse(payloads: tf.Tensor, columns: dict[str, Column]) -> dict[str, tf.Tensor]:
    import tensorflow as tf

    stored = {"image": tf.string, "label": tf.int64}
    return dict(tf.io.parse_example(payloads, {name: tf.io.FixedLenFeature([], stored[name]) for name in columns}))


def _example(example: dict[str, tf.Tensor], config: SnapshotConfig) -> dict[str, tf.Tensor]:
    """One example in the layout of the snapshot."""
    import tensorflow as tf

    if "image" not in example:
        return example
    shape = (config.height, config.width, config.channels)
    image = tf.io.decode_image(example["image"], channels=config.channels, expand_animations=False)
    image.set_shape([None, None, config.channels])

    def resized() -> tf.Tensor:
        pixels = tf.image.resize(image, shape[:2], method="bilinear", antialias=True)
        return tf.saturate_cast(tf.round(pixels), tf.uint8)

    # An image of the right size is passed on as it is: what is exact stays exact.
    image = tf.cond(tf.reduce_all(tf.shape(image)[:2] == shape[:2]), lambda: image, resized)
    return {**example, "image": tf.ensure_shape(image, shape)}


def _blame(
    reader: RecordsReader,
    columns: dict[str, Column],
    config: SnapshotConfig,
    part: Part,
    start: int,
    error: tf.errors.OpError,
) -> Failed:
    """The first example, from row `start` on, that the pipeline cannot take, as an error that names it."""
    import tensorflow as tf

    for row in range(start, part.stop):
        try:
            parsed = _parse(tf.constant([reader.raw(part.split, row)]), columns)
            _example({name: values[0] for name, values in parsed.items()}, config)
        except tf.errors.OpError as found:
            saw = found.message.splitlines()[0]
            return Failed(reader.key(part.split, row), saw, "TensorFlow must be able to decode it", "mend or remove it")
    return Failed(f"{reader.path} {part.split}", error.message, "the pipeline must run", "run again")
