"""The snapshot of images: uint8 arrays of one size, and labels or targets, made by a tf.data pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome, Records
from tasks.config import ImageSnapshot
from tasks.data.arrays import ArrayWriter
from tasks.data.features import Feature, of_role
from tasks.data.images import decode, is_normal, normalized, prepare
from tasks.data.reading import RecordsReader
from tasks.data.snapshots import Part, lineage_of, parts_of, write_array
from tasks.errors import Failed
from tasks.store.files import pretty

if TYPE_CHECKING:
    import tensorflow as tf

    from tasks.processes.workbench import Workbench

BATCH = 64
"""Records read by a Python call, and examples of a write, at most."""
READ_BYTES = 8 << 20
"""Bytes of records read by a Python call, at most, or one record; several copies are held."""
PIXELS = 64_000_000
"""Pixels of images that are decoded at the same time, at most."""
BATCH_BYTES = 32 << 20
"""Bytes of a write, at most."""
NORMAL = ".normal"
"""Internal feature of an example: whether TensorFlow decodes its image as it is."""


@dataclass(frozen=True)
class Column:
    """A feature of the snapshot: dtype and shape of an example."""

    dtype: str
    shape: tuple[int, ...]
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    """Names of a target's values."""
    made_of: tuple[str, ...] = ()
    """The features of the records that it is made of."""

    def as_json(self) -> dict[str, Any]:
        column_json: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape)}
        if self.names is not None:
            column_json["names"] = list(self.names)
        return column_json if self.classes is None else {**column_json, "classes": list(self.classes)}


def build(bench: Workbench, records: Records, config: ImageSnapshot) -> Outcome:
    """Preprocess records to images uint8 [height, width, channels], with labels int64 [] or targets float32 [targets].

    Returns counts (rows of each split) and features (dtype, shape and classes by name). Row i is record i of its split.

    Raises:
        Failed: the records have no image, or one that cannot be decoded.
    """
    reader = RecordsReader(records.path)
    columns = columns_of(reader.features, config)
    bench.staging.reserve(sum(reader.counts.values()) * config.height * config.width * config.channels)
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


def columns_of(features: dict[str, Feature], config: ImageSnapshot) -> dict[str, Column]:
    """Return the columns of the snapshot; raises `Failed` where the only input of the records is not an image."""
    inputs = of_role(features, "input")
    if [feature.kind for feature in inputs.values()] != ["image"]:
        rule = f"needs one input, an image, and the records have {', '.join(features)}"
        raise Failed("snapshot.kind", config.kind, rule, "choose a source of images, or snapshot.kind table")
    columns = {"image": Column("uint8", (config.height, config.width, config.channels), made_of=tuple(inputs))}
    for name, label in of_role(features, "label").items():
        columns["label"] = Column("int64", (), label.classes, made_of=(name,))
    if targets := tuple(of_role(features, "target")):
        columns["target"] = Column("float32", (len(targets),), names=targets, made_of=targets)
    for name in of_role(features, "weight"):
        columns["weight"] = Column("float32", (), made_of=(name,))
    return columns


