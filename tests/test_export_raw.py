"""Raw input gives the prediction of the arrays that the snapshot holds, in one fresh process without our code: by the
reader for every kind of transform, and in the SavedModel's graph where it can be."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.exporting.preprocess import arguments_of, in_graph, without_graph
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.snapshots.fitting import TRANSFORMS as KINDS
from tasks.snapshots.transforms import categories, numbers, texts, times
from tests.support import kinds
from tests.support.fresh import in_fresh_process
from tests.support.tables import arrays, feature, from_rows, snapshot, write_model

FEATURES = {
    **{name: feature("number") for name in ("Age", "age", "amount", "rank", "share", "bucket", "given")},
    "Größe (cm)": feature("number"),
    "标题": feature("category"),
    **{name: feature("number", shape=(2, 3)) for name in ("grid", "amounts")},
    **{name: feature("category") for name in ("class", "street name")},
    **{name: feature("time") for name in ("when", "circle")},
    "note": feature("text"),
    "label": feature("label", classes=("no", "yes")),
}
TRANSFORMS: dict[str, Any] = {
    "age": numbers.Keep(missing=numbers.Missing(fill=1e-41, indicator=True)),
    "amount": numbers.Log(missing=numbers.Missing(fill="median")),
    "amounts": numbers.Log(),
    "rank": numbers.Quantile(quantiles=50),
    "share": numbers.Quantile(output="uniform", quantiles=7),
    "bucket": numbers.Bucketize(buckets=9),
    "given": numbers.Bucketize(boundaries=(-1e38, -1.5, 0.0, 1e-310, 1e-41, 0.1, 1e39)),
    "class": categories.Vocabulary(min_count=2),
    "标题": categories.Vocabulary(),
    "street name": categories.Hash(buckets=997),
    "circle": times.TimeParts(cyclical=True),
    "note": texts.Tokens(method="bytes", length=9),
}
COLUMNS = sorted(FEATURES.keys() - {"label"})
LARGEST = float(np.finfo(np.float32).max)
WORDS = ["", "?", "Ulm", "Köln", "Hof", "\ufeffHof", "Ho", "f\0f", "日本", "x" * 128, "x" * 129, "é" * 512, "new"]
REFUSED: dict[str, tuple[str, Any, str]] = {
    "a number out of range": ("age_2", 1e39, "column age: must be at most 3.4e38 in size"),
    "infinity in an array": ("grid", np.inf, "column grid: must be at most 3.4e38 in size"),
    "a category that is too long": (
        "column_class",
        "x" * 1025,
        "column class: must be a category, of at most 1024 bytes",
    ),
    "a category that is not UTF-8": ("street_name", b"\xff", "column street name: must be UTF-8"),
    "a text that is half a surrogate": ("note", b"a\xed\xa0\x80", "column note: must be UTF-8"),
}
SCRIPT = """
import importlib.util, pickle, sys
for name in ("tasks", "flows", "infra"):
    assert importlib.util.find_spec(name) is None, "our code can be imported: this proves nothing"
for name in ["tf_keras", *sys.modules]:
    if name.partition(".")[0] in ("keras", "tf_keras"):
        sys.modules[name] = None
import tensorflow as tf

def run(model, signature, arrays):
    results = model.signatures[signature](**{name: tf.constant(array) for name, array in arrays.items()})
    return {name: tensor.numpy() for name, tensor in results.items()}

def open_export(export):
    for name in [name for name in sys.modules if name.partition(".")[0] == "reader"]:
        del sys.modules[name]  # of the export before
    sys.path.insert(0, export + "/transform")
    sys.path_importer_cache.clear()
    from reader import Reader
    return Reader.open(export + "/transform"), tf.saved_model.load(export + "/saved_model")

requests, answers = pickle.load(open("requests.pickle", "rb")), {}
reader, model = open_export("all")
for name, (rows, arrays) in requests["all"].items():
    answers[name] = [run(model, "serving_default", each)["logits"] for each in (reader(rows, "."), arrays)]
