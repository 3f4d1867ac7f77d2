"""Checks of the machine: Python, packages, home, disk, memory, accelerators, clock, ports and servers."""

from __future__ import annotations

import os
import re
import shutil
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

from infra.stack import Stack, holder, port_in_use
from tasks.environment.secrets import address_in
from tasks.errors import Refused

Verdict = Literal["ok", "warning", "fault"]

MIN_DISK = 5 << 30
"""Bytes of free disk space that a run needs."""
MIN_MEMORY = 4 << 30
"""Bytes of available memory that a run needs."""
PORTS = {"prefect": ("PREFECT_SERVER_API_PORT", "Prefect", 4200), "mlflow": ("MLFLOW_PORT", "MLflow", 5000)}
"""By service of the stack: variable, name and default of the port."""
NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "lustre"}


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    what: str
    verdict: Verdict
    saw: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        """Return all fields."""
        return asdict(self)


def examine(home: Path) -> list[Finding]:
    """Run all checks."""
    return [
        python(),
        *packages(),
        check_home(home),
        disk(home),
        memory(),
        accelerators(),
        clock(home),
        *ports(home),
        *servers(),
    ]


def python() -> Finding:
    """Check for Python 3.11, for which the versions are locked."""
    saw = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] == (3, 11):
        return Finding("python", "ok", saw)
    return Finding("python", "fault", saw, "use Python 3.11, for which the versions are locked")


def packages() -> Iterator[Finding]:
    """Compare installed packages with the requirements; two of them break Prefect without a message if not met."""
    wrong = 0
    for line in requires("millrace") or []:
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(wanted.name)
        except PackageNotFoundError:
            installed = "not installed"
        if installed == "not installed" or installed not in wanted.specifier:
            wrong += 1
            rule = f"{wanted.name} {installed}, must be {wanted.specifier or 'installed'}"
            yield Finding("package", "fault", rule, "run make setup, or pip install --constraint requirements.lock")
    if not wrong:
        named = ", ".join(f"{name} {version(name)}" for name in ("tensorflow", "keras", "prefect", "mlflow"))
        yield Finding("packages", "ok", named)


def check_home(home: Path) -> Finding:
    """Check that the home can be written, and is on a file system with locks."""
    folder = _nearest(home)
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return Finding("home", "fault", f"{home}: {error.strerror}", "set MILLRACE_HOME to one that can be written")
    for part in (home, home / "store", home / "runs"):
        if os.access(part, os.F_OK) and not os.access(part, os.R_OK | os.W_OK | os.X_OK):
            return Finding("home", "fault", f"{part}: no permission", "change its permissions")
    kind = filesystem(folder)
    if kind in NETWORK_FILESYSTEMS:
        remedy = "locks do not work on a network file system: set MILLRACE_HOME to a folder on a local disk"
        return Finding("home", "fault", f"{home} is on {kind}", remedy)
    return Finding("home", "ok", f"{home} ({kind})")


def _nearest(home: Path) -> Path:
    """Return the home, or its nearest ancestor that exists."""
    return next(path for path in (home, *home.parents) if os.access(path, os.F_OK))  # false without permission


def filesystem(path: Path) -> str:
    """Return the type of the file system of a path."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint))
    resolved = path.resolve()
    kinds = [mount.fstype for mount in mounts if resolved.is_relative_to(mount.mountpoint)]
    return kinds[-1] if kinds else "unknown"


def disk(home: Path) -> Finding:
    """Check the free disk space."""
    folder = _nearest(home)
    free = shutil.disk_usage(folder).free
    saw = f"{free / 2**30:.0f} GiB free"
    return Finding("disk", "ok", saw) if free > MIN_DISK else Finding("disk", "fault", saw, "run millrace gc")


def memory() -> Finding:
    """Check the available memory."""
    free = psutil.virtual_memory().available
    saw = f"{free / 2**30:.1f} GiB available, {psutil.cpu_count(logical=False)} cores"
    return (
        Finding("memory", "ok", saw) if free > MIN_MEMORY else Finding("memory", "warning", saw, "stop other programs")
    )


def accelerators() -> Finding:
    """Check whether TensorFlow can use the GPUs of the driver."""
    gpus = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if not gpus:
        return Finding("accelerators", "ok", "none; training uses the CPU")
    try:
        version("nvidia-cudnn-cu12")
    except PackageNotFoundError:
        remedy = "install TensorFlow's GPU wheels: see README, 'GPUs'"
        return Finding("accelerators", "warning", f"{len(gpus)} NVIDIA, not used", remedy)
    return Finding("accelerators", "ok", f"{len(gpus)} NVIDIA")


def clock(home: Path) -> Finding:
    """Compare this machine's clock with that of the file system, as heartbeats do."""
    folder = _nearest(home)
    probe = folder / f".clock-{os.getpid()}"
    try:
        probe.touch()
        difference = time.time() - probe.stat().st_mtime
        probe.unlink()
    except OSError as error:
        return Finding("clock", "warning", str(error), "see home")
    if abs(difference) > 5:
        return Finding(
            "clock", "fault", f"the disk's clock differs by {difference:+.0f} s", "synchronise the clocks (NTP)"
        )
    return Finding("clock", "ok", f"the disk's clock agrees within {max(abs(difference), 0.1):.1f} s")


def ports(home: Path) -> Iterator[Finding]:
    """Check that the ports of the home's stack are free, or used by it."""
    stack = Stack(home)
    layout, living = stack.layout, stack.living()
    for service, (variable, name, default) in PORTS.items():
        last = getattr(layout, f"{service}_port") if layout else default
        value = os.environ.get(variable, str(last))
        if service in living:
            yield Finding(f"port {last}", "ok", f"{name} of this home")
            continue
        if not value.isdecimal() or not 0 < int(value) < 1 << 16:
            yield Finding(variable, "fault", value, "set it to a number from 1 to 65535, or unset it")
            continue
        port = int(value)
        if not port_in_use("127.0.0.1", port):
            yield Finding(f"port {port}", "ok", f"free for {name}")
            continue
        yield Finding(
            f"port {port}", "warning", f"in use by {holder(port)}", f"set {variable} to another port for {name}"
        )


def servers() -> Iterator[Finding]:
    """Check that the servers in the environment answer."""
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
