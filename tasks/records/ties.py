"""Copies share a split: of examples with equal inputs, that of the member with the smallest hash.

Hashes are of whole rows, or of named keys, so that copies with other labels, keys or ignored columns have splits of
their own at first. When a new copy has a smaller hash than all others, it takes them along; no other example moves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.records.merging import Runs
from tasks.records.parts import parts
from tasks.records.sorting import CONTENT, ROW, SPLIT, TIED


def tie(runs: Runs) -> None:
    """Move copies to the split of the one with the smallest hash, among those whose own hash decided."""
    for table in parts(runs, (*CONTENT, ROW, SPLIT, TIED), {}):
        rows = np.flatnonzero(table[TIED])
        order = rows[np.lexsort([table[name][rows] for name in (ROW, CONTENT[1], CONTENT[0])])]
        splits = table[SPLIT][order]
        targets = splits[_first_of_equal(table[CONTENT[0]][order], table[CONTENT[1]][order])]
        moved = np.flatnonzero(targets != splits)
        runs.move(table["run"][order[moved]], table["row"][order[moved]], targets[moved])
        del table  # before the next one is read


def _first_of_equal(*columns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each row of sorted columns the first row that is equal."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
