"""Raw examples as a split that can be evaluated: shared by `predict` and by the scoring of a champion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config import EvaluateConfig
from tasks.data.snapshots.tokens import lineage
from tasks.evaluation.judging import Documents, Judge, Split, make_judge, run_model
from tasks.exporting.transform import codec
from tasks.models.features import TOKENS
from tasks.models.forward import Call

EVALUATE_CONFIG = EvaluateConfig()


def predictions_of_texts(split: Split, call: Call) -> Any:
    """Run a language model on a split of texts and return its `language_model.Predictions`."""
    judge: Judge = make_judge("language_model", split, EVALUATE_CONFIG)
    return judge.predictions(run_model(judge, call).kept)


class RawSplit(Split):
    """Images or table rows after the export's preprocessing."""

    def __init__(self, name: str, features: dict[str, Any], arrays: Mapping[str, Any], transform: Path) -> None:
        self.name, self.features, self.arrays, self.transform = name, features, arrays, transform

    def keys(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the row numbers as strings: raw examples have no keys."""
        return [str(row) for row in rows]


class TextSplit(Split):
    """Raw texts, encoded and cut into rows of `block` tokens as in a snapshot."""

    name = "texts"

    def __init__(self, export: Path, transform: dict[str, Any], keys: list[str], contents: list[bytes]) -> None:
        tokenizer, block = codec(export), int(transform["block"])
        self.transform = export / "transform"
        documents = [
            np.concatenate([[tokenizer.bos], tokens]).astype(tokenizer.dtype)
            for tokens in tokenizer.encode([content.decode() for content in contents])
        ]
        stream = np.concatenate(documents)
        lengths = np.array([len(document) for document in documents])
        rows = max(1, -(-(len(stream) - 1) // block))
        padded = np.full(rows * block + 1, tokenizer.bos, tokenizer.dtype)
        padded[: len(stream)] = stream
        self.arrays = {TOKENS: np.lib.stride_tricks.sliding_window_view(padded, block + 1)[::block]}
        shape = {
            "dtype": tokenizer.dtype,
            "shape": [block + 1],
            "vocabulary": tokenizer.vocabulary,
            "bos": tokenizer.bos,
        }
        self.features = {TOKENS: shape}
        origin, pieces = lineage(lengths, block, rows)
        of = np.full((rows, block + 1), -1, np.int64)
        for row, (first, number) in enumerate(origin):
            for record, _, length, column in pieces[first : first + number]:
                of[row, column : column + length] = record
        self._documents = Documents(of[:, 1:], keys, contents)

    def documents(self) -> Documents:
        """Return the texts and the text of each target."""
        return self._documents
