"""An export under a name and an alias in MLflow's registry."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as installed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import numpy as np
import numpy.typing as npt
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature, infer_signature
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
    ErrorCode,
)
from mlflow.tracking import MlflowClient
from mlflow.types.schema import AnyType, ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

from tasks.artifacts import Export
from tasks.errors import Damaged, Failed, Lost
from tasks.exporting import prediction
from tasks.exporting.preprocess import read_transform
from tasks.exporting.readme import RAW_INPUTS
from tasks.runs.audit import Audit, Entry
from tasks.store.files import pretty
from tasks.store.store import Store
from tasks.tracking.shipping import machine_error, reason
from tasks.view import terminal

CHAMPION, CANDIDATE = "champion", "candidate"

PENDING, APPROVED, REJECTED, LAPSED = "pending", "approved", "rejected", "lapsed"
"""What `millrace.approval` says; lapsed: a gate held the version back while it was pending."""

ABSENT = {ErrorCode.Name(RESOURCE_DOES_NOT_EXIST), ErrorCode.Name(INVALID_PARAMETER_VALUE)}
"""How MLflow says that there is no such model, and that it has no such alias."""

DESCRIBES = ("task", "classes", "targets", "temperature", "thresholds", "further")
"""What the pyfunc model takes of an export's transform."""

NEEDS = ("mlflow", "numpy", "pandas", "tensorflow")
"""The packages of a pyfunc model, besides those of its reader."""

ABOUT = """Made by Millrace. `champion` is the version to use, `candidate` the latest that its gate held back or that
awaits approval.
The description of each version says how it was judged, and links to the run that made it."""


@contextmanager
def user_errors(uri: str) -> Iterator[None]:
    """Raise an error that names the registry where it does not answer within the block; nothing is decided without it.

    Raises `Lost` where it did not answer or failed in itself, `Failed` where it refused.
    """
    try:
        yield
    except (MlflowException, OSError) as error:
        if (cause := machine_error(uri, error)) is not None:
            raise cause from error
        rule, remedy = "a release needs the registry", "run again when it is up; finished stages are kept"
        refused = isinstance(error, MlflowException) and error.get_http_status_code() < 500
        raise (Failed if refused else Lost)(uri, reason(error), rule, remedy) from error


@dataclass(frozen=True)
class Registered:
    """A model version in the registry."""

    version: str
    export: str
    records: str
    score: float
    metric: str
    """The metric of the score: `test/accuracy`."""
    gate: str
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    @staticmethod
    def of(version: ModelVersion) -> Registered:
        """Convert MLflow's object."""
        tags = version.tags
        return Registered(
            str(version.version),
            tags.get("millrace.export", ""),
            tags.get("millrace.records", ""),
            float(tags.get("millrace.score", "nan")),
            tags.get("millrace.metric", ""),
            tags.get("millrace.gate", ""),
            tags,
            version.description or "",
        )

    @property
    def scored_on(self) -> tuple[str, str]:
        """What scores must have in common to be compared: the records, and the rank up to which rankings are judged."""
        return self.records, self.tags.get("millrace.at", "")

    @property
    def behind(self) -> float:
        """How far it is behind the best of the champions before it, by its metric; 0 where it is the best."""
        return float(self.tags.get("millrace.behind", 0.0))

    @property
    def approval(self) -> str | None:
        """The state of its approval; None if none was required."""
        return self.tags.get("millrace.approval")

    def decided(self, run: str) -> bool:
        """Return whether the approval that this run asked for was decided."""
        return self.approval in (APPROVED, REJECTED) and self.tags.get("millrace.approval_run") == run


@dataclass(frozen=True)
class Change:
    """The changes of a decision in the registry; applying them twice has the same result."""

    model: str
    tags: dict[str, dict[str, str | None]]
    """Tags by version; None deletes a tag."""
    notes: dict[str, str]
    """Descriptions in Markdown, by version."""
    aliases: dict[str, str | None]
    """Version by alias; None deletes an alias."""


