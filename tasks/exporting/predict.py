"""Predictions of an export on raw files: rows, images, sounds and texts.

A text goes on by the cache of keys and values that the signatures `prefill` and `decode` hand back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import Failed
from tasks.evaluation.tasks.language_model import METRICS, sample
from tasks.exporting import SAVED_MODEL, float_model, open_variant
from tasks.exporting.prediction import ANSWERS, CONTINUATION, TEMPERATURE, predictions
from tasks.exporting.preprocess import codec, read_transform
from tasks.exporting.raw_rows import Answers, Row, is_table, rows_of
from tasks.exporting.score import TextSplit, predictions_of_texts
from tasks.models.decoding import DECODE, DOCUMENTS, LOGITS, POSITION, PREFILL
from tasks.models.features import TOKENS, Arrays
from tasks.models.forward import Call
from tasks.models.outputs import FURTHER
from tasks.reader import Reader, Unusable


def predict(export: Path, inputs: list[str], output: Path | None = None) -> list[dict[str, Any]]:
    """Run the export's float model on raw files.

    Args:
        output: a file `.csv` or `.jsonl` for the raw rows with their answers; only errors are returned then.

    Returns:
        A row for each input (for each row of a table: `FILE:1`, ...). Of classifiers `{"input", "class", "confidence",
        "top": [{"class", "confidence"}, ...]}`, with the top three classes by confidence, the first of which is the
        prediction. Of language models `{"input", "bytes", "bits_per_byte", "continuation"}`. Of multilabel models
        `{"input", "labels": {name: confidence}}`, and `"predicted": [name, ...]` where the export has thresholds; of
        regressions `{"input", "values": {name: number}}`. Of taggers `{"input", "tags": [class, ...]}`, where these are
        of entities `"entities": [{"type", "words", "start", "stop"}, ...]`, and `"cut"`, the number of words past the
        length of a row, which have no tag. Models with further outputs have their answers in `"further"`, by column. Of
        an input that cannot be read or does not fit the model
        `{"input", "error": {"field", "saw", "rule", "remedy"}}`.

    Raises:
        Failed: the folder is not an export, or the output cannot be written.
    """
    transform = read_transform(export)
    run = open_variant(export / SAVED_MODEL, SAVED_MODEL) if "further" in transform else float_model(export)
    answers = None if output is None else Answers(output)
    returned: list[dict[str, Any]] = []
    try:
        for name in inputs:
            for raw, answer in _answered(name, export, transform, run):
                if answers is None or "error" in answer:
                    returned.append(answer)
                if answers is not None:
                    answers.write([{**raw, **columns_of(answer, transform)}])
    finally:
        if answers is not None:
            answers.close()
    return returned


def _answered(name: str, export: Path, transform: dict[str, Any], run: Call) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield the raw rows of a file with their answers."""
    try:
        if transform["kind"] == "tokens":
            yield {"input": name}, _text(name, export, transform, run)
            return
        reader = Reader.open(export / "transform")
        number = 0
        for rows in rows_of(Path(name), reader.columns, transform["csv"]):
            for raw, answer in _rows(rows, Path(name).parent, reader, transform, run):
                number += 1
                table = is_table(Path(name))
                place = f"{name}:{number}" if table else name
                if "error" in answer:
                    answer["error"]["field"] = place
                yield (raw if table else {}), {"input": place, **answer}
    except Failed as error:
        yield {}, {"input": name, "error": error.as_json()}
    except OSError as error:
        reason = Failed(name, error.strerror, "an input is a file that can be read", "check the file")
        yield {}, {"input": name, "error": reason.as_json()}


