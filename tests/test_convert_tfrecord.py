"""TFRecord files of records compared with protobuf and TensorFlow, and damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.data.features import Value
from tasks.data.tfrecord import RecordFile, RecordWriter, decode, encode
from tasks.errors import Failed

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40).map(lambda values: np.array(values, np.int64))
FLOATS = st.lists(st.floats(width=32, allow_nan=False), max_size=40).map(lambda values: np.array(values, np.float32))
EXAMPLES = st.dictionaries(st.text(max_size=10), st.binary(max_size=300) | INTEGERS | FLOATS, min_size=1, max_size=6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Ten frames of 0 to 900,000 bytes."""
    path = tmp_path / "file.tfrecord"
    with RecordWriter(path) as writer:
        for number in range(10):
            writer.write([b"head", bytes([number]) * (number * 100_000)])
    return path


def protobuf(example: dict[str, Value]) -> Any:
    import tensorflow as tf

    message = tf.train.Example()
    for name, value in example.items():
        feature = message.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif np.asarray(value).dtype.kind == "f":
            feature.float_list.SetInParent()
            feature.float_list.value.extend(np.asarray(value).ravel().tolist())
        else:
            feature.int64_list.SetInParent()
            feature.int64_list.value.extend(np.asarray(value).ravel().tolist())
    return message


@settings(max_examples=150, deadline=None)
@given(example=EXAMPLES)
def test_protobuf_reads_every_example(example: dict[str, Value]) -> None:
    message = protobuf(example)
    assert type(message).FromString(b"".join(encode(example))) == message


@settings(max_examples=150, deadline=None)
@given(example=EXAMPLES)
def test_what_is_encoded_is_decoded(example: dict[str, Value]) -> None:
    decoded = decode(b"".join(encode(example)))
    assert decoded.keys() == example.keys()
    for name, value in example.items():
        if isinstance(value, bytes):
            assert decoded[name] == [value]
        else:
            np.testing.assert_array_equal(decoded[name], value)


def test_large_payloads_and_scalars_are_protobufs_own_bytes() -> None:
    for example in ({"a": b"x" * 10**6, "b": 3}, {"b": -1, "c": 0.5}, {"e": np.arange(5000).reshape(50, 100)}):
        assert b"".join(encode(example)) == protobuf(example).SerializeToString(deterministic=True)


def test_files_are_tensorflows_own_bytes(file: Path, tmp_path: Path, tf: Any) -> None:
    frames = list(RecordFile(file))
    assert [raw.numpy() for raw in tf.data.TFRecordDataset(str(file))] == frames
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for frame in frames:
            writer.write(frame)
    assert (tmp_path / "theirs").read_bytes() == file.read_bytes()


def test_a_frame_is_found_by_its_offset(file: Path) -> None:
    whole = RecordFile(file)
    indexed = RecordFile(file, whole.offsets)
    assert len(indexed) == 10
    assert [len(indexed[number]) for number in (9, 0, 5)] == [900_004, 4, 500_004]


def test_an_empty_file_has_no_frames(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "empty") as writer:
        pass
    assert writer.offsets.tolist() == [0]
    assert len(RecordFile(tmp_path / "empty", writer.offsets)) == 0


@pytest.mark.parametrize("cut", ["in a payload", "in a header", "between frames", "to nothing"])
def test_a_cut_file_is_named(file: Path, cut: str) -> None:
    """TensorFlow reads the last three of these in silence, short."""
    offsets = RecordFile(file).offsets
    length = {
        "in a payload": -100,
        "in a header": int(offsets[-2]) + 5,
        "between frames": int(offsets[-2]),
        "to nothing": 0,
    }
    file.write_bytes(file.read_bytes()[: length[cut]])
    with pytest.raises(Failed, match=f"{file.name} at byte"):
        RecordFile(file, offsets)


@pytest.mark.parametrize(("place", "saw"), [(0, "header"), (9, "header"), (14, "payload"), (-2, "payload")])
def test_a_flipped_bit_is_named_with_its_offset(file: Path, place: int, saw: str) -> None:
    offsets = RecordFile(file).offsets
    content = bytearray(file.read_bytes())
    content[int(offsets[7]) + place if place >= 0 else int(offsets[8]) + place] ^= 4
    file.write_bytes(content)
    frames = RecordFile(file, offsets)
    assert len(frames[6]) == 600_004
    with pytest.raises(Failed, match=rf"byte {offsets[7]}: a {saw}"):
        frames[7]
