"""JSON lines: values are as they are written whichever block they fall into, and each bad line is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Failed
from tasks.sources import delimited, table_files
from tasks.sources.kinds.tables import JsonlSource
from tests.support.rows import everything

COLUMNS = {"name": "text", "age": "number"}


def source(path: Path, columns: dict[str, str] = COLUMNS, **more: Any) -> JsonlSource:
    return JsonlSource.model_validate({"path": str(path), "columns": columns, **more})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., JsonlSource]:
    def written(content: str | bytes, columns: dict[str, str] = COLUMNS, **more: Any) -> JsonlSource:
        (tmp_path / "people.jsonl").write_bytes(content.encode() if isinstance(content, str) else content)
        return source(tmp_path / "people.jsonl", columns, **more)

    return written


TRUTH = {"True": "true", "False": "false"}


def texts(values: list[Any]) -> list[str | None]:
    return [
        None if value is None else str(value).lower() if isinstance(value, bool) else str(value) for value in values
    ]


def test_rows_have_their_number_and_line_after_empty_and_bad_ones(
    write: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        '{"name": "ann", "age": 1}',
        "",
        '{"name": "bob"',
        '{"name": "cy", "age": null}',
        "[1]",
        '{"name": "dan", "age": 2, "shoe": {"size": 9}}',
        '{"name": "eve", "shoe": null}',
        '{"name": "fay"} {"name": "gus"}',
        '{"name": "a", "name": "b"}',
        '  {"name": "hal", "age": 2.5}  ',
        "17",
        '{"name": "\\ud83d"}',
    ]
    config = write("\r\n".join(lines))
    for target in (1 << 20, 40):
        monkeypatch.setattr(table_files, "PARTITION_BYTES", target)
        monkeypatch.setattr(delimited, "SCANNED", 16)
        read = everything(config, backwards=True)
        assert read.rows == [("ann", 1), ("cy", None), ("eve", None), ("hal", 2.5)]
        assert read.keys == [f"people.jsonl:00000000{number}" for number in (0, 2, 5, 8)]
        assert read.places == [f"people.jsonl line {line}" for line in (1, 4, 7, 10)]
        assert read.bad == {
            "people.jsonl line 3": "not JSON: Expecting ',' delimiter: line 1 column 15 (char 14)",
            "people.jsonl line 5": "a JSON list, and not an object",
            "people.jsonl line 6": "a field 'shoe.size' that source.columns does not name",
            "people.jsonl line 8": "not JSON: Extra data: line 1 column 17 (char 16)",
            "people.jsonl line 9": "not JSON: 'name' is there more than once",
            "people.jsonl line 11": "a JSON int, and not an object",
            "people.jsonl line 12": "half of a surrogate pair",
        }
    assert len(config.open().partitions()) > 3


SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.sampled_from(["2024-01-01", "", "x", "1.0", "é"])
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={"name": SCALARS}), max_size=8), st.integers(1, 200))
def test_a_text_is_as_it_is_written_whatever_its_block(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], block: int
) -> None:
    path = tmp_path_factory.mktemp("written") / "people.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "PARSED", block)
        read = everything(source(path))
    assert texts(read.columns.get("name", [])) == texts([row.get("name") for row in rows])
    assert not read.bad


def test_a_line_is_an_object_though_two_would_read_as_two(write: Callable) -> None:
    read = everything(write('{"name": "a"} {"name": "b"\n}\n'))
    assert (read.rows, list(read.bad)) == ([], ["people.jsonl line 1", "people.jsonl line 2"])


def test_fields_of_objects_have_dotted_names(write: Callable) -> None:
    columns = {"user.name": "text", "user.address.zip": "category", "user.tags": "ignore", "extra": "ignore"}
    config = write(
        '{"user": {"name": "2024-01-01", "address": {"zip": "01234"}, "tags": {"a": 1}}, "extra": {"b": 2}}\n'
        '{"user": {"name": "bob", "address": null}}\n'
        '{"user.name": "cy"}\n'
        '{"user": null, "extra": [1]}\n'
        '{"user": {"shoe": 9}}\n',
        columns,
    )
    read = everything(config)
    assert read.columns == {
        "user.name": ["2024-01-01", "bob", "cy", None],
        "user.address.zip": ["01234", None, None, None],
    }
    assert read.bad == {"people.jsonl line 5": "a field 'user.shoe' that source.columns does not name"}


def test_arrays_of_numbers_and_one_that_is_none(write: Callable) -> None:
    columns = {"name": "text", "vector": "number[2, 2]"}
    assert everything(write('{"vector": [[1, 2], [3, 4.5]]}\n{}\n', columns)).rows == [
        (None, [[1, 2], [3, 4.5]]),
        (None, None),
    ]
    read = everything(write('{"name": "a", "vector": [[1, 2], [3, 4]]}\n{"vector": [1, "x"]}\n', columns))
    assert read.rows == [("a", [1, 2, 3, 4])]
    assert read.bad == {"people.jsonl line 2": "vector: not an array of numbers"}


def test_not_utf8_and_a_bom(write: Callable) -> None:
    read = everything(write(b'\xef\xbb\xbf{"name": "ann"}\n{"name": "caf\xe9"}\n'))
    assert (read.rows, read.bad) == ([("ann", None)], {"people.jsonl line 2": "byte 13 (0xe9) is not UTF-8"})
    with pytest.raises(Failed, match="people.jsonl: UTF-16 or UTF-32; JSON is UTF-8"):
        everything(write('{"name": "ann"}'.encode("utf-16")))


def test_compressed_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"name": "ann", "age": 1}\n' * 3))
    (tmp_path / "b.jsonl").write_bytes(b"")
    (tmp_path / "c.jsonl").write_bytes(b"\n\n")
    (tmp_path / "d.jsonl").write_bytes(b"{}\n{}")
    (tmp_path / "e.jsonl.bak").write_bytes(b"{}\n")
    read = everything(source(tmp_path))
    assert read.rows == [("ann", 1)] * 3 + [(None, None)] * 2
    assert read.keys[-1] == "d.jsonl:000000001"
    (tmp_path / "a.jsonl.gz").write_bytes((tmp_path / "a.jsonl.gz").read_bytes()[:-9])
    with pytest.raises(Failed, match="a.jsonl.gz: .*must be whole"):
        everything(source(tmp_path))


def test_images_by_path(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")
    rows = [{"photo": "a.png", "class": 1}, {"photo": "../a.png", "class": 1}, {"photo": {"path": "a.png"}, "class": 2}]
    (tmp_path / "photos.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = source(tmp_path, {"photo": "image", "class": "category"}, label="class")
    assert [key for key, _ in config.open().fingerprint()] == ["a.png", "photos.jsonl"]
    read = everything(config)
    assert read.columns["photo"] == [b"png", b"png"]
    assert texts(read.columns["class"]) == ["1", "2"]
    assert read.bad == {"photos.jsonl line 2": "photo: '../a.png': not a path below the source"}


@pytest.mark.parametrize(
    ("columns", "line", "read"),
    [
        ({"a": "text", "a.b": "text"}, '{"a": "x"}', ("x", None)),
        ({"a": "text", "a.b": "text"}, '{"a": "x", "a.b": "y"}', ("x", "y")),
        ({"a": "words", "a.b": "category"}, '{"a": ["x"], "a.b": "2024-01-01"}', (["x"], "2024-01-01")),
        ({"a.b": "text", "a.b.c": "text"}, '{"a": {"b": "2024-01-01"}}', ("2024-01-01", None)),
        ({"a.b.c": "text", "a.d": "text"}, '{"a": {"b": {"c": "1"}, "d": "2024-01-01"}}', ("1", "2024-01-01")),
    ],
)
def test_a_column_may_have_the_name_of_another_and_a_dot(
    write: Callable, columns: dict[str, str], line: str, read: tuple[Any, ...]
) -> None:
    found = everything(write(f"{line}\n", columns))
    assert (found.rows, found.bad) == ([read], {})
