"""Inputs that are the same in train and in test, though their examples differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tasks.records.merging import Runs
from tasks.records.parts import Dropped, parts
from tasks.records.profile import TEST, TRAIN
from tasks.records.sorting import SPLIT, hash_of, hashed
from tasks.sources.features import KEY, Feature

MAX_NAMED = 20
"""Number of pairs of keys that are listed; all are counted."""


def find(runs: Runs, features: Mapping[str, Feature], dropped: Dropped) -> dict[str, Any]:
    """Return what of each text, image or sound is in train and in test, by input; of a source with several inputs.

    Of each: `contents`, their number; `examples`, those of test that have one of them; and the first `keys`, of an
    example of train and one of test.
    """
    if not {TRAIN, TEST} <= set(runs.splits):
        return {}
    found = {name: _shared(runs, name, dropped) for name in hashed(features)}
    return {name: shared for name, shared in found.items() if shared["contents"]}


def _shared(runs: Runs, name: str, dropped: Dropped) -> dict[str, Any]:
    train, test = (runs.splits.index(split) for split in (TRAIN, TEST))
    contents, examples, keys = 0, 0, list[list[str]]()
    for table in parts(runs, (hash_of(name), SPLIT), dropped):
        values, splits = table[hash_of(name)], table[SPLIT]
        both = np.intersect1d(values[splits == train], values[splits == test])
        both = both[both != 0]
        contents += len(both)
        examples += int(np.isin(values[splits == test], both).sum())
        for value in both[:MAX_NAMED]:
            rows = [np.flatnonzero((values == value) & (splits == split)) for split in (train, test)]
            keys.append([min(_key(runs, table, row) for row in of_split[:MAX_NAMED]) for of_split in rows])
        del table, values, splits  # before the next one is read
    return {"contents": contents, "examples": examples, "keys": sorted(keys)[:MAX_NAMED]}


def _key(runs: Runs, table: Mapping[str, Any], row: int) -> str:
    key: str = runs.value(int(table["run"][row]), KEY, int(table["row"][row]))
    return key


def suspicions(shared: Mapping[str, Any], features: Mapping[str, Feature]) -> Iterator[str]:
    """Yield in words what is in train and in test."""
    for name, found in shared.items():
        kind = {"audio": "sound"}.get(features[name].kind, features[name].kind)
        plural = "s are" if found["contents"] > 1 else " is"
        of_test = f"{found['examples']:,} example{'s' * (found['examples'] > 1)} of test"
        train, test = found["keys"][0]
        yield (
            f"{name}: {found['contents']:,} {kind}{plural} in train and, with other values beside, in {of_test} "
            f"({train} and {test}); a score on test may be too high"
        )
