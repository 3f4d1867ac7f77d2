"""What `millrace doctor` finds of the machine: what is enough, what is at fault, and under which name it says so."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from infra import health
from infra.health import Finding
from tests.support.stacks import free_ports


def of(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.what, finding.verdict) for finding in findings]


@pytest.mark.parametrize(
    ("running", "verdict"), [((3, 11, 0), "ok"), ((3, 11, 9), "ok"), ((3, 10, 11), "fault"), ((3, 12, 0), "fault")]
)
def test_one_python_is_right(running: tuple[int, ...], verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.sys, "version_info", running)  # type: ignore[attr-defined]
    found = health.python()
    assert (found.what, found.verdict, found.saw) == ("python", verdict, ".".join(map(str, running)))
    assert bool(found.remedy) is (verdict != "ok")


def test_a_package_that_is_missing_or_of_another_version_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"keras": "3.1", "numpy": "2.0", "tensorflow": "2.21", "prefect": "3.7", "mlflow": "3.14"}

    def version(name: str) -> str:
        if name not in here:
            raise health.PackageNotFoundError(name)
        return here[name]

    wanted = ["keras>=3,<4", "numpy==1.9", "gone>=1", "bare", "other; python_version < '3'", "more; extra == 'onnx'"]
    monkeypatch.setattr(health, "version", version)
    monkeypatch.setattr(health, "requires", lambda name: wanted)
    found = list(health.packages())
    assert of(found) == [("package", "fault")] * 3
    assert [finding.saw for finding in found] == [
        "numpy 2.0, must be ==1.9",
        "gone not installed, must be >=1",
        "bare not installed, must be installed",
    ]
    monkeypatch.setattr(health, "requires", lambda name: ["keras>=3,<4"])
    [whole] = health.packages()
    assert (whole.what, whole.verdict) == ("packages", "ok")
    assert whole.saw == "tensorflow 2.21, keras 3.1, prefect 3.7, mlflow 3.14"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/data/home", "nfs4"), ("/data/local/home", "xfs"), ("/database", "ext4"), ("/data", "nfs4"), ("/", "ext4")],
)
def test_the_file_system_of_a_path_is_that_of_its_nearest_mount(
    path: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = [("/data/local", "xfs"), ("/", "ext4"), ("/data", "nfs4"), ("/else/where/long", "zfs")]
    rows = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: rows if all else [])
    assert health.filesystem(Path(path)) == kind
    rows.clear()
    assert health.filesystem(Path(path)) == "unknown"


@pytest.mark.parametrize("part", ["", "store", "runs"])
@pytest.mark.parametrize("missing", [os.R_OK, os.W_OK, os.X_OK, 0])
def test_a_home_whose_parts_cannot_be_used_is_at_fault(
    part: str, missing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("store", "runs"):
        (tmp_path / name).mkdir()
    real, locked = os.access, tmp_path / part
    monkeypatch.setattr(
        os, "access", lambda path, mode: real(path, mode) and not (Path(path) == locked and mode & missing)
    )
    found = health.check_home(tmp_path)
    assert found.verdict == ("fault" if missing else "ok") and str(locked if missing else tmp_path) in found.saw


def test_a_home_that_cannot_be_written_is_at_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def refuse(dir: Path) -> Any:
        asked.append(dir)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(health.tempfile, "TemporaryFile", refuse)  # type: ignore[attr-defined]
    found = health.check_home(tmp_path / "not/yet")
    assert (found.verdict, found.saw) == ("fault", f"{tmp_path / 'not/yet'}: Permission denied") and asked == [tmp_path]
    assert health.clock(tmp_path / "not/yet").verdict == "ok", "by the nearest folder that is there"


@pytest.mark.parametrize(("free", "verdict"), [(health.MIN_MEMORY + 1, "ok"), (health.MIN_MEMORY, "warning")])
def test_little_memory_is_a_warning(free: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 6 if not logical else 12)
    found = health.memory()
    assert (found.what, found.verdict, found.saw) == ("memory", verdict, "4.0 GiB available, 6 cores")


@pytest.mark.parametrize(
    ("devices", "wheels", "verdict", "saw"),
    [
        ([], False, "ok", "none; training uses the CPU"),
        (["nvidia0", "nvidia1"], True, "ok", "2 NVIDIA"),
        (["nvidia0"], False, "warning", "1 NVIDIA, not used"),
    ],
)
def test_a_gpu_that_tensorflow_cannot_use_is_a_warning(
    devices: list[str], wheels: bool, verdict: str, saw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if not wheels:
            raise health.PackageNotFoundError(name)
        return "9"

    monkeypatch.setattr(health, "version", version)
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [path / name for name in devices])
    found = health.accelerators()
    assert (found.verdict, found.saw) == (verdict, saw)


def test_a_port_is_of_the_stack_free_taken_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free, other = map(int, free_ports()[:2])
    layout = SimpleNamespace(prefect_port=free, mlflow_port=other)
    living: set[str] = set()
    monkeypatch.setattr(health, "Stack", lambda home: SimpleNamespace(layout=layout, living=lambda: living))
    for variable, _, _ in health.PORTS.values():
        monkeypatch.delenv(variable, raising=False)
    assert of(list(health.ports(tmp_path))) == [(f"port {free}", "ok"), (f"port {other}", "ok")]
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        monkeypatch.setenv("MLFLOW_PORT", str(taken))
        found = list(health.ports(tmp_path))
        assert of(found) == [(f"port {free}", "ok"), (f"port {taken}", "warning")]
        assert f"process {os.getpid()} " in found[1].saw and "set MLFLOW_PORT" in found[1].remedy
        living.add("mlflow")
        assert of(list(health.ports(tmp_path))) == [(f"port {free}", "ok"), (f"port {other}", "ok")], "the stack's own"
    for wrong in ("0", "65536", "-1", "a port", "4200.5", ""):
        monkeypatch.setenv("PREFECT_SERVER_API_PORT", wrong)
        [first, second] = health.ports(tmp_path)
        assert (first.what, first.verdict, first.saw) == ("PREFECT_SERVER_API_PORT", "fault", wrong)
        assert second.what == f"port {other}"
    monkeypatch.setattr(health, "Stack", lambda home: SimpleNamespace(layout=None, living=set))
    monkeypatch.setattr(health, "port_in_use", lambda host, port: False)
    for number in ("1", "65535"):
        monkeypatch.setenv("PREFECT_SERVER_API_PORT", number)
        monkeypatch.delenv("MLFLOW_PORT", raising=False)
        assert of(list(health.ports(tmp_path))) == [(f"port {number}", "ok"), ("port 5000", "ok")]


def test_a_server_of_the_environment_is_asked_for_its_health(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def opened(url: str, timeout: float) -> Any:
        asked.append(url)
        if "dead" in url:
            raise ConnectionRefusedError(111, "Connection refused")
        return open(os.devnull)

    monkeypatch.setattr(health.urllib.request, "urlopen", opened)  # type: ignore[attr-defined]
    for variable in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    assert list(health.servers()) == []
    monkeypatch.setenv("PREFECT_API_URL", "http://alive/api/")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://dead")
    found = list(health.servers())
    assert of(found) == [("PREFECT_API_URL", "ok"), ("MLFLOW_TRACKING_URI", "fault")]
    assert asked == ["http://alive/api/health", "https://dead/health"] and "Connection refused" in found[1].saw
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    assert of(list(health.servers())) == [("PREFECT_API_URL", "ok")], "a file is no server"


def test_an_examination_has_every_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(name: str) -> Any:
        return lambda *given: Finding(name, "ok", "")

    for name in ("python", "disk", "memory", "accelerators", "clock", "check_home"):
        monkeypatch.setattr(health, name, one(name))
    for name in ("packages", "ports", "servers"):
        monkeypatch.setattr(health, name, lambda *given, name=name: [Finding(f"{name}{n}", "ok", "") for n in (1, 2)])
    assert [finding.what for finding in health.examine(tmp_path)] == [
        *("python", "packages1", "packages2", "check_home", "disk", "memory", "accelerators", "clock"),
        *("ports1", "ports2", "servers1", "servers2"),
    ]
