"""The snapshot of table rows: float32 arrays, with mean and variance of the train split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome, Records
from tasks.config import TableSnapshot
from tasks.data.features import Feature
from tasks.data.reading import RecordsReader
from tasks.data.snapshots import lineage_of, parts_of, write_array
from tasks.errors import Failed
from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

NUMBERS, TARGET, LABEL = "numbers", "target", "label"
TRAIN = "train"


def build(bench: Workbench, records: Records, config: TableSnapshot) -> Outcome:
    """Preprocess records to `numbers` float32 [columns] and `target` float32 [targets] or `label` int64 [].

    Returns counts (rows of each split) and features (dtype, shape, names, and mean and variance over the train split,
    by which a model standardises its input and scales its outputs).

    Raises:
        Failed: the records have no feature `numbers`, or a value is not finite.
    """
    reader = RecordsReader(records.path)
    if (row := reader.features.get(NUMBERS)) is None or row.kind != "number":
        saw = f"records of {', '.join(sorted(reader.features))}"
        raise Failed("snapshot.kind", saw, "a table is made of a feature numbers", "choose a source of rows")
    bench.staging.reserve(records.bytes)
    columns = {name: reader.features[name] for name in (NUMBERS, TARGET, LABEL) if name in reader.features}
    features: dict[str, Any] = {}
    for done, (split, count) in enumerate(sorted(reader.counts.items(), key=lambda item: item[0] != TRAIN)):
        bench.progress(done, len(reader.counts), "splits")
        arrays = {name: _array(reader, split, name, feature) for name, feature in columns.items()}
        if split == TRAIN:
            features = {name: _describe(feature, arrays[name]) for name, feature in columns.items()}
        for part in parts_of(split, count, config.shards):
            rows = np.arange(part.start, part.stop, dtype=np.int64)
            for name, array in {**arrays, **lineage_of(rows)}.items():
                write_array(bench, part.file(name), array[part.start : part.stop] if name in arrays else array)
    names = list(row.classes or (f"column{number}" for number in range(row.shape[0])))
    classes = features[LABEL]["classes"] if LABEL in features else []
    bench.staging.put("transform/table.json", pretty({"kind": "table", "columns": names, "classes": classes}))
    return Outcome(
        counts=dict(reader.counts),
        features=features,
        statistics={"metrics": {f"snapshot/{split}": count for split, count in reader.counts.items()}},
    )


def _array(reader: RecordsReader, split: str, name: str, feature: Feature) -> NDArray[Any]:
    """Return a feature of all examples of a split, in stored order."""
    values = [np.asarray(example[name]) for example in reader.iterate(split)]
    if feature.kind == "label":
        return np.array([value[0] for value in values], np.int64)
    array = np.stack(values).astype(np.float32)
    if not np.isfinite(array).all():
        index = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        rule = "a table holds finite numbers"
        raise Failed(reader.key(split, index), f"{name} {array[index].tolist()}", rule, "fix it, or leave it out")
    return array


def _describe(feature: Feature, values: NDArray[Any]) -> dict[str, Any]:
    if feature.kind == "label":
        return {"dtype": "int64", "shape": [], "classes": list(feature.classes or ())}
    values_float64 = values.astype(np.float64)
    variance = values_float64.var(axis=0)
    return {
        "dtype": "float32",
        "shape": list(values.shape[1:]),
        "names": list(feature.classes or (f"value{number}" for number in range(values.shape[1]))),
        "mean": values_float64.mean(axis=0).tolist(),
        "variance": np.where(variance > 0, variance, 1.0).tolist(),
    }
