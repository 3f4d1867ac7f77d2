"""Records in memory, as the snapshot of rows reads them, and a process that has no code of ours."""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.artifacts import Outcome
from tasks.exporting.formats.saved_model import SavedModel
from tasks.exporting.preprocess import in_graph
from tasks.models.architectures.mlp import MlpModel
from tasks.processes.workbench import Workbench
from tasks.reader import Reader, cast, transform
from tasks.snapshots import table
from tasks.snapshots.fitting import TransformConfig
from tasks.snapshots.transforms import Fitted
from tasks.sources.features import Feature
from tasks.sources.hashes import hashes_of
from tasks.store.staging import Staging

FOLDER = Path()
"""The folder of the fitted state of a transform that has no files."""

TYPES = {
    "category": pa.string(),
    "text": pa.large_string(),
    "words": pa.list_(pa.string()),
    "image": pa.large_binary(),
    "audio": pa.large_binary(),
}


def feature(kind: str, **more: Any) -> Feature:
    """A feature of records; of a label its role is clear."""
    dtypes = {"number": "float32", "image": "uint8", "time": "int64", "label": "int64"}
    if kind == "label":
        more.setdefault("role", "label")
    return Feature(kind, dtypes.get(kind, "string"), **more)  # type: ignore[arg-type]


class Memory:
    """Records of typed values by split and column."""

    def __init__(self, features: Mapping[str, Feature], splits: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        self.features = dict(features)
        self.manifest: dict[str, Any] = {}
        self.splits = {split: self._table(columns) for split, columns in splits.items()}
        self.counts = {split: table.num_rows for split, table in self.splits.items()}
        self.passes: list[tuple[str, tuple[str, ...]]] = []

    def key(self, split: str, index: int) -> str:
        return f"{split}/{index}"

    def row_hashes(self, split: str) -> NDArray[np.uint64]:
        return hashes_of([self.key(split, index).encode() for index in range(self.counts[split])])

    def tables(
        self, split: str, names: Sequence[str] | None = None, rows: int = 4096, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.Table]:
        self.passes.append((split, tuple(names or ())))
        chosen = self.splits[split].select(list(names or self.features))
        for first in range(start, self.counts[split] if stop is None else stop, rows):
            yield chosen.slice(first, min(rows, (self.counts[split] if stop is None else stop) - first))

    def _table(self, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
        return pa.table({name: column_of(self.features[name], values) for name, values in columns.items()})


def column_of(feature: Feature, values: Sequence[Any]) -> pa.Array:
    """Typed values as a column of `RecordsReader.tables`."""
    if feature.kind == "number" and feature.shape:
        flat = pa.array(np.asarray(values, np.float32).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(feature.shape)))
    if feature.kind in ("time", "label"):
        return pa.array(np.asarray(values, np.int64))
    if feature.kind == "number":
        return pa.array(np.asarray(values, np.float32))
    return pa.array(values, TYPES[feature.kind])


def table_of(columns: Mapping[str, pa.Array]) -> pa.Table:
    """Columns as a table."""
    return pa.table(dict(columns))


def applied(fitted: Fitted, values: Any) -> np.ndarray:
    """What a fitted transform makes of typed values, by the reader's module of its kind."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in fitted.files.items():
            (Path(folder) / name).write_bytes(content)
        result: np.ndarray = transform(json.loads(json.dumps(fitted.state)), Path(folder))(values)
    return result


def from_rows(
    features: Mapping[str, Feature], splits: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path = FOLDER
) -> Memory:
    """Records of raw rows, cast as by the reader (`test_transform_casts`: as by the ingestion)."""
    return Memory(
        features,
        {
            split: {
                name: [row[name] for row in rows]
                if each.kind == "label"
                else cast.column(
                    [row.get(name) for row in rows], each.kind, each.shape if each.kind == "number" else (), (), folder
                )
                for name, each in features.items()
            }
            for split, rows in splits.items()
        },
    )


class Journal:
    reached = 0
    folder = None

    def append(self, step: int, metrics: dict[str, float]) -> None: ...


def bench_at(root: Path, threads: int = 2) -> Workbench:
    """A workbench whose staging is `root`."""
    root.mkdir(parents=True, exist_ok=True)
    lock = root.with_name(f"{root.name}.lock")
    lock.write_text(json.dumps({"token": 1}))
    staging = Staging(root, lock, token=1)
    return Workbench(staging, Journal(), lambda *_, **__: None, lambda *_: None, lambda: False, threads)


def snapshot(
    root: Path, records: Memory, transforms: dict[str, TransformConfig] | None = None, shards: int = 1
) -> Outcome:
    """Make the snapshot of records in a folder."""
    return table.build(bench_at(root), records, transforms or {}, shards)


def arrays(root: Path, split: str, outcome: Outcome) -> dict[str, np.ndarray]:
    """The arrays of a split by feature, as anybody reads them."""
    return {
        name: np.concatenate([np.load(file) for file in sorted((root / split).glob(f"{name}-?????-of-?????.npy"))])
        for name in outcome.features
    }


SCRIPT = """
import sys
sys.path.extend({packages!r})
import importlib.util
assert importlib.util.find_spec("tasks") is None, "our code can be imported: this proves nothing"
sys.path.insert(0, {export!r})
import pickle, numpy
from reader import Reader
import re
heavy = {{"PIL", "tokenizers", "soundfile", "tensorflow", "pyarrow"}} & set(sys.modules)
assert not heavy, heavy
reader = Reader.open({export!r})
answers = []
for rows in pickle.load(open({rows!r}, "rb")):
    try:
        answers.append(reader(rows, {folder!r}))
    except ValueError as error:
        answers.append(str(error))
assert not any(name.partition(".")[0] in ("tasks", "flows") for name in sys.modules)
pickle.dump((reader.columns, answers), open({answers!r}, "wb"))
"""


def read_elsewhere(
    staging: Path, folder: Path, requests: list[list[dict[str, Any]]]
) -> tuple[dict[str, str], list[Any]]:
    """Give requests of raw rows to a reader in a fresh process without our code.

    Returns the reader's columns, and the arrays or the text of the error of each request; relative paths begin in
    `folder`.
    """
    import pickle

    export = folder / "export"
    shutil.copytree(staging / "transform", export)
    names = {name: str(folder / f"{name}.pickle") for name in ("rows", "answers")}
    Path(names["rows"]).write_bytes(pickle.dumps(requests))
    packages = [path for path in site.getsitepackages() if Path(path).is_dir()]
    script = SCRIPT.format(packages=packages, export=str(export), folder=str(folder), **names)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer: tuple[dict[str, str], list[Any]] = pickle.loads(Path(names["answers"]).read_bytes())
    return answer


def reader_of(root: Path) -> Reader:
    """The reader of a snapshot."""
    return Reader.open(root / "transform")


def write_model(root: Path, target: Path, features: dict[str, Any]) -> None:
    """Write a SavedModel of a snapshot's inputs."""
    network = MlpModel(task="classification", units=(8,)).build(features, seed=1)
    SavedModel.write(network, in_graph(root), None, target)
