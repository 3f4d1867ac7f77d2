"""The Job of a training: what Kubernetes takes, whose objects fit one another, and whose pods find their places."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tasks.config.compose import Config, load
from tests.support.homes import ROOT, CommandHome
from tests.support.hosts import DOCKERFILE, FEW, as_host, train
from tests.support.hosts import names as names

FILE = ROOT / "infra/kubernetes/training.yaml"
OBJECTS: dict[str, dict[str, Any]] = {row["kind"]: row for row in yaml.safe_load_all(FILE.read_text())}
JOB = OBJECTS["Job"]["spec"]
POD = JOB["template"]["spec"]
[CONTAINER] = POD["containers"]
LONGEST_PAUSE = 360
"""Seconds that Kubernetes waits at most before it replaces a pod that has failed several times."""

PLACE = """
import json, os, sys
from pathlib import Path
from tasks.config.compose import load
from tasks.processes.config import find_place
train = load(Path(sys.argv[1])).train
place = find_place(train.cluster, train.strategy.kind, train.strategy.processes, os.environ)
print(json.dumps([place.rank, list(place.cluster.hosts), place.by]))
"""


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    """The preset, as it is mounted."""
    path = tmp_path / Path(CONTAINER["args"][-1]).name
    path.write_text(OBJECTS["ConfigMap"]["data"][path.name])
    return path


@pytest.fixture
def config(preset: Path) -> Config:
    return load(preset)


@pytest.mark.parametrize("kind", OBJECTS)
def test_kubernetes_takes_each_object(kind: str) -> None:
    kubernetes_validate.validate(OBJECTS[kind], kubernetes_validate.latest_version(), strict=True)


def test_there_is_a_pod_for_each_host_of_the_preset(config: Config) -> None:
    assert JOB["completionMode"] == "Indexed"
    assert JOB["completions"] == JOB["parallelism"] == config.train.strategy.processes == 2
    assert config.train.cluster is not None and not config.train.cluster.hosts
    assert config.train.cluster.wait > LONGEST_PAUSE
    assert POD["terminationGracePeriodSeconds"] > config.resources.grace


def test_the_service_names_the_pods_and_reaches_the_port_of_the_preset(config: Config) -> None:
    service, labels = OBJECTS["Service"]["spec"], JOB["template"]["metadata"]["labels"]
    assert POD["subdomain"] == OBJECTS["Service"]["metadata"]["name"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert service["selector"].items() <= labels.items()
    assert config.train.cluster is not None
    assert [port["port"] for port in service["ports"]] == [config.train.cluster.port]
    assert [port["containerPort"] for port in CONTAINER["ports"]] == [config.train.cluster.port]
    policy = OBJECTS["NetworkPolicy"]["spec"]
    [[peer]] = [rule["from"] for rule in policy["ingress"]]
    assert policy["podSelector"] == peer["podSelector"] == {"matchLabels": labels}


def test_volumes_are_those_of_the_claim_the_preset_and_the_image() -> None:
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert (
        volumes["state"]["persistentVolumeClaim"]["claimName"] == OBJECTS["PersistentVolumeClaim"]["metadata"]["name"]
    )
    assert volumes["preset"]["configMap"]["name"] == OBJECTS["ConfigMap"]["metadata"]["name"]
    assert (
        f"MILLRACE_HOME={mounts['state']}" in DOCKERFILE and f"USER {POD['securityContext']['runAsUser']}" in DOCKERFILE
    )
    assert CONTAINER["args"][0] == "millrace" and str(Path(CONTAINER["args"][-1]).parent) == mounts["preset"]
    assert OBJECTS["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_pod_that_is_lost_comes_back_and_one_that_is_refused_does_not() -> None:
    actions = {
        code: rule["action"]
        for rule in JOB["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
        for code in rule["onExitCodes"]["values"]
    }
    assert actions == {75: "Ignore", 1: "FailJob", 2: "FailJob", 3: "FailJob"}
    assert POD["restartPolicy"] == "Never" and JOB["backoffLimit"] > 0, "else Kubernetes takes no such policy"


def pods(names: Path) -> list[str]:
    """Let /etc/hosts name each pod as the kubelet does: full name first; their host names."""
    job, service = OBJECTS["Job"]["metadata"]["name"], POD["subdomain"]
    own = [f"{job}-{index}" for index in range(JOB["completions"])]
    lines = [f"127.0.0.{11 + n} {pod}.{service}.default.svc.cluster.local {pod}\n" for n, pod in enumerate(own)]
    names.write_text("127.0.0.1 localhost\n" + "".join(lines))
    return own


def test_a_pod_finds_its_place_by_its_name(names: Path, preset: Path) -> None:
    for index, pod in enumerate(pods(names)):
        script = ["env", f"JOB_COMPLETION_INDEX={index}", sys.executable, "-c", PLACE, str(preset)]
        done = subprocess.run([*as_host(pod, names), *script], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        hosts = [f"digits-{n}.digits.default.svc.cluster.local" for n in range(2)]
        assert json.loads(done.stdout) == [index, hosts, "JOB_COMPLETION_INDEX"]


@pytest.mark.slow
def test_what_the_pods_run_trains(names: Path, preset: Path, finished: CommandHome, tmp_path: Path) -> None:
    """Their command, on hosts that are named as pods are, with one home."""
    home = finished.copied_to(tmp_path / "state")
    hosts = [
        CommandHome(home.root, as_host(pod, names), {"JOB_COMPLETION_INDEX": str(index)})
        for index, pod in enumerate(pods(names))
    ]
    said = train(hosts, [*CONTAINER["args"][1:-1], str(preset), *FEW])
    assert "rank 1 has joined digits-0.digits.default.svc.cluster.local:7400" in said[1]
    assert home.newest_run("training")["status"] == "completed"
