"""Predictions of an export on raw files: images, texts, and CSV files of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from tasks.data.images import prepare, read
from tasks.data.tables import read_rows
from tasks.errors import Failed
from tasks.evaluation.language_model import METRICS
from tasks.evaluation.sampling import sample
from tasks.exporting.raw import TextSplit, predictions_of_texts
from tasks.exporting.run import Runner, float_model
from tasks.exporting.transform import codec, read_transform
from tasks.models.forward import predict_batches

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

TOP = 3
CONTINUATION, TEMPERATURE = 60, 0.7
"""Tokens of a text's continuation, and the sampling temperature."""


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
            rows += READERS[transform["kind"]](name, export, transform, run)
        except Failed as error:
            rows.append({"input": name, "error": error.as_json()})
        except OSError as error:
            reason = Failed(name, error.strerror, "an input is a file that can be read", "check the file")
            rows.append({"input": name, "error": reason.as_json()})
    return rows


def _image(name: str, export: Path, transform: dict[str, Any], run: Runner) -> list[dict[str, Any]]:
    pixels = prepare(read(Path(name)), transform, name)
    return [_row(name, predict_batches(run, pixels[None])[0], transform)]


def _table(name: str, export: Path, transform: dict[str, Any], run: Runner) -> list[dict[str, Any]]:
    outputs = predict_batches(run, np.stack(read_rows(Path(name), transform["columns"])))
    names = [f"{name}:{number}" if len(outputs) > 1 else name for number in range(1, len(outputs) + 1)]
    return [_row(*row, transform) for row in zip(names, outputs, strict=True)]


def _row(name: str, outputs: npt.NDArray[np.float32], transform: dict[str, Any]) -> dict[str, Any]:
    answer = ANSWERS[transform.get("task", "classification")]
    return {"input": name, **answer(outputs.astype(np.float64), transform)}


def _class(values: npt.NDArray[np.float64], transform: dict[str, Any]) -> dict[str, Any]:
    confidences = softmax(values)
    order = np.argsort(-confidences, kind="stable")[:TOP]
    top = [{"class": transform["classes"][index], "confidence": float(confidences[index])} for index in order]
    return {**top[0], "top": top}


def _labels(values: npt.NDArray[np.float64], transform: dict[str, Any]) -> dict[str, Any]:
    return {"labels": dict(zip(transform["targets"], map(float, 1 / (1 + np.exp(-values))), strict=True))}


def _values(values: npt.NDArray[np.float64], transform: dict[str, Any]) -> dict[str, Any]:
    return {"values": dict(zip(transform["targets"], map(float, values), strict=True))}


def _text(name: str, export: Path, transform: dict[str, Any], run: Runner) -> list[dict[str, Any]]:
    content = Path(name).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        saw = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        raise Failed(name, saw, "text must be UTF-8", "convert it") from error
    row: dict[str, Any] = {"input": name, "bytes": len(content), "bits_per_byte": None}
    if content:
        predictions = predictions_of_texts(TextSplit(export, transform, [name], [content]), run)
        row["bits_per_byte"] = METRICS["bits_per_byte"](predictions)
    continuation = sample(
        run, codec(export), text[-8 * transform["block"] :], CONTINUATION, TEMPERATURE, transform["block"]
    )
    return [{**row, "continuation": continuation}]


READERS = {"image": _image, "tokens": _text, "table": _table}
"""From a raw file to rows, by the kind of snapshot."""

ANSWERS = {"classification": _class, "multilabel": _labels, "regression": _values}
"""From the outputs for an example to a row, by task."""
