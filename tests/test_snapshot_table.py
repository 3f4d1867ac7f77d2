"""The snapshot of a table: learnt from the train split alone, resumable, and refused where its names collide."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Outcome, Records, Snapshot
from tasks.config.base import identity
from tasks.errors import Failed, Refused
from tasks.feed import open_snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.reader import Reader
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.runner import identities
from tasks.snapshots import table
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.snapshots.transforms.function import Function
from tasks.snapshots.transforms.media import Image
from tasks.snapshots.transforms.numbers import Bucketize, Quantile, Standardise
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.sources.kinds.tables import CsvSource
from tests.support.interruptions import goes_on_from_any_piece
from tests.support.tables import Memory, arrays, bench_at, feature, from_rows, read_elsewhere, snapshot

TRANSFORMS = {"age": Bucketize(buckets=5), "blood_pressure": Quantile()}


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Records:
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    config = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3})
    return publish(Records, bench, conversion.build(bench, SklearnSource(dataset="diabetes"), config))


@pytest.fixture(scope="module")
def made(
    diabetes: Records, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> Snapshot:
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    return publish(Snapshot, bench, snapshots.build(bench, diabetes, TableSnapshot(transforms=TRANSFORMS, shards=2)))


def test_mean_and_variance_are_those_of_the_train_split(made: Snapshot) -> None:
    reader, features = open_snapshot(made.path), made.manifest["features"]
    others = ["blood_pressure", "body_mass", "glucose", "hdl", "ldl", "ltg", "sex", "tc", "tch"]
    assert features["numbers"]["names"] == others and features["categories"]["names"] == ["age"]
    assert features["target"]["names"] == ["progression"]
    standardised = slice(1, None)  # the first one is a rank
    for name, places in (("numbers", standardised), ("target", slice(None))):
        split = {split: np.asarray(reader.arrays(split)[name][:], np.float64)[:, places] for split in reader.counts}
        np.testing.assert_allclose(features[name]["mean"][places], split["train"].mean(0), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(features[name]["variance"][places], split["train"].var(0), rtol=1e-9)
        assert not np.allclose(features[name]["mean"][places], split["test"].mean(0), rtol=1e-3)
    assert (features["numbers"]["mean"][0], features["numbers"]["variance"][0]) == (0.0, 1.0)


def test_a_model_reads_it_standardised(made: Snapshot) -> None:
    reader, features = open_snapshot(made.path), made.manifest["features"]
    model = MlpModel(task="regression", units=(4,)).build(features, seed=0)
    assert {each.name for each in model.inputs} == {"numbers", "categories"}
    rescale = next(layer for layer in model.layers if "rescale" in layer.name)
    rescaled = np.asarray(rescale(np.asarray(reader.arrays("train")["numbers"][:])))[:, 1:]
    np.testing.assert_allclose(rescaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(rescaled.std(0), 1, rtol=1e-3)


def test_cells_of_a_file_become_the_arrays_without_our_code(
    diabetes: Records, made: Snapshot, tmp_path: Path, tf: Any
) -> None:
    """The records' numbers, written as CSV and read by `csv.DictReader` in the way of somebody who has the export."""
    reader = RecordsReader(diabetes.path)
    names = [name for name, each in reader.features.items() if each.role == "input"]
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for part in reader.tables("test", names):
            writer.writerows(zip(*(part[name].to_pylist() for name in names), strict=True))
    with open(tmp_path / "rows.csv", newline="") as file:
        columns, [answer] = read_elsewhere(made.path, tmp_path, [list(csv.DictReader(file))])
    assert columns == dict.fromkeys(sorted(names), "number")
    expected = open_snapshot(made.path).arrays("test")
    for name, array in answer.items():
        assert array.tobytes() == np.asarray(expected[name][:]).tobytes(), name


def test_the_snapshot_has_the_reader_that_its_transforms_need(made: Snapshot) -> None:
    files = {row["path"] for row in made.manifest["files"] if row["path"].startswith("transform/")}
    modules = ("__init__", "cast", "formats", "numbers", "values")
    assert files == {"transform/transform.json", *(f"transform/reader/{name}.py" for name in modules)}


FEATURES = {"town": feature("category"), "size": feature("number"), "price": feature("number", role="target")}
ROWS = [{"town": "ab"[row % 2], "size": row / 7, "price": float(row)} for row in range(60)]


def memory(**more: Any) -> Memory:
    return from_rows({**FEATURES, **more}, {"train": ROWS[:40], "test": ROWS[40:]})


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


class Killed(Exception): ...


class Dying(Memory):
    """Records whose reading ends after some tables."""

    def __init__(self, whole: Memory, tables: int) -> None:
        self.__dict__.update(whole.__dict__)
        self.left, self.read = tables, 0

    def tables(self, *arguments: Any, **more: Any) -> Any:
        for part in super().tables(*arguments, **more):
            if self.left == 0:
                raise Killed
            self.left -= 1
            self.read += part.num_rows
            yield part


