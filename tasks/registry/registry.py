"""An export under a name and an alias in MLflow's registry."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
    ErrorCode,
)
from mlflow.tracking import MlflowClient
from mlflow.types.schema import Schema, TensorSpec

from tasks.artifacts import Export
from tasks.display import terminal
from tasks.errors import Damaged, Failed, Lost
from tasks.runs.audit import Audit, Entry
from tasks.runs.provenance import packages
from tasks.store.store import Store
from tasks.tracking.outage import machine_error, reason

CHAMPION, CANDIDATE = "champion", "candidate"

PENDING, APPROVED, REJECTED, LAPSED = "pending", "approved", "rejected", "lapsed"
"""What `millrace.approval` says; lapsed: a gate held the version back while it was pending."""

ABSENT = {ErrorCode.Name(RESOURCE_DOES_NOT_EXIST), ErrorCode.Name(INVALID_PARAMETER_VALUE)}
"""How MLflow says that there is no such model, and that it has no such alias."""

ABOUT = """Made by Millrace. `champion` is the version to use, `candidate` the latest that its gate held back or that
awaits approval.
Each version tells in its description how it was judged, and links to the run that made it."""


@contextmanager
def user_errors(uri: str) -> Iterator[None]:
    """A registry that stops answering is the user's to mend: one line, and nothing is decided without it.

    Raises `Lost` where it did not answer or failed in itself, `Failed` where it refused.
    """
    try:
        yield
    except (MlflowException, OSError) as error:
        if (found := machine_error(uri, error)) is not None:
            raise found from error
        rule, remedy = "a release needs the registry", "run again when it is up: what was finished is kept"
        refused = isinstance(error, MlflowException) and error.get_http_status_code() < 500
        raise (Failed if refused else Lost)(uri, reason(error), rule, remedy) from error


@dataclass(frozen=True)
class Registered:
    """What the registry says of a version."""

    version: str
    export: str
    records: str
    score: float
    metric: str
    """By which the score was taken: `test/accuracy`."""
    gate: str
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    @staticmethod
    def of(found: ModelVersion) -> Registered:
        """From MLflow's own object."""
        tags = found.tags
        return Registered(
            str(found.version),
            tags.get("millrace.export", ""),
            tags.get("millrace.records", ""),
            float(tags.get("millrace.score", "nan")),
            tags.get("millrace.metric", ""),
            tags.get("millrace.gate", ""),
            tags,
            found.description or "",
        )

    @property
    def approval(self) -> str | None:
        """Where its approval stands; None where none was asked for."""
        return self.tags.get("millrace.approval")

    def decided(self, run: str) -> bool:
        """Whether somebody has answered to this run."""
        return self.approval in (APPROVED, REJECTED) and self.tags.get("millrace.approval_run") == run


@dataclass(frozen=True)
class Change:
    """What a decision changes in the registry, in full: made twice it is as made once."""

    model: str
    tags: dict[str, dict[str, str | None]]
    """By version; None takes a tag away."""
    notes: dict[str, str]
    """Descriptions in Markdown, by version."""
    aliases: dict[str, str | None]
    """The version that each points to; None takes it away."""


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


def version(client: MlflowClient, name: str, number: str) -> Registered | None:
    """A version by its number; None where there is none (any more)."""
    try:
        return Registered.of(client.get_model_version(name, number))
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def versions(client: MlflowClient, name: str) -> list[Registered]:
    """All versions of a model, oldest first."""
    found: list[ModelVersion] = []
    token = None
    while token is None or token:
        page = client.search_model_versions(f"name = '{name}'", order_by=["version_number ASC"], page_token=token)
        found += page
        token = page.token or ""
    return [Registered.of(each) for each in found]


class Pyfunc:
    """MLflow's own flavour, without its trial request: that would load TensorFlow into the flow's process."""

    @staticmethod
    def save_model(validate_serving_input: bool, **arguments: Any) -> None:
        """Write the model's files."""
        mlflow.pyfunc.save_model(**arguments)


