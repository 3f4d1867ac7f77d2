"""Functions of the user's: what they may yield, how they fail, and what of them enters a digest."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.sources import table_files
from tasks.sources.kinds.tables import PythonSource
from tests.support.rows import everything

COLUMNS = {"name": "text", "age": "number"}
PEOPLE = """
def read(count, name="n"):
    from own.names import named
    for number in range(count):
        yield {"name": named(name, number), "age": number}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package with a function that yields people."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/__init__.py").touch()
    (tmp_path / "own/names.py").write_text("def named(name, number):\n    return f'{name}{number}'\n")
    (tmp_path / "own/people.py").write_text(PEOPLE)
    return tmp_path


def source(folder: Path, columns: dict[str, str] = COLUMNS, **more: Any) -> PythonSource:
    given = {"arguments": {"count": 3}, "function": "own.people:read", **more}
    return PythonSource.model_validate({"folder": str(folder), "columns": columns, **given})


def yielding(folder: Path, values: str, columns: dict[str, str] = COLUMNS, **more: Any) -> PythonSource:
    """A source whose function yields the values that an expression lists."""
    head = "import datetime\nimport numpy as np\n"
    (folder / "own/people.py").write_text(f"{head}def read():\n    yield from {values}\n")
    return source(folder, columns, arguments={}, **more)


def test_examples_are_numbered_over_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "BATCH_ROWS", 2)
    read = everything(source(folder, arguments={"count": 5, "name": "x"}))
    assert read.rows == [("x0", 0), ("x1", 1), ("x2", 2), ("x3", 3), ("x4", 4)]
    assert (read.keys[4], read.places[4]) == ("own.people:read:000000004", "own.people:read row 5")


def test_examples_become_records(folder: Path, bench: Workbench) -> None:
    outcome = conversion.build(bench, source(folder, arguments={"count": 60}), RecordsConfig())
    assert outcome.counts["examples"] == 60
    assert outcome.features["age"]["kind"] == "number"


def test_the_order_of_arguments_decides_nothing(folder: Path) -> None:
    (folder / "own/people.py").write_text("def read(**sizes):\n    yield {'name': '-'.join(sizes), 'age': 1}\n")
    for arguments in ({"b": 1, "a": 2}, {"a": 2, "b": 1}):
        assert everything(source(folder, arguments=arguments)).rows == [("a-b", 1)]


def test_values_of_every_type(folder: Path) -> None:
    columns = {"a": "number", "b": "text", "c": "category", "d": "time", "e": "number[2, 2]", "f": "image"}
    columns["g"] = "ignore"
    zone = "datetime.timezone(datetime.timedelta(hours=2))"
    values = (
        "[{'a': np.float32(1.5), 'b': np.str_('é'), 'c': 7, 'd': np.datetime64('2024-01-02T03', 'ns'), "
        "'e': np.arange(4, dtype=np.int8).reshape(2, 2), 'f': b'\\xff', 'g': object()}, "
        f"{{'a': True, 'b': b'bytes', 'c': 'x', 'd': datetime.datetime(2024, 1, 2, 3, tzinfo={zone}), "
        "'e': [[1, 2], [3, 4.5]], 'f': None}, "
        "{'a': None, 'b': None, 'c': None, 'd': datetime.date(2024, 1, 2), 'e': None, 'f': None}]"
    )
    read = everything(yielding(folder, values, columns))
    assert read.bad == {}
    assert read.columns["b"] == ["é", "bytes", None]
    assert read.columns["c"] == ["7", "x", None]
    assert [time.hour for time in read.columns["d"]] == [3, 1, 0]
    assert read.columns["d"][0] == datetime.datetime(2024, 1, 2, 3)
    assert read.columns["e"] == [[0, 1, 2, 3], [1, 2, 3, 4.5], None]
    assert read.columns["f"] == [b"\xff", None, None]


@pytest.mark.parametrize("reused", ["row", "row['v']"])
def test_what_a_function_changes_later_stays_as_it_was_yielded(folder: Path, reused: str) -> None:
    yielded = {"row": "row", "row['v']": "dict(row)"}[reused]
    for array in ("np.zeros(2)", "[0, 0]", "[[0], [0]]"):
        lines = ["import numpy as np", "def read():", f"    row = {{'n': 0, 'v': {array}}}", "    for n in range(3):"]
        lines += [
            "        row['n'] = n",
            f"        row['v'][1] = {'[n]' if '[[' in array else 'n'}",
            f"        yield {yielded}",
        ]
        (folder / "own/people.py").write_text("\n".join(lines))
        columns = {"n": "number", "v": "number[2, 1]" if "[[" in array else "number[2]"}
        assert everything(source(folder, columns, arguments={})).rows == [(n, [0, n]) for n in range(3)]


