"""millrace predict: use an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.reply import AsJson, replying
from flows.session import use_stack
from tasks.artifacts import Export
from tasks.display import terminal
from tasks.errors import Failed, Refused
from tasks.runs.home import Home, find_home
from tasks.store.store import Store


def predict(
    export: Annotated[str, typer.Argument(help="A digest, a folder, or NAME@ALIAS.")],
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Raw files.")],
    as_json: AsJson = False,
) -> None:
    """Predict from raw files; a file that cannot be read is an error, and the others are predicted."""
    with replying("predict", as_json) as reply:
        home = find_home().readable()
        for path in inputs:
            if not Path(path).is_file():
                raise Refused("INPUT", path, "an input must be an existing file", "correct the path")
        with terminal.waiting("loading TensorFlow and the model"):
            rows = _predict(home, folder_of(home, export), inputs)
        predictions = [row for row in rows if "error" not in row]
        reply.add(predictions=predictions)
        if not as_json:
            for row in predictions:
                typer.echo(formatted(row))
        failures = [Failed(**row["error"]) for row in rows if "error" in row]
        for failure in reversed(failures):  # the JSON object names the first
            reply.fail(failure)


def formatted(row: dict[str, Any]) -> str:
    """Format a prediction."""
    if "class" in row:
        others = ", ".join(f"{other['class']} {other['confidence']:.3f}" for other in row["top"][1:])
        return f"{row['input']}: {row['class']} ({row['confidence']:.3f}; then {others})"
    if "continuation" in row:
        bits = "empty" if row["bits_per_byte"] is None else f"{row['bits_per_byte']:.4f} bits per byte"
        return f"{row['input']}: {bits}; continuation:\n{row['continuation']}"
    values = row.get("values") or row["labels"]
    return f"{row['input']}: {', '.join(f'{name} {value:.4g}' for name, value in values.items())}"


def folder_of(home: Home, export: str) -> Path:
    """Return the folder of an export, verified unless it is given by its path; fetch it from the registry if needed."""
    if Path(export).is_dir():
        return Path(export)
    store = Store(home.store)
    if "@" in export:
        return _released(home, store, export)
    artifact = store.find(Export, store.resolve(export, "export").digest, "export")
    assert artifact is not None
    return artifact.path


def _released(home: Home, store: Store, reference: str) -> Path:
    """Return the export of NAME@ALIAS, from the store or else from the registry."""
    use_stack(home)
    name, _, alias = reference.partition("@")
    unknown = Refused(reference, "no such version", "NAME@ALIAS names a registered model", "see the MLflow registry")
    if not name or not alias or not home.has_registry():
        raise unknown
    from tasks.tracking import shipping

    shipping.set_environment()
    from tasks.registry import registry
    from tasks.tracking.runs import connect

    with registry.user_errors(home.mlflow_uri):
        client = connect(home.mlflow_uri)
        version = registry.aliased(client, name, alias)
        if version is None:
            raise unknown
        return registry.fetch(client, store, name, version).path


def _predict(home: Home, folder: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """Predict in a compute process."""
    from tasks.processes.crew import Crew, Limits

    logs = home.root / "logs"
    with Crew(logs, threads=1).gang("predict") as gang:
        return gang.call(
            "tasks.exporting.predict:predict_in_child",
            None,
            logs / "predict.jsonl",
            (folder, inputs),
            limits=Limits("INPUT", 600),
            on_report=lambda *report: None,
        )