def register(uri: str, mlflow_id: str, name: str, export: Path, tags: dict[str, str]) -> str:
    """Log the export as a pyfunc model of the MLflow run and make it a version; returns the version.

    Needs no TensorFlow: MLflow keeps the files and the code that will load them.
    """
    mlflow.set_tracking_uri(uri)
    golden = np.load(export / "golden.npz")
    inputs, outputs = golden["inputs"], golden["outputs"]
    signature = ModelSignature(
        inputs=Schema([TensorSpec(inputs.dtype, (-1, *inputs.shape[1:]))]),
        outputs=Schema([TensorSpec(outputs.dtype, (-1, *outputs.shape[1:]))]),
    )
    versions = packages()
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    with mlflow.start_run(run_id=mlflow_id):
        logged = Model.log(
            None,
            name=name,
            flavor=Pyfunc,
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts={"export": str(export)},
            signature=signature,
            input_example=inputs[:2],
            validate_serving_input=False,  # the export was verified in a fresh process
            pip_requirements=[f"{package}=={versions[package]}" for package in ("mlflow", "numpy", "tensorflow")],
        )
    client = MlflowClient(uri)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
            raise
    made = client.create_model_version(name, logged.model_uri, mlflow_id, tags=tags, model_id=logged.model_id)
    return str(made.version)


def decide(client: MlflowClient, audit: Audit, change: Change, entry: Entry) -> None:
    """Make a change and write its line; whoever is killed amid it leaves behind what it takes to finish it."""
    audit.begin(entry, asdict(change))
    if not finish(client, audit):
        rule, remedy = "one decision at a time moves an alias", "run again"
        raise Failed(f"{entry.model}@{entry.alias}", "it was moved meanwhile", rule, remedy)


def finish(client: MlflowClient, audit: Audit) -> bool:
    """Finish what was begun, if anything was; False where somebody else has changed the registry meanwhile."""
    found = audit.begun()
    if found is None:
        return True
    entry, change = found
    now, meant = aliased(client, entry["model"], entry["alias"]), version(client, entry["model"], entry["version"])
    alike = meant is not None and meant.export == entry["export"]
    if not alike or (now.version if now else None) not in (entry["before"], entry["after"]):
        what = f"{entry['action']} {entry['model']} version {entry['version']}"
        terminal.say(f"warning: {what} was begun, and the registry changed before it ended: dropped", style="yellow")
        audit.drop()
        return False
    apply(client, Change(**change))
    audit.close()
    return True


def apply(client: MlflowClient, change: Change) -> None:
    """Make a change: what is told of a version first, then the alias."""
    name = change.model
    for number, tags in change.tags.items():
        for tag, value in tags.items():
            if value is None:
                client.delete_model_version_tag(name, number, tag)
            else:
                client.set_model_version_tag(name, number, tag, value)
    for number, note in change.notes.items():
        client.update_model_version(name, number, description=note)
    if not client.get_registered_model(name).description:
        client.update_registered_model(name, ABOUT)
    for alias, pointed in change.aliases.items():
        if pointed is None:
            client.delete_registered_model_alias(name, alias)
        else:
            client.set_registered_model_alias(name, alias, pointed)


def download(client: MlflowClient, name: str, version: str, into: Path) -> Path:
    """A version's export, fetched from where MLflow keeps it; `Failed` where MLflow has none (any more)."""
    found: Any = client.get_model_version(name, version)
    try:
        folder = mlflow.artifacts.download_artifacts(artifact_uri=found.source, dst_path=str(into))
    except MlflowException as error:
        if error.error_code not in ABSENT:
            raise
        rule, remedy = "a registered version has its files", "run its pipeline again, which registers them anew"
        raise Failed(f"{name} version {version}", f"no files at {found.source}", rule, remedy) from error
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
        if (published := store.find(Export, found.export, "export")) is not None:
            return published
    except Damaged as damage:
        terminal.say(f"warning: {damage}; the registry has another copy", style="yellow")
    with store.claim(Export, found.export, "export") as claim:
        if (published := claim.published()) is not None:  # by whom we waited for
            return published
        folder = download(client, name, found.version, claim.staging.scratch("fetched"))
        if (fault := claim.fault(folder)) is not None:
            rule, remedy = "a registered export is what its manifest says", "run the pipeline again, which remakes it"
            raise Failed(f"{which}: {fault[0]}", fault[1], rule, remedy)
        return claim.take(folder)
