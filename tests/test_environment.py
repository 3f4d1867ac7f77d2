"""What Millrace reads of the machine and its settings: secrets, limits of memory, counters of energy, locks."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import pytest

from tasks.environment import hardware
from tasks.environment.database_templates import creating
from tasks.environment.process import (
    PYTHON,
    STOP_SIGNALS,
    LogPart,
    Output,
    bypass,
    environment,
    install_stop_signals,
    paused,
)
from tasks.environment.secrets import Missing, address_in, resolve, unreferenced
from tasks.errors import Failed, Refused, Stopped, of_the_machine
from tasks.exporting.latency import Energy


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
    available = hardware.available(tmp_path / "cgroup", tmp_path / "membership")
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


def test_a_password_in_an_address_is_refused_and_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for address, good in (
        ("http://127.0.0.1:4200/api", True),
        ("http://user@host/api", True),
        ("http://user:T0PS3CRET@host/api", False),
        ("http://:T0PS3CRET@host/api", False),
    ):
        monkeypatch.setenv("PREFECT_API_URL", address)
        if good:
            assert address_in("PREFECT_API_URL") == address
            continue
        with pytest.raises(Refused, match="PREFECT_API_AUTH_STRING") as refused:
            address_in("PREFECT_API_URL")
        assert "T0PS3CRET" not in str(refused.value)
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert address_in("PREFECT_API_URL") is None


class Stream:
    """A stream of a file whose disk is full, or of a pipe that has no reader."""

    def __init__(self, file: TextIO, number: int) -> None:
        self.file, self.number, self.tries = file, number, 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))

    def flush(self) -> None:
        self.write("")

    def fileno(self) -> int:
        return self.file.fileno()


@pytest.mark.parametrize(
    ("number", "name", "fails"),
    [
        (errno.ENOSPC, "standard output", True),
        (errno.ENOSPC, None, False),
        (errno.EPIPE, "standard output", False),
        (errno.EIO, "standard output", True),  # of a file, and no terminal that was closed
    ],
)
def test_output_that_cannot_be_written_is_an_error_once_and_then_goes_nowhere(
    number: int, name: str | None, fails: bool, tmp_path: Path
) -> None:
    for call in ("write", "flush"):
        with open(tmp_path / "out", "w") as file:
            stream = Stream(file, number)
            output = Output(stream, name)  # type: ignore[arg-type]
            assert output.write("") == 0 and stream.tries == 0, "libraries probe a stream so"
            with pytest.raises(Failed, match="standard output: ") if fails else nullcontext():
                output.flush() if call == "flush" else output.write("a line")
            assert os.fstat(file.fileno()).st_rdev == Path(os.devnull).stat().st_rdev, "what comes later is discarded"


def test_a_stop_signal_that_is_ignored_stays_ignored() -> None:
    """As by `nohup`: a terminal that is closed does not stop the command."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def handler(number: int, frame: object) -> None:
        pass

    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        previous = install_stop_signals(handler)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN and signal.SIGHUP not in previous
        assert signal.getsignal(signal.SIGTERM) is handler and signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert (
            install_stop_signals(handler)[signal.SIGHUP] == signal.SIG_DFL
            and signal.getsignal(signal.SIGHUP) is handler
        )
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def test_own_servers_are_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "a.example, b.example")
    monkeypatch.setenv("NO_PROXY", "b.example,c.example")
    bypass("own.host")
    expected = "a.example,b.example,c.example,127.0.0.1,localhost,::1,own.host"
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == expected


@pytest.mark.parametrize("said", ["sqlalchemy.exc.OperationalError: no such table", "lib.errors.BadError: the cause"])
def test_the_cause_of_a_failed_start_is_the_last_error_of_this_start(said: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("OSError: of an earlier start\n")
    part = LogPart(log)
    assert part.cause() == "nothing"
    with open(log, "a") as file:
        file.write(f"Traceback (most recent call last):\n  x\n{said}\nSQL: ...\nexiting\n")
    assert part.cause() == said
    assert LogPart(tmp_path / "none")._begin == 0


def test_our_processes_import_nothing_from_the_working_directory() -> None:
    variables = environment({"PYTHONPATH": "/data", "HOME": "/root"})
    assert variables == {"HOME": "/root", "PYTHONSAFEPATH": "1"} and PYTHON[1] == "-P"


def test_collections_are_paused_and_go_on_as_before() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    gc.enable()


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.ENOSPC, "x"), errno.ENOSPC),
        (OSError(errno.EACCES, "x"), errno.EACCES),
        (OSError(errno.ENOENT, "x"), None),
        (ValueError("1000 requested and 12 written"), errno.ENOSPC),
        (ValueError("database or disk is full"), errno.ENOSPC),
        (RuntimeError(f"write failed: {os.strerror(errno.EDQUOT)}"), errno.EDQUOT),
        (ValueError("something else"), None),
    ],
)
def test_errors_of_the_machine_are_known_also_where_a_library_reports_them(
    error: BaseException, number: int | None
) -> None:
    found = of_the_machine(error)
    assert (found and found.errno) == number


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENFILE", "EFBIG"])
def test_a_full_or_broken_disk_and_what_is_not_permitted_are_of_the_machine(name: str) -> None:
    number = getattr(errno, name)
    assert of_the_machine(error := OSError(number, "x")) is error


def test_a_stop_ends_with_the_code_of_its_signal_and_says_what_is_saved() -> None:
    assert [Stopped(number).exit_code for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == [130, 75, 75]
    assert str(Stopped(15, saved="step 7")) == "stopped by SIGTERM; step 7 is saved"
    assert str(Stopped(2)) == "stopped by SIGINT; finished pieces are kept"
    assert not isinstance(Stopped(2), Exception), "which `except Exception` would catch"
