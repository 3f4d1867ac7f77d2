"""TFRecord files of records compared with protobuf and TensorFlow, and damaged ones."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.sources import encoding
from tasks.sources.encoding import values_of
from tasks.sources.record_files import RecordFile, decode, frames, masked

NAMES = st.text(max_size=10)
BYTES, FLOATS = st.binary(max_size=300), st.floats(width=32, allow_nan=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
COLUMNS = st.dictionaries(
    NAMES, st.sampled_from([BYTES, FLOATS, INTEGERS, st.tuples(FLOATS, FLOATS)]), min_size=1, max_size=6
)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Columns of equal length by name."""
    columns, count = draw(COLUMNS), draw(st.integers(1, 5))
    return {name: draw(st.lists(kind, min_size=count, max_size=count)) for name, kind in columns.items()}


def serialised(columns: dict[str, list[Any]]) -> list[bytes]:
    entries = {}
    for name, values in columns.items():
        if isinstance(values[0], bytes):
            entries[name] = encoding.bytes_entry(name, pa.array(values, pa.large_binary()))
        elif isinstance(values[0], int):
            entries[name] = encoding.integer_entry(name, np.array(values, np.int64))
        else:
            entries[name] = encoding.floats_entry(name, np.array(values, np.float32).reshape(len(values), -1))
    return values_of(encoding.examples(entries))


def write(path: Path, payloads: list[bytes]) -> NDArray[np.int64]:
    """Write a file of these payloads; return the size of each frame."""
    frames, sizes = encoding.framed(pa.array(payloads, pa.large_binary()))
    path.write_bytes(frames)
    return sizes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Ten frames of 4 to 900,004 bytes."""
    path = tmp_path / "file.tfrecord"
    write(path, [b"head" + bytes([number]) * (number * 100_000) for number in range(10)])
    return path


def protobuf(columns: dict[str, list[Any]], row: int) -> Any:
    import tensorflow as tf

    message = tf.train.Example()
    for name, values in columns.items():
        feature, value = message.features.feature[name], values[row]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif isinstance(value, int):
            feature.int64_list.value.append(value)
        else:
            feature.float_list.value.extend(value if isinstance(value, tuple) else [value])
    return message


@settings(max_examples=150, deadline=None)
@given(columns=batches())
def test_protobuf_reads_every_example(columns: dict[str, list[Any]]) -> None:
    for row, payload in enumerate(serialised(columns)):
        message = protobuf(columns, row)
        assert type(message).FromString(payload) == message


@settings(max_examples=150, deadline=None)
@given(columns=batches())
def test_what_is_encoded_is_decoded(columns: dict[str, list[Any]]) -> None:
    for row, payload in enumerate(serialised(columns)):
        decoded = decode(payload)
        assert decoded.keys() == columns.keys()
        for name, values in columns.items():
            expected = [values[row]] if isinstance(values[row], bytes) else np.array(values[row]).reshape(-1)
            np.testing.assert_array_equal(decoded[name], expected)


def test_large_payloads_and_numbers_are_protobufs_own_bytes() -> None:
    columns = {"a": [b"x" * 10**6, b""], "b": [3, -1], "c": [0.5, 0.25], "e": [tuple(range(5000))] * 2}
    columns["e"] = [tuple(map(float, values)) for values in columns["e"]]  # type: ignore[arg-type]
    for row, payload in enumerate(serialised(columns)):
        assert payload == protobuf(columns, row).SerializeToString(deterministic=True)


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


def test_any_changed_byte_of_a_stream_is_found() -> None:
    """As compressed files and ranges of a file are read: there is no index to compare with."""
    payloads = [b"first", b"", b"third one"]
    content = b"".join(
        struct.pack("<Q", len(payload))
        + masked(google_crc32c.value(struct.pack("<Q", len(payload))))
        + payload
        + masked(google_crc32c.value(payload))
        for payload in payloads
    )
    assert list(frames(io.BytesIO(content).read, "file")) == payloads
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        with pytest.raises(Failed, match=r"file at byte \d+: a (header|payload)"):
            list(frames(io.BytesIO(bytes(changed)).read, "file"))
    for end in set(range(len(content))) - {0, 21, 37}:
        with pytest.raises(Failed, match="that is cut"):
            list(frames(io.BytesIO(content[:end]).read, "file"))


def test_an_empty_file_has_no_frames(tmp_path: Path) -> None:
    assert len(write(tmp_path / "empty", [])) == 0
    assert len(RecordFile(tmp_path / "empty", np.zeros(1, "<u8"))) == 0


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
