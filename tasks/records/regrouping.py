"""Rows that move to another split, as copies and near-duplicates share one: their runs are written anew."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from tasks.records.merging import Runs
from tasks.records.sorting import PLACE, SPLIT, Run, write_run
from tasks.store.files import canonical
from tasks.store.staging import Staging


class Regrouper:
    """Writes runs anew; inherited by forked processes."""

    def __init__(self, staging: Staging, runs: Runs) -> None:
        """Prepare to write the runs of which rows have moved (`Runs.moved`)."""
        self._staging, self._runs = staging, runs

    def regroup(self, run: int) -> Run:
        """Write a run with its rows in their new splits, unless an earlier attempt did; return its note."""
        splits = self._runs.column(run, SPLIT)
        moves = hashlib.sha256(splits.astype("<i8").tobytes()).hexdigest()
        plan = hashlib.sha256(canonical([asdict(self._runs.notes[run]), self._runs.sha256(run), moves])).hexdigest()
        note = replace(self._runs.notes[run], moved=True)
        done = self._staging.adopt(note.file)
        if done is not None and done.pop("plan") == plan:
            return Run(**done)
        table = self._runs.table(run)
        table = table.set_column(table.column_names.index(SPLIT), SPLIT, pa.array(splits))
        table = table.take(pa.array(np.lexsort((np.asarray(table[PLACE]), splits)))).combine_chunks()
        counts = np.bincount(splits, minlength=len(self._runs.splits)).tolist()
        note = replace(note, splits=counts)
        write_run(self._staging, table, note, plan)
        return note
