"""Raw rows become in a fresh process, without our code, what they became in the snapshot, bit for bit."""

from __future__ import annotations

import io
import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tasks.config.task import SERVED_AS
from tasks.reader import Reader
from tasks.snapshots.transforms.layout import SHARED
from tests.support.kinds import FEATURES, ROWS, raw_row, transforms
from tests.support.tables import arrays, from_rows, read_elsewhere, snapshot


@dataclass(frozen=True)
class Shipped:
    """A snapshot's arrays of all kinds of transforms, and what a fresh process makes of raw rows."""

    folder: Path
    features: dict[str, Any]
    splits: dict[str, dict[str, np.ndarray]]
    rows: list[dict[str, Any]]
    columns: dict[str, str]
    answers: list[Any]


def broken(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Requests that are refused, by what the error must say."""
    header = b"IHDR\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0"  # of 4 billion pixels
    huge = b"\x89PNG\r\n\x1a\n\0\0\0\r" + header + struct.pack(">I", zlib.crc32(header)) + b"\0\0\0\1IDAT"
    noise, long = np.random.default_rng(0).normal(size=16000) * 0.1, io.BytesIO()
    soundfile.write(long, noise, 16000, format="MP3")  # which says at its begin how long it is
    cut_off = long.getvalue()[:1200]
    lacking = {name: value for name, value in rows[1].items() if name != "street"}
    return {
        "row 1, column street: is not there": [rows[0], lacking],
        "row 0, column number_log: 'twelve'; must be a decimal number": [{**rows[1], "number_log": "twelve"}],
        "row 0, column number_keep: inf; must be finite": [{**rows[1], "number_keep": float("inf")}],
        "row 0, column array: [[1, 2], [3]]; must be a list of numbers of shape [2, 3]": [
            {**rows[1], "array": [[1, 2], [3]]}
        ],
        "row 0, column when: '31.5.2024'; must be a date or time of ISO 8601": [{**rows[1], "when": "31.5.2024"}],
        "row 2, column photo: 9 bytes, cannot identify image file; must be a whole image": [
            *rows[:2],
            {**rows[1], "photo": b"no images"},
        ],
        f"row 0, column photo: {len(huge)} bytes, Image size (4294836225 pixels) exceeds limit": [
            {**rows[1], "photo": huge}
        ],
        "row 0, column cut: 'nowhere.png'; must be the path of a file that can be read (No such file": [
            {**rows[1], "cut": "nowhere.png"}
        ],
        "row 0, column sound: 9 bytes, Format not recognised; must be": [{**rows[1], "sound": b"no sounds"}],
        "row 0, column sound: 2000 bytes, ": [{**rows[3], "sound": rows[3]["sound"][:100] + bytes(1900)}],
        "row 0, column sound: 1199 of 3200 samples; must be a whole sound": [{**rows[3], "sound": cut_off}],
        "row 0, column town: {}; must be text": [{**rows[1], "town": {}}],
        "mine.own:single raised KeyError('!')": [{**rows[1], "own": "!"}],
    }


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    folder = tmp_path_factory.mktemp("shipped")
    rows = [raw_row(number, folder) for number in range(ROWS)]
    splits = {"train": rows[:30], "test": rows[30:]}
    root = folder / "snapshot"
    records = from_rows(FEATURES, splits, folder)
    outcome = snapshot(root, records, transforms(folder), shards=3)
    made = {split: arrays(root, split, outcome) for split in splits}
    extra = [{**row, "further": "ignored"} for row in rows]
    requests = [extra, *([row] for row in rows[25:]), rows[:0], *broken(rows).values()]
    (folder / "mine").rename(folder / "not importable from here")
    columns, answers = read_elsewhere(root, folder, requests)
    return Shipped(folder, outcome.features, made, rows, columns, answers)


def test_the_arrays_are_those_of_the_snapshot_bit_for_bit(shipped: Shipped) -> None:
    answer = shipped.answers[0]
    assert answer.keys() == shipped.features.keys() - {"label"}
    for name, array in answer.items():
        expected = np.concatenate([shipped.splits["train"][name], shipped.splits["test"][name]])
        served = SERVED_AS.get(expected.dtype.name, expected.dtype.name)
        assert (array.dtype, array.shape) == (np.dtype(served), expected.shape), name
        assert array.tobytes() == expected.astype(served).tobytes(), name
        assert len(np.unique(array)) > 1, f"{name} says nothing"


def test_a_row_becomes_the_same_without_the_others(shipped: Shipped) -> None:
    for number, alone in enumerate(shipped.answers[1:16], 25):
        for name, array in alone.items():
            assert array.tobytes() == shipped.answers[0][name][number : number + 1].tobytes(), (number, name)


def test_no_rows_become_empty_arrays(shipped: Shipped) -> None:
    for name, array in shipped.answers[16].items():
        assert array.shape == (0, *shipped.features[name]["shape"]), name


def test_a_value_that_cannot_be_used_is_named(shipped: Shipped) -> None:
    answers = shipped.answers[17:]
    for says, answer in zip(broken(shipped.rows), answers, strict=True):
        assert isinstance(answer, str) and answer.startswith(says), (says, answer)


def test_the_columns_are_named_with_their_types(shipped: Shipped) -> None:
    assert shipped.columns["array"] == "number[2, 3]" and shipped.columns["photo"] == "image"
    assert shipped.columns.keys() == FEATURES.keys() - {"label"}


def test_scalars_share_two_arrays_in_order_of_name(shipped: Shipped) -> None:
    numbers, categories = shipped.features["numbers"], shipped.features["categories"]
    assert {name: shipped.features[name]["dtype"] for name in SHARED} == SHARED
    assert categories["names"] == ["number_bucketize", "street", "town"] and categories["sizes"] == [5, 51, 5]
    assert [name.partition(".")[0] for name in numbers["names"]] == [
        *(["circle"] * 4),
        *("number_keep", "number_log"),
        *(["number_quantile"] * 2),
        *(["number_standardise"] * 2),
        *("own", *(["when"] * 6)),
    ]
    assert len(numbers["mean"]) == len(numbers["variance"]) == numbers["shape"][0] == len(numbers["names"])
    assert all(array.min() >= 0 and (array < categories["sizes"]).all() for array in [shipped.answers[0]["categories"]])
    assert {feature["role"] for name, feature in shipped.features.items() if name != "label"} == {"input"}


def test_the_description_says_what_serving_needs(shipped: Shipped) -> None:
    folder = shipped.folder / "snapshot" / "transform"
    described = json.loads((folder / "transform.json").read_text())
    assert (described["kind"], described["classes"], described["targets"]) == ("table", ["no", "yes"], [])
    reader = Reader.open(folder)
    assert reader.classes == ["no", "yes"] and reader.arrays.keys() == shipped.answers[0].keys()
    assert {path.name for path in (folder / "functions" / "mine").iterdir()} >= {"own.py", "lengths.py"}