reader, model = open_export("graph")
columns, arrays = requests["golden"]
served = run(model, "serving_default", arrays)
answers["golden"] = run(model, "preprocess", columns), run(model, "raw", columns), served
columns, rows = requests["edges"]
answers["edges"] = run(model, "preprocess", columns), reader(rows)
columns, _ = requests["golden"]
empty = {name: column[:0] for name, column in columns.items()}
answers["empty"] = run(model, "preprocess", empty), reader([])
answers["refused"] = {}
for name, (column, values) in requests["refused"].items():
    try:
        answers["refused"][name] = run(model, "raw", {**columns, column: values})
    except tf.errors.InvalidArgumentError as error:
        answers["refused"][name] = str(error)
assert not {"tasks", "flows", "infra"} & set(sys.modules)
pickle.dump(answers, open("answers.pickle", "wb"))
"""


def again(bench: Workbench, snapshot: Path, target: Path, features: dict[str, Any]) -> int:
    """Write a SavedModel once more, in a process that hashes texts differently, and return its hash of one."""
    write_model(snapshot, target, features)
    return hash("text")


def raw_row(number: int) -> dict[str, Any]:
    random = np.random.default_rng(number)
    row: dict[str, Any] = {name: float(random.lognormal()) for name in COLUMNS if FEATURES[name].kind == "number"}
    row |= {name: random.normal(size=(2, 3)).tolist() for name in ("grid", "amounts")}
    row |= {
        name: ["Ulm", "Köln", "Hof", f"place {number}"][number % 4] for name in ("class", "street name", "标题", "note")
    }
    row |= dict.fromkeys(("when", "circle"), np.datetime64("2001-01-01T00:30", "us") + number * 40_000_000_000_001)
    row["label"] = number % 2
    if number % 5 == 3:
        row |= dict.fromkeys(["Age", "amount", "rank", "bucket"]) | {"class": "?", "note": None, "when": None}
        row["grid"][0][1] = None
    return row


def numbers(state: dict[str, Any], shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Any float64 in float32's range: subnormal, halfway between two float32, beside what the transform has learnt."""
    learnt = np.clip([*state.get("values", ()), *state.get("boundaries", ())], -LARGEST, LARGEST).astype(np.float32)
    near = [learnt, *(np.nextafter(learnt, np.float32(end)) for end in (-LARGEST, LARGEST))]
    singles = random.integers(0, 2**32, 700, np.uint32).view(np.float32)
    singles = singles[np.isfinite(singles)]
    middles = (singles.astype(np.float64) + np.nextafter(singles, np.float32(0))) / 2
    every = [
        random.integers(0, 2**64, 500, np.uint64).view(np.float64),
        singles,
        middles,
        random.normal(size=500),
        *near,
    ]
    subnormal = random.normal(size=500) * 1e-39
    special = [0.0, -0.0, np.nan, LARGEST, -LARGEST, 2.0**-126, 2.0**-149, 2.0**-150, 1e-310, -1e-310]
    special += [0.4951299726963043]  # of whose logarithm libraries round the float32 differently
    found = np.concatenate([*every, subnormal, middles * 2.0**-130, special]).astype(np.float64)
    found = found[np.isnan(found) | (np.abs(found) <= LARGEST)]
    size = 4000 * int(np.prod(shape))
    assert len(found) < 4000, "none is left out"
    return random.permutation(np.resize(found, size)).reshape(-1, *shape)


def edges(description: dict[str, Any]) -> dict[str, np.ndarray]:
    """Raw columns of values that are hard to transform, by name."""
    random = np.random.default_rng(0)
    columns = {}
    for name in COLUMNS:
        if FEATURES[name].kind == "number":
            columns[name] = numbers(description["transforms"][name], FEATURES[name].shape or (), random)
        elif FEATURES[name].kind == "time":
            times = random.integers(-(2**62), 2**62, 4000) // random.choice([1, 10, 1000, 10**5, 10**9], 4000)
            hours = np.datetime64("1899-12-31", "h") + np.arange(3000) * 25
            special = ["1970-01-01", "NaT", "2000-02-29", "1900-03-01", "2100-02-28T23:59:59.999999", "0000-03-01"]
            places = [times.view("datetime64[us]"), hours.astype("datetime64[us]"), np.array(special, "datetime64[us]")]
            columns[name] = np.concatenate(places)[-4000:].view(np.int64)
        else:
            columns[name] = random.choice(np.array(WORDS), 4000)
    return columns


