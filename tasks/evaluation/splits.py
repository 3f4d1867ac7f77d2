"""The examples of a split as an evaluation reads them: those of a snapshot, with the records that it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.errors import Failed
from tasks.evaluation.bigrams import Counts, fitted_on
from tasks.feed import open_snapshot
from tasks.models.features import TOKENS
from tasks.reader import Values
from tasks.records.reading import RecordsReader, frame_of, typed
from tasks.sources.features import Feature, of_role

TRAIN = "train"


class Split:
    """The examples of a split, with the keys of their records."""

    name: str
    features: dict[str, Any]
    arrays: Mapping[str, Any]
    transform: Path

    def keys(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the keys of the (first) records that rows were made from."""
        raise NotImplementedError

    def documents(self) -> Documents:
        """Return the files of a split of text, and the file of each target."""
        raise NotImplementedError

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of the records behind the examples, missing values as null; of labels the class names."""
        raise NotImplementedError

    def queries(self) -> npt.NDArray[Any]:
        """Return the query of each row, [rows]: its value in the column of the role group."""
        raise NotImplementedError

    def groups(self) -> list[Any] | None:
        """Return the group of each row by `source.group`, of text of each document, None where it is missing; None
        where there are no groups."""
        return None

    def tags(self) -> list[list[int]]:
        """Return the class number of each word of each row, also of those that are cut."""
        raise NotImplementedError

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hash of the (first) record behind each row, of text of each document."""
        raise NotImplementedError

    def fitted_bigrams(self) -> Counts:
        """Return how often each byte follows each other in the texts of the train split, int64 [256, 256]."""
        raise NotImplementedError


@dataclass(frozen=True)
class Documents:
    """The text files behind rows of tokens."""

    of_targets: npt.NDArray[np.int64]
    """int64 [rows, block]: index of the file that a target belongs to, -1 for padding."""
    keys: list[str]
    contents: list[bytes]
    """The bytes that are scored: of pairs without the prompt, and without what is cut off."""
    before: list[bytes]
    """The prompt of each; empty where there are none."""


class SnapshotSplit(Split):
    """A split of a snapshot, with the records that it was made from."""

    def __init__(self, snapshot: Path, records: Path, name: str) -> None:
        self.name, self.transform, self.records = name, snapshot / "transform", records
        self._reader = open_snapshot(snapshot)
        self.features = self._reader.features
        self.arrays = self._reader.arrays(name)

    def keys(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the keys of the (first) records that rows were made from."""
        return [str(key) for key in self._reader.keys(self.name, rows, self.records)]

    def documents(self) -> Documents:
        """Return the files as they are in the records."""
        from tasks.feed.snapshot_reader import document_of_targets
        from tasks.snapshots.text import Codec, scored_bytes, text_columns

        reader = self._records
        columns = text_columns(reader, self._prompt)
        examples = list(reader.iterate(self.name))
        contents = [bytes(example[columns.text][0]) for example in examples]
        owners, before = document_of_targets(self._reader, self.name), [b""] * len(examples)
        if columns.prompt is not None:
            before = [bytes(example[columns.prompt][0]) for example in examples]
            contents = scored_bytes(Codec.open(self.transform), self.arrays, owners, len(examples))
        return Documents(owners, [bytes(example["key"][0]).decode() for example in examples], contents, before)

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of the records behind the examples: of each row its (first) record, of texts the files."""
        tables = self._records.tables(self.name, list(names))
        frame = pl.concat(frame_of(table, self._records.features) for table in tables)
        if TOKENS in self.features:
            return frame
        return frame[self._records_of_rows]

    def values(self, rows: npt.NDArray[np.int64], names: Sequence[str]) -> dict[str, Values]:
        """Return typed values of columns of the (first) records behind some rows, by column."""
        table = self._records.table(self.name, self._records_of_rows[rows].tolist(), names)
        return {name: typed(table[name], self.raw[name]) for name in names}

    def queries(self) -> npt.NDArray[Any]:
        """Return the query of each row by the records."""
        return queries_of(self._records, self.name)[self._records_of_rows]

    def groups(self) -> list[Any] | None:
        """Return the group of each row, of text of each document, by the records."""
        of_records = groups_of(self._records, self.name)
        if of_records is None or TOKENS in self.features:
            return of_records
        return [of_records[number] for number in self._records_of_rows]

    def tags(self) -> list[list[int]]:
        """Return the class number of each word of each row as it is in the records."""
        [label] = of_role(self._records.features, "label")
        of_records = [[int(number) for number in example[label]] for example in self._records.iterate(self.name)]
        return [of_records[number] for number in self._records_of_rows]

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hash of the (first) record behind each row, of text of each document."""
        of_records = self._reader.record_hashes(self.name)
        return of_records if TOKENS in self.features else of_records[self._records_of_rows]

    @property
    def raw(self) -> dict[str, Feature]:
        """The features of the records."""
        return self._records.features

    @cached_property
    def _records(self) -> RecordsReader:
        return RecordsReader(self.records)

    @cached_property
    def _records_of_rows(self) -> npt.NDArray[np.int64]:
        """Return the number of the (first) record behind each row."""
        origin, pieces = self._reader.lineage(self.name)
        numbers: npt.NDArray[np.int64] = pieces[origin[:, 0], 0]
        return numbers

    def fitted_bigrams(self) -> Counts:
        """Return how often each byte follows each other in the texts of the train split, int64 [256, 256]."""
        return fitted_on(self.records, TRAIN, self._prompt)

    @property
    def _prompt(self) -> str | None:
        """The column of the records that is the prompt of each text."""
        prompt: str | None = self.features["tokens"].get("prompt")
        return prompt


def groups_of(records: RecordsReader, split: str) -> list[Any] | None:
    """Return the group of each record of a split by `source.group`, None where it is missing; None without groups."""
    [name, *_] = [*of_role(records.features, "group"), ""]
    if not name:
        return None
    tables = records.tables(split, [name])
    return [group for table in tables for group in frame_of(table, records.features)[name].to_list()]


def queries_of(records: RecordsReader, split: str) -> npt.NDArray[Any]:
    """Return the value of each record of a split in the column of the role group; raises `Failed` without one."""
    names = list(of_role(records.features, "group"))
    if not names:
        rule = "the documents of a query have the same value of the column of source.group"
        raise Failed("model.task", f"columns {', '.join(records.features)}", rule, "set source.group")
    tables = records.tables(split, names[:1])
    return np.concatenate([table[names[0]].to_numpy() for table in tables])
