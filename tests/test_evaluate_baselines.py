"""Learned baselines: each kind on tiny records, from the columns to the difference of a model from it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from PIL import Image
from threadpoolctl import threadpool_limits

from tasks.artifacts import Records, Snapshot
from tasks.config.task import TASKS
from tasks.evaluation import baselines, bigrams
from tasks.evaluation.baselines import comparing, kinds, learned, simple_model
from tasks.evaluation.baselines.kinds import Tables, shrunk
from tasks.evaluation.baselines.simple_model import Classes, Estimated, Labels, Numbers, _iterations, evenly
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.judging import SMALLEST, Judge
from tasks.evaluation.measured import asked
from tasks.evaluation.metrics import Means, mean
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import classification, judge_of, make_judge
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources import Partition, Rows, Source
from tasks.sources.features import Feature
from tasks.view.report import BesideSimpleModel, Bounded

COUNT = 300
LABEL = Feature("label", "int64", role="label", classes=("no", "perhaps", "yes"))
NUMBER = Feature("number", "float32")
CONFIG = EvaluateConfig(resamples=100)


@dataclass
class Given(Source):
    """Columns as they are."""

    declared: Mapping[str, Feature]
    columns: Mapping[str, pa.Array]

    @property
    def features(self) -> Mapping[str, Feature]:
        return self.declared

    def fingerprint(self) -> list[tuple[str, str]]:
        return [(f"{number:04d}", f"{number:064d}") for number in range(COUNT)]

    def partitions(self) -> list[Partition]:
        return [Partition("all", COUNT, ())]

    def read(self, partition: Partition) -> Iterator[Rows]:
        keys = [key for key, _ in self.fingerprint()]
        yield Rows(dict(self.columns), pa.array(keys), keys.__getitem__)


Make = Callable[..., tuple[Path, Path]]


@pytest.fixture
def make(tf: Any, tmp_path: Path, workbench_at: Any, publish: Any) -> Make:
    def made(declared: Mapping[str, Feature], columns: Mapping[str, Any], **transforms: Any) -> tuple[Path, Path]:
        source = Given(declared, {name: pa.array(values) for name, values in columns.items()})
        config = RecordsConfig(splits={"train": 0.5, "validation": 0.2, "test": 0.3}, duplicates="keep")
        bench = workbench_at(tmp_path / "records")
        of = publish(Records, bench, conversion.convert(bench, "given", source, config))
        bench = workbench_at(tmp_path / "snapshot")
        layout = TableSnapshot.model_validate({"kind": "table", "transforms": transforms})
        snapshot = publish(Snapshot, bench, snapshots.build(bench, of, layout))
        return snapshot.path, of.path

    return made


def compared(task: str, made: tuple[Path, Path]) -> tuple[Any, dict[str, Any]]:
    """The learned baseline, and the fields of a report in which a constant answer is the model."""
    split = SnapshotSplit(*made, "test")
    simple, judge = learned(task, *made), make_judge(task, split, CONFIG)
    assert simple is not None
    zeros = np.zeros((len(judge.inputs), judge.outputs), np.float32)
    if task == "tagging":
        zeros = zeros.reshape(len(zeros), -1, 3)
    fields = comparing.measured(task, judge, split, simple, judge.keep(zeros, 0), CONFIG)
    assert {name: row["value"] for name, row in fields["baselines"].items()} == pytest.approx(judge.baselines)
    return simple, fields


def random() -> np.random.Generator:
    return np.random.default_rng(3)


def table() -> tuple[dict[str, Feature], dict[str, Any]]:
    """Columns of each kind that decide the label together; some are missing, and a text says it all."""
    draw, names = random(), np.array(LABEL.classes)
    number, town = draw.normal(size=COUNT), draw.choice(["north", "south", ""], COUNT)
    label = np.where(town == "south", 2, np.where(number > 0, 1, 0))
    columns = {
        "number": np.where(draw.random(COUNT) < 0.1, np.nan, number).astype(np.float32),
        "town": town.tolist(),
        "when": pa.array(draw.integers(0, 10**15, COUNT), pa.timestamp("us", "UTC")),
        "note": [f"it is {name}" for name in names[label]],
        "label": names[label].tolist(),
    }
    features = {
        "number": NUMBER,
        "town": Feature("category", "string"),
        "when": Feature("time", "int64"),
        "note": Feature("text", "string"),
        "label": LABEL,
    }
    return features, columns


def beats_the_constant(fields: dict[str, Any], higher: bool = True, by: float = 0.2) -> None:
    [constant] = fields["baselines"].values()
    row, sign = fields["learned_baseline"], 1 if higher else -1
    assert sign * (row["value"] - constant["value"]) > by, (row, constant)
    assert row["low"] <= row["value"] <= row["high"] and row["more_than_noise"]
    assert sign * row["difference"]["value"] < 0, "of the model, which is a constant, from the baseline"


def test_of_a_table_it_is_gradient_boosting_of_raw_columns(make: Make) -> None:
    made = make(*table())
    simple, fields = compared("classification", made)
    beats_the_constant(fields)
    assert (simple.name, fields["learned_baseline"]["trained_on"]) == ("gradient boosting", simple.rows)
    assert fields["learned_baseline"]["left_out"] == ["1 text column"] and simple.seconds > 0
    assert simple.kind.features.keys() == {"number", "town", "when"}
    split = SnapshotSplit(*made, "test")
    rows, raw = np.array([4, 2]), split.columns(["number", "town", "when"])[[4, 2]]
    number, town, when = simple.kind.values(split, rows).T
    assert np.array_equal(number, raw["number"].to_numpy(), equal_nan=True)
    assert [None if np.isnan(each) else simple.kind.known["town"][int(each)] for each in town] == raw["town"].to_list()
    assert when.tolist() == [each.timestamp() for each in raw["when"]]


def test_its_outputs_are_the_same_again_and_with_any_number_of_threads(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(*table())
    split, found = SnapshotSplit(*made, "test"), []
    for threads, block in ((1, 4096), (2, 7)):
        monkeypatch.setattr(simple_model, "BLOCK", block)
        with threadpool_limits(threads):
            simple = learned("classification", *made)
            assert isinstance(simple, Estimated)
            found.append(simple.outputs(split))
    assert (found[0] == found[1]).all() and found[0].dtype == np.float32


def test_columns_of_other_roles_are_no_inputs(make: Make) -> None:
    """Each of them says the label."""
    draw = random()
    label = draw.integers(0, 3, COUNT)
    named, numbers = [LABEL.classes[each] for each in label], label.astype(np.float32)  # type: ignore[index]
    features = {
        "noise": NUMBER,
        "weight": Feature("number", "float32", role="weight"),
        "group": Feature("category", "string", role="group"),
        "day": Feature("time", "int64", role="time"),
        "label": LABEL,
    }
    columns = {"noise": draw.normal(size=COUNT).astype(np.float32), "weight": numbers + 1}
    columns["group"] = [f"{name} {number // 3}" for number, name in enumerate(named)]
    columns |= {"day": pa.array(label, pa.timestamp("us", "UTC")), "label": named}
    simple, fields = compared("classification", make(features, columns))
    assert list(simple.kind.features) == ["noise"] and fields["learned_baseline"]["value"] < 0.6


def test_of_texts_alone_it_counts_words_and_characters(make: Make) -> None:
    draw, names = random(), np.array(LABEL.classes)
    label = draw.integers(0, 3, COUNT)
    words = np.array([["cat", "cow", "dog"][each] for each in label])
    texts = [
        f"{draw.integers(99)} the {word}{draw.choice(['s', ''])}" if draw.random() < 0.95 else "" for word in words
    ]
    features = {"text": Feature("text", "string"), "label": LABEL}
    simple, fields = compared("classification", make(features, {"text": texts, "label": names[label].tolist()}))
    beats_the_constant(fields)
    assert simple.name == "linear model of words and characters" and simple.left_out == ()


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def test_of_images_it_is_a_linear_model_of_few_pixels(make: Make) -> None:
    draw = random()
    bright = draw.integers(0, 2, COUNT)
    pixels = draw.integers(0, 200, (COUNT, 12, 12)).astype(np.uint8)
    pixels[:, :6] += (50 * bright[:, None, None]).astype(np.uint8)
    features = {"photo": Feature("image", "uint8", (12, 12, 1), encoding="png"), "label": LABEL}
    columns = {"photo": [png(each) for each in pixels], "label": [("no", "yes")[each] for each in bright]}
    simple, fields = compared("classification", make(features, columns, photo={"kind": "image", "channels": 1}))
    beats_the_constant(fields)
    assert simple.name == "linear model of 8 x 8 pixels"


def wav(frequency: float) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, 0.3 * np.sin(np.arange(1600) * frequency), 8000, format="wav")
    return file.getvalue()


def test_of_sounds_it_is_a_linear_model_of_coarse_spectra(make: Make) -> None:
    draw = random()
    high = draw.integers(0, 2, COUNT)
    features = {"sound": Feature("audio", "string"), "label": LABEL}
    columns = {
        "sound": [wav(0.3 + 0.4 * each + 0.1 * draw.random()) for each in high],
        "label": [("no", "yes")[each] for each in high],
    }
    of = {"kind": "log_mel", "rate": 8000, "seconds": 0.2, "mels": 20}
    simple, fields = compared("classification", make(features, columns, sound=of))
    beats_the_constant(fields)
    assert simple.name == "linear model of 8 x 16 spectra"


@pytest.mark.parametrize("task", ["multilabel", "anomaly", "ranking"])
def test_of_labels_it_has_a_logit_for_each(make: Make, task: str) -> None:
    draw = random()
    number = draw.normal(size=(COUNT, 2)).astype(np.float32)
    features = {"a": NUMBER, "b": NUMBER, "first": Feature("number", "float32", role="target")}
    columns: dict[str, Any] = {"a": number[:, 0], "b": number[:, 1], "first": (number[:, 0] > 0.5).astype(np.float32)}
    if task == "multilabel":
        features["second"] = features["first"]
        columns["second"] = (number.sum(axis=1) > 0.3).astype(np.float32)
    if task == "ranking":
        features["query"] = Feature("category", "string", role="group")
        columns["query"] = [f"q{number // 10}" for number in range(COUNT)]
    _, fields = compared(task, make(features, columns))
    beats_the_constant(fields)


def test_of_numbers_it_is_in_their_units(make: Make) -> None:
    draw = random()
    number = draw.normal(size=COUNT).astype(np.float32)
    target = Feature("number", "float32", role="target")
    columns = {"a": number, "price": 1000 + 50 * number, "size": np.full(COUNT, 7, np.float32)}
    made = make({"a": NUMBER, "price": target, "size": target}, columns)
    simple, fields = compared("regression", made)
    beats_the_constant(fields, higher=False)
    outputs = simple.outputs(SnapshotSplit(*made, "test"))
    assert 900 < outputs[:, 0].mean() < 1100 and outputs[:, 1] == pytest.approx(7)


def test_of_tags_it_is_the_most_frequent_class_of_each_word(make: Make) -> None:
    draw = random()
    lengths = draw.integers(1, 9, COUNT)
    words = [draw.choice(["the", "a", "runs", "sleeps", "dog"], length).tolist() for length in lengths]
    of = {"the": "no", "a": "no", "runs": "yes", "sleeps": "yes", "dog": "perhaps"}
    features = {
        "text": Feature("words", "string", (-1,)),
        "tags": Feature("tags", "int64", (-1,), role="label", classes=LABEL.classes),
    }
    columns = {"text": words, "tags": [[of[word] for word in row] for row in words]}
    simple, fields = compared("tagging", make(features, columns, text={"kind": "words", "length": 6}))
    beats_the_constant(fields)
    assert {word: LABEL.classes[number] for word, number in simple.known.items()} == of  # type: ignore[index]
    assert fields["learned_baseline"]["value"] < 1, "words past the sixth have no answer, as of the model"


class Numbered:
    """Reads one number, with the estimators of tables."""

    left_out = ()
    _settings = Tables._settings
    _categorical = [False]
    classifier, regressor = Tables.classifier, Tables.regressor


def fitted(head: Any, truth: Any, weights: Any = None, classes: int = 0) -> Any:
    values = np.arange(100, dtype=np.float64)[:, None]
    return head(Numbered(), values, truth, np.ones(100) if weights is None else weights, classes)


def test_a_class_that_train_lacks_is_very_improbable_and_so_are_all_others_of_one() -> None:
    values, low = np.array([[5.0], [95.0]]), np.float32(np.log(SMALLEST))
    two = fitted(Classes, np.repeat([3, 1], 50), classes=5).outputs(values)
    assert two.argmax(axis=1).tolist() == [3, 1] and (two[:, [0, 2, 4]] == low).all()
    one = fitted(Classes, np.full(100, 2), classes=3).outputs(values)
    assert one.tolist() == [[low, low, 0.0]] * 2
    never = fitted(Labels, np.stack([np.zeros(100), np.arange(100) > 50], axis=1)).outputs(values)
    assert (never[:, 0] < -13).all() and (never[:, 1] > 0).tolist() == [False, True]


def test_train_examples_count_with_their_weights() -> None:
    """Of equal values one in ten is different, and weighs twenty times as much."""
    odd = np.arange(100) % 10 == 0
    weights, values = np.where(odd, 20.0, 1.0), np.array([[50.0]])
    noise = np.zeros(100, np.int64) + odd
    assert fitted(Classes, noise, classes=2).outputs(values).argmax() == 0
    assert fitted(Classes, noise, weights, classes=2).outputs(values).argmax() == 1
    assert fitted(Labels, odd[:, None], weights).outputs(values)[0, 0] > 0
    assert fitted(Numbers, odd[:, None] * 1.0, weights).outputs(values)[0, 0] > 0.5


def test_what_bounds_its_time_are_numbers_of_rows_values_and_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert evenly(10, 4).tolist() == [0, 2, 5, 7] and evenly(3, 4).tolist() == [0, 1, 2]
    assert [_iterations(models) for models in (0, 1, 3, 10, 1000)] == [100, 100, 100, 30, 10]
    grid = np.arange(24).reshape(1, 4, 6)
    assert shrunk(grid, (2, 3)).tolist() == [[3.5, 5.5, 7.5, 15.5, 17.5, 19.5]]
    assert shrunk(np.array([[1.0, np.nan]]), (8, 8)).tolist() == [[1, 0]], "of a function of the user's"
    assert shrunk(grid, (3, 100)).shape == (1, 18) and shrunk(grid, (1, 1)).tolist() == [[11.5]]


def test_bits_of_texts_are_those_of_their_bigrams(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [(b"", b"banana"), (b"ab", b"na"), (b"x", b"")]
    fitted = bigrams.count([(b"", b"bandana, cabana")])
    monkeypatch.setattr(bigrams, "CHUNK", 4)
    bits = bigrams.bits_of_texts(texts, fitted)
    assert bits == pytest.approx([bigrams.bits(bigrams.count([text]), fitted) for text in texts]) and bits[2] == 0


def test_a_size_after_compression_is_compared_with_the_interval_of_the_model() -> None:
    """It has no value for each file."""
    files = random().normal(3, 1, (50, 1))
    judge: Any = SimpleNamespace(
        metrics={"bits_per_byte": Means(lambda values: values, mean)},
        predictions=lambda kept: kept,
        units=None,
        baselines={"bigram_bits": 3.5, "gzip_bits": 3.1},
        split=SimpleNamespace(fitted_bigrams=lambda: np.zeros((256, 256), np.int64)),
        documents=SimpleNamespace(before=[b""], contents=[b""]),
    )
    model = interval_of(judge.metrics["bits_per_byte"], files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "best_constant", lambda *given: files + 0.5)
        kept: Any = files
        rows = comparing.measured("language_model", judge, judge.split, None, kept, CONFIG)["baselines"]
    assert rows["gzip_bits"]["difference"]["high"] == model.high - 3.1 and rows["gzip_bits"]["value"] == 3.1
    assert rows["gzip_bits"]["more_than_noise"] is False
    assert rows["bigram_bits"]["difference"]["high"] == pytest.approx(-0.5) and rows["bigram_bits"]["more_than_noise"]


def test_what_is_asked_of_a_version_is_what_the_setting_says() -> None:
    difference = {"value": 0.1, "low": 0.05, "high": 0.2, "method": "", "units": 50}
    row = {"value": 0.5, "difference": difference, "more_than_noise": True}
    test = {"baselines": {"majority_accuracy": row}, "learned_baseline": {"name": "gradient boosting", **row}}
    names = [[each.name for each in asked(test, which, "classification")] for which in WHICH]
    assert names == [[], ["majority"], ["majority", "gradient boosting"]]
    without = {**test, "learned_baseline": None}
    assert [each.name for each in asked(without, "learned", "classification")] == ["majority"]
    assert comparing.flat("test", without, "accuracy") == {}


@pytest.mark.parametrize(
    ("change", "sure", "higher", "units", "text"),
    [
        (-0.031, True, True, 20, "a simple model (trees) is better by 0.0310 [0.0110, 0.0430]"),
        (0.031, True, True, 20, "better than a simple model (trees) by 0.0310 [0.0190, 0.0510]"),
        (0.031, True, False, 20, "a simple model (trees) is better by 0.0310 [0.0190, 0.0510]"),
        (
            0.01,
            False,
            True,
            20,
            "a simple model (trees) is about as good: a difference of 0.0100 [-0.0020, 0.0300] is within noise",
        ),
        (
            0.013,
            False,
            True,
            20,
            "a simple model (trees) is about as good: a difference of 0.0130 [0.0010, 0.0330] is within noise by a"
            " permutation test",
        ),
        (
            -0.031,
            False,
            True,
            19,
            "a simple model (trees) is about as good: a difference of -0.0310 [-0.0430, -0.0110] is within noise by a"
            " permutation test (effective sample size 19: too few for 95 %)",
        ),
        (
            0.01,
            True,
            True,
            20,
            "better than a simple model (trees) by 0.0100 [-0.0020, 0.0300] (more than noise by a permutation test)",
        ),
        (
            0.031,
            True,
            True,
            14,
            "better than a simple model (trees) by 0.0310 [0.0190, 0.0510]"
            " (effective sample size 14: too few for 95 %)",
        ),
    ],
)
def test_which_of_both_is_better_is_said_in_words(
    change: float, sure: bool, higher: bool, units: int, text: str
) -> None:
    difference = Bounded(change, change - 0.012, change + 0.02, units=units)
    simple = BesideSimpleModel(name="trees", difference=difference, more_than_noise=sure)
    assert simple.beside(higher) == text


def test_another_kind_of_data_has_a_baseline_by_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graphs(simple_model.SimpleModel):
        """Reads the degree of a graph."""

        reads, name, rows = ("graph",), "linear model of degrees", 6

        def __init__(self, train: Any, rows: Any, names: list[str]) -> None:
            self.left_out = ("all but degrees",)

        def values(self, split: Any, rows: Any) -> Any:
            return split.arrays["degree"][rows][:, None]

        def regressor(self, iterations: int) -> Any:
            return kinds.regressor(iterations, 1e-9)

    raw = {"a": Feature("graph", "int64"), "b": Feature("voice", "int64")}
    degree = np.arange(8.0)
    train: Any = SimpleNamespace(raw=raw, arrays={"degree": degree, "target": 2 * degree[:, None]}, features={})
    monkeypatch.setattr(baselines, "SnapshotSplit", lambda *given: train)
    simple: Any = learned("regression", Path(), Path())
    assert simple.name == "linear model of degrees" and simple.rows == 6
    assert simple.left_out == ("all but 6 of 8 train examples", "1 voice column", "all but degrees")
    np.testing.assert_allclose(simple.outputs(train)[:, 0], 2 * degree, atol=1e-3)


WHICH = ("none", "constant", "learned")


def test_the_first_baseline_of_each_task_has_predictions() -> None:
    assert all(judge_of(task).constants is not Judge.constants for task in TASKS)


def test_the_best_constant_answer_depends_on_the_metric() -> None:
    """With one positive of five: of F1 always "positive", of average precision any order, of the loss the shares."""
    labels = np.repeat([0, 1], [80, 20])
    judge = classification.ClassificationJudge.__new__(classification.ClassificationJudge)
    judge.outputs = 2
    of_model = classification.Predictions.of(np.zeros((100, 2)), labels)
    metrics = classification.METRICS

    def best(name: str) -> float:
        higher = name not in TASKS["classification"].lower_is_better
        found = comparing.best_constant(judge, of_model, metrics[name], higher)
        assert found is not None
        return metrics[name].of(found)

    assert best("accuracy") == 0.8 and best("f1") == pytest.approx(2 * 0.2 / 1.2) and best("recall") == 1
    assert best("average_precision") == pytest.approx(0.2) and best("roc_auc") == 0.5 == best("balanced_accuracy")
    assert best("loss") == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2))
