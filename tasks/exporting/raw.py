"""Raw examples as a split that can be evaluated: shared by `predict` and by the scoring of a champion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config.task import SCORED
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge, run_model
from tasks.evaluation.splits import Documents, Split, groups_of, queries_of
from tasks.evaluation.tasks import make_judge
from tasks.exporting.preprocess import codec
from tasks.models.features import TOKENS
from tasks.models.forward import Call
from tasks.records.reading import RecordsReader
from tasks.snapshots import packing
from tasks.snapshots.text import scored, scored_bytes

EVALUATE_CONFIG = EvaluateConfig()


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
