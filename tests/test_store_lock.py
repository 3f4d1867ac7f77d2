"""One writer at a time: living processes are not killed, dead and suspended holders are replaced, tokens grow."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tasks.errors import Failed, Stopped
from tasks.store import lock
from tasks.store.lock import Watch, locked, place

HOLD = """
import sys, time
from pathlib import Path
from tasks.store import lock
lock.BEAT = 0.1
with lock.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def stopped_after(seconds: float) -> Callable[[], None]:
    """A signal that comes to a waiter."""
    until = time.monotonic() + seconds

    def stop() -> None:
        if time.monotonic() > until:
            raise Stopped(signal.SIGTERM)

    return stop


@pytest.fixture
def holder(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "l")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_dead_holders_lock_is_free_at_once(tmp_path: Path, holder: subprocess.Popen) -> None:
    holder.kill()
    started = time.monotonic()
    with locked(tmp_path / "l") as mine:
        assert mine.token == 2
    assert time.monotonic() - started < 5


def test_a_stopped_holder_is_ended_and_its_token_is_old(tmp_path: Path, holder: subprocess.Popen) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    messages: list[str] = []
    with locked(tmp_path / "l", messages.append, silence=1.0) as mine:
        mine.check("test")
        assert mine.token == 2
    assert holder.wait(5) is not None
    assert "waiting for process" in messages[0]
    assert "taking over" in messages[1]


def test_who_waits_for_a_lock_can_be_stopped(tmp_path: Path, holder: subprocess.Popen) -> None:
    def raise_if_stopped() -> None:
        raise Stopped(signal.SIGTERM)

    with pytest.raises(Stopped), locked(tmp_path / "l", raise_if_stopped=raise_if_stopped):
        pass
    assert holder.poll() is None


ARRIVE = """
import multiprocessing, os, socket, sys, time
from pathlib import Path
from tasks.store import lock

host = socket.gethostname()

def slow():  # between the flock and the signature, as on a disk that is busy
    time.sleep(0.01)
    return host

socket.gethostname = slow

def arrive(path, barrier, tokens):
    barrier.wait()
    with lock.locked(path, silence=0.5) as mine:
        os.write(tokens, b"%d\\n" % mine.token)

context = multiprocessing.get_context("fork")
path, tokens = Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
barrier = context.Barrier(40)
processes = [context.Process(target=arrive, args=(path, barrier, tokens)) for _ in range(40)]
[process.start() for process in processes]
[process.join() for process in processes]
sys.exit(max(abs(process.exitcode) for process in processes))
"""

RELEASE = """
import sys, time
from pathlib import Path
from tasks.store.lock import locked
with locked(Path(sys.argv[1])):
    pass
print("released", flush=True)
time.sleep(600)
"""


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A living process that held the lock long ago."""
    process = subprocess.Popen([sys.executable, "-c", RELEASE, str(tmp_path / "l")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    os.utime(tmp_path / "l", (0, 0))
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_forty_arrivals_at_once_harm_nobody(tmp_path: Path, bystander: subprocess.Popen[str]) -> None:
    subprocess.run([sys.executable, "-c", ARRIVE, str(tmp_path / "l"), str(tmp_path / "tokens")], check=True)
    assert bystander.poll() is None
    # In the order in which they held it.
    assert (tmp_path / "tokens").read_text().split() == [str(number) for number in range(2, 42)]


def test_what_stood_in_the_lock_before_its_holder_signed_proves_nothing(
    tmp_path: Path, bystander: subprocess.Popen[str]
) -> None:
    with open(tmp_path / "l", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(Failed, match="has not signed"),
            locked(tmp_path / "l", raise_if_stopped=stopped_after(5), silence=0.5),
        ):
            pass
    assert bystander.poll() is None


def test_a_process_that_has_a_dead_holders_number_is_left_alone(
    tmp_path: Path, bystander: subprocess.Popen[str]
) -> None:
    """The flock of a killed process may live on in a child of its; its number may be another's by then."""
    started = psutil.Process(bystander.pid).create_time() - 60
    owner = {"token": 7, "pid": bystander.pid, "started": started, "host": place()}
    (tmp_path / "l").write_text(json.dumps(owner))
    with open(tmp_path / "l", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Stopped), locked(tmp_path / "l", raise_if_stopped=stopped_after(1.5), silence=0.5):
            pass
    assert bystander.poll() is None
    with locked(tmp_path / "l") as mine:
        assert mine.token == 8


@pytest.mark.parametrize("where", ["elsewhere", f"{socket.gethostname()} (container 7)"])
def test_a_silent_holder_elsewhere_is_named(where: str, tmp_path: Path, bystander: subprocess.Popen[str]) -> None:
    """In another container of this host, whose name may be the same, its number is another's here."""
    path = tmp_path / "l"
    started = psutil.Process(bystander.pid).create_time()
    path.write_text(json.dumps({"token": 7, "pid": bystander.pid, "started": started, "host": where}))
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(Failed, match=re.escape(f"process {bystander.pid} on {where}, silent")),
            locked(path, raise_if_stopped=stopped_after(5), silence=0.5),
        ):
            pass
    assert bystander.poll() is None


def test_a_holder_that_beats_is_waited_for(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """And without its heartbeat it would be ended: half a second of silence is allowed, and 1.5 are waited."""
    with pytest.raises(Stopped), locked(tmp_path / "l", raise_if_stopped=stopped_after(1.5), silence=0.5):
        pass
    assert holder.poll() is None


def test_a_waiter_counts_only_what_it_has_watched(tmp_path: Path) -> None:
    """After a laptop's sleep of an hour no second of silence is proven; a new beat or owner begins a new count."""
    path, now = tmp_path / "l", 0.0
    path.write_bytes(b"owner a")
    os.utime(path, (0, 0))  # as old as may be: clocks of two machines are not compared
    watch = Watch(path, lambda: now)
    for now in (0.2, 0.4):  # noqa: B007 - the watch reads it
        watch.look()
    now = 3600.4
    assert watch.look() == pytest.approx(0.4 + lock.MOST)
    os.utime(path, (5, 5))
    now += 0.2
    assert watch.look() == 0
    now += 0.2
    assert watch.look() == pytest.approx(0.2)
    path.write_bytes(b"owner b")
    os.utime(path, (5, 5))
    now += 0.2
    assert watch.look() == 0


def test_a_release_leaves_the_token_and_no_name(tmp_path: Path) -> None:
    with locked(tmp_path / "l"):
        assert json.loads((tmp_path / "l").read_bytes())["pid"] == os.getpid()
    assert json.loads((tmp_path / "l").read_bytes()) == {"token": 1}


def test_a_superseded_holder_takes_no_token_back(tmp_path: Path) -> None:
    newer = {"token": 5, "pid": 1, "started": 0, "host": "elsewhere"}
    with locked(tmp_path / "l"):
        (tmp_path / "l").write_text(json.dumps(newer))
    assert json.loads((tmp_path / "l").read_bytes()) == newer


def test_tokens_are_never_repeated(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(b'{"token": 4')
    with pytest.raises(Failed, match="cannot be read"), locked(tmp_path / "l"):
        pass
