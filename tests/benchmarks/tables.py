"""Conversion of a table of 20 columns, per row, against TFDS' generator and against protobuf by hand; its memory from a
small and a large source; a second run on many files; and reading the snapshot, against make_csv_dataset and TFRecord.

    python -m tests.benchmarks.tables [conversion | memory | again | reading]

The peers convert a part of the rows, as they take minutes for all; figures are rows per second.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

ROWS, PART = 1_000_000, 20_000
ROUNDS = 5
NUMBERS = [f"n{number:02d}" for number in range(14)]
CATEGORIES = [f"c{number}" for number in range(5)]
TYPES = {**dict.fromkeys(NUMBERS, "number"), **dict.fromkeys(CATEGORIES, "category"), "label": "category"}
SMALL, LARGE = 100 << 20, 5 << 30


def columns(count: int, seed: int = 0) -> dict[str, Any]:
    """Return random columns by name."""
    random = np.random.default_rng(seed)
    table: dict[str, Any] = {name: random.normal(size=count).round(6) for name in NUMBERS}
    for place, name in enumerate(CATEGORIES):
        words = np.array([f"value{number}" for number in range(10 ** (1 + place % 3))])
        table[name] = words[random.integers(0, len(words), count)]
    return {**table, "label": np.array(["a", "b", "c"])[random.integers(0, 3, count)]}


def write(folder: Path, count: int) -> None:
    """Write the same rows as CSV and as Parquet, the first ones also alone."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    table = pa.table(columns(count))
    pa_csv.write_csv(table, folder / "all.csv", pa_csv.WriteOptions(quoting_style="none"))
    pa_csv.write_csv(table.slice(0, PART), folder / "part.csv", pa_csv.WriteOptions(quoting_style="none"))
    pq.write_table(table, folder / "all.parquet", row_group_size=100_000)
    pq.write_table(table.slice(0, PART), folder / "part.parquet")


def convert(path: Path, root: Path) -> None:
    """Convert a file as `millrace run dataset` does, on all cores."""
    from tasks.processes.workbench import Workbench
    from tasks.records import conversion as records
    from tasks.records.config import RecordsConfig
    from tasks.sources.kinds.tables import CsvSource, ParquetSource
    from tasks.store.staging import Staging

    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (lock := root.with_name("lock")).write_text(json.dumps({"token": 1}))
    nothing = lambda *_, **__: None  # noqa: E731
    threads = psutil.cpu_count(logical=False) or 1
    bench = Workbench(Staging(root, lock, 1), None, nothing, nothing, lambda: 0, threads=threads)  # type: ignore[arg-type]
    kind = CsvSource if path.suffix == ".csv" else ParquetSource
    source = kind.model_validate({"name": "table", "path": str(path), "columns": TYPES, "label": "label"})
    records.build(bench, source, RecordsConfig())


def by_tfds(path: Path, root: Path) -> None:
    """Convert by `download_and_prepare` over a generator."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import registered

    shutil.rmtree(root, ignore_errors=True)

    with registered.skip_registration():  # it is defined in each round

        class Table(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self) -> Any:
                features = {**dict.fromkeys(NUMBERS, np.float32), **dict.fromkeys(CATEGORIES, tfds.features.Text())}
                features["label"] = tfds.features.ClassLabel(names=["a", "b", "c"])
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

            def _split_generators(self, dl_manager: Any) -> Any:
                return {"train": self._generate_examples()}

            def _generate_examples(self) -> Any:
                for number, row in enumerate(rows_of(path)):
                    yield number, {**row, **{name: float(row[name]) for name in NUMBERS}}

    Table(data_dir=str(root)).download_and_prepare()


def by_hand(path: Path, root: Path) -> None:
    """Convert by pyarrow, `tf.train.Example` and `TFRecordWriter`."""
    import tensorflow as tf

    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    train = tf.train
    with tf.io.TFRecordWriter(str(root / "table.tfrecord")) as writer:
        for row in rows_of(path):
            features = {name: train.Feature(float_list=train.FloatList(value=[float(row[name])])) for name in NUMBERS}
            for name in (*CATEGORIES, "label"):
                features[name] = train.Feature(bytes_list=train.BytesList(value=[row[name].encode()]))
            writer.write(train.Example(features=train.Features(feature=features)).SerializeToString())


def rows_of(path: Path) -> Any:
    """Yield the rows of a file as dicts, read by pyarrow."""
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    table = pa_csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    for batch in table.to_batches(10_000):
        yield from batch.to_pylist()


def conversion(folder: Path) -> None:
    """Print rows per second of each way, in interleaved rounds."""
    write(folder, ROWS)
    for form in ("csv", "parquet"):
        whole, part = folder / f"all.{form}", folder / f"part.{form}"
        ways: dict[str, tuple[int, Callable[[], None]]] = {
            "millrace": (ROWS, partial(convert, whole, folder / "records")),
            "millrace again": (ROWS, partial(convert, whole, folder / "records")),
            "TFDS generator": (PART, partial(by_tfds, part, folder / "tfds")),
            "pyarrow + tf.train.Example": (PART, partial(by_hand, part, folder / "hand")),
        }
        rates = _rates(ways)
        print(f"\n{form}, {ROWS:,} rows x 20 columns, median of {ROUNDS} interleaved rounds")
        for name, of_way in rates.items():
            ratios = [ours / other for ours, other in zip(rates["millrace"], of_way, strict=True)]
            spread = f"[{min(ratios):.2f}, {max(ratios):.2f}]"
            print(f"  {name:<28}{median(of_way):>12,.0f} rows/s   millrace is {median(ratios):6.2f}x  {spread}")


def _rates(ways: dict[str, tuple[int, Callable[[], None]]]) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (rows, way) in ways.items():
            started = time.perf_counter()
            way()
            rates[name].append(rows / (time.perf_counter() - started))
    return rates


def memory(folder: Path) -> None:
    """Print the largest anonymous memory of a conversion of a small and of a large CSV file."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    for size in (SMALL, LARGE):
        path, number = folder / f"{size}.csv", 0
        with open(path, "wb") as file:
            while file.tell() < size:
                options = pa_csv.WriteOptions(include_header=number == 0, quoting_style="none")
                pa_csv.write_csv(pa.table(columns(100_000, number)), file, options)
                number += 1
        script = f"from tests.benchmarks.tables import convert; from pathlib import Path; convert(Path({str(path)!r}), "
        command = [sys.executable, "-c", f"{script}Path({str(folder / 'records')!r}))"]
        started, most = time.perf_counter(), 0
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                most = max(most, anonymous(psutil.Process(process.pid)))
                time.sleep(0.05)
        seconds = time.perf_counter() - started
        print(f"{size >> 20:,} MiB: {most >> 20:,} MiB of anonymous memory at most, {seconds:.0f} s")
        path.unlink()