@dataclass(frozen=True)
class Answered:
    """What the snapshots hold, and what a fresh process answered."""

    folder: Path
    description: dict[str, Any]
    stored: dict[str, np.ndarray]
    answers: dict[str, Any]


def export(folder: Path, records: Any, transforms: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Write a snapshot's `transform/` and a SavedModel of its inputs; return the description and the stored arrays."""
    root = folder.with_name(f"{folder.name} snapshot")
    outcome = snapshot(root, records, transforms)
    shutil.copytree(root / "transform", folder / "transform")
    write_model(root, folder / "saved_model", outcome.features)
    splits = [arrays(root, split, outcome) for split in ("train", "test")]
    (folder / "features.json").write_text(json.dumps(outcome.features))
    description = json.loads((root / "transform/transform.json").read_text())
    stored = {
        name: np.concatenate([split[name] for split in splits]).astype(description["arrays"][name]["dtype"])
        for name in description["arrays"]
    }
    return description, stored


def one_column(
    name: str, rows: list[dict[str, Any]], description: dict[str, Any], stored: dict[str, np.ndarray], first: int
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Rows that are equal but for one column, and their arrays."""
    alike = {array: np.repeat(values[first : first + 1], len(rows), axis=0) for array, values in stored.items()}
    [place] = [place for place in description["layout"] if place["column"] == name]
    chosen = (slice(None), slice(place.get("start"), place.get("stop"))) if "start" in place else slice(None)
    alike[place["array"]][chosen] = stored[place["array"]][first : first + len(rows)][chosen]
    return [{**rows[0], name: row[name]} for row in rows], alike


@pytest.fixture(scope="module")
def answered(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    folder = tmp_path_factory.mktemp("raw")
    rows = [kinds.raw_row(number, folder) for number in range(kinds.ROWS)]
    every = from_rows(kinds.FEATURES, {"train": rows[:28], "test": rows[28:]}, folder)
    described, stored = export(folder / "all", every, kinds.transforms(folder))
    assert {state["kind"] for state in described["transforms"].values()} == set(KINDS)
    requests: dict[str, Any] = {
        "all": {
            name: one_column(name, rows[-6:], described, stored, kinds.ROWS - 6) for name in described["transforms"]
        }
    }
    (folder / "mine").rename(folder / "not importable from here")

    rows = [raw_row(number) for number in range(60)]
    cells = [{name: None if value == "?" else value for name, value in row.items()} for row in rows]
    records = from_rows(FEATURES, {"train": cells[:40], "test": cells[40:]})
    records.manifest = {"inputs": {"config": {"source": {"missing": ["?"]}}}}
    described, stored = export(folder / "graph", records, TRANSFORMS)
    arguments = arguments_of(COLUMNS)
    golden = {
        arguments[name]: np.array([row[name] for row in rows], "datetime64[us]").view(np.int64)
        if FEATURES[name].kind == "time"
        else np.array([row[name] for row in rows], np.float64)
        if FEATURES[name].kind == "number"
        else np.array([row[name] or "" for row in rows])
        for name in COLUMNS
    }
    requests["golden"] = golden, stored
    columns = edges(described)
    as_rows = {
        name: column.view("datetime64[us]") if FEATURES[name].kind == "time" else column.tolist()
        for name, column in columns.items()
    }
    listed = [
        dict(zip(COLUMNS, values, strict=True)) for values in zip(*(as_rows[each] for each in COLUMNS), strict=True)
    ]
    requests["edges"] = {arguments[name]: column for name, column in columns.items()}, listed
    requests["refused"] = {
        name: (
            column,
            np.where(np.arange(60).reshape(-1, *[1] * (golden[column].ndim - 1)) == 7, value, golden[column]),
        )
        if not isinstance(value, bytes)
        else (column, np.array([value] * 60))
        for name, (column, value, _) in REFUSED.items()
    }
    (folder / "requests.pickle").write_bytes(pickle.dumps(requests))
    in_fresh_process(SCRIPT, folder=folder)
    features = json.loads((folder / "graph/features.json").read_text())
    with ProcessLauncher(folder / "logs", 1).gang("again") as gang:
        graph = (folder / "graph snapshot", folder / "again", features)
        hashed = gang.call(Work(again, graph), None, folder / "journal", limits=Limits(), on_report=lambda *_: None)
    assert hashed != hash("text")
    return Answered(folder, described, stored, pickle.loads((folder / "answers.pickle").read_bytes()))


@pytest.mark.parametrize("column", sorted(kinds.FEATURES.keys() - {"label"}))
def test_a_raw_column_gives_the_prediction_of_what_the_snapshot_holds(answered: Answered, column: str) -> None:
    of_raw, of_stored = answered.answers[column]
    assert of_raw.tobytes() == of_stored.tobytes()
    assert len(np.unique(of_raw, axis=0)) > 1, "the prediction does not depend on this column"


def test_raw_columns_in_the_graph_become_what_the_snapshot_holds(answered: Answered) -> None:
    prepared, outputs, served = answered.answers["golden"]
    assert prepared.keys() == answered.stored.keys()
    for name, array in prepared.items():
        assert array.dtype == answered.stored[name].dtype, name
        assert array.tobytes() == answered.stored[name].tobytes(), name
    assert outputs["logits"].tobytes() == served["logits"].tobytes()
    assert len(np.unique(outputs["logits"], axis=0)) > 30


@pytest.mark.parametrize("column", COLUMNS)
def test_the_graph_transforms_any_value_as_the_reader_does(answered: Answered, column: str) -> None:
    [place] = [place for place in answered.description["layout"] if place["column"] == column]
    made, expected = (
        each[place["array"]][:, place.get("start") : place.get("stop")] if "start" in place else each[place["array"]]
        for each in answered.answers["edges"]
    )
    assert len(expected) == 4000 and len(np.unique(expected)) > 3
    different = np.flatnonzero((made.view(np.int32) != expected.view(np.int32)).reshape(4000, -1).any(axis=1))
    assert not len(different), (different[:5], made[different[:5]], expected[different[:5]])


def test_a_graph_of_raw_columns_repeats_in_another_process(answered: Answered) -> None:
    first, second = answered.folder / "graph/saved_model", answered.folder / "again"
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_no_rows_become_empty_arrays_in_the_graph(answered: Answered) -> None:
    made, expected = answered.answers["empty"]
    assert {name: array.shape for name, array in made.items()} == {
        name: array.shape for name, array in expected.items()
    }


@pytest.mark.parametrize("name", REFUSED)
def test_the_graph_refuses_what_the_reader_refuses(answered: Answered, name: str) -> None:
    _, _, says = REFUSED[name]
    assert says in answered.answers["refused"][name], answered.answers["refused"][name]


def test_a_column_that_only_the_reader_makes_is_named_with_the_reason(answered: Answered) -> None:
    described = json.loads((answered.folder / "all/transform/transform.json").read_text())
    assert without_graph(described) == {
        **dict.fromkeys(("cut", "photo"), "Pillow decodes and resizes its images"),
        "sound": "soundfile decodes its sounds",
        **dict.fromkeys(("own", "own_array"), "a function of yours makes it"),
        **dict.fromkeys(("text_bpe", "text_wordpiece"), "the package tokenizers divides its texts"),
        **dict.fromkeys(("text_counts", "text_ids"), "Python finds its words"),
        "sentence": "its words are lists of any length",
    }
    assert in_graph(answered.folder / "all") is None


def test_names_of_columns_become_names_of_inputs() -> None:
    columns = ["age", "Age", "fixed acidity", "fixed_acidity", "2nd", "class", "self", "ü", "image/x", ""]
    assert list(arguments_of(columns).values()) == [
        *("age", "Age_2", "fixed_acidity", "fixed_acidity_2", "column_2nd", "column_class", "column_self"),
        *("column__", "image_x", "column_"),
    ]