def test_times_that_are_missing_or_beyond_any_year(folder: Path) -> None:
    zone = "datetime.timezone(datetime.timedelta(hours=2))"
    values = f"[{{'d': np.datetime64('NaT'), 'v': 1}}, {{'d': datetime.datetime.min.replace(tzinfo={zone}), 'v': 1}}]"
    values = values.replace("]", ", {'d': __import__('pandas').NaT, 'v': 1}, {'d': datetime.date.max, 'v': 1}]")
    read = everything(yielding(folder, values, {"d": "time", "v": "number"}))
    assert read.rows == [(None, 1), (None, 1), (datetime.datetime(9999, 12, 31), 1)]
    assert read.bad == {"own.people:read row 2": "d: 0001-01-01 00:00:00+02:00 is in UTC in no year from 1 to 9999"}


def test_what_is_no_example_is_named(folder: Path) -> None:
    values = [
        "{'name': 'a', 'age': 1}",
        "{'name': 'a'}",
        "{'name': 'a', 'age': 1, 'shoe': 9}",
        "('a', 1)",
        "{'name': ['a'], 'age': 1}",
        "{'name': 'a', 'age': np.ones(2)}",
        "{'name': '\\ud83d', 'age': 1}",
        "{'name': b'\\xff', 'age': 1}",
        "None",
    ]
    read = everything(yielding(folder, f"[{', '.join(values)}]"))
    assert read.rows == [("a", 1)]
    assert list(read.bad.values()) == [
        "without 'age'; a missing value is None",
        "a key 'shoe' that source.columns does not name",
        "a tuple, and not a dict",
        "name: list, and the column is of type text",
        "age: an array of shape [2], and the column is of type number",
        "name: half of a surrogate pair",
        "name: byte 0 (0xff) is not UTF-8",
        "a NoneType, and not a dict",
    ]
    columns = {"v": "number[2]", "i": "image"}
    arrays = ["{'v': np.ones(3), 'i': None}", "{'v': [[1], []], 'i': None}", "{'v': [1, 2], 'i': 'a.png'}"]
    arrays += ["{'v': ['a', 'b'], 'i': None}", "{'v': [1j, 2], 'i': None}"]
    arrays += [f"{{'v': np.ones(2, '{kind}8[D]'), 'i': None}}" for kind in "mM"]
    read = everything(yielding(folder, f"[{', '.join(arrays)}]", columns))
    assert list(read.bad.values()) == [
        "v: an array of shape [3], and the column is number[2]",
        "v: not an array of numbers",
        "i: a str, and an image is the bytes of its file",
        *["v: not an array of numbers"] * 4,
    ]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def read():\n    yield {}\n    raise KeyError('lost')",
            "own/people.py line 3: KeyError: 'lost'; the function",
        ),
        ("import nothing_there\ndef read(): ...", "own/people.py line 1: ModuleNotFoundError: No module named"),
        ("def read():\n    import sys\n    sys.exit(3)\n    yield", "own/people.py line 3: SystemExit: 3"),
        (
            "class Odd(Exception):\n    def __str__(self): return 1 / 0\ndef read():\n    raise Odd\n    yield",
            "own/people.py line 4: Odd; the function",
        ),
        ("def read(count): yield", "own.people:read: TypeError: read\\(\\) missing 1 required"),
        ("def read(): return 7", "own.people:read: TypeError: 'int' object is not iterable"),
        ("def other(): yield", "own.people:read: AttributeError: module 'own.people' has no attribute 'read'"),
    ],
)
def test_an_error_of_the_function_has_its_file_and_line(folder: Path, code: str, message: str) -> None:
    (folder / "own/people.py").write_text(code)
    with pytest.raises(Failed, match=message) as failed:
        everything(source(folder, arguments={}))
    assert "\n" not in str(failed.value) and failed.value.__suppress_context__


def test_modules_of_the_folder_enter_the_fingerprint(folder: Path) -> None:
    (folder / "own/unused.py").write_text("1")
    config = source(folder)
    before = config.open().fingerprint()
    modules = [path for path, _ in before if not path.startswith("package/")]
    assert modules == ["own/__init__.py", "own/names.py", "own/people.py"]
    assert everything(config).rows[0] == ("n0", 0)
    opened = config.open()
    (folder / "own/names.py").write_text("def named(name, number):\n    return 'other'\n")
    assert everything(config).rows[0] == ("other", 0)
    assert dict(config.open().fingerprint())["own/names.py"] != dict(before)["own/names.py"]
    with pytest.raises(Failed, match="changed since it was listed"):
        list(opened.read(opened.partitions()[0]))


def test_what_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="String should match pattern"):
        source(folder, function="own/people.py")
    with pytest.raises(Refused, match=r"source.function: no module own.nothing in .*correct it, or source.folder"):
        source(folder, function="own.nothing:read").open()
    (folder / "own/people.py").write_text("def read(:")
    with pytest.raises(Refused, match="it is Python"):
        source(folder).open()


def test_the_folder_is_importable_only_while_it_reads(folder: Path) -> None:
    assert len(everything(source(folder)).keys) == 3
    assert str(folder) not in sys.path
