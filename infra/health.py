"""What a machine must have for the pipeline to run, looked at one by one."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement

from tasks.config.secrets import address_in
from tasks.errors import Refused

Verdict = Literal["ok", "warning", "fault"]

ROOM = 5 << 30
"""Bytes of disk under which a run may not come to its end."""
MEMORY = 4 << 30
PORTS = {"PREFECT_SERVER_API_PORT": ("Prefect", 4200), "MLFLOW_PORT": ("MLflow", 5000)}
NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "lustre"}


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    what: str
    verdict: Verdict
    saw: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        """For `--json`."""
        return asdict(self)


def examine(home: Path) -> list[Finding]:
    """Everything, in the order in which it would hurt."""
    return [python(), *packages(), place(home), disk(home), memory(), accelerators(), clock(home), *ports(), *servers()]


def python() -> Finding:
    """Python 3.11, which the lock was made for."""
    saw = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] == (3, 11):
        return Finding("python", "ok", saw)
    return Finding("python", "fault", saw, "use Python 3.11: the locked versions are those of 3.11")


def packages() -> Iterator[Finding]:
    """What pyproject asks for against what is installed; two of the pins break Prefect silently when missed."""
    wrong = 0
    for line in requires("millrace") or []:
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            found = "not installed"
        if found == "not installed" or found not in wanted.specifier:
            wrong += 1
            rule = f"{wanted.name} {found}, must be {wanted.specifier or 'installed'}"
            yield Finding("package", "fault", rule, "make setup, or pip install --constraint requirements.lock")
    if not wrong:
        named = ", ".join(f"{name} {version(name)}" for name in ("tensorflow", "keras", "prefect", "mlflow"))
        yield Finding("packages", "ok", named)


def place(home: Path) -> Finding:
    """The home can be written, and its locks mean something."""
    folder = _nearest(home)
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return Finding("home", "fault", f"{home}: {error.strerror}", "set MILLRACE_HOME to one that can be written")
    for part in (home, home / "store", home / "runs"):
        if os.access(part, os.F_OK) and not os.access(part, os.R_OK | os.W_OK | os.X_OK):
            return Finding("home", "fault", f"{part}: not to be read or written", "mend its permissions")
    kind = filesystem(folder)
    if kind in NETWORK_FILESYSTEMS:
        remedy = "locks do not hold over a network: set MILLRACE_HOME to a folder on a local disk"
        return Finding("home", "fault", f"{home} lies on {kind}", remedy)
    return Finding("home", "ok", f"{home} ({kind})")


def _nearest(home: Path) -> Path:
    """The home, or what of its path is there."""
    return next(path for path in (home, *home.parents) if os.access(path, os.F_OK))  # false where we may not look


def filesystem(path: Path) -> str:
    """The type of the file system that holds a path."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint))
    resolved = path.resolve()
    kinds = [mount.fstype for mount in mounts if resolved.is_relative_to(mount.mountpoint)]
    return kinds[-1] if kinds else "unknown"


def disk(home: Path) -> Finding:
    """Room for artifacts and staging."""
    folder = _nearest(home)
    free = shutil.disk_usage(folder).free
    saw = f"{free / 2**30:.0f} GiB free"
    return Finding("disk", "ok", saw) if free > ROOM else Finding("disk", "fault", saw, "make room: millrace gc")


def memory() -> Finding:
    """Room for TensorFlow and the data."""
    free = psutil.virtual_memory().available
    saw = f"{free / 2**30:.1f} GiB available, {psutil.cpu_count(logical=False)} cores"
    return Finding("memory", "ok", saw) if free > MEMORY else Finding("memory", "warning", saw, "end other programs")


def accelerators() -> Finding:
    """GPUs that the driver shows, and whether TensorFlow could use them."""
    found = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if not found:
        return Finding("accelerators", "ok", "none; training uses the CPU")
    try:
        version("nvidia-cudnn-cu12")
    except PackageNotFoundError:
        remedy = "install TensorFlow's GPU wheels: see README, 'GPUs'"
        return Finding("accelerators", "warning", f"{len(found)} NVIDIA, not used", remedy)
    return Finding("accelerators", "ok", f"{len(found)} NVIDIA")


def clock(home: Path) -> Finding:
    """Heartbeats compare this machine's clock with the file system's."""
    folder = _nearest(home)
    probe = folder / f".clock-{os.getpid()}"
    try:
        probe.touch()
        off = time.time() - probe.stat().st_mtime
        probe.unlink()
    except OSError as error:
        return Finding("clock", "warning", str(error), "see home")
    if abs(off) > 5:
        return Finding("clock", "fault", f"the disk's clock is {off:+.0f} s off", "set the clocks (NTP)")
    return Finding("clock", "ok", f"the disk's clock agrees within {max(abs(off), 0.1):.1f} s")


def ports() -> Iterator[Finding]:
    """Whether the servers' ports are free, or who has them."""
    for variable, (name, default) in PORTS.items():
        given = os.environ.get(variable, str(default))
        if not given.isdecimal() or not 0 < int(given) < 1 << 16:
            yield Finding(variable, "fault", given, "set it to a number from 1 to 65535, or unset it")
            continue
        port = int(given)
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", port)) == 0
        if not taken:
            yield Finding(f"port {port}", "ok", f"free for {name}")
            continue
        yield Finding(f"port {port}", "warning", f"in use by {holder(port)}", f"{name} needs another: set {variable}")


def holder(port: int) -> str:
    """Who listens on a port, as far as the system tells."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.Error, OSError):
        pass
    return "a process of another user"


def servers() -> Iterator[Finding]:
    """The servers that the environment names answer."""
    for variable, path in (("PREFECT_API_URL", "/health"), ("MLFLOW_TRACKING_URI", "/health")):
        try:
            url = address_in(variable)
        except Refused as refused:
            yield Finding(variable, "fault", refused.saw, refused.remedy)
            continue
        if not url or not re.match(r"https?://", url):
            continue
        try:
            with urllib.request.urlopen(url.rstrip("/") + path, timeout=5):
                yield Finding(variable, "ok", f"{url} answers")
        except (OSError, ValueError, HTTPException) as error:
            yield Finding(variable, "fault", f"{url}: {error}", "start it, or unset the variable")
