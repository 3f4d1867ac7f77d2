"""The templates of work pools: taken by a real Prefect server, and filled in by Prefect's own workers."""

from __future__ import annotations

import asyncio
import importlib
import json
import shlex
import uuid
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prefect.client.schemas import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

from infra.orchestration import TEMPLATE, ensure_pool
from infra.services import POOL, Answered, Layout, call
from tasks.processes.config import ResourcesConfig
from tests.support.homes import ROOT
from tests.support.shared import shared_server

CLASSES = {
    "process": "prefect.workers.process:ProcessJobConfiguration",
    "docker": "prefect_docker.worker:DockerWorkerJobConfiguration",
    "kubernetes": "prefect_kubernetes.worker:KubernetesWorkerJobConfiguration",
}
GIVEN: dict[str, dict[str, Any]] = {
    "process": {"env": {"MILLRACE_HOME": "/data"}, "working_dir": "/millrace"},
    "docker": {"image": "millrace:2", "mem_limit": "8g", "env.MLFLOW_TRACKING_URI": "http://mlflow:5000"},
    "kubernetes": {"image": "millrace:2", "namespace": "training", "memory_limit": "8Gi", "volume_claim": "digits"},
}
"""Job variables of a deployment, by kind of pool."""


def template(kind: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((TEMPLATE.parent / f"{kind}.json").read_bytes())
    return content


def ask(method: str, path: str, body: Any = None) -> Any:
    return call(method, f"{shared_server()}{path}", body)


@pytest.fixture(scope="module")
def flow() -> str:
    return str(ask("POST", "/flows/", {"name": "training"})["id"])


@pytest.fixture(params=CLASSES)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of pool; there is one of its template, named `pool-KIND`."""
    name = str(request.param)
    pool = {"name": f"pool-{name}", "type": name, "base_job_template": template(name)}
    try:
        ask("POST", "/work_pools/", pool)
    except Answered as error:
        assert error.code == 409
    return name


def configuration(kind: str, variables: dict[str, Any]) -> Any:
    """What the worker of a pool starts for a flow run."""
    module, _, name = CLASSES[kind].partition(":")
    loaded = getattr(importlib.import_module(module), name)
    with temporary_settings({PREFECT_API_URL: shared_server()}):
        made = asyncio.run(loaded.from_template_and_values(template(kind), variables))
    made.prepare_for_flow_run(FlowRun(flow_id=uuid.uuid4(), name="digits-training"))
    return made


def test_a_deployment_gives_job_variables_and_a_misspelled_one_is_refused(kind: str, flow: str) -> None:
    body = {"name": f"on-{kind}", "flow_id": flow, "work_pool_name": f"pool-{kind}"}
    made = ask("POST", "/deployments/", {**body, "job_variables": GIVEN[kind]})
    assert made["job_variables"] == GIVEN[kind]
    for wrong in ({"imagee": "millrace"}, {"env": 3}):
        with pytest.raises(Answered) as refused:
            ask("POST", "/deployments/", {**body, "job_variables": wrong})
        assert refused.value.code == 422


def test_a_template_has_all_that_prefects_own_has(kind: str) -> None:
    """A new version of Prefect may add variables, or fill in others."""
    package = "prefect" if kind == "process" else f"prefect-{kind}"
    views = ask("GET", "/collections/views/aggregate-worker-metadata")
    theirs, ours = views[package][kind]["default_base_job_configuration"], template(kind)
    for name, field in theirs["variables"]["properties"].items():
        assert {**ours["variables"]["properties"][name], "default": None} == {**field, "default": None}
    assert ours["job_configuration"].keys() == theirs["job_configuration"].keys()


def test_every_pool_imports_our_flows_first(kind: str) -> None:
    command = configuration(kind, GIVEN[kind]).command
    words = command if isinstance(command, list) else shlex.split(command)
    assert words == ["python", "-P", "-m", "flows.prefect_process", "-m", "prefect.engine"]


def test_a_container_has_the_image_and_the_home_of_the_dockerfile() -> None:
    made = configuration("docker", GIVEN["docker"])
    assert (made.image, made.volumes) == ("millrace:2", ["millrace:/state"])
    assert made.env["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert "MILLRACE_HOME=/state" in (ROOT / "infra/container/Dockerfile").read_text()


def test_the_job_of_a_run_is_one_that_kubernetes_takes() -> None:
    job = configuration("kubernetes", GIVEN["kubernetes"]).job_manifest
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (container["image"], container["resources"]["limits"]) == ("millrace:2", {"memory": "8Gi"})
    assert container["args"][-1] == "prefect.engine" and job["metadata"]["namespace"] == "training"
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "digits"
    assert container["volumeMounts"] == [{"name": "state", "mountPath": "/state"}]
    assert pod["terminationGracePeriodSeconds"] > ResourcesConfig().grace


def test_up_makes_its_pool_of_the_same_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, "prefect_api", shared_server())
    layout = Layout(ROOT / ".millrace", ROOT)
    for _ in range(2):  # the second time it exists
        ensure_pool(layout)
    made = ask("GET", f"/work_pools/{POOL}")["base_job_template"]
    properties, expected = made["variables"]["properties"], template("process")["variables"]["properties"]
    assert properties.keys() == expected.keys()
    assert properties["working_dir"]["default"] == str(ROOT)
    assert properties["command"]["default"].endswith("python -P -m flows.prefect_process -m prefect.engine")


def test_the_deployments_name_the_pool_that_up_makes() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert {row["work_pool"]["name"] for row in deployments} == {POOL}
    assert len({(row["entrypoint"], row["name"]) for row in deployments}) == len(deployments)
