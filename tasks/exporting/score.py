"""Metrics of an export on the records of a split, from raw input to prediction, to score a champion on new data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.config.task import LABEL, SCORED, TARGET, TASKS
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.intervals import intervals
from tasks.evaluation.judging import Judge, contributions_of, names_of, run_model
from tasks.evaluation.splits import Documents, Split, groups_of, queries_of
from tasks.evaluation.tasks import make_judge
from tasks.exporting import float_model
from tasks.exporting.preprocess import codec, read_transform
from tasks.models.features import TOKENS
from tasks.models.forward import Call
from tasks.reader import Reader, Unusable
from tasks.records.reading import RecordsReader, typed
from tasks.snapshots import packing, tags
from tasks.snapshots.text import scored, scored_bytes, text_columns
from tasks.sources.features import KEY, Feature, of_role

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.processes.workbench import Workbench

ROWS = 256
"""Records that are preprocessed together."""


EVALUATE_CONFIG = EvaluateConfig()


def score(bench: Workbench, export: Path, records: Path, split: str, config: EvaluateConfig) -> dict[str, Any]:
    """Score an export on the records of a split, with the bins of `config`.

    Labels are matched by class name, so that the order of the classes may differ.

    Returns:
        `{metric: value, metric + "/low": ..., metric + "/high": ..., "examples": n}`, and `"contributions"`, by metric
        those of each example, [[number, ...], ...], in stored order, and `"extents"`, how much of each is scored, for a
        comparison of two exports by example.

    Raises:
        Failed: the split has no examples, an image cannot be decoded, or the export does not know
            a class of the records.
    """
    transform, reader = read_transform(export), RecordsReader(records)
    if not reader.counts.get(split, 0):
        raise Failed(str(records), f"no examples of split {split}", "a score needs examples", "name another split")
    task, raw = _open(export, transform, reader, split)
    judge = make_judge(task, raw, config, transform.get("loss"))
    Decision(transform.get("temperature"), transform.get("thresholds")).settle(judge)
    kept = run_model(judge, float_model(export), name=split, progress=bench.progress).kept
    predictions, metrics = judge.predictions(kept), names_of(judge, task, config)
    scores: dict[str, Any] = {"examples": judge.examples}
    for name, item in intervals(judge.metrics, metrics, predictions, judge.units).items():
        scores |= item.flat(name)
    values = contributions_of(judge, kept, config)
    scores["contributions"] = {name: each.tolist() for name, each in values.items()}
    scores["extents"] = judge.extents(predictions).tolist()
    return scores


def _open(export: Path, transform: dict[str, Any], reader: RecordsReader, split: str) -> tuple[str, Split]:
    """Return the task, and the examples of a split after the export's preprocessing."""
    task = transform["task"]
    if transform["kind"] == "tokens":
        of_text = text_columns(reader, transform["prompt"])
        examples = list(reader.iterate(split))
        keys = [bytes(example["key"][0]).decode() for example in examples]
        texts = {name: [bytes(example[name][0]) for example in examples] for name in of_text}
        prompts = texts[of_text.prompt] if of_text.prompt is not None else None
        return task, TextSplit(export, transform, keys, texts[of_text.text], prompts, groups_of(reader, split))
    preprocess = Reader.open(export / "transform")
    parts = [_preprocessed(preprocess, reader.features, table) for table in reader.tables(split, rows=ROWS)]
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    features: dict[str, Any] = dict(preprocess.arrays)
    if TASKS[task].target == TARGET:
        names = list(of_role(reader.features, "target"))
        if names != transform["targets"]:
            rule = f"the export predicts {', '.join(transform['targets'])}"
            raise Failed(str(reader.path), ", ".join(names), rule, "compare on records of these targets")
        columns = [[np.asarray(t[name], np.float32) for t in reader.tables(split, [name])] for name in names]
        arrays[TARGET] = np.stack([np.concatenate(column) for column in columns], axis=1)
        features[TARGET] = {"dtype": "float32", "shape": [len(names)], "names": names}
    else:
        features[LABEL] = {"dtype": "int64", "shape": [], "classes": transform["classes"]}
        if TASKS[task].of_tokens:
            length = tags.length_of(reader.features, preprocess.arrays, transform["transforms"])
            features[LABEL] |= {"dtype": "int32", "shape": [length]}
            whole = _tags(transform, reader, split)
            features[LABEL][tags.CUT] = {split: sum(max(len(each) - length, 0) for each in whole)}
            arrays[LABEL] = tags.padded_tags(whole, length)
            return task, RawSplit(split, features, arrays, export / "transform", reader, whole)
        arrays[LABEL] = _labels(transform, reader, split)
    return task, RawSplit(split, features, arrays, export / "transform", reader)


def _preprocessed(preprocess: Reader, features: dict[str, Feature], table: pa.Table) -> dict[str, npt.NDArray]:
    """Return the export's inputs of some records; raises `Failed` where they lack one of its columns."""
    values = {}
    for name, kind in preprocess.columns.items():
        feature = features.get(name)
        if feature is None or feature.kind != kind.partition("[")[0]:
            saw = "no such column" if feature is None else f"of kind {feature.kind}"
            raise Failed(
                f"records: {name}", saw, f"the export reads {name} ({kind})", "compare on records that have it"
            )
        values[name] = typed(table[name], feature)
    try:
        return preprocess.apply(values, table.num_rows)
    except Unusable as error:
        raise Failed(
            str(table[KEY][error.row]), f"{error.column}: {error.saw}", error.rule, "see the record"
        ) from error
    except ValueError as error:  # of a user's function
        raise Failed("records", str(error), "the export must be able to read every record", "see the record") from error


