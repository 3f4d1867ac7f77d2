"""Near-duplicates: the input of which they are looked for, and the columns that comparisons read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tasks.errors import Refused
from tasks.records.config import NearDuplicates, NearHandling
from tasks.records.near.measures import MEASURES, Measure
from tasks.sources.encoding import binary_of
from tasks.sources.features import Feature, of_role

NEAR_VERSION = 3
NEAR_LIBRARIES = ("rensa",)

ASIDE = ".."
"""Prefix of a spill's columns that only comparisons read."""
SIGNATURE = f"{ASIDE}signature"


@dataclass(frozen=True)
class Compared:
    """The input of which near-duplicates are looked for, how similar they are, and what becomes of them."""

    column: str
    kind: str
    similarity: float
    handling: NearHandling

    @property
    def measure(self) -> Measure:
        """The measure of the input's kind."""
        return MEASURES[self.kind]

    @property
    def bands(self) -> list[str]:
        """The columns of a spill with the hashes of the bands."""
        return [f"{ASIDE}band{number:03d}" for number in range(self.measure.bands(self.similarity))]

    def added(self, table: pa.Table) -> pa.Table:
        """Return rows of typed columns with signatures and bands."""
        signatures, hashes = self.measure.signed(table[self.column].combine_chunks(), self.similarity)
        fixed = binary_of(signatures).cast(pa.binary(signatures.shape[1]))
        for name, column in zip((SIGNATURE, *self.bands), (fixed, *map(pa.array, hashes.T)), strict=True):
            table = table.append_column(name, column)
        return table


def compared(features: Mapping[str, Feature], config: NearDuplicates | None) -> Compared | None:
    """Return what is compared; None where near-duplicates are not looked for.

    Raises:
        Refused: the features have no such input, or several, or have groups that must not be divided.
    """
    if config is None:
        return None
    field = "records.near_duplicates"
    inputs = {name: feature for name, feature in of_role(dict(features), "input").items() if feature.kind in MEASURES}
    names = ", ".join(inputs) or "no text and no image"
    if config.column is None and len(inputs) != 1:
        rule = f"the inputs that can be compared are {names}"
        raise Refused(f"{field}.column", "none is named", rule, "name one" if inputs else "leave near_duplicates out")
    column = config.column or next(iter(inputs))
    if column not in inputs:
        raise Refused(f"{field}.column", column, f"must be a text or an image: {names}", "correct it")
    groups = of_role(dict(features), "group")
    if config.handling == "group" and groups:
        rule = f"source.group ({next(iter(groups))}) decides the split, and a group must not be divided"
        raise Refused(f"{field}.handling", "group", rule, "choose report or drop, or leave source.group out")
    of_kind = Compared(column, inputs[column].kind, 0.0, config.handling)
    similarity, lowest = config.similarity, of_kind.measure.LOWEST
    if similarity is not None and similarity < lowest:
        rule = f"of a feature of kind {of_kind.kind} at least {lowest:g} can be looked for"
        raise Refused(f"{field}.similarity", similarity, rule, "raise it")
    return Compared(column, of_kind.kind, similarity or of_kind.measure.SIMILARITY, config.handling)
