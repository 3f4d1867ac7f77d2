"""What Millrace reads of the machine and its settings: secrets, limits of memory, counters of energy, locks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tasks.environment import memory
from tasks.environment.database_templates import creating
from tasks.environment.secrets import Missing, resolve, unreferenced
from tasks.exporting.energy import Energy


def test_a_secret_in_a_file_is_without_the_line_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "secret").write_text("  T0PS3CRET\r\n")
    assert resolve(f"file:{tmp_path}/secret") == resolve("file:~/secret") == "T0PS3CRET"
    monkeypatch.setenv("SECRET", "of the shell")
    assert resolve("env:SECRET") == "of the shell"


@pytest.mark.parametrize("content", ["", "\n", " \t\n"])
def test_what_holds_no_secret_is_named_and_not_used(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_text(content)
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for reference, saw in (
        (f"file:{tmp_path}/empty", "empty or not set"),
        ("env:EMPTY", "empty or not set"),
        ("env:NOT_SET_AT_ALL", "empty or not set"),
        (f"file:{tmp_path}/nowhere", "no such file"),
        (f"file:{tmp_path}", "is a directory"),
        (f"file:{tmp_path}/bytes", "no text file"),
        ("file:~nobody_of_this_name/x", "no text file"),
    ):
        with pytest.raises(Missing) as missing:
            resolve(reference)
        assert missing.value.field == reference and saw in str(missing.value.saw)


@pytest.mark.parametrize(
    ("value", "is_literal"),
    [("T0PS3CRET", True), ("env:", True), ("env:A B", True), ("env:A", False), ("file:", True), ("file:/a", False)],
)
def test_a_literal_is_no_reference(value: str, is_literal: bool) -> None:
    assert unreferenced(value) is is_literal


def group(folder: Path, limit: str, used: int = 0, caches: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {caches}\nactive_file 7\n")


@pytest.mark.parametrize(
    ("pod", "container", "left"),
    [
        (("max", 0, 0), ("max", 0, 0), None),
        (("max", 0, 0), ("1000", 300, 100), 800),
        (("500", 300, 0), ("1000", 300, 0), 200),
        (("900", 300, 0), ("500", 300, 0), 200),
        (("100", 300, 0), ("max", 0, 0), 0),
    ],
)
def test_memory_is_what_the_tightest_group_above_has_left(
    pod: tuple[str, int, int], container: tuple[str, int, int], left: int | None, tmp_path: Path
) -> None:
    """In bytes; caches of files can be freed."""
    group(tmp_path / "cgroup/pod", *pod)
    group(tmp_path / "cgroup/pod/container", *container)
    (tmp_path / "membership").write_text("0::/pod/container\n")
    available = memory.available(tmp_path / "cgroup", tmp_path / "membership")
    assert available > 1000 if left is None else available == left


def zone(powercap: Path, name: str, value: int, largest: int = 999) -> Path:
    folder = powercap / name
    folder.mkdir(parents=True)
    (folder / "energy_uj").write_text(f"{value}\n")
    (folder / "max_energy_range_uj").write_text(f"{largest}\n")
    return folder / "energy_uj"


def test_energy_is_of_all_packages_also_where_a_counter_begins_again(tmp_path: Path) -> None:
    first, second = zone(tmp_path, "intel-rapl:0", 100), zone(tmp_path, "intel-rapl:1", 990)
    zone(tmp_path, "intel-rapl:0:0", 50)  # a part of the first package
    energy = Energy(tmp_path)
    before = energy.read()
    first.write_text("150")
    second.write_text("40")
    assert before == [100, 990] and energy.joules(before, energy.read()) == pytest.approx((50 + 50) / 1e6)
    assert not Energy(tmp_path / "nothing")


def test_one_process_at_a_time_creates_a_database(tmp_path: Path) -> None:
    order, entered = list[str](), threading.Event()

    def second() -> None:
        entered.set()
        with creating(tmp_path / "a.db"):
            order.append("second")

    other = threading.Thread(target=second)
    with creating(tmp_path / "a.db"):
        other.start()
        entered.wait(10)
        other.join(0.3)  # it waits for the lock
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
