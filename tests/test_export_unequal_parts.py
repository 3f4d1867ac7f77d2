"""An export of parts that are not alike: classes in another order, rows past the first batch, each signal."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.metrics import Means, mean, root
from tasks.exporting import EVIDENCE, LITERT, export, latency, predict, score
from tasks.exporting import fresh_process as fresh
from tasks.exporting.checks import BITS
from tasks.exporting.formats.litert import LiteRT
from tasks.exporting.predict import CAPACITY, Cached, capacity_for, padded
from tasks.exporting.prediction import Classification, Multilabel, Tagging, decision_fields, predictions
from tasks.models.decoding import DECODE, DOCUMENTS, LOGITS, POSITION, PREFILL
from tasks.models.features import TOKENS
from tasks.models.forward import Batch
from tasks.sources.features import Feature
from tasks.store.files import write_arrays


class Asked(list[Any]):
    """Keeps what is asked for."""

    def answering(self, answer: Any) -> Any:
        def answered(*given: Any) -> Any:
            self.append(given)
            return answer

        return answered


def test_a_class_is_chosen_by_its_own_threshold_and_a_temperature() -> None:
    logits = np.array([1.0, 2.0])
    for positive, threshold, chosen in (("b", 0.8, "a"), ("b", 0.7, "b"), ("a", 0.2, "a"), ("a", 0.3, "b")):
        made = Classification.row(logits, {"classes": ["a", "b"], "thresholds": {positive: threshold}})
        assert made["class"] == chosen == made["top"][0]["class"] and len(made["top"]) == 2
        assert made["confidence"] == pytest.approx(1 / (1 + np.exp(-1 if chosen == "b" else 1)))
    cooled = Classification.row(logits, {"classes": ["a", "b"], "temperature": 4.0})
    assert cooled["confidence"] == pytest.approx(1 / (1 + np.exp(-0.25)))


def test_each_label_has_its_own_threshold_and_number() -> None:
    transform = {"task": "multilabel", "targets": ["x", "y", "z"], "thresholds": {"x": 0.9, "y": 0.5, "z": 0.1}}
    logits = np.array([[1.0, -1.0, -1.0], [3.0, 1.0, -3.0]])
    first, second = predictions(logits, transform, {})
    assert (first["predicted"], second["predicted"]) == (["z"], ["x", "y"])
    assert list(first["labels"].values()) == pytest.approx((1 / (1 + np.exp(-logits[0]))).tolist())
    halved = Multilabel.row(logits[1], {**transform, "temperature": 2.0})
    assert halved["labels"]["x"] == pytest.approx(1 / (1 + np.exp(-1.5))) and halved["predicted"] == ["y", "z"]
    ranked = predictions(logits, {**transform, "task": "ranking"}, {})
    assert "predicted" not in ranked[0]
    values = predictions(logits, {"task": "regression", "targets": ["x", "y", "z"]}, {})
    assert values[1] == {"values": {"x": 3.0, "y": 1.0, "z": -3.0}}


def test_what_was_fitted_is_in_the_code_of_the_readme() -> None:
    for name, number in (("a", 0), ("b", 1)):
        fields = decision_fields({"classes": ["a", "b"], "temperature": 2.5, "thresholds": {name: 0.25}})
        assert f"chosen = {number} if row[{number}] > 0.25 else {1 - number}" in fields["choose"]
        assert "outputs / 2.5" in fields["scale"] and f"{name} is predicted where" in fields["decision"]
    several = decision_fields({"targets": ["x", "y"], "thresholds": {"x": 0.25, "y": 0.75}})
    assert several["limits"] == "0.25 (x), 0.75 (y)" and several["limit"] == "{'x': 0.25, 'y': 0.75}[name]"
    assert several["scale"] == ""


def test_a_cache_grows_along_its_positions_alone_and_is_told_where_it_is() -> None:
    cache = {"keys": np.ones((1, 2, 5, 4)), "values": np.full((1, 2, 64, 4), 2.0), DOCUMENTS: np.full((1, 5), 3)}
    made = padded(cache, 64)
    assert {name: array.shape for name, array in made.items()} == {
        "keys": (1, 2, 64, 4),
        "values": (1, 2, 64, 4),
        DOCUMENTS: (1, 64),
    }
    assert made["keys"][:, :, :5].min() == 1 and made["keys"][:, :, 5:].max() == 0
    assert made[DOCUMENTS][0, :5].tolist() == [3] * 5 and made[DOCUMENTS][0, 5:].max() == 0
    assert [capacity_for(length) for length in (1, CAPACITY, CAPACITY + 1, 4 * CAPACITY)] == [64, 64, 128, 256]
    asked: list[Any] = []

    class Model:
        def run(self, signature: str, batch: dict[str, Any]) -> dict[str, Any]:
            asked.append((signature, {name: np.array(array) for name, array in batch.items()}))
            return {LOGITS: np.full((1, 1, 3), len(asked)), "keys": np.full((1, 1, 3, 4), float(len(asked)))}

    cached = Cached(Model())
    answers = [cached({TOKENS: np.array([tokens], np.int32)}) for tokens in ([7, 8, 9], [7, 8, 9, 4], [7, 8, 9, 4, 6])]
    assert [int(each[0, 0, 0]) for each in answers] == [1, 2, 3]
    assert [signature for signature, _ in asked] == [PREFILL, DECODE, DECODE]
    assert [batch[POSITION].tolist() for _, batch in asked[1:]] == [[3], [4]]
    assert [batch[TOKENS].tolist() for _, batch in asked[1:]] == [[[4]], [[6]]]
    assert [batch["keys"].shape for _, batch in asked[1:]] == [(1, 1, 64, 4)] * 2
    assert [batch["keys"].max() for _, batch in asked[1:]] == [1, 2], "that of the last call"


@pytest.mark.parametrize("number", fresh.OF_THE_HOST)
def test_each_signal_of_the_host_says_nothing_of_a_variant(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(fresh.OF_THE_HOST) == {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    script = f"import os, signal; signal.signal({int(number)}, signal.SIG_DFL) if {int(number)} != 9 else 0"
    (tmp_path / "verify.py").write_text(f"{script}; os.kill(os.getpid(), {int(number)})")
    monkeypatch.setattr(fresh, "verify", SimpleNamespace(__file__=str(tmp_path / "verify.py")))
    ended = pytest.raises(Failed, match=f"was ended by {signal.Signals(number).name}")
    with fresh.fresh_process(tmp_path / "int8", LiteRT, tmp_path) as verify_variant, ended:
        verify_variant()


@pytest.mark.parametrize("name", BITS)
def test_a_constant_has_as_many_bits_as_its_type(name: str) -> None:
    small = {"INT4": 4, "INT2": 2, "BFLOAT16": 16}
    own = small.get(name) or 8 * np.dtype(name.lower()).itemsize
    assert BITS[name] == own
    whole = {"FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16", "COMPLEX64", "COMPLEX128", "BOOL", "INT2", "INT4"}
    whole |= {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    assert BITS.keys() == whole


def test_arrays_are_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"b": np.arange(3), "a": np.zeros((2, 2), np.float32)}
    write_arrays(tmp_path / "one.npz", arrays)
    write_arrays(tmp_path / "two.npz", dict(reversed(arrays.items())))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz") as read:
        assert read.files == ["a", "b"] and read["b"].tolist() == [0, 1, 2]


def test_golden_texts_are_few_and_short_and_other_inputs_as_many_as_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Rows:
        def __init__(self, name: str, shape: tuple[int, ...]) -> None:
            self.name, self.values = name, np.arange(np.prod(shape)).reshape(shape)

        def __getitem__(self, rows: Any) -> dict[str, Any]:
            return {self.name: self.values[rows]}

    asked: list[str] = []
    monkeypatch.setattr(export, "open_snapshot", lambda path: SimpleNamespace(arrays=asked.append))
    for name, shape, count, expected in (
        (TOKENS, (9, 200), 7, (4, 64)),
        (TOKENS, (9, 20), 2, (2, 20)),
        ("image", (9, 5, 3), 7, (7, 5, 3)),
    ):
        rows = Rows(name, shape)
        monkeypatch.setattr(export, "input_arrays", lambda features, arrays, rows=rows: rows)
        snapshot: Any = SimpleNamespace(manifest={"features": {name: {}}}, path=Path())
        made = export.golden_inputs(snapshot, count).arrays[name]
        assert made.shape == expected and made.flat[0] == 0
    assert asked == ["test"] * 3


def test_shorter_rows_have_outputs_of_their_own_where_a_model_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "predict", lambda network, inputs: (network, inputs.arrays[TOKENS].shape))
    inputs: Any = Batch({TOKENS: np.zeros((2, 10), np.int32)})
    network: Any = "n"
    made = {task: export.golden_outputs(network, inputs, "/int8", task) for task in ("tagging", "language_model")}
    assert made["tagging"] == {"outputs/int8": ("n", (2, 10)), "shorter/int8": ("n", (2, 5))}
    assert made["language_model"] == {"outputs/int8": ("n", (2, 10))}


def test_files_of_a_folder_are_copied_under_their_own_names_without_what_gates_read(tmp_path: Path) -> None:
    from contextlib import contextmanager

    source = tmp_path / "source"
    for name in ("transform/reader/a.py", "transform/t.json", "other/t.json", EVIDENCE, "model.tflite"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    rows = [{"path": path.relative_to(source).as_posix()} for path in sorted(source.rglob("*")) if path.is_file()]
    artifact: Any = SimpleNamespace(path=source, manifest={"files": rows})

    @contextmanager
    def piece(name: str) -> Any:
        path = tmp_path / "to" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        yield SimpleNamespace(path=path)

    staging: Any = SimpleNamespace(piece=piece)
    export._copy(artifact, "transform", staging, "transform")
    export._copy(artifact, "", staging, "int8")
    copied = {path.relative_to(tmp_path / "to").as_posix(): path.read_text() for path in (tmp_path / "to").rglob("*.*")}
    assert copied == {
        "transform/reader/a.py": "transform/reader/a.py",
        "transform/t.json": "transform/t.json",
        "int8/transform/reader/a.py": "transform/reader/a.py",
        "int8/transform/t.json": "transform/t.json",
        "int8/other/t.json": "other/t.json",
        "int8/model.tflite": "model.tflite",
    }


def test_every_variant_is_measured_at_each_size_and_on_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    compared: list[Any] = []

    def open_variant(folder: Any, form: str, threads: int) -> str:
        opened.append((str(folder), form, threads))
        return f"{folder} on {threads}"

    def compare(runners: dict[str, Any], batch: Any, energy: Any) -> dict[str, Any]:
        compared.append((dict(runners), batch))
        return {"again": 1.0}

    monkeypatch.setattr(latency, "open_variant", open_variant)
    monkeypatch.setattr(latency, "compare", compare)
    monkeypatch.setattr(latency, "input_arrays", lambda features, arrays: "rows")
    split: list[str] = []
    monkeypatch.setattr(latency, "open_snapshot", lambda path: SimpleNamespace(arrays=split.append))
    monkeypatch.setattr(latency, "batch_of", lambda examples, features, size: size)
    monkeypatch.setattr(latency, "memory", lambda own, formats, batch: [(variant.name, 10 * batch) for variant in own])
    measured: list[Any] = []
    bench: Any = SimpleNamespace(threads=3, progress=lambda *given: None, measure=lambda *given: measured.append(given))
    forms = {"saved_model": "saved_model", "litert": LITERT, "int8": LITERT}
    variants: list[Any] = [
        SimpleNamespace(name=name, path=f"at {name}", manifest={"statistics": {"format": form}})
        for name, form in forms.items()
    ]
    snapshot: Any = SimpleNamespace(manifest={"features": {}}, path=Path())
    made = latency.measure(bench, variants, snapshot)
    assert [(row["batch"], row["threads"]) for row in made["settings"]] == [(1, 1), (32, 1), (1, 2), (32, 2)]
    assert [batch for _, batch in compared] == [1, 32, 1, 32] and split == ["test"]
    assert [sorted(runners) for runners, _ in compared] == [
        sorted([*forms, latency.FLOAT_AGAIN]),
        sorted([*forms, latency.FLOAT_AGAIN]),
        sorted(["litert", "int8", latency.FLOAT_AGAIN]),
        sorted(["litert", "int8", latency.FLOAT_AGAIN]),
    ]
    assert compared[2][0]["int8"] == "at int8 on 2" and compared[0][0][latency.FLOAT_AGAIN] == "at litert on 1"
    assert made["shared_threads"] == {"saved_model": 3} and made["peak_bytes"] == {"litert": 320, "int8": 320}
    assert measured == [("latency", made)] and latency.measure(bench, variants[:1], snapshot) == {}


def test_energy_is_that_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now, joules = [0.0], [0]
    monkeypatch.setattr(latency.time, "perf_counter", lambda: now[0])  # type: ignore[attr-defined]

    def runner(seconds: float, energy: int) -> Any:
        def run(batch: Any) -> None:
            now[0] += seconds
            joules[0] += energy

        return run

    class Counter:
        def read(self) -> list[int]:
            return [joules[0]]

        def joules(self, before: list[int], after: list[int]) -> float:
            return float(after[0] - before[0])

    runners = {"litert": runner(0.01, 7), "int8": runner(0.002, 3), latency.FLOAT_AGAIN: runner(0.01, 7)}
    counter: Any = Counter()
    made = latency.compare(runners, {}, counter)["variants"]
    assert (made["litert"]["joules"], made["int8"]["joules"]) == pytest.approx((7, 3))
    assert made["int8"]["calls"] > made["litert"]["calls"]


class Read:
    """Records in two tables that are not equally long."""

    path = Path("records")

    def __init__(self, column: str, tables: list[Any], classes: tuple[str, ...]) -> None:
        self.column, self.parts = column, tables
        self.features = {column: Feature("label", "int64", role="label", classes=classes)}

    def tables(self, split: str, names: list[str]) -> Any:
        assert (split, names) == ("test", [self.column])
        return [{self.column: part} for part in self.parts]


def test_labels_are_matched_by_the_names_of_the_classes_in_every_table() -> None:
    transform = {"classes": ["c", "a", "b"]}
    reader: Any = Read("kind", [np.array([0, 1]), np.array([1, 0, 0])], ("a", "b"))
    labels = score._labels(transform, reader, "test")
    assert labels.tolist() == [1, 2, 2, 1, 1]
    lists = [SimpleNamespace(to_pylist=lambda rows=rows: rows) for rows in ([[0, 1, 1, 0]], [[1], [0, 0, 0]])]
    tagged: Any = Read("kind", lists, ("a", "b"))
    assert score._tags(transform, tagged, "test") == [[1, 2, 2, 1], [2], [1, 1, 1]]
    unknown: Any = Read("kind", [], ("a", "d"))
    with pytest.raises(Failed, match="d; the export knows c, a, b"):
        score._labels(transform, unknown, "test")


def test_a_champion_is_scored_by_the_loss_that_it_was_trained_by(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    values = np.array([[1.0], [2.0], [6.0]])
    metrics = {
        "rmse": Means(lambda kept: values, root, of_mean=np.sqrt, mean_of=np.square),
        "loss": Means(lambda kept: values, mean),
    }
    extents = np.array([1.0, 1.0, 0.5])
    judge = SimpleNamespace(
        metrics=metrics, predictions=lambda kept: kept, examples=3, extents=lambda predictions: extents, units=None
    )
    monkeypatch.setattr(score, "read_transform", lambda folder: {"loss": "mae"})
    monkeypatch.setattr(score, "RecordsReader", lambda path: SimpleNamespace(counts={"test": 3, "train": 0}))
    monkeypatch.setattr(score, "_open", lambda *given: ("regression", "raw"))
    monkeypatch.setattr(score, "make_judge", asked.answering(judge))
    monkeypatch.setattr(score, "float_model", lambda export: None)
    monkeypatch.setattr(score, "run_model", lambda *given, **more: SimpleNamespace(kept={}))
    bench: Any = SimpleNamespace(progress=None)
    config = EvaluateConfig(resamples=100)
    made = score.score(bench, Path(), Path(), "test", config)
    assert asked == [("regression", "raw", config, "mae")]
    assert (made["rmse"], made["loss"], made["examples"]) == (pytest.approx(3**0.5), 3.0, 3)
    assert made["contributions"] == {"rmse": values.tolist(), "loss": values.tolist()}
    assert made["extents"] == [1.0, 1.0, 0.5]
    with pytest.raises(Failed, match="no examples of split train"):
        score.score(bench, Path(), Path(), "train", config)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A model that doubles numbers, and refuses a row of the number 13."""

    class Reader:
        columns = {"x": "number"}

        def __call__(self, rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
            if any(row["x"] == 13 for row in rows):
                raise ValueError("13 is no number")
            return {"x": np.array([[row["x"]] for row in rows], float)}

    monkeypatch.setattr(predict, "Reader", SimpleNamespace(open=lambda folder: Reader()))
    monkeypatch.setattr(predict, "float_model", lambda export: lambda inputs: 2 * inputs["x"])
    transform = {"kind": "table", "task": "regression", "targets": ["y"], "csv": None}
    monkeypatch.setattr(predict, "read_transform", lambda export: transform)
    return transform


def test_rows_of_every_batch_are_numbered_on_and_one_that_does_not_fit_is_alone(
    answering: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.exporting.raw_rows.BATCH", 3)
    path, other = tmp_path / "rows.jsonl", tmp_path / "others.jsonl"
    path.write_text("".join(json.dumps({"x": number, "id": f"n{number}"}) + "\n" for number in (1, 13, 3, 4, 5)))
    other.write_text('{"x": 6}\n')
    made = predict.predict(tmp_path, [str(path), str(tmp_path / "none.jsonl"), str(other)])
    found = [(row["input"].removeprefix(f"{tmp_path}/"), row.get("values")) for row in made]
    assert found == [
        ("rows.jsonl:1", {"y": 2.0}),
        ("rows.jsonl:2", None),
        ("rows.jsonl:3", {"y": 6.0}),
        ("rows.jsonl:4", {"y": 8.0}),
        ("rows.jsonl:5", {"y": 10.0}),
        ("none.jsonl", None),
        ("others.jsonl:1", {"y": 12.0}),
    ]
    assert made[1]["error"]["field"] == f"{path}:2" and "13 is no number" in made[1]["error"]["saw"]
    output = tmp_path / "answers.jsonl"
    errors = predict.predict(tmp_path, [str(path)], output)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [error["input"] for error in errors] == [f"{path}:2"] and len(rows) == 5
    assert [(row["id"], row["predicted y"], bool(row["error"])) for row in rows] == [
        ("n1", 2.0, False),
        ("n13", "", True),
        ("n3", 6.0, False),
        ("n4", 8.0, False),
        ("n5", 10.0, False),
    ]


def test_entities_have_the_words_that_they_are_made_of_and_what_is_cut_is_counted() -> None:
    transform = {"classes": ["O", "B-LOC", "I-LOC", "B-PER"], "columns": [{"name": "text", "kind": "words"}]}
    row = {"text": ["ada", "saw", "new", "york", "today", "again"]}
    made = Tagging.complete({"tags": ["B-PER", "O", "B-LOC", "I-LOC"]}, row, transform)
    assert made["entities"] == [
        {"type": "PER", "words": ["ada"], "start": 0, "stop": 1},
        {"type": "LOC", "words": ["new", "york"], "start": 2, "stop": 4},
    ]
    assert made["cut"] == 2 and "cut" not in Tagging.complete({"tags": ["O"] * 6}, row, transform)
    plain = Tagging.complete({"tags": ["a"]}, {"text": ["x"]}, {**transform, "classes": ["a", "b"]})
    assert "entities" not in plain


def test_the_columns_of_answers_are_those_of_their_task() -> None:
    listed = {"task": "multilabel", "targets": ["x", "y"], "thresholds": {"x": 0.5, "y": 0.1}}
    row = predict.columns_of({"input": "f", "labels": {"x": 0.2, "y": 0.3}, "predicted": ["y"]}, listed)
    assert row == {"input": "f", "predicted x": 0.2, "predicted y": 0.3, "predicted": "y", "error": ""}
    without = predict.columns_of(
        {"input": "f", "values": {"x": 1.0, "y": 2.0}}, {"task": "regression", "targets": ["x", "y"]}
    )
    assert without == {"input": "f", "predicted x": 1.0, "predicted y": 2.0, "error": ""}
    for task, answer in (
        ("classification", {"class": "a", "confidence": 0.5}),
        ("tagging", {"tags": ["O"]}),
        ("language_model", {"bytes": 3, "bits_per_byte": 2.0, "continuation": "x"}),
    ):
        assert predict.columns_of({"input": "f", **answer}, {"task": task}) == {"input": "f", **answer, "error": ""}


def test_weights_and_targets_are_described_by_what_was_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "architecture", lambda path: {"model": {"task": "regression"}, "loss": "mae"})
    model: Any = SimpleNamespace(path=Path())
    features = {"target": {"names": ["x", "y"]}, "image": {}}
    snapshot = Snapshot("s" * 64, Path(), "snapshot", {"features": features})
    assert export.task_of(model, snapshot) == {"task": "regression", "loss": "mae", "targets": ["x", "y"]}
    without = Snapshot("s" * 64, Path(), "snapshot", {"features": {"image": {}}})
    assert export.task_of(model, without)["targets"] == []