def find(client: MlflowClient, name: str, export: str) -> Registered | None:
    """Return the newest version with this export."""
    query = f"name = '{name}' and tags.`millrace.export` = '{export}'"
    newest = client.search_model_versions(query, max_results=1, order_by=["version_number DESC"])
    return Registered.of(newest[0]) if newest else None


def aliased(client: MlflowClient, name: str, alias: str) -> Registered | None:
    """Return the version of an alias; None if there is none. Other errors of MLflow are raised."""
    try:
        return Registered.of(client.get_model_version_by_alias(name, alias))
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def version(client: MlflowClient, name: str, number: str) -> Registered | None:
    """Return a version by its number; None if there is none."""
    try:
        return Registered.of(client.get_model_version(name, number))
    except MlflowException as error:
        if error.error_code in ABSENT:
            return None
        raise


def versions(client: MlflowClient, name: str) -> list[Registered]:
    """Return all versions of a model, oldest first."""
    all_pages: list[ModelVersion] = []
    token = None
    while token is None or token:
        page = client.search_model_versions(f"name = '{name}'", order_by=["version_number ASC"], page_token=token)
        all_pages += page
        token = page.token or ""
    return [Registered.of(each) for each in all_pages]


def models(client: MlflowClient) -> list[str]:
    """Return the names of all registered models."""
    names: list[str] = []
    token = None
    while token is None or token:
        page = client.search_registered_models(order_by=["name ASC"], page_token=token)
        names += [model.name for model in page]
        token = page.token or ""
    return names


def aliases(client: MlflowClient, name: str) -> dict[str, list[str]]:
    """Return the aliases of a model's versions, by version."""
    of_version: dict[str, list[str]] = {}
    for alias, number in client.get_registered_model(name).aliases.items():
        of_version.setdefault(str(number), []).append(alias)
    return of_version


class Pyfunc:
    """MLflow's pyfunc flavour without its test request, which would import TensorFlow in the process of the flow."""

    @staticmethod
    def save_model(validate_serving_input: bool, **arguments: Any) -> None:
        """Write the files of the model."""
        mlflow.pyfunc.save_model(**arguments)


def register(uri: str, mlflow_id: str, name: str, export: Path, tags: dict[str, str]) -> str:
    """Log the export as a pyfunc model of the MLflow run, and return its new version. Imports no TensorFlow."""
    mlflow.set_tracking_uri(uri)
    with np.load(export / "golden.npz") as golden:
        inputs = {name.partition("/")[2]: golden[name] for name in golden.files if name.startswith("inputs/")}
        outputs = golden["outputs"]
        further = {name.partition("/")[2]: golden[name][:1] for name in golden.files if name.startswith("further/")}
    transform = read_transform(export)
    described = {name: transform[name] for name in DESCRIBES if name in transform}
    signature = ModelSignature(_takes(transform, inputs), Schema([_tensor(outputs)]))
    if described["task"] in prediction.ROWS:
        likely = np.full_like(outputs[:1], 100.0)  # every label is predicted: MLflow infers from values
        first = {name: array[:1] for name, array in inputs.items()}
        answers = prediction.predictions(likely, described, first, further)
        signature.outputs = infer_signature(None, answers).outputs
        signature.params = ParamSchema([ParamSpec("raw", DataType.boolean, False)])
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    with mlflow.start_run(run_id=mlflow_id), TemporaryDirectory() as scratch:
        (about := Path(scratch) / "transform.json").write_bytes(pretty(described))
        logged = Model.log(
            None,
            name=name,
            flavor=Pyfunc,
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts={"export": str(export), "prediction": prediction.__file__, "transform": str(about)},
            signature=signature,
            input_example=_example(transform, inputs),
            validate_serving_input=False,  # the export was verified in a fresh process
            pip_requirements=[f"{package}=={installed(package)}" for package in (*NEEDS, *_packages(transform))],
        )
    client = MlflowClient(uri)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
            raise
    made = client.create_model_version(name, logged.model_uri, mlflow_id, tags=tags, model_id=logged.model_id)
    return str(made.version)


