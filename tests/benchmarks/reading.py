"""Shuffled batches (2 kB rows, batch 64) against TFRecord + parse_example + shuffle(10k); resume at step 10^9.

Goal: the dataset at least 3 times as fast. It reads the files' own pages, here in the page cache: what is mapped and
what is in memory are one. CPU time is the figure to judge by where others work on the machine.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from tasks.feed import open_snapshot
from tasks.feed.snapshot_reader import SnapshotReader
from tests.benchmarks.pairs import compare

ROWS, WIDTH, BATCH = 40_000, 1024, 64
STEPS = ROWS // BATCH


def write(folder: Path) -> None:
    """The same rows as TFRecord and as a snapshot."""
    tokens = np.random.default_rng(1).integers(0, 50_000, (ROWS, WIDTH)).astype(np.uint16)
    with tf.io.TFRecordWriter(str(folder / "rows.tfrecord")) as writer:
        for row in tokens:
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row.tobytes()]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"tokens": feature})).SerializeToString())
    (folder / "snapshot/train").mkdir(parents=True)
    buffer = io.BytesIO()
    np.save(buffer, tokens)
    path = folder / "snapshot/train/tokens-00000-of-00001.npy"
    path.write_bytes(buffer.getvalue())
    manifest = {
        "format": 1,
        "kind": "snapshot",
        "digest": "0" * 64,
        "counts": {"train": ROWS},
        "features": {"tokens": {"dtype": "uint16", "shape": [WIDTH]}},
        "files": [{"path": "train/tokens-00000-of-00001.npy", "bytes": path.stat().st_size}],
    }
    (folder / "snapshot/manifest.json").write_text(json.dumps(manifest))


def usual(folder: Path) -> tf.data.Dataset:
    """TFRecord, a shuffle buffer of 10,000, batches parsed at once."""
    spec = {"tokens": tf.io.FixedLenFeature([], tf.string)}
    dataset = tf.data.TFRecordDataset(str(folder / "rows.tfrecord")).shuffle(10_000, seed=1).batch(BATCH)
    parse = lambda rows: tf.io.decode_raw(tf.io.parse_example(rows, spec)["tokens"], tf.uint16)  # noqa: E731
    return dataset.map(parse).prefetch(2)


def drain(dataset: tf.data.Dataset) -> None:
    """One epoch."""
    for _ in dataset:
        pass


def main() -> None:
    """Reading, then resuming."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        snapshot = open_snapshot(folder / "snapshot")
        held = np.array(snapshot.arrays("train")["tokens"])

        def in_memory() -> None:
            from tasks.feed.orders import batch_rows

            for step in range(0, STEPS, 8):
                rows, _ = batch_rows(step, BATCH, ROWS, 1, steps=8)
                for row in rows:
                    held[row]

        ways = {
            "TFRecord + parse_example + shuffle(10k)": lambda: drain(usual(folder)),
            "snapshot, mapped, tf.data (goal 3.0)": lambda: drain(snapshot.dataset("train", BATCH, seed=1, stop=STEPS)),
            "snapshot, mapped, numpy": lambda: list_of(snapshot),
            "snapshot, in memory, numpy": in_memory,
            "tf.data, nothing read: the floor": lambda: drain(tf.data.Dataset.range(STEPS)),
        }
        compare("reading an epoch of shuffled batches, CPU time", ways, clock=time.process_time)
        compare("reading an epoch of shuffled batches, wall time", ways)
        for start in (0, 10**9, 0, 10**9, 0, 10**9, 0, 10**9, 0, 10**9):
            began = time.perf_counter()
            next(iter(snapshot.dataset("train", BATCH, seed=1, start=start)))
            print(f"  first batch at step {start:>10}: {1e3 * (time.perf_counter() - began):.1f} ms")


def list_of(snapshot: SnapshotReader) -> None:
    """One epoch in numpy."""
    for _ in snapshot.reader("train", BATCH, seed=1).batches(stop=STEPS):
        pass


if __name__ == "__main__":
    main()
