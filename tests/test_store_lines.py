"""Files of JSON lines: a torn end costs nothing, a line that is no JSON only itself, a full disk nothing."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.store import files
from tasks.store.journal import JournalFile, Steps, last_of_training, read

TORN = [b'{"a"', b'{"a":3', b'{"a":3}', b'{"a":3}\n{', b"\xff\x00", b"x" * (files.TAIL + 5)]
"""What a killed process, a full disk or a loss of power leaves of the end."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for row, _ in files.read(path)]


@pytest.mark.parametrize("torn", TORN)
def test_a_torn_end_is_not_read_and_makes_way_for_the_next_line(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    files.append(path, {"b": 2, "a": 1})
    with open(path, "ab") as file:
        file.write(torn)
    before = rows(path)
    assert before == ([{"a": 1, "b": 2}, {"a": 3}] if b"\n" in torn else [{"a": 1, "b": 2}])
    files.append(path, {"c": float("inf")})
    assert rows(path) == [*before, {"c": float("inf")}]
    assert path.read_bytes().startswith(b'{"a":1,"b":2}\n') and len(path.read_bytes().splitlines()) == len(before) + 1


@pytest.mark.parametrize("bad", [b"{", b"", b"3", b"[1]", b"null", b'{"a": 1}{"a": 2}', b"\x00" * 70])
def test_a_line_that_is_no_object_is_left_out_wherever_it_stands(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(bad + b'\n{"a":1}\n' + bad + b'\n{"a":2}\n')
    assert rows(path) == [{"a": 1}, {"a": 2}]
    assert [row for row, _ in files.read(path, len(bad) + 9)] == [{"a": 2}]
    assert list(files.last(path)) == [{"a": 2}, {"a": 1}]


def test_the_offset_of_a_row_is_where_the_next_one_is_read_from(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for number in range(5):
        files.append(path, {"number": number})
    for row, end in files.read(path):
        assert [later["number"] for later, _ in files.read(path, end)] == list(range(row["number"] + 1, 5))
    assert list(files.read(tmp_path / "none")) == [] == list(files.last(tmp_path / "none"))


@pytest.mark.parametrize("tail", [1, 7, 64, 1000])
def test_rows_are_read_from_the_end_in_parts_of_any_size(
    tail: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TAIL", tail)
    path = tmp_path / "x.jsonl"
    for number in range(20):
        files.append(path, {"number": number, "text": "é" * number})
    with open(path, "ab") as file:
        file.write(b'{"number": 20')
    assert [row["number"] for row in files.last(path)] == list(reversed(range(20)))
    files.append(path, {"number": 21})
    assert rows(path)[-1] == {"number": 21} and len(rows(path)) == 21


@pytest.mark.parametrize("written", [0, 3])
def test_a_line_that_finds_no_room_leaves_the_file_as_it_was(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "x.jsonl", os.write
    files.append(path, {"a": 1})
    left = [written]

    def full(descriptor: int, content: bytes) -> int:
        room, left[0] = left[0], 0
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, content[:room])

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "write", full)
        files.append(path, {"a": 2})
    assert path.read_bytes() == b'{"a":1}\n'


def test_a_line_of_a_journal_that_is_no_point_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    JournalFile(path).append(10, {"train/loss": 0.5})
    with open(path, "ab") as file:
        for row in ({}, {"step": 20}, {"step": 20, "time": 1.0, "metrics": 3}, {"step": "x", "time": 1, "metrics": {}}):
            file.write(json.dumps(row).encode() + b"\n")
    journal = JournalFile(path)
    assert journal.reached == 10
    journal.append(20, {"train/loss": 0.4})
    assert [point.step for point in read(path)] == [10, 20]
    last = last_of_training(path)
    assert last is not None and last.step == 20


@pytest.mark.parametrize(
    "steps",
    [
        range(0, 1000, 10),
        [0, 10, 20, 40, 80, 81, 82, 83, 90],
        [40, 20, 20, 60, 50, 10],
        [20, 40, 60, 50, 75, 100, 7, 0],
        [3],
        [],
    ],
)
def test_steps_are_those_that_were_added(steps: list[int]) -> None:
    known = Steps()
    for step in steps:
        known.add(step)
    assert [step for step in range(1010) if step in known] == sorted(set(steps))


def test_a_million_steps_at_equal_distances_take_no_room() -> None:
    known = Steps()
    for step in range(0, 3_000_000, 3):
        known.add(step)
    assert len(known._runs) == 1 and 2_999_997 in known and 2_999_996 not in known and 3_000_000 not in known


def test_what_is_synced_is_on_the_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    journal = JournalFile(tmp_path / "metrics.jsonl")
    journal.sync()
    assert synced == []
    journal.append(1, {"a": 1.0})
    journal.sync()
    assert synced == [str(tmp_path / "metrics.jsonl"), str(tmp_path)]
