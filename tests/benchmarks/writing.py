"""Record writing in CPU time, checksums included, against `tf.train.Example(features=...)` and `TFRecordWriter`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.data.features import Feature
from tasks.data.wire import RecordWriter, encode
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


def ours(path: Path, features: dict[str, Feature], rows: list[dict[str, Any]]) -> None:
    """Our wire format and framing."""
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for row in rows:
            writer.write(encode(features, row))


def main() -> None:
    """All three kinds of rows."""
    random = np.random.default_rng(1)
    key = Feature("bytes", "bytes")
    text = [{"key": b"k%06d" % n, "text": random.bytes(12_000)} for n in range(2_000)]
    tokens = [random.integers(0, 50_000, 512).astype(np.uint16) for _ in range(4_000)]
    jpeg = [{"key": b"k%06d" % n, "image": random.bytes(43_000), "label": n % 10} for n in range(1_000)]
    payload = Feature("bytes", "bytes")
    label = Feature("label", "int64", classes=tuple("0123456789"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        cases = {
            "text, 12 kB": ({"key": key, "text": payload}, text, text),
            "512 tokens": (
                {"key": key, "tokens": payload},
                [{"key": b"k%06d" % n, "tokens": row.tobytes()} for n, row in enumerate(tokens)],
                [{"key": b"k%06d" % n, "tokens": row} for n, row in enumerate(tokens)],
            ),
            "JPEG, 43 kB": ({"key": key, "image": payload, "label": label}, jpeg, jpeg),
        }
        for title, (features, rows, usual) in cases.items():
            compare(
                f"writing {title}, CPU time",
                {
                    "tf.train.Example + TFRecordWriter": lambda usual=usual: theirs(out / "a", usual),
                    "ours": lambda features=features, rows=rows: ours(out / "b", features, rows),
                },
                clock=time.process_time,
            )


if __name__ == "__main__":
    main()
