"""Robustness: the test examples are changed, and the loss of the primary metric is measured (`evaluate.robustness`).

The draws of an example depend on the probe's place in the list and on the example's row alone, so that batches do not
matter.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.errors import Failed, Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import difference
from tasks.evaluation.judging import Judge, Kept, contributions_of, metric_of, run_model
from tasks.evaluation.probes import FIELD, IMAGE, NUMBERS, Probe, changed_by, column_kinds
from tasks.evaluation.splits import SnapshotSplit
from tasks.models.features import Arrays, model_inputs
from tasks.models.forward import Call, Examples
from tasks.reader import Reader, Unusable
from tasks.records.reading import RecordsReader, typed

SEED = 0


def measured(
    config: EvaluateConfig,
    judge: Judge,
    split: SnapshotSplit,
    call: Call,
    kept: Kept,
    name: str,
    sign: int,
    progress: Callable[[int, int, str], None],
) -> list[dict[str, Any]]:
    """Return for each probe the metric `name` on changed examples and its drop, with a paired interval, for the report.

    `sign` is 1 where a higher value of the metric is better, else -1; a drop above 0 is a loss.

    Raises:
        Failed: a probe does not fit the inputs, or a transform cannot use changed values.
    """
    metric, before = metric_of(judge, name), contributions_of(judge, kept, config)[name]
    rows = []
    for place, probe in enumerate(config.robustness):
        changed = copy.copy(judge)
        changed.inputs = altered(place, probe, split, judge.inputs)
        outputs = run_model(changed, call, name=f"{split.name} ({probe.kind})", progress=progress).kept
        after = contributions_of(judge, outputs, config)[name]
        drop = difference(metric, before, after, judge.units)
        low, high = sorted((-sign * drop.low + 0.0, -sign * drop.high + 0.0))  # no -0.0
        rows.append(
            {
                "probe": probe.kind,
                "settings": probe.model_dump(mode="json", exclude={"kind"}),
                "value": metric.of(after),
                "drop": {"value": -sign * drop.value + 0.0, "low": low, "high": high, "method": drop.method},
            }
        )
    return rows


def altered(place: int, probe: Probe, split: SnapshotSplit, inputs: Examples) -> Examples:
    """Return the inputs of a split as a probe changes them; raises `Failed` where it does not fit."""
    try:
        if probe.raw:
            return AlteredColumns(place, probe, split, inputs)
        return AlteredInputs(place, probe, split.features, inputs)
    except Refused as misfit:
        raise Failed(misfit.field, misfit.saw, misfit.rule, misfit.remedy) from None


def draws_of(place: int, column: int, rows: npt.NDArray[np.int64]) -> list[np.random.Generator]:
    """Return the generator of each row for a column or input that the probe at a place changes, by its number."""
    streams = (np.random.Philox(key=[SEED, place], counter=[0, 0, column, int(row)]) for row in rows)
    return [np.random.Generator(stream) for stream in streams]


def input_kinds(features: Mapping[str, Any]) -> dict[str, str]:
    """Return the kind of each input of a snapshot that a probe can change."""
    kinds = {}
    for each in model_inputs(dict(features)):
        if each.dtype == "uint8" and len(each.shape) == 3:
            kinds[each.name] = IMAGE
        elif each.dtype == "float32":
            kinds[each.name] = NUMBERS
    return kinds


class AlteredInputs:
    """Inputs by row that are changed when they are read."""

    def __init__(self, place: int, probe: Probe, features: Mapping[str, Any], inputs: Examples) -> None:
        self._place, self._probe, self._inputs = place, probe, inputs
        self._changed = {name: features[name] for name in changed_by(probe, input_kinds(features))}

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, rows: Any, /) -> Arrays:
        batch = self._inputs[rows]
        for number, (name, feature) in enumerate(self._changed.items()):
            draws = draws_of(self._place, number, np.arange(len(self))[rows])
            batch[name] = self._probe.change(batch[name], draws, feature)
        return batch


class AlteredColumns:
    """Inputs by row, made of changed columns of the records by the transforms of the snapshot."""

    def __init__(self, place: int, probe: Probe, split: SnapshotSplit, inputs: Examples) -> None:
        self._place, self._probe, self._inputs = place, probe, inputs
        self._records, self._split = RecordsReader(split.records), split.name
        self._reader = Reader.open(split.transform)
        features = {name: self._records.features[name] for name in self._reader.columns}
        self._changed = changed_by(probe, column_kinds(features))
        self._dtypes = {each.name: each.dtype for each in model_inputs(split.features)}

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, rows: slice, /) -> Arrays:
        start, stop, _ = rows.indices(len(self))
        tables = self._records.tables(self._split, list(self._reader.columns), start=start, stop=stop)
        parts, at = [], start
        for table in tables:
            parts.append(self._made(table, np.arange(at, at + table.num_rows)))
            at += table.num_rows
        return {
            name: np.ascontiguousarray(np.concatenate([part[name] for part in parts]), dtype)
            for name, dtype in self._dtypes.items()
        }

    def _made(self, table: Any, rows: npt.NDArray[np.int64]) -> Arrays:
        values = {name: typed(table[name], self._records.features[name]) for name in self._reader.columns}
        for number, name in enumerate(self._changed):
            draws = draws_of(self._place, number, rows)
            values[name] = self._probe.change(values[name], draws, {"kind": self._records.features[name].kind})
        try:
            return self._reader.apply(values, len(rows))
        except Unusable as error:
            saw = f"{self._probe.kind}: column {error.column}: {error.saw}"
            remedy = "leave out this probe, or let the transform fill missing values"
            raise Failed(FIELD, saw, error.rule, remedy) from None
