"""Predictions of an export on raw files: rows, images, sounds and texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.errors import Failed
from tasks.evaluation.entities import scheme_of
from tasks.evaluation.tasks.language_model import METRICS, sample
from tasks.exporting import float_model
from tasks.exporting.answers import CONTINUATION, TEMPERATURE
from tasks.exporting.generation import with_cache
from tasks.exporting.prediction import predictions
from tasks.exporting.preprocess import codec, read_transform
from tasks.exporting.raw import TextSplit, predictions_of_texts
from tasks.exporting.raw_rows import Answers, Row, is_table, rows_of
from tasks.models.forward import Call
from tasks.reader import Reader, Unusable

if TYPE_CHECKING:
    pass

FIELDS = {
    "classification": ("class", "confidence"),
    "tagging": ("tags",),
    "language_model": ("bytes", "bits_per_byte", "continuation"),
}
"""The fields of an answer that are written to a file, by task; others have a column for each target."""


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
        length of a row, which have no tag. Of an input that cannot be read or does not fit the model
        `{"input", "error": {"field", "saw", "rule", "remedy"}}`.

    Raises:
        Failed: the folder is not an export, or the output cannot be written.
    """
    transform = read_transform(export)
    run = float_model(export)
    answers = None if output is None else Answers(output)
    returned: list[dict[str, Any]] = []
    try:
        for name in inputs:
            for raw, answer in _answered(name, export, transform, run):
                if answers is None or "error" in answer:
                    returned.append(answer)
                if answers is not None:
                    answers.write([{**raw, **_columns(answer, transform)}])
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
    rows: list[Row], folder: Path, reader: Reader, transform: dict[str, Any], run: Call
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield rows with their answers; a row that the reader refuses with its reason."""
    try:
        inputs = reader(rows, folder)
        outputs = run(inputs)
    except ValueError as reason:
        if len(rows) > 1:
            for row in rows:
                yield from _rows([row], folder, reader, transform, run)
            return
        yield rows[0], {"error": _unfit(reason).as_json()}
        return
    more = OF_WORDS.get(transform["task"], lambda answer, row, transform: answer)
    for row, answer in zip(rows, predictions(outputs, transform, inputs), strict=True):
        yield row, more(answer, row, transform)


def _of_words(answer: dict[str, Any], row: Row, transform: dict[str, Any]) -> dict[str, Any]:
    """Return tags with the entities that they make of the words, and the number of words that are cut."""
    words = next(row[column["name"]] or [] for column in transform["columns"] if column["kind"] == "words")
    if (scheme := scheme_of(transform["classes"])) is not None:
        numbers = [transform["classes"].index(tag) for tag in answer["tags"]]
        found = scheme.entities(np.array([numbers], np.int64))
        answer["entities"] = [
            {"type": scheme.types[kind], "words": list(words[start:stop]), "start": start, "stop": stop}
            for start, stop, kind in zip(found.start.tolist(), found.stop.tolist(), found.type.tolist(), strict=True)
        ]
    cut = len(words) - len(answer["tags"])
    return answer | ({"cut": cut} if cut else {})


OF_WORDS = {"tagging": _of_words}
"""What the words of a row add to an answer, by task."""


def _unfit(reason: ValueError) -> Failed:
    """Return why the only row does not fit the model."""
    if isinstance(reason, Unusable):
        return Failed("row", f"column {reason.column}: {reason.saw}", reason.rule, "correct it")
    return Failed("row", str(reason), "a row must fit the model's columns", "correct it")  # of a user's function


def _columns(answer: dict[str, Any], transform: dict[str, Any]) -> Row:
    """Return an answer as columns of a row, the same ones for every answer of a task."""
    row: Row = {"input": answer["input"]}
    if transform["task"] in FIELDS:
        row |= {name: answer.get(name, "") for name in FIELDS[transform["task"]]}
    else:
        values = answer.get("labels") or answer.get("values") or {}
        row |= {f"predicted {name}": values.get(name, "") for name in transform["targets"]}
        if "thresholds" in transform:
            row["predicted"] = ", ".join(answer.get("predicted", ()))
    error = answer.get("error")
    return {**row, "error": f"{error['saw']}; {error['rule']}" if error else ""}


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
