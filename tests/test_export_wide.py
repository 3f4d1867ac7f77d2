"""Columns that become the model's inputs by one formula are one computation in the graph, however many there are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.exporting import preprocess as module
from tasks.exporting.fresh_process import timeout_of
from tasks.exporting.preprocess import Preprocess, of_description
from tasks.reader import Reader, transform
from tasks.snapshots.transforms import categories
from tasks.snapshots.transforms.categories import Hash, Vocabulary
from tasks.snapshots.transforms.graphs import digest8

STATES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "number": [
        *[
            ("numbers", {"kind": "standardise", "shape": [], "fill": fill, "indicator": fill > 0})
            for fill in (-1, 2, 3)
        ],
        *[("numbers", {"kind": "log", "shape": [], "fill": fill, "indicator": False}) for fill in (0.1, 7.5)],
        *[
            ("numbers", {"kind": "quantile", "shape": [], "fill": 0.5, "indicator": False, "output": output, **learnt})
            for output in ("normal", "uniform", "normal")
            for learnt in (
                {"values": [-1.0, 0.25, 3.0], "levels": [0.0, 0.4, 1.0]},
                {"values": [0.5], "levels": [0.5]},
                {"values": [-3.0, -2.0, 0.5, 1.0, 9.0], "levels": [0.0, 0.1, 0.2, 0.7, 1.0]},
            )
        ],
        *[("categories", {"kind": "bucketize", "boundaries": each}) for each in ([0.0, 1.0], [], [-1.0, 0.5, 2.0])],
    ],
    "category": [
        *[("categories", {"kind": "vocabulary", "values": each}) for each in (["a", "b"], [], ["b", "7", "a"])]
    ],
    "time": [
        (
            "numbers",
            {"kind": "time_parts", "parts": ["year", "hour"], "cyclical": False, "fill": fill, "indicator": True},
        )
        for fill in ([2000.0, 3.0], [1999.0, 7.5])
    ],
    "text": [
        (f"text{number}", {"kind": "tokens", "method": "bytes", "length": 4, "lowercase": False, "dtype": "uint16"})
        for number in range(2)
    ],
}
WIDTHS = {"time_parts": 3}
VALUES: dict[str, Any] = {
    "number": [None, -2.0, -1.0, 0.0, 0.3, 0.5, 0.999, 2.0, 100.0],
    "category": ["", "a", "\u2003b\n", "7", "d", "a" * 200, "ä", "7.0", " a"],
    "time": [None, *(np.datetime64("2001-01-01T00:30", "us") + 10**12 * number for number in range(8))],
    "text": ["", "a", "text", "longer", "x", "ä", "b", "c", "d"],
}
RAW = {"number": np.float64, "category": np.str_, "text": np.str_, "time": "datetime64[us]"}


def described(states: dict[str, list[tuple[str, dict[str, Any]]]], missing: tuple[str, ...] = ()) -> dict[str, Any]:
    """The description of a table of the columns of each kind in turn, so that those of one formula are not together."""
    columns = {
        f"{kind} {number}": (kind, *given) for kind, every in states.items() for number, given in enumerate(every)
    }
    names = sorted(columns, key=lambda name: (name.split()[1], name))
    layout, shapes = [], dict.fromkeys(("numbers", "categories"), 0)
    for name in names:
        _, array, state = columns[name]
        if array not in shapes:
            layout.append({"column": name, "array": array})
            continue
        stop = shapes[array] + WIDTHS.get(state["kind"], 1 + state.get("indicator", 0))
        layout.append({"column": name, "array": array, "start": shapes[array], "stop": stop})
        shapes[array] = stop
    arrays = {
        "numbers": {"dtype": "float32", "shape": [shapes["numbers"]]},
        "categories": {"dtype": "int32", "shape": [shapes["categories"]]},
        **{array: {"dtype": "int32", "shape": [4]} for array, _ in states.get("text", ())},
    }
    return {
        "format": 1,
        "kind": "table",
        "missing": missing,
        "csv": None,
        "classes": ["no", "yes"],
        "targets": [],
        "columns": [{"name": name, "kind": columns[name][0], "shape": []} for name in names],
        "transforms": {name: columns[name][2] for name in names},
        "arrays": {name: array for name, array in arrays.items() if array["shape"] != [0]},
        "layout": layout,
    }


def graph_of(description: dict[str, Any]) -> Preprocess:
    made = of_description(description)
    assert made is not None
    return made


def function_of(made: Preprocess) -> Any:
    import tensorflow as tf

    specs = [made.spec(source) for source in made.inputs]
    names = [source.argument for source in made.inputs]
    return tf.function(lambda *raw: made(dict(zip(names, raw, strict=True))), specs, autograph=False)


def tensors_of(made: Preprocess, rows: list[dict[str, Any]]) -> list[Any]:
    """The inputs of a graph for rows."""
    tensors = []
    for source in made.inputs:
        kind = source.columns[0].kind
        given = [np.array([row[column.name] for row in rows], RAW[kind]) for column in source.columns]
        tensor = np.stack(given, axis=1) if source.together else given[0]
        tensors.append(tensor.view(np.int64) if kind == "time" else tensor)
    return tensors


@pytest.mark.parametrize("wide", [0, 256])
def test_columns_of_one_formula_get_each_its_own_parameters(
    tf: Any, monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    monkeypatch.setattr(module, "WIDE", wide)
    description = described(STATES, missing=("d",))
    random, names = np.random.default_rng(0), [column["name"] for column in description["columns"]]
    rows = [{name: random.choice(VALUES[name.split()[0]]) for name in names} for _ in range(40)]
    made = graph_of(description)
    assert {source.together for source in made.inputs} == {wide == 0}
    expected = Reader(description, Path())(rows)
    found = function_of(made)(*tensors_of(made, rows))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert len(np.unique(array, axis=0)) > 5
        np.testing.assert_array_equal(found[name].numpy().view(np.int32), array.view(np.int32), err_msg=name)


@pytest.mark.parametrize("wide", [0, 256])
def test_offsets_and_missing_values_of_a_column_are_its_own(
    tf: Any, monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    monkeypatch.setattr(module, "WIDE", wide)
    numbers = ("numbers", {"kind": "standardise", "shape": [], "fill": 0.0, "indicator": True})
    description = described({"number": [numbers] * 3, "category": STATES["category"][:2]})
    formats = {
        "number 0": {"kind": "numbers", "offset": 1.7e12, "missing": ["-9999"]},
        "number 1": {"kind": "plain", "missing": ["5"]},
        "category 1": {"kind": "plain", "missing": ["b"]},
    }
    for column in description["columns"]:
        column.update({"format": formats[column["name"]]} if column["name"] in formats else {})
    rows = [
        {"number 0": 1.7e12 + n if n else -9999.0, "number 1": float(n), "number 2": float(n)}
        | {"category 0": "abc"[n % 3], "category 1": "abc"[n % 3]}
        for n in range(9)
    ]
    made = graph_of(description)
    expected, found = Reader(description, Path())(rows), function_of(made)(*tensors_of(made, rows))
    assert expected["numbers"][:3].tolist() == [[0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0], [2, 0, 2, 0, 2, 0]]
    assert expected["numbers"][5].tolist() == [5, 0, 0, 1, 5, 0] and expected["categories"][1].tolist()[1] == 0
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), array)


def test_a_wide_table_has_no_operations_by_column(tf: Any) -> None:
    sizes = []
    for count in (300, 900):
        made = graph_of(
            described({kind: every * (count // len(every)) for kind, every in STATES.items() if kind != "text"})
        )
        assert [source.argument for source in made.inputs] == ["categories", "numbers", "times"]
        sizes.append(len(function_of(made).get_concrete_function().graph.get_operations()))
    assert sizes[0] == sizes[1] < 1000


def test_hashes_of_columns_are_made_of_some_at_a_time(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(categories, "digest8", partial(digest8, together=2))
    texts = np.array([["a", "", "ä"], ["b", "a" * 129, "a"]])
    graph = Hash.graph([{"kind": "hash", "buckets": buckets} for buckets in (3, 1000, 7)])
    assert graph(tf.constant(texts)).numpy()[..., 0].tolist() == [
        [
            transform({"kind": "hash", "buckets": buckets}, Path())([text])[0, 0]
            for text, buckets in zip(row, (3, 1000, 7), strict=True)
        ]
        for row in texts.tolist()
    ]


def test_a_wide_tables_refusal_names_the_column_and_its_rows(tf: Any) -> None:
    made = graph_of(described({"number": STATES["number"][:3] * 100}))
    rows = [{column.name: 0.5 for column in made.columns} for _ in range(4)]
    rows[2]["number 77"] = rows[3]["number 8"] = 1e39
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        function_of(made)(*tensors_of(made, rows))
    assert "column number 77: must be at most 3.4e38 in size; rows] [2]" in str(caught.value).replace("'", "")


def test_a_fresh_process_has_time_by_the_size_of_its_variant(tmp_path: Path) -> None:
    assert timeout_of(tmp_path) == 600
    (tmp_path / "variables").mkdir()
    for name in ("graph", "variables/data"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(10**9)
    assert timeout_of(tmp_path) == 600 + 2000


def test_a_category_that_another_column_knows_is_unknown(tf: Any) -> None:
    words = [f"word {number}" for number in range(100)]
    graph = Vocabulary.graph([{"kind": "vocabulary", "values": [word]} for word in words])
    assert not isinstance(graph, str)
    ids = graph(tf.constant([[word] * 100 for word in words])).numpy()[..., 0]
    assert ids.tolist() == np.where(np.eye(100, dtype=bool), 2, 1).tolist()