def transform(columns: dict[str, Column], config: ImageSnapshot) -> dict[str, Any]:
    """Return the content of `transform/image.json`: the preprocessing of inputs, and the classes of outputs."""
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
    bench: Workbench, reader: RecordsReader, columns: dict[str, Column], config: ImageSnapshot, part: Part
) -> None:
    """Write the files of a shard, except those that an earlier attempt finished."""
    rows = np.arange(part.start, part.stop, dtype=np.int64)
    for name, array in lineage_of(rows).items():
        write_array(bench, part.file(name), array)
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
    reader: RecordsReader, columns: dict[str, Column], config: ImageSnapshot, part: Part, threads: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the part's rows in order, in batches of arrays by feature; raises `Failed`, naming the example."""
    import tensorflow as tf

    errors: list[Failed] = []  # TensorFlow passes on only the text of an exception

    def read(start: np.int64, stop: np.int64) -> NDArray[np.object_]:
        try:
            return np.array([reader.raw(part.split, row) for row in range(start, stop)], dtype=object)
        except Failed as error:
            errors.append(error)
            raise

    def fetch(group: tf.Tensor) -> tf.Tensor:
        payloads = tf.numpy_function(read, [group[0], group[1]], tf.string, stateful=False)
        payloads.set_shape([None])
        return payloads

    traced = tf.autograph.experimental.do_not_convert  # half of the time of a small part
    parallel = decoders(reader, part.split, threads)
    size = max(1, min(BATCH, BATCH_BYTES // sum(int(np.prod(column.shape)) for column in columns.values())))
    dataset = (
        tf.data.Dataset.from_tensor_slices(groups_of(reader, part))
        .map(traced(fetch))
        .map(traced(lambda payloads: _examine(_parse(payloads, columns))))
        .unbatch()
        .map(traced(lambda example: _example(example, config)), num_parallel_calls=parallel, deterministic=True)
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
        raise (errors[0] if errors else _first_bad_example(reader, columns, config, part, done, error)) from error


def groups_of(reader: RecordsReader, part: Part) -> NDArray[np.int64]:
    """Return the rows [start, stop) of each group of records that are read together, int64 [groups, 2]."""
    return np.array(reader.groups(part.split, part.start, part.stop, BATCH, READ_BYTES), np.int64).reshape(-1, 2)


def decoders(reader: RecordsReader, split: str, threads: int) -> int:
    """Return the number of images that are decoded at the same time: at most `threads`, and `PIXELS` or one image."""
    image = reader.single_input("image")
    shapes = reader.manifest["statistics"]["splits"].get(split, {}).get(image, {}).get("shapes", {})
    largest = max((int(np.prod([int(size) for size in shape.split("x")[:2]])) for shape in shapes), default=1)
    return max(1, min(threads, PIXELS // largest))


def _parse(payloads: tf.Tensor, columns: dict[str, Column]) -> dict[str, tf.Tensor]:
    import tensorflow as tf

    stored = {"image": tf.string, "label": tf.int64}
    layout = {
        feature: tf.io.FixedLenFeature([], stored.get(name, tf.float32))
        for name, column in columns.items()
        for feature in column.made_of
    }
    parsed = tf.io.parse_example(payloads, layout)
    values = {name: [parsed[feature] for feature in column.made_of] for name, column in columns.items()}
    return {
        name: tf.stack(of, axis=1) if columns[name].shape and name != "image" else of[0] for name, of in values.items()
    }


def _examine(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Add `NORMAL`, from the headers of the images: few others need a Python call each."""
    import tensorflow as tf

    if "image" not in batch:
        return batch

    def examine(images: NDArray[np.object_]) -> NDArray[np.bool_]:
        return np.array([is_normal(image) for image in images])

    normal = tf.numpy_function(examine, [batch["image"]], tf.bool, stateful=False)
    normal.set_shape([None])
    return {**batch, NORMAL: normal}


def _example(example: dict[str, tf.Tensor], config: ImageSnapshot) -> dict[str, tf.Tensor]:
    """Normalise the example's image, and decode it to the snapshot's size."""
    import tensorflow as tf

    if "image" not in example:
        return example
    image = example["image"]

    def normalize() -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(normalized, [image], tf.string, stateful=False), [])

    payload = tf.cond(example.pop(NORMAL), lambda: image, normalize)
    return {**example, "image": decode(payload, (config.height, config.width, config.channels))}


def _first_bad_example(
    reader: RecordsReader,
    columns: dict[str, Column],
    config: ImageSnapshot,
    part: Part,
    start: int,
    error: tf.errors.OpError,
) -> Failed:
    """Return an error that names the first bad example from row `start` on."""
    for row in range(start, part.stop):
        example = reader.example(part.split, row)
        try:
            if any(len(example.get(feature, ())) != 1 for column in columns.values() for feature in column.made_of):
                saw, rule = f"not one value for each of {', '.join(columns)}", "every record must have them"
                return Failed(reader.key(part.split, row), saw, rule, "convert again")
            if "image" in columns:
                [image] = columns["image"].made_of
                prepare(bytes(example[image][0]), transform(columns, config), reader.key(part.split, row))
        except Failed as failure:
            return failure
    return Failed(f"{reader.path} {part.split}", error.message, "the pipeline must run", "run again")