def test_a_killed_attempt_is_continued_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of 5 rows: 8 for fitting, 4 for the test split and 8 for the train split, in parts of 7 and 14 rows."""
    monkeypatch.setattr(table, "MOST_ROWS", 5)
    bench = bench_at(tmp_path / "whole")
    outcome = table.build(bench, memory(), {}, 3)
    whole = bench.staging.rows()
    for tables in range(0, 20, 3):
        root = tmp_path / f"killed {tables}"
        with pytest.raises(Killed):
            table.build(bench_at(root), Dying(memory(), tables), {}, 3)
        bench, again = bench_at(root), Dying(memory(), 1000)
        assert table.build(bench, again, {}, 3) == outcome
        assert bench.staging.rows() == whole, tables
        assert tables < 14 or again.read <= 40, "what was fitted, and finished parts, are not read again"


def test_interrupted_at_any_piece_it_goes_on(tmp_path: Path) -> None:
    """Also between the last array of a shard and its counts."""
    goes_on_from_any_piece(
        lambda bench: table.build(bench, memory(), {}, 2), lambda name: bench_at(tmp_path / name), least=8
    )


def test_fitting_reads_the_train_split_once(tmp_path: Path) -> None:
    source = memory()
    snapshot(tmp_path / "snapshot", source)
    assert (
        source.passes[0] == ("train", ("size", "town", "price")) and [p[0] for p in source.passes].count("train") == 2
    )


def test_shares_of_missing_and_unknown_values_are_told(tmp_path: Path) -> None:
    rows = [{**row, "town": "new" if number > 50 else row["town"]} for number, row in enumerate(ROWS)]
    rows[45]["size"] = None
    outcome = snapshot(tmp_path / "snapshot", from_rows(FEATURES, {"train": rows[:40], "test": rows[40:]}))
    told = outcome.statistics["transforms"]
    assert told["town"]["unknown"] == {"train": 0.0, "test": 9 / 20} and told["town"]["size"] == 4
    assert told["size"]["missing"] == {"train": 0.0, "test": 1 / 20}
    assert outcome.statistics["metrics"]["snapshot/test/unknown"] == 9 / 40


@pytest.mark.parametrize("name", ["numbers", "categories", "label", "target", "weight", "row", "origin"])
def test_an_array_of_its_own_has_a_name_of_its_own(name: str, tmp_path: Path) -> None:
    source = from_rows({name: feature("text")}, {"train": [{name: "x"}]})
    with pytest.raises(Refused, match=f"source.columns: {name}; an array of a snapshot has this name"):
        snapshot(tmp_path / "snapshot", source)
    assert not list((tmp_path / "snapshot").rglob("*.npy"))


def test_a_number_and_the_indicator_of_another_one_collide(tmp_path: Path) -> None:
    features = {"size": feature("number"), "size.missing": feature("number")}
    rows = [{"size": None, "size.missing": 1}, {"size": 2, "size.missing": 0}]
    with pytest.raises(Refused, match="size.missing; a column, and a number that is made of another column"):
        snapshot(tmp_path / "snapshot", from_rows(features, {"train": rows}))


def test_a_scalar_may_have_any_name(tmp_path: Path) -> None:
    features = {name: feature("number") for name in ("numbers", "row", "größe (m²)", "a/b")}
    rows = [dict.fromkeys(features, float(row)) for row in range(3)]
    outcome = snapshot(tmp_path / "snapshot", from_rows(features, {"train": rows}))
    assert outcome.features["numbers"]["names"] == sorted(features)


def test_a_broken_image_fails_with_its_key(tmp_path: Path) -> None:
    rows = [{"photo": b""}] * 37 + [{"photo": b"no image"}] + [{"photo": b""}] * 3
    source = from_rows({"photo": feature("image")}, {"train": rows})
    with pytest.raises(Failed, match="train/37: photo: 8 bytes, cannot identify image file; must be a whole image"):
        snapshot(tmp_path / "snapshot", source, {"photo": Image(height=4, width=4)})


def test_what_breaks_a_users_function_fails(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("def halves(values):\n    return [1 / value for value in values]\n")
    transforms: dict[str, Any] = {"size": Function(function="odd:halves", folder=str(tmp_path))}
    with pytest.raises(Failed, match="snapshot.transforms.size: odd:halves raised ZeroDivisionError"):
        snapshot(tmp_path / "snapshot", memory(), transforms)


def test_a_users_function_enters_the_digest_with_what_it_imports(made: Snapshot, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from other import f\n")
    (tmp_path / "other.py").write_text("import numpy\nf = numpy.square\n")
    (tmp_path / "unused.py").write_text("this is not Python")
    config = TableSnapshot(transforms={"age": Function(function="mine:f", folder=str(tmp_path))})
    identity = identities.snapshot(made, config)
    before = identity.inputs(Snapshot)
    names = ["functions/mine.py", "functions/other.py", "functions/package/numpy"]
    assert [name for name, _ in before["sources"]] == names
    (tmp_path / "other.py").write_text("import numpy\nf = numpy.abs\n")
    assert identity.inputs(Snapshot) != before
    with pytest.raises(Failed, match="it changed during the run"):
        identity.check_sources(before)
    (tmp_path / "mine.py").write_text("from other import (f\n")
    with pytest.raises(Refused, match="snapshot.transforms.age.function: .*mine.py.*; it is Python"):
        identity.inputs(Snapshot)


def test_cells_that_mean_missing_are_those_of_the_source(tmp_path: Path) -> None:
    source = memory()
    config = CsvSource(path="towns.csv", columns={"town": "category", "size": "number"}, missing=("-", ""))
    source.manifest = {"inputs": {"config": {"source": identity(config)}}}
    outcome: Outcome = snapshot(tmp_path / "snapshot", source, {"size": Standardise()})
    reader = Reader.open(tmp_path / "snapshot" / "transform")
    row = reader([{"town": "-", "size": "-"}, {"town": "", "size": ""}])
    assert row["categories"].tolist() == [[0], [0]]
    assert (row["numbers"] == np.float32(outcome.features["numbers"]["mean"])).all()
    assert arrays(tmp_path / "snapshot", "train", outcome)["target"].shape == (40, 1)