def _rows(
    rows: list[Row], folder: Path, reader: Reader, transform: dict[str, Any], run: Any
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield rows with their answers; a row that the reader refuses with its reason."""
    try:
        inputs = reader(rows, folder)
        outputs = run(inputs)
        further = run.run(FURTHER, inputs) if "further" in transform else {}
    except ValueError as reason:
        if len(rows) > 1:
            for row in rows:
                yield from _rows([row], folder, reader, transform, run)
            return
        yield rows[0], {"error": _unfit(reason).as_json()}
        return
    complete = ANSWERS[transform["task"]].complete
    for row, answer in zip(rows, predictions(outputs, transform, inputs, further), strict=True):
        yield row, complete(answer, row, transform)


def _unfit(reason: ValueError) -> Failed:
    """Return why the only row does not fit the model."""
    if isinstance(reason, Unusable):
        return Failed("row", f"column {reason.column}: {reason.saw}", reason.rule, "correct it")
    return Failed("row", str(reason), "a row must fit the model's columns", "correct it")  # of a user's function


def columns_of(answer: dict[str, Any], transform: dict[str, Any]) -> Row:
    """Return an answer as columns of a row, the same ones for every answer of a task."""
    row: Row = {"input": answer["input"]}
    if fields := ANSWERS[transform["task"]].fields:
        row |= {name: answer.get(name, "") for name in fields}
    else:
        values = answer.get("labels") or answer.get("values") or {}
        row |= {f"predicted {name}": values.get(name, "") for name in transform["targets"]}
        if "thresholds" in transform:
            row["predicted"] = ", ".join(answer.get("predicted", ()))
    for about in transform.get("further", {}).values():
        row |= _further(about, answer.get("further", {}).get(about["column"], {}))
    error = answer.get("error")
    return {**row, "error": f"{error['saw']}; {error['rule']}" if error else ""}


def _further(about: dict[str, Any], answer: dict[str, Any]) -> Row:
    """Return the answer for a further output as columns of a row."""
    if fields := ANSWERS[about["task"]].fields:
        return {f"{field} of {about['column']}": answer.get(field, "") for field in fields}
    return {f"predicted {name}": answer.get("values", {}).get(name, "") for name in about["targets"]}


def _text(name: str, export: Path, transform: dict[str, Any], run: Call) -> dict[str, Any]:
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
    block = transform["block"]
    continuation = sample(with_cache(run), codec(export), text[-8 * block :], CONTINUATION, TEMPERATURE, block)
    return {**row, "continuation": continuation}


CAPACITY = 64
"""Positions that a cache has at first; it is doubled when it is full."""


def with_cache(call: Call) -> Call:
    """Return a loaded model with a cache where it has the signatures for one, else the model."""
    interface = getattr(call, "interface", {"signatures": ()})
    return Cached(call) if DECODE in interface["signatures"] else call


class Cached:
    """A language model on one row of tokens: where they are those of the last call and one more, only that is computed.

    Returns logits float32 [1, T, vocabulary], or [1, 1, vocabulary] of the last position, equal to those of the model
    on all tokens but for rounding.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokens: list[int] = []
        self._cache: Arrays = {}

    def __call__(self, batch: Arrays) -> Any:
        tokens = batch[TOKENS][0].tolist()
        if self._tokens and tokens[:-1] == self._tokens:
            position = len(self._tokens)
            self._cache = padded(self._cache, capacity_for(position + 1))
            last = {TOKENS: batch[TOKENS][:, -1:], POSITION: np.array([position], np.int32)}
            results = self._model.run(DECODE, {**last, **self._cache})
        else:
            results = self._model.run(PREFILL, {TOKENS: batch[TOKENS]})
        logits = results.pop(LOGITS)
        self._tokens, self._cache = tokens, results
        return logits


def capacity_for(length: int) -> int:
    """Return the capacity of a cache for so many tokens: few different ones, as a runtime plans for each anew."""
    capacity = CAPACITY
    while capacity < length:
        capacity *= 2
    return capacity


def padded(cache: Arrays, capacity: int) -> Arrays:
    """Return a cache with at least a capacity: keys and values [.., T, size] and documents' numbers [B, T]."""
    axis = {name: array.ndim - (1 if name == DOCUMENTS else 2) for name, array in cache.items()}
    missing = {name: capacity - array.shape[axis[name]] for name, array in cache.items()}
    return {
        name: np.pad(array, [(0, max(0, missing[name]) if each == axis[name] else 0) for each in range(array.ndim)])
        if missing[name] > 0
        else array
        for name, array in cache.items()
    }
