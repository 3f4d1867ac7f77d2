"""Rows that move to another split, as a whole group of near-duplicates goes to one: their runs are written anew."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from tasks.data.merging import Runs
from tasks.data.sorting import PLACE, SPLIT, Run, write_run
from tasks.store.files import canonical
from tasks.store.staging import Staging


class Regrouper:
    """Writes runs anew; inherited by forked processes."""

    def __init__(self, staging: Staging, runs: Runs, moved: Mapping[int, Mapping[int, int]]) -> None:
        """Prepare to move rows; `moved` is the number of the new split by run and row."""
        self._staging, self._runs, self._moved = staging, runs, moved

    def regroup(self, run: int) -> Run:
        """Write a run with its rows in their new splits, unless an earlier attempt did; return its note."""
        rows = sorted(self._moved[run].items())
        plan = hashlib.sha256(canonical([asdict(self._runs.notes[run]), self._runs.sha256(run), rows])).hexdigest()
        note = replace(self._runs.notes[run], moved=True)
        done = self._staging.adopt(note.file)
        if done is not None and done.pop("plan") == plan:
            return Run(**done)
        table = self._runs.table(run)
        splits = self._runs.column(run, SPLIT).copy()
        numbers, targets = zip(*rows, strict=True)
        splits[list(numbers)] = targets
        table = table.set_column(table.column_names.index(SPLIT), SPLIT, pa.array(splits))
        table = table.take(pa.array(np.lexsort((np.asarray(table[PLACE]), splits)))).combine_chunks()
        counts = np.bincount(splits, minlength=len(self._runs.splits)).tolist()
        note = replace(note, splits=counts)
        write_run(self._staging, table, note, plan)
        return note
