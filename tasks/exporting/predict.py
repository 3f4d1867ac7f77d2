"""An export's answers to raw files: classes of images, bits per byte and a continuation of texts, numbers of rows."""

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
from tasks.exporting.raw import TextSplit, answers_of
from tasks.exporting.run import Runner, float_model
from tasks.exporting.transform import codec, read_transform
from tasks.models.forward import batched

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

TOP = 3
CONTINUED, TEMPERATURE = 60, 0.7
"""Tokens that a text is continued by, and how freely they are chosen."""


def answer(bench: Workbench, export: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """`predict`, as a work."""
    return predict(export, inputs)


def predict(export: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """The export's float model on raw files.

    Returns:
        A row for each input (for each line of a table). Of images `{"input", "class", "confidence", "top": [{"class",
        "confidence"}, ...]}`, the top three classes by confidence, the first of which is the answer. Of texts
        `{"input", "bytes", "bits_per_byte", "continuation"}`. Of multilabel models `{"input", "labels": {name:
        confidence}}`; of regressions `{"input", "values": {name: number}}`.

        Of an input that is not of the export's kind `{"input", "error": {"field", "saw", "rule", "remedy"}}`: the
        others are answered all the same.

    Raises:
        Failed: the folder is no export.
    """
    transform = read_transform(export)
    run = float_model(export)
    answer_file = _text if transform["kind"] == "tokens" else _table if transform["kind"] == "table" else _image
    rows: list[dict[str, Any]] = []
    for name in inputs:
        try:
            rows += answer_file(name, export, transform, run)
        except Failed as error:
            rows.append({"input": name, "error": error.as_json()})
        except OSError as error:
            reason = Failed(name, error.strerror, "an input is a file that can be read", "check the file")
            rows.append({"input": name, "error": reason.as_json()})
    return rows


def _image(name: str, export: Path, transform: dict[str, Any], run: Runner) -> list[dict[str, Any]]:
    pixels = prepare(read(Path(name)), transform, name)
    return [_row(name, batched(run, pixels[None])[0], transform)]


def _table(name: str, export: Path, transform: dict[str, Any], run: Runner) -> list[dict[str, Any]]:
    outputs = batched(run, np.stack(read_rows(Path(name), transform["columns"])))
    names = [f"{name}:{number}" if len(outputs) > 1 else name for number in range(1, len(outputs) + 1)]
    return [_row(*row, transform) for row in zip(names, outputs, strict=True)]


def _row(name: str, outputs: npt.NDArray[np.float32], transform: dict[str, Any]) -> dict[str, Any]:
    values = outputs.astype(np.float64)
    if transform.get("task") == "multilabel":
        shares = 1 / (1 + np.exp(-values))
        return {"input": name, "labels": dict(zip(transform["targets"], map(float, shares), strict=True))}
    if transform.get("task") == "regression":
        return {"input": name, "values": dict(zip(transform["targets"], map(float, values), strict=True))}
    confidences = softmax(values)
    order = np.argsort(-confidences, kind="stable")[:TOP]
    top = [{"class": transform["classes"][index], "confidence": float(confidences[index])} for index in order]
    return {"input": name, **top[0], "top": top}


def _text(name: str, export: Path, transform: dict[str, Any], run: Runner) -> list[dict[str, Any]]:
    content = Path(name).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        saw = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        raise Failed(name, saw, "text must be UTF-8", "convert it") from error
    found: dict[str, Any] = {"input": name, "bytes": len(content), "bits_per_byte": None}
    if content:
        answers = answers_of(TextSplit(export, transform, [name], [content]), run)
        found["bits_per_byte"] = METRICS["bits_per_byte"](answers)
    following = sample(run, codec(export), text[-8 * transform["block"] :], CONTINUED, TEMPERATURE, transform["block"])
    return [{**found, "continuation": following}]
