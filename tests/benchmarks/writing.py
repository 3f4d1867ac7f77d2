"""Record writing in CPU time, checksums included, against `tf.train.Example(features=...)` and `TFRecordWriter`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.data.tfrecord import RecordWriter, encode
from tests.benchmarks.pairs import compare


def theirs(path: Path, rows: list[dict[str, Any]]) -> None:
    """The usual way."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
                if isinstance(value, bytes)
                else tf.train.Feature(int64_list=tf.train.Int64List(value=np.atleast_1d(value)))
                for name, value in row.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def ours(path: Path, rows: list[dict[str, Any]]) -> None:
    """Our wire format and framing."""
    with RecordWriter(path) as writer:
        for row in rows:
            writer.write(encode(row))


def main() -> None:
    """All three kinds of rows."""
    random = np.random.default_rng(1)
    text = [{"key": b"k%06d" % n, "text": random.bytes(12_000)} for n in range(2_000)]
    tokens = [random.integers(0, 50_000, 512).astype(np.uint16) for _ in range(4_000)]
    jpeg = [{"key": b"k%06d" % n, "image": random.bytes(43_000), "label": n % 10} for n in range(1_000)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        raw = [{"key": b"k%06d" % n, "tokens": row.tobytes()} for n, row in enumerate(tokens)]
        lists = [{"key": b"k%06d" % n, "tokens": row} for n, row in enumerate(tokens)]
        cases = {"text, 12 kB": (text, text), "512 tokens": (raw, lists), "JPEG, 43 kB": (jpeg, jpeg)}
        for title, (rows, usual) in cases.items():
            compare(
                f"writing {title}, CPU time",
                {
                    "tf.train.Example + TFRecordWriter": lambda usual=usual: theirs(out / "a", usual),
                    "ours": lambda rows=rows: ours(out / "b", rows),
                },
                clock=time.process_time,
            )


if __name__ == "__main__":
    main()
