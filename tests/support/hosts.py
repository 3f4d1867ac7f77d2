"""Several hosts on this machine: names of their own, by namespaces of the kernel; and a training on all of them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.homes import ROOT, CommandHome

FEW = ["--train.steps", "40", "--train.schedule.warmup", "5"]
DOCKERFILE = (ROOT / "infra/container/Dockerfile").read_text()

AS_HOST = """
hostname "$0" && mount --bind "$1" /etc/hosts || exit 125
if [ -n "$2" ]; then mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" || exit 125; fi
shift 2
exec "$@"
"""


def as_host(name: str, names: Path, read_only: Path | str = "") -> list[str]:
    """What begins a command on a host of this name, with this /etc/hosts, where a folder cannot be written."""
    return ["unshare", "--uts", "--mount", "bash", "-c", AS_HOST, name, str(names), str(read_only)]


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """A file to be /etc/hosts; the test is skipped where a process may not have one of its own."""
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n")
    if subprocess.run([*as_host("other", path), "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces: they need root")
    return path


def train(hosts: Sequence[CommandHome], words: Sequence[str], timeout: float = 300) -> list[str]:
    """Run a command on every host to its end, which must be a good one; what each said.

    One at a time on this machine: the chief of every training listens at the port of the presets.
    """
    with open(Path(tempfile.gettempdir()) / "millrace-hosts.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        started = [host.start(*words) for host in hosts]
        try:
            said = [process.communicate(timeout=timeout)[1] for process in started]
        except subprocess.TimeoutExpired:
            for process in started:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(said)
    return said