def _takes(transform: Mapping[str, Any], inputs: Mapping[str, npt.NDArray[Any]]) -> Schema:
    """Return what the pyfunc model takes: the raw columns by name, or of a language model its only array.

    A column's values are of any type: MLflow would refuse a number in a column of text and a text in one of numbers,
    which the reader casts, 1 in a column that had 1.5 before, and over HTTP a missing file.
    """
    if "columns" not in transform:
        return Schema([_tensor(array) for array in inputs.values()])
    return Schema([ColSpec(AnyType(), column["name"]) for column in transform["columns"]])


def _example(transform: Mapping[str, Any], inputs: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return an input of the pyfunc model: a row in which every cell is missing, as an export has no raw rows; of a
    language model tokens."""
    if "columns" not in transform:
        return next(iter(inputs.values()))[:2]
    import pandas as pd

    return pd.DataFrame([dict.fromkeys(column["name"] for column in transform["columns"])])


def _tensor(array: npt.NDArray[Any]) -> TensorSpec:
    return TensorSpec(array.dtype, (-1, *array.shape[1:]))


def _packages(transform: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the packages that the reader of an export imports."""
    return RAW_INPUTS[transform["kind"]].packages(dict(transform)) if "columns" in transform else ()


def decide(client: MlflowClient, audit: Audit, change: Change, entry: Entry) -> None:
    """Apply a change and write its line in the audit log; if the process is killed, `finish` completes it."""
    audit.begin(entry, asdict(change))
    if not finish(client, audit):
        rule, remedy = "no other program moves an alias meanwhile", "run again"
        raise Failed(f"{entry.model}@{entry.alias}", "it was moved by another program", rule, remedy)


def finish(client: MlflowClient, audit: Audit) -> bool:
    """Complete a change that was begun, if there is one; return False if the registry was changed meanwhile."""
    begun = audit.begun()
    if begun is None:
        return True
    entry, change = begun
    now, meant = aliased(client, entry["model"], entry["alias"]), version(client, entry["model"], entry["version"])
    unchanged = meant is not None and meant.export == entry["export"]
    if not unchanged or (now.version if now else None) not in (entry["before"], entry["after"]):
        what = f"{entry['action']} {entry['model']} version {entry['version']}"
        terminal.say(f"warning: {what} was not completed, as the registry was changed meanwhile", style="yellow")
        audit.drop()
        return False
    apply(client, Change(**change))
    audit.close()
    return True


def apply(client: MlflowClient, change: Change) -> None:
    """Apply a change: tags and descriptions first, then aliases."""
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
    """Download the export of a version from MLflow's artifacts; raise `Failed` if they were deleted."""
    registered: Any = client.get_model_version(name, version)
    try:
        folder = mlflow.artifacts.download_artifacts(artifact_uri=registered.source, dst_path=str(into))
    except MlflowException as error:
        if error.error_code not in ABSENT:
            raise
        rule, remedy = "a registered version has its files", "run its pipeline again to register them"
        raise Failed(f"{name} version {version}", f"no files at {registered.source}", rule, remedy) from error
    # It has the name that it had in the store, beside the files of the pyfunc model.
    [export] = (path for path in (Path(folder) / "artifacts").iterdir() if path.is_dir())
    return export


def fetch(client: MlflowClient, store: Store, name: str, registered: Registered) -> Export:
    """Return the verified export of a version, from the store or downloaded into it.

    Raises:
        Failed: the files differ from their manifest, or the version was not registered by Millrace.
    """
    which = f"{name} version {registered.version}"
    if not registered.export:
        raise Failed(
            which, "no tag millrace.export", "only versions registered by Millrace are supported", "load it with MLflow"
        )
    try:
        if (published := store.find(Export, registered.export, "export")) is not None:
            return published
    except Damaged as damage:
        terminal.say(f"warning: {damage}; the registry has another copy", style="yellow")
    with store.claim(Export, registered.export, "export") as claim:
        if (published := claim.published()) is not None:  # by the process that had the lock
            return published
        folder = download(client, name, registered.version, claim.staging.scratch("fetched"))
        if (fault := claim.fault(folder)) is not None:
            rule, remedy = "a registered export matches its manifest", "run the pipeline again"
            raise Failed(f"{which}: {fault[0]}", fault[1], rule, remedy)
        return claim.take(folder)
