"""Sources where they are easily wrong: links beside the folder, marks before a header, bad lines before bad fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.sources import table_files
from tasks.sources.kinds.tables import CsvSource, JsonlSource
from tasks.sources.payloads import Payloads
from tasks.sources.python import _array
from tests.support.rows import everything


@pytest.mark.parametrize(
    ("target", "leads_out"), [("data/real.png", False), ("data-private/secret.png", True), ("other.png", True)]
)
def test_a_link_to_a_folder_whose_name_begins_alike_leads_out(target: str, leads_out: bool, tmp_path: Path) -> None:
    for name in ("data/real.png", "data-private/secret.png", "other.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"bytes")
    (tmp_path / "data/link.png").symlink_to(tmp_path / target)
    payloads = Payloads(tmp_path / "data", ["photo"])
    referenced = payloads.referenced({"photo": pa.array(["link.png"])})
    assert referenced == (set() if leads_out else {"link.png"})
    assert payloads._misplaced("link.png") == ("a link that leads out of the source" if leads_out else None)
    assert payloads._misplaced("../other.png") == "not a path below the source"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("partition", [8, 1 << 20])
def test_a_byte_order_mark_moves_no_row(
    mark: bytes, partition: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Excel writes CSV; in one partition and in many."""
    monkeypatch.setattr(table_files, "PARTITION_BYTES", partition)
    rows = "".join(f"n{number},{number}\r\n" for number in range(9))
    (tmp_path / "t.csv").write_bytes(mark + b"name,size\r\n" + rows.encode())
    config = CsvSource.model_validate({"path": str(tmp_path / "t.csv"), "columns": {"name": "text", "size": "number"}})
    read = everything(config)
    assert read.columns["name"] == [f"n{number}" for number in range(9)] and not read.bad
    assert [float(size) for size in read.columns["size"]] == list(range(9))


def test_the_line_that_is_named_is_the_bad_one(tmp_path: Path) -> None:
    """A line that is no JSON, then one with a bad field: both are named, and no other."""
    lines = ['{"name": "a", "size": 1}', "no json", '{"name": "b", "size": 2}', '{"name": "c", "more": 3}']
    lines += ['{"name": "d", "size": 4}', "[1]", '{"name": "e", "size": 5}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    columns = {"name": "text", "size": "number"}
    config = JsonlSource.model_validate({"path": str(tmp_path / "t.jsonl"), "columns": columns})
    read: Any = everything(config)
    numbers = sorted(int(place.rpartition(" ")[2]) for place in read.bad)
    assert numbers == [2, 4, 6], read.bad
    good = {name for name, place in zip(read.columns["name"], read.places, strict=True) if place not in read.bad}
    assert good == {"a", "b", "d", "e"}
    assert json.loads(lines[3])["more"] == 3 and any("more" in reason for reason in read.bad.values())


def test_an_array_that_the_user_fills_again_is_copied() -> None:
    """A source function may yield the same array for each example."""
    values, kept = np.zeros(3), []
    for number in range(3):
        values[:] = number
        kept.append(_array("x", values, (3,)))
    assert [array.tolist() for array in kept] == [[0] * 3, [1] * 3, [2] * 3]