def _labels(transform: dict[str, Any], reader: RecordsReader, split: str) -> npt.NDArray[np.int64]:
    """Return the labels of a split by the classes of the export."""
    name, number_of = _classes(transform, reader)
    columns = [np.asarray(table[name]) for table in reader.tables(split, [name])]
    labels: npt.NDArray[np.int64] = number_of[np.concatenate(columns)]
    return labels


def _tags(transform: dict[str, Any], reader: RecordsReader, split: str) -> list[list[int]]:
    """Return the tags of a split by the classes of the export, those of all words."""
    name, number_of = _classes(transform, reader)
    columns = [table[name].to_pylist() for table in reader.tables(split, [name])]
    return [number_of[each].tolist() if each else [] for column in columns for each in column]


def _classes(transform: dict[str, Any], reader: RecordsReader) -> tuple[str, npt.NDArray[np.int64]]:
    """Return the label of records, and the number of each of its classes among those of the export."""
    known = {name: index for index, name in enumerate(transform["classes"])}
    [(label, feature)] = of_role(reader.features, "label").items() or [("", None)]
    of_records = list(feature.classes or ()) if feature is not None else []
    if not of_records or not set(of_records) <= set(known):
        unknown = ", ".join(sorted(set(of_records) - set(known))) or "no classes"
        rule = f"the export knows {', '.join(known)}"
        raise Failed(str(reader.path), unknown, rule, "compare on records of these classes")
    return label, np.array([known[name] for name in of_records])


def predictions_of_texts(split: Split, call: Call) -> Any:
    """Run a language model on a split of texts and return its `language_model.Predictions`."""
    judge: Judge = make_judge("language_model", split, EVALUATE_CONFIG)
    return judge.predictions(run_model(judge, call).kept)


class RawSplit(Split):
    """Images or table rows after the export's preprocessing."""

    def __init__(
        self,
        name: str,
        features: dict[str, Any],
        arrays: Mapping[str, Any],
        transform: Path,
        records: RecordsReader | None = None,
        tags: list[list[int]] | None = None,
    ) -> None:
        """Hold rows.

        Args:
            records: those of the rows, which a ranking reads for its queries.
            tags: the class number of each word, also of those that are cut.
        """
        self.name, self.features, self.arrays, self.transform = name, features, arrays, transform
        self._records, self._tags = records, tags

    def queries(self) -> npt.NDArray[Any]:
        """Return the query of each row by the records."""
        assert self._records is not None, "a ranking is scored on records"
        return queries_of(self._records, self.name)

    def groups(self) -> list[Any] | None:
        """Return the group of each row by the records; None without records."""
        return None if self._records is None else groups_of(self._records, self.name)

    def tags(self) -> list[list[int]]:
        """Return the class number of each word of each row."""
        assert self._tags is not None, "a tagger is scored on records"
        return self._tags

    def keys(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the row numbers as strings: raw examples have no keys."""
        return [str(row) for row in rows]


class TextSplit(Split):
    """Raw texts, encoded and packed into rows of `block` + 1 tokens as in a snapshot."""

    name = "texts"

    def __init__(
        self,
        export: Path,
        transform: dict[str, Any],
        keys: list[str],
        contents: list[bytes],
        prompts: list[bytes] | None = None,
        groups: list[Any] | None = None,
    ) -> None:
        """Encode texts; an export of pairs has a prompt before each. `groups` are those of `source.group`."""
        self._groups = groups
        tokenizer, block, pairs = codec(export), int(transform["block"]), transform["prompt"] is not None
        self.transform = export / "transform"
        tokens = tokenizer.encode([content.decode() for content in contents])
        before = tokenizer.encode([prompt.decode() for prompt in prompts or [b""] * len(contents)]) if pairs else None
        documents, given = tokenizer.documents(tokens, before)
        stream, lengths = np.concatenate(documents), np.array([len(document) for document in documents])
        if transform["packing"] == "stream" and len(stream) > 1:
            packed = packing.stream(lengths, block)
        else:
            packed = packing.best_fit(lengths, block, pairs)

        def rows(values: npt.NDArray[Any], padding: int) -> npt.NDArray[Any]:
            return packed.gather(0, packed.rows, values, np.cumsum(lengths) - lengths, padding)

        shape = {"dtype": tokenizer.dtype, "shape": [block + 1]}
        self.arrays = {TOKENS: rows(stream, tokenizer.bos)}
        self.features = {TOKENS: {**shape, "vocabulary": tokenizer.vocabulary, "bos": tokenizer.bos}}
        if pairs:
            self.arrays[SCORED] = rows(scored(lengths, np.array(given)).astype(np.uint8), 0)
            self.features[SCORED] = {**shape, "dtype": "uint8"}
        of = rows(np.repeat(np.arange(len(lengths)), lengths), -1)[:, 1:]
        if pairs:
            contents = scored_bytes(tokenizer, self.arrays, of, len(contents))
        self._documents = Documents(of, keys, contents, prompts or [b""] * len(contents))

    def documents(self) -> Documents:
        """Return the texts and the text of each target."""
        return self._documents

    def groups(self) -> list[Any] | None:
        """Return the group of each text."""
        return self._groups
