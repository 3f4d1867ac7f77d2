"""An export under a name and an alias in MLflow's registry."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.tracking import MlflowClient
from mlflow.types.schema import Schema, TensorSpec

from tasks import console
from tasks.artifacts import Export
from tasks.errors import Damaged, Failed
from tasks.store.provenance import packages
from tasks.store.store import Store
from tasks.tracking.outage import ours, reason
from tasks.workbench import Workbench

CHAMPION, CANDIDATE = "champion", "candidate"

ABSENT = {ErrorCode.Name(RESOURCE_DOES_NOT_EXIST), ErrorCode.Name(INVALID_PARAMETER_VALUE)}
"""How MLflow says that there is no such model, and that it has no such alias."""

ABOUT = """Made by Millrace. `champion` is the version to use, `candidate` the latest that its gate held back.
Each version tells in its description how it was judged, and links to the run that made it."""


@contextmanager
def answering(uri: str) -> Iterator[None]:
    """A registry that stops answering is the user's to mend: one line, and nothing is decided without it."""
    try:
        yield
    except (MlflowException, OSError) as error:
        if (found := ours(uri, error)) is not None:
            raise found from error
        rule, remedy = "a release needs the registry", "run again when it is up: what was finished is kept"
        raise Failed(uri, reason(error), rule, remedy) from error


@dataclass(frozen=True)
class Registered:
    """What the registry says of a version."""

    version: str
    export: str
    records: str
    score: float
    gate: str

    @staticmethod
    def of(found: ModelVersion) -> Registered:
        """From MLflow's own object."""
        tags = found.tags
        return Registered(
            str(found.version),
            tags.get("millrace.export", ""),
            tags.get("millrace.records", ""),
            float(tags.get("millrace.score", "nan")),
            tags.get("millrace.gate", ""),
        )


def find(client: MlflowClient, name: str, export: str) -> Registered | None:
    """The version that holds this export, among any number; the newest, should there be two."""
    query = f"name = '{name}' and tags.`millrace.export` = '{export}'"
    found = client.search_model_versions(query, max_results=1, order_by=["version_number DESC"])
    return Registered.of(found[0]) if found else None


def aliased(client: MlflowClient, name: str, alias: str) -> Registered | None:
    """The version under an alias; raises what MLflow raises where the registry did not answer that there is none."""
    try:
        return Registered.of(client.get_model_version_by_alias(name, alias))
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def register(bench: Workbench, uri: str, mlflow_id: str, name: str, export: Path, tags: dict[str, str]) -> str:
    """Log the export as a pyfunc model of the MLflow run and make it a version; returns the version.

    Runs in a compute process. Raises `Failed` where the registry does not answer.
    """
    with answering(uri):
        return _register(uri, mlflow_id, name, export, tags)


def _register(uri: str, mlflow_id: str, name: str, export: Path, tags: dict[str, str]) -> str:
    mlflow.set_tracking_uri(uri)
    golden = np.load(export / "golden.npz")
    inputs, outputs = golden["inputs"], golden["outputs"]
    signature = ModelSignature(
        inputs=Schema([TensorSpec(inputs.dtype, (-1, *inputs.shape[1:]))]),
        outputs=Schema([TensorSpec(outputs.dtype, (-1, *outputs.shape[1:]))]),
    )
    versions = packages()
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    with warnings.catch_warnings(), mlflow.start_run(run_id=mlflow_id):
        warnings.simplefilter("ignore")
        logged = mlflow.pyfunc.log_model(
            name=name,
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts={"export": str(export)},
            signature=signature,
            input_example=inputs[:2],
            pip_requirements=[f"{package}=={versions[package]}" for package in ("mlflow", "numpy", "tensorflow")],
        )
    made = mlflow.register_model(logged.model_uri, name, tags=tags)
    return str(made.version)


def move(client: MlflowClient, name: str, alias: str, version: str, gate: str, note: str) -> None:
    """Point an alias at a version, say which gate it passed and, in Markdown, what it is."""
    client.set_model_version_tag(name, version, "millrace.gate", gate)
    client.update_model_version(name, version, description=note)
    if not client.get_registered_model(name).description:
        client.update_registered_model(name, ABOUT)
    client.set_registered_model_alias(name, alias, version)


def download(client: MlflowClient, name: str, version: str, into: Path) -> Path:
    """A version's export, fetched from where MLflow keeps it."""
    found: Any = client.get_model_version(name, version)
    folder = mlflow.artifacts.download_artifacts(artifact_uri=found.source, dst_path=str(into))
    [export] = (Path(folder) / "artifacts").iterdir()  # MLflow calls it as it was called in the store
    return export


def fetch(client: MlflowClient, store: Store, name: str, found: Registered) -> Export:
    """A version's export, checked: from the store, or taken into it from where MLflow keeps it.

    Raises `Failed` where the registered files are not those of the manifest that was registered with them, and for
    a version that somebody else has registered.
    """
    which = f"{name} version {found.version}"
    if not found.export:
        raise Failed(which, "no tag millrace.export", "it was not registered by Millrace", "load it by MLflow itself")
    try:
        if (lying := store.find(Export, found.export, "export")) is not None:
            return lying
    except Damaged as damage:
        console.say(f"warning: {damage}; the registry has another copy", style="yellow")
    with store.claim(Export, found.export, "export") as claim:
        if (lying := claim.published()) is not None:  # by whom we waited for
            return lying
        folder = download(client, name, found.version, claim.staging.scratch("fetched"))
        if (fault := claim.fault(folder)) is not None:
            rule, remedy = "a registered export is what its manifest says", "run the pipeline again, which remakes it"
            raise Failed(f"{which}: {fault[0]}", fault[1], rule, remedy)
        return claim.take(folder)
