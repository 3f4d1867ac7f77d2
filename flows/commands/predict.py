"""millrace predict: ask an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.reply import AsJson, replying
from flows.session import use_stack
from tasks.artifacts import Export
from tasks.errors import Failed, Refused
from tasks.runs.home import Home, find_home
from tasks.store.store import Store


def predict(
    export: Annotated[str, typer.Argument(help="A digest, a folder, or NAME@ALIAS.")],
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Raw files.")],
    as_json: AsJson = False,
) -> None:
    """Use an exported model on raw files; one that cannot be read is named, and the others are answered."""
    with replying("predict", as_json) as reply:
        home = find_home().readable()
        for path in inputs:
            if not Path(path).is_file():
                raise Refused("INPUT", path, "an input is a file that exists", "check the path")
        rows = _predict(home, folder_of(home, export), inputs)
        predictions = [row for row in rows if "error" not in row]
        reply.add(predictions=predictions)
        if not as_json:
            for row in predictions:
                typer.echo(in_words(row))
        failures = [Failed(**row["error"]) for row in rows if "error" in row]
        for failure in reversed(failures):  # the JSON object names the first
            reply.fail(failure)


def in_words(row: dict[str, Any]) -> str:
    """An answer as a person reads it."""
    if "class" in row:
        others = ", ".join(f"{other['class']} {other['confidence']:.3f}" for other in row["top"][1:])
        return f"{row['input']}: {row['class']} ({row['confidence']:.3f}; then {others})"
    if "continuation" in row:
        bits = "empty" if row["bits_per_byte"] is None else f"{row['bits_per_byte']:.4f} bits per byte"
        return f"{row['input']}: {bits}; it would go on:\n{row['continuation']}"
    values = row.get("values") or row["labels"]
    return f"{row['input']}: {', '.join(f'{name} {value:.4g}' for name, value in values.items())}"


def folder_of(home: Home, export: str) -> Path:
    """The export's folder: named, in the store, or fetched from the registry; what is not the user's own is checked."""
    if Path(export).is_dir():
        return Path(export)
    store = Store(home.store)
    if "@" in export:
        return _released(home, store, export)
    found = store.find(Export, store.resolve(export, "export").digest, "export")
    assert found is not None
    return found.path


def _released(home: Home, store: Store, reference: str) -> Path:
    """The export that NAME@ALIAS names, from the store or, where that has it no more, from the registry."""
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
        found = registry.aliased(client, name, alias)
        if found is None:
            raise unknown
        return registry.fetch(client, store, name, found).path


def _predict(home: Home, folder: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """In a process of its own: this one does without TensorFlow."""
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
