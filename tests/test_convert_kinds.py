"""A column is read alike in every form in which Arrow may hold it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import Failed
from tasks.reader.values import NO_TIME
from tasks.records import conversion, duplicates
from tasks.records.column_types import column_type
from tasks.sources.features import Feature
from tasks.sources.record_files import RecordFile
from tests.support.tables import feature

FORMS: dict[str, Callable[[list[Any]], pa.Array]] = {
    "string": lambda values: pa.array(values, pa.string()),
    "large_string": lambda values: pa.array(values, pa.large_string()),
    "dictionary": lambda values: pa.array(values, pa.string()).dictionary_encode(),
    "dictionary of large strings": lambda values: pa.array(values, pa.large_string()).dictionary_encode(),
    "slice": lambda values: pa.array(["x", *values, "y"], pa.string()).slice(1, len(values)),
}
DAY = 86_400 * 10**6
WRITTEN: dict[str, tuple[Feature, list[Any], list[Any]]] = {
    "number": (feature("number"), ["1", " -2.5e1 ", None, "NA"], [1.0, -25.0, None, None]),
    "category": (feature("category"), ["b", "a", "", None], ["b", "a", "", ""]),
    "text": (feature("text"), ["b", "ü", "", None], ["b", "ü", "", ""]),
    "time": (feature("time"), ["1970-01-02", "", None], [DAY, NO_TIME, NO_TIME]),
    "label": (feature("label", classes=("a", "b")), ["b", "a"], ["b", "a"]),
}


def listed(values: pa.Array) -> list[Any]:
    """The values; a number that is not there as None."""
    return [None if isinstance(each, float) and np.isnan(each) else each for each in values.to_pylist()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", WRITTEN)
def test_what_is_written_is_read_alike_in_every_form(kind: str, form: str) -> None:
    of, values, expected = WRITTEN[kind]
    made = column_type(of).typed(FORMS[form](values), 0)
    assert (listed(made.values), made.bad) == (expected, {})


@pytest.mark.parametrize(
    ("kind", "expected"), [("number", [None] * 3), ("category", [""] * 3), ("text", [""] * 3), ("time", [NO_TIME] * 3)]
)
def test_a_column_of_nothing_is_of_missing_values(kind: str, expected: list[Any]) -> None:
    of = feature(kind)
    made = column_type(of).typed(pa.nulls(3), 0)
    assert (listed(made.values), made.bad) == (expected, {})


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("kind", ["text", "image"])
def test_bytes_are_read_in_either_size(kind: str, type_: pa.DataType) -> None:
    of = feature(kind, shape=(-1, -1, -1)) if kind == "image" else feature(kind)
    values = ["ü".encode(), b"\xff", None] if kind == "text" else [None, b"x"]
    made = column_type(of).typed(pa.array(values, type_), 10**6)
    if kind == "text":
        assert made.values.to_pylist() == ["ü", "", ""] and list(made.bad) == [1]
    else:
        assert made.values.to_pylist()[0] == b"" and list(made.bad) == [1], "what is no image is bad"


@pytest.mark.parametrize(
    ("classes", "values", "expected", "bad"),
    [
        (("a", "b"), ["b", "c", None], ["b", "c", ""], [1, 2]),
        (("a", "(other)"), ["b", "a", "c"], ["(other)", "a", "(other)"], []),
        (("a", "(other)"), ["", "a"], ["(other)", "a"], [0]),
        (None, ["z", "", "y"], ["z", "", "y"], [1]),
    ],
)
def test_a_label_is_one_of_its_classes_or_another_where_there_is_a_class_of_others(
    classes: Any, values: list[Any], expected: list[str], bad: list[int]
) -> None:
    of = feature("label", classes=classes)
    made = column_type(of).typed(pa.array(values, pa.string()), 0)
    assert (made.values.to_pylist(), sorted(made.bad)) == (expected, bad)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, False, None]), [1.0, 0.0, None]),
        (pa.array([1, 2], pa.uint8()), [1.0, 2.0]),
        (pa.array([0.5, None], pa.float16()), [0.5, None]),
        (pa.array([1, None], pa.int64()).dictionary_encode(), [1.0, None]),
    ],
)
def test_numbers_of_every_type_are_numbers(column: pa.Array, expected: list[Any]) -> None:
    of = feature("number")
    made = column_type(of).typed(column, 0)
    assert (listed(made.values), made.bad) == (expected, {})


def test_the_most_frequent_values_of_a_category_come_first_and_of_equal_ones_the_first_by_name() -> None:
    of = feature("category")
    values = [*"bbaac", *(f"z{number:02d}" for number in range(25)), ""]
    made = column_type(of)
    found = made.summary(made.state(pa.array(values), {}))
    assert found["top"][:4] == [["a", 2], ["b", 2], ["c", 1], ["z00", 1]] and len(found["top"]) == 20
    assert (found["distinct"], found["missing"], found["count"]) == (28, 1, 31)


def test_an_input_is_shared_where_there_are_train_and_test() -> None:
    for splits in (["train"], ["test"], ["train", "validation"], []):
        assert duplicates.find_shared(SimpleNamespace(splits=splits), {"x": feature("text")}, {}) == {}  # type: ignore[arg-type]


def test_the_description_of_records_has_their_splits_by_name_and_their_classes_in_order() -> None:
    features = {"text": feature("text"), "kind": feature("label", classes=("b", "a")), "age": feature("number")}
    features["town"] = feature("category", classes=("x",))
    made = conversion.tfds_metadata("rows", features, {"train": [(3, 30), (2, 20)], "test": [(1, 10)]})
    info = json.loads(made["dataset_info.json"])
    assert [(each["name"], each["shardLengths"], each["numBytes"]) for each in info["splits"]] == [
        ("test", ["1"], "10"),
        ("train", ["3", "2"], "50"),
    ]
    assert list(json.loads(made["features.json"])["featuresDict"]["features"]) == ["age", "kind", "text", "town"]
    assert made["kind.labels.txt"] == b"b\na\n" and len(made) == 3


@pytest.mark.parametrize(("offsets", "says"), [([], "the index says 0"), ([0, 5], "the index says 5")])
def test_an_index_that_does_not_end_where_its_file_does_is_damage(
    offsets: list[int], says: str, tmp_path: Path
) -> None:
    (tmp_path / "x.tfrecord").write_bytes(b"1234567")
    with pytest.raises(Failed, match=f"7 bytes, {says}"):
        RecordFile(tmp_path / "x.tfrecord", np.array(offsets, np.uint64))
