"""Entities of sequences of tags in the scheme IOB2: `B-PER` begins a person, `I-PER` goes on with one, `O` is none.

What a model predicts may break the scheme. It is read as conlleval reads it (Tjong Kim Sang and De Meulder, CoNLL 2003)
and after it seqeval: an `I-` after another type, or after none, begins an entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

OUTSIDE, BEGIN = "O", "B"
TAG = re.compile(r"(?P<place>[BI])-(?P<type>.+)")

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Entities:
    """Entities in the order of their rows and places, each int64 [entities]."""

    row: Numbers
    start: Numbers
    """The place of the first token."""
    stop: Numbers
    """The place after the last token."""
    type: Numbers


@dataclass(frozen=True)
class Scheme:
    """What the classes of a tagger mean: for each class number a type, and whether it begins an entity."""

    types: tuple[str, ...]
    type_of: Numbers
    """int64 [classes]: number of the type, -1 outside of entities."""
    begins: npt.NDArray[np.bool_]

    def entities(self, tags: npt.NDArray[np.integer]) -> Entities:
        """Return the entities of rows of class numbers [N, length]; negative ones are outside."""
        kinds = np.where(tags >= 0, self.type_of[tags], -1)
        before = np.pad(kinds, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
        starts = (kinds >= 0) & ((self.begins[tags] & (tags >= 0)) | (kinds != before))
        after = np.pad(kinds, ((0, 0), (0, 1)), constant_values=-1)[:, 1:]
        begins_after = np.pad(starts, ((0, 0), (0, 1)))[:, 1:]
        row, start = np.nonzero(starts)
        _, last = np.nonzero((kinds >= 0) & ((after != kinds) | begins_after))
        return Entities(row, start, last + 1, kinds[row, start])

    def found(self, predicted: Entities, true: Entities, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return which predicted entities are true ones, of the same tokens and type, bool [predicted].

        Args:
            shape: of the tags, [N, length].
        """
        stops, types = np.full(shape, -1), np.full(shape, -1)
        stops[true.row, true.start], types[true.row, true.start] = true.stop, true.type
        place = (predicted.row, predicted.start)
        return np.asarray((stops[place] == predicted.stop) & (types[place] == predicted.type))


def scheme_of(classes: Sequence[str]) -> Scheme | None:
    """Return the scheme of classes; None where they are not `O`, `B-…` and `I-…`, or no entity begins."""
    parts = [TAG.fullmatch(name) for name in classes]
    if any(part is None and name != OUTSIDE for part, name in zip(parts, classes, strict=True)):
        return None
    if not any(part is not None and part["place"] == BEGIN for part in parts):
        return None
    types = sorted({part["type"] for part in parts if part is not None})
    return Scheme(
        tuple(types),
        np.array([-1 if part is None else types.index(part["type"]) for part in parts], np.int64),
        np.array([part is not None and part["place"] == BEGIN for part in parts], np.bool_),
    )
