"""The image and the two containers of a training. There is no Docker engine here: what can be checked without, is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.config.compose import load
from tasks.processes.config import find_place
from tests.support.homes import ROOT, CommandHome
from tests.support.hosts import DOCKERFILE, FEW, as_host, train
from tests.support.hosts import names as names

INFRA = ROOT / "infra/container"
COMPOSE: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def tool(*words: str) -> None:
    """Run a program of this environment; it must find nothing."""
    done = subprocess.run([str(Path(sys.executable).with_name(words[0])), *words[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_file_has_no_fault_that_hadolint_knows() -> None:
    tool("hadolint", str(INFRA / "Dockerfile"))


def test_the_image_has_what_the_project_has() -> None:
    """What is copied is there, packages are those of the lock, nobody is root, and the home is a volume."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = {name for line in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, re.M) for name in line.split()[:-1]}
    assert "dist/*.whl" in copied and "dist" in (ROOT / "Makefile").read_text()
    assert all((ROOT / name).exists() for name in copied - {"dist/*.whl"})
    [base] = re.findall(r"^ARG BASE=python:(\d)\.(\d+)-", DOCKERFILE, re.M)
    assert project["requires-python"] == f">={base[0]}.{base[1]},<{base[0]}.{int(base[1]) + 1}"
    used = re.findall(r"EXTRAS[=:-]+([a-z]+(?:,[a-z]+)*)", DOCKERFILE + (INFRA / "compose.yaml").read_text())
    assert (
        len(used) >= 4
        and {extra for extras in used for extra in extras.split(",")} <= project["optional-dependencies"].keys()
    )
    assert re.findall(r"^USER (.*)", DOCKERFILE, re.M) == ["1000"]
    [home] = re.findall(r"MILLRACE_HOME=(\S+)", DOCKERFILE)
    assert f"VOLUME {home}" in DOCKERFILE and f"install -d -o millrace -g millrace {home}" in DOCKERFILE


def test_the_gpu_wheels_are_in_the_lock_with_hashes() -> None:
    locked = (ROOT / "requirements.lock").read_text()
    assert re.search(r"^nvidia-cudnn-cu12==\S+ \\\n    --hash=sha256:", locked, re.M)


def test_the_compose_file_fits_its_schema() -> None:
    tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(INFRA / "compose.yaml"))


def test_the_containers_are_the_hosts_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = {json.dumps(service["command"]) for service in SERVICES.values()}
    program, verb, flow, preset, *flags = json.loads(command)
    assert (program, verb, flow) == ("millrace", "worker", "training")
    config = load(ROOT / preset, zip([flag.removeprefix("--") for flag in flags[::2]], flags[1::2], strict=True))
    train, strategy = config.train, config.train.strategy
    assert train.cluster is not None
    for rank, (name, service) in enumerate(SERVICES.items()):
        monkeypatch.setattr("socket.gethostname", lambda name=name: name)
        assert (
            service["hostname"] == name
            and find_place(train.cluster, strategy.kind, strategy.processes, {}).rank == rank
        )
        assert service["expose"] == [str(train.cluster.port)]
        assert int(service["stop_grace_period"].removesuffix("s")) > config.resources.grace
        assert service["build"]["dockerfile"] == "infra/container/Dockerfile"
        assert (INFRA / service["build"]["context"]).resolve() == ROOT
    [chief, worker] = (service["volumes"] for service in SERVICES.values())
    assert worker == [f"{volume}:ro" for volume in chief], "the snapshot is where the first host wrote it"
    assert chief[0].split(":") == [*COMPOSE["volumes"], *re.findall(r"^VOLUME (\S+)", DOCKERFILE, re.M)]


@pytest.mark.slow
def test_what_the_containers_run_trains(names: Path, finished: CommandHome, tmp_path: Path) -> None:
    """Their commands, on hosts of their names, where the second cannot write to the home of the first."""
    home = finished.copied_to(tmp_path / "state")
    addresses = dict(zip(SERVICES, ("127.0.0.11", "127.0.0.12"), strict=True))
    names.write_text("".join(f"{address} {name}\n" for name, address in addresses.items()))
    chief = CommandHome(home.root, as_host("chief", names))
    worker = CommandHome(tmp_path / "worker", as_host("worker", names, read_only=home.root))
    said = train([chief, worker], [*SERVICES["chief"]["command"][1:], *FEW])
    assert "rank 1 has joined chief:7400" in said[1]
    assert chief.newest_run("training")["status"] == "completed"
