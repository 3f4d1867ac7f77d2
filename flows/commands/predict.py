"""millrace predict: use an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.launching import computed
from flows.references import resolved
from flows.reply import AsJson, replying
from tasks.artifacts import Export
from tasks.errors import Failed, Refused
from tasks.runs.home import Home, find_home
from tasks.store.store import Store
from tasks.view import terminal


def predict(
    export: Annotated[str, typer.Argument(help="A digest, a folder, NAME@ALIAS or NAME@VERSION.")],
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Raw files.")],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write rows and answers to a .csv or .jsonl file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict from raw files: images, sounds, texts, or rows of .csv, .tsv, .jsonl and .parquet files.

    An input that cannot be read is an error, and the others are predicted. Exit code 1 if there was an error.
    """
    with replying("predict", as_json) as reply:
        home = find_home().readable()
        for path in inputs:
            if not Path(path).is_file():
                raise Refused("INPUT", path, "an input must be an existing file", "correct the path")
        if output is not None and output.suffix.lower() not in (".csv", ".jsonl"):
            raise Refused("--output", output, "answers are written as rows", "name a file that ends in .csv or .jsonl")
        with terminal.waiting("loading TensorFlow and the model"):
            rows = _predict(home, folder_of(home, export), inputs, output)
        predictions = [row for row in rows if "error" not in row]
        reply.add(predictions=predictions, output=None if output is None else str(output.resolve()))
        for row in predictions:
            reply.say(formatted(row))
        if output is not None:
            reply.say(f"wrote {output}")
        for row in rows:
            if "error" in row:
                reply.fail(Failed(**row["error"]))


def formatted(row: dict[str, Any]) -> str:
    """Format a prediction: the main output's, and those of the others by column."""
    return "; ".join([_main(row), *(f"{name} {_further(answer)}" for name, answer in row.get("further", {}).items())])


def _further(answer: dict[str, Any]) -> str:
    if "class" in answer:
        return f"{answer['class']} ({answer['confidence']:.3f})"
    return ", ".join(map(_number, answer["values"].values()))


def _main(row: dict[str, Any]) -> str:
    if "class" in row:
        others = ", ".join(f"{other['class']} {other['confidence']:.3f}" for other in row["top"][1:])
        return f"{row['input']}: {row['class']} ({row['confidence']:.3f}; then {others})"
    if "continuation" in row:
        bits = "empty" if row["bits_per_byte"] is None else f"{row['bits_per_byte']:.4f} bits per byte"
        return f"{row['input']}: {bits}; continuation:\n{row['continuation']}"
    if "tags" in row:
        found = "".join(f"; {each['type']}: {' '.join(each['words'])}" for each in row.get("entities", ()))
        cut = f"; {row['cut']:,} more words were cut" if "cut" in row else ""
        return f"{row['input']}: {' '.join(row['tags'])}{found}{cut}"
    values = row.get("values") or row["labels"]
    above = f"; predicted: {', '.join(row['predicted']) or 'none'}" if "predicted" in row else ""
    return f"{row['input']}: {', '.join(f'{name} {_number(value)}' for name, value in values.items())}{above}"


def _number(value: float) -> str:
    """Format a number with four digits, or with those before its point."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def folder_of(home: Home, export: str) -> Path:
    """Return the folder of an export, verified unless it is given by its path; fetch it from the registry if needed."""
    if Path(export).is_dir():
        return Path(export)
    store = Store(home.store)
    if "@" in export:
        with resolved(home, export) as reference:
            return reference.fetch(store).path
    artifact = store.find(Export, store.resolve(export, "export").digest, "export")
    assert artifact is not None
    return artifact.path


def _predict(home: Home, folder: Path, inputs: list[str], output: Path | None) -> list[dict[str, Any]]:
    """Predict in a compute process."""
    from tasks.exporting import work as exporting
    from tasks.processes.workbench import work

    return computed(home, "predict", 1, work(exporting.predict, folder, inputs, output), "INPUT")