def anonymous(process: psutil.Process) -> int:
    """Return the anonymous memory of a process and its children, shared pages of forks counted once each."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            lines = Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Dirty", "Pss_Anon")))
    return total // 2


def again(folder: Path) -> None:
    """Print the time of `convert` on 10,000 unchanged files, found in the store, against the first time."""
    source = folder / "texts"
    for number in range(10_000):
        path = source / f"{number % 100:02d}" / f"{number:05d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number} " * 3000)
    preset = folder / "texts.yaml"
    preset.write_text(
        "name: texts\nsource: {kind: text_files, name: texts, path: texts}\n"
        "snapshot: {kind: tokens, vocabulary: 300, block: 64}\ntrain: {steps: 1}\n"
    )
    for run in ("first", "second", "third"):
        command = ["millrace", "run", "dataset", str(preset), "--json"]
        done = subprocess.run(
            command, env={**_environment(), "MILLRACE_HOME": str(folder / "home")}, capture_output=True
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        [made] = answer["artifacts"]["convert"]
        print(f"{run}: convert {made['seconds']:.3f} s, cached {made['cached']}")


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def reading(folder: Path) -> None:
    """Print rows per second of batches of 1024 in random order."""
    import tensorflow as tf

    from tasks.feed.snapshot_reader import SnapshotReader

    count, batch = 300_000, 1024
    table = columns(count)
    with open(folder / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(values.tolist() for values in table.values()), strict=True))
    path = _snapshot(folder, table, count)
    records = str(folder / "rows.tfrecord")
    by_hand(folder / "rows.csv", folder / "hand")
    records = str(folder / "hand" / "table.tfrecord")
    spec: dict[str, Any] = {name: tf.io.FixedLenFeature([], tf.float32) for name in NUMBERS}
    spec |= {name: tf.io.FixedLenFeature([], tf.string) for name in (*CATEGORIES, "label")}

    def ours() -> None:
        for _ in SnapshotReader(path).dataset("train", batch, seed=1, stop=count // batch):
            pass

    def from_records() -> None:
        dataset = tf.data.TFRecordDataset(records).shuffle(10_000, seed=1).batch(batch)
        for _ in dataset.map(lambda rows: tf.io.parse_example(rows, spec), num_parallel_calls=2).prefetch(2):
            pass

    def from_csv() -> None:
        dataset = tf.data.experimental.make_csv_dataset(
            str(folder / "rows.csv"), batch, label_name="label", num_epochs=1, shuffle_seed=1, num_parallel_reads=2
        )
        for _ in dataset:
            pass

    rates = _rates({
        "snapshot": (count, ours), "snapshot again": (count, ours),
        "TFRecord + parse + shuffle": (count, from_records), "make_csv_dataset": (count, from_csv),
    })  # fmt: skip
    print(f"\nreading {count:,} rows shuffled in batches of {batch}, median of {ROUNDS} interleaved rounds")
    for name, of_way in rates.items():
        ratios = [one / other for one, other in zip(rates["snapshot"], of_way, strict=True)]
        print(f"  {name:<28}{median(of_way):>12,.0f} rows/s   snapshot is {median(ratios):6.2f}x")


def _snapshot(folder: Path, table: dict[str, Any], count: int) -> Path:
    """Write a snapshot of these rows as the stage does, without its conversion."""
    root = folder / "snapshot"
    (root / "train").mkdir(parents=True)
    arrays = {
        "numbers": np.stack([table[name] for name in NUMBERS], axis=1).astype(np.float32),
        "categories": np.stack([np.unique(table[name], return_inverse=True)[1] for name in CATEGORIES], 1).astype("i4"),
        "label": np.unique(table["label"], return_inverse=True)[1].astype(np.int64),
    }
    files = []
    for name, array in arrays.items():
        path = root / f"train/{name}-00000-of-00001.npy"
        np.save(path, array)
        files.append({"path": path.relative_to(root).as_posix(), "bytes": path.stat().st_size})
    features = {name: {"dtype": array.dtype.name, "shape": list(array.shape[1:])} for name, array in arrays.items()}
    manifest = {"kind": "snapshot", "features": features, "counts": {"train": count}, "files": files}
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["conversion", "memory", "again", "reading"]
    for name in chosen:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
            {"conversion": conversion, "memory": memory, "again": again, "reading": reading}[name](Path(temporary))
