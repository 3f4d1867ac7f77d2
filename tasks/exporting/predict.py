"""Predictions of an export on raw files: images, texts, and CSV files of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import Failed
from tasks.exporting.raw_inputs import RAW_INPUTS
from tasks.exporting.run import float_model
from tasks.exporting.transform import read_transform

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


def predict_in_child(bench: Workbench, export: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """Run `predict` as a work function in a child process."""
    return predict(export, inputs)


def predict(export: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """Run the export's float model on raw files.

    Returns:
        A row for each input (for each line of a table). Of images `{"input", "class", "confidence", "top": [{"class",
        "confidence"}, ...]}`, with the top three classes by confidence, the first of which is the prediction. Of texts
        `{"input", "bytes", "bits_per_byte", "continuation"}`. Of multilabel models `{"input", "labels": {name:
        confidence}}`; of regressions `{"input", "values": {name: number}}`. Of an input that cannot be read or is not
        of the export's kind `{"input", "error": {"field", "saw", "rule", "remedy"}}`.

    Raises:
        Failed: the folder is not an export.
    """
    transform = read_transform(export)
    run = float_model(export)
    rows: list[dict[str, Any]] = []
    for name in inputs:
        try:
            rows += RAW_INPUTS[transform["kind"]].predict(name, export, transform, run)
        except Failed as error:
            rows.append({"input": name, "error": error.as_json()})
        except OSError as error:
            reason = Failed(name, error.strerror, "an input is a file that can be read", "check the file")
            rows.append({"input": name, "error": reason.as_json()})
    return rows
