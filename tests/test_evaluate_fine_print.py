"""What decides a figure beside its metric: which examples, which bound, which order, and what is left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from tasks.errors import Failed
from tasks.evaluation import columns, decisions, fairness, slices, worst_slices
from tasks.evaluation.binary import Binary, choose, counts
from tasks.evaluation.calibration import HIGHEST, LOWEST, consistency_test, fit
from tasks.evaluation.config import EvaluateConfig, ThresholdConfig
from tasks.evaluation.fairness import Rate, rates_of
from tasks.evaluation.intervals import interval_of, over_seeds
from tasks.evaluation.judging import ModelOutputs, Probe, quarters, run_model
from tasks.evaluation.metrics import Means, Share, mean
from tasks.evaluation.probes import PROBES
from tasks.evaluation.robustness import draws_of
from tasks.evaluation.tasks import classification, make_judge, multilabel, regression
from tasks.evaluation.tasks.language_model import sample
from tasks.evaluation.tasks.tagging import Entities, macro_f1, scheme_of, token_counts
from tasks.evaluation.tasks.tagging import Predictions as Tagged
from tasks.exporting.score import RawSplit
from tasks.reader.values import NO_TIME
from tasks.sources.features import Feature

SHARE = Share(lambda values: values)
MEAN = Means(lambda values: values, mean)
MADE: dict[str, Any] = dict(PROBES)


def judge_of(task: str, truth: dict[str, np.ndarray], config: EvaluateConfig, names: list[str], folder: Path) -> Any:
    [(role, values)] = truth.items()
    named = {"classes": names} if role == "label" else {"names": names}
    features = {"numbers": {"dtype": "float32", "shape": [1]}, role: {"dtype": "x", "shape": [], **named}}
    arrays = {"numbers": np.arange(len(values), dtype=np.float32)[:, None], **truth}
    return make_judge(task, RawSplit("test", features, arrays, folder), config)


def test_macro_f1_is_of_the_classes_that_occur_or_are_predicted(tmp_path: Path) -> None:
    labels, logits = np.array([0, 0, 1, 1]), np.eye(4, dtype=np.float32)[[0, 1, 1, 1]]
    judge = judge_of("classification", {"label": labels}, EvaluateConfig(), ["a", "b", "c", "d"], tmp_path)
    expected = sklearn_metrics.f1_score(labels, [0, 1, 1, 1], average="macro")
    assert judge.metrics["macro_f1"](judge.predictions({"logits": logits})) == pytest.approx(expected)


def test_the_most_wrong_are_wrong_the_surest_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    logits = np.array([[9, 0], [1, 0], [3, 0], [0, 9], [3, 0]], np.float32)
    judge = judge_of("classification", {"label": np.array([0, 1, 1, 1, 1])}, EvaluateConfig(), ["a", "b"], tmp_path)
    predictions = judge.predictions({"logits": logits})
    assert classification.most_wrong(predictions, 9).tolist() == [2, 4, 1]
    assert classification.most_wrong(predictions, 2).tolist() == [2, 4]


def test_a_class_that_never_occurs_has_no_precision_and_no_recall() -> None:
    rows = classification.by_class(np.array([0, 0, 1]), np.array([0, 1, 1]), ["a", "b", "c"])
    assert [row["support"] for row in rows] == [2, 1, 0]
    assert (rows[0]["precision"], rows[0]["recall"], rows[1]["precision"]) == (1.0, 0.5, 0.5)
    assert [rows[2][name] for name in ("precision", "recall", "f1")] == [None, None, None]


def test_the_p_value_of_a_calibration_is_never_0_and_counts_equal_errors() -> None:
    """One confidence, so that a draw is a number of right ones: the test is then that of a binomial distribution."""
    confidence, correct = np.full(20, 0.8), np.arange(20) < 8
    surprising = consistency_test(confidence, correct, 15, 99)
    assert surprising.p_value == 0.01 and surprising.error == pytest.approx(0.4)
    likely = consistency_test(confidence, np.arange(20) < 15, 15, 4000)  # an error of 0.05, as that of 17 right ones
    as_far = 1 - stats.binom.pmf(16, 20, 0.8)
    assert likely.p_value == pytest.approx(as_far, abs=0.03)


def test_slices_of_a_column_are_its_most_frequent_values_and_one_missing_value_is_a_slice() -> None:
    column = pl.Series("country", ["z", "z", "z", "a", "b", "b", None])
    masks = columns.of_column(column, "category", most=2)
    assert list(masks) == ["country = z", "country = b", "country missing"]
    assert [int(mask.sum()) for mask in masks.values()] == [3, 2, 1]
    assert "age missing" in columns.of_column(pl.Series("age", [1.0, 2.0, 3.0, None]), "number")
    assert columns.of_column(pl.Series("age", [None, None], dtype=pl.Float64), "number").keys() == {"age missing"}


def test_a_missing_number_is_in_no_quartile() -> None:
    masks = columns.quartiles(pl.Series("age", [1.0, 2.0, 3.0, 4.0, None, None]))
    assert np.sum(list(masks.values()), axis=0).tolist() == [1, 1, 1, 1, 0, 0]
    assert list(masks) == ["age 1 to 1", "age 2 to 2", "age 3 to 3", "age 4 to 4"]


def test_the_truth_makes_no_condition_of_the_worst_slices() -> None:
    features = {
        "price": Feature("number", "float32", role="target"),
        "weight": Feature("number", "float32", role="weight"),
        "class": Feature("label", "int64", role="label", classes=("a", "b")),
        "country": Feature("category", "string"),
        "vector": Feature("number", "float32", (3,)),
        "note": Feature("text", "string"),
    }
    assert columns.conditional(features) == ["country"]


def test_a_threshold_is_chosen_on_and_applied_to_calibrated_probabilities(tmp_path: Path) -> None:
    """Logits that are four times too large: their uncalibrated probabilities are nearly 0 or 1."""
    random = np.random.default_rng(0)
    margin = random.normal(0, 1.5, 4000)
    labels = (random.random(4000) < 1 / (1 + np.exp(-margin))).astype(np.int64)
    logits = np.stack([np.zeros(4000), 4 * margin], axis=1).astype(np.float32)
    config = EvaluateConfig(
        calibrate="temperature", threshold=ThresholdConfig(recall_at_precision=0.8), positive="b", resamples=100
    )
    judge = judge_of("classification", {"label": labels}, config, ["a", "b"], tmp_path)
    predictions = judge.predictions({"logits": logits})
    decision = decisions.fit(judge, predictions, config)
    assert decision.temperature == pytest.approx(4, rel=0.15) and decision.thresholds is not None
    assert decision.thresholds["b"] == pytest.approx(0.62, abs=0.06), "of the uncalibrated ones it would be 0.87"
    fields, _ = decisions.measured(judge, predictions, decision, config)
    assert fields["thresholds"][0]["at_threshold"]["precision"]["value"] == pytest.approx(0.8, abs=0.01)
    assert fields["calibration"]["after"]["loss"]["value"] < fields["calibration"]["before"]["loss"]["value"]
    assert fields["calibration"]["loss_change"]["value"] < 0


def test_a_temperature_stays_within_its_bounds(tmp_path: Path) -> None:
    labels = np.arange(40) % 2
    judge = judge_of("classification", {"label": labels}, EvaluateConfig(), ["a", "b"], tmp_path)
    right = np.eye(2, dtype=np.float32)[labels]
    assert fit(judge, judge.predictions({"logits": right})) == pytest.approx(LOWEST, rel=0.01)
    assert fit(judge, judge.predictions({"logits": 1 - right})) == pytest.approx(HIGHEST, rel=0.01)


def test_of_equally_good_thresholds_the_nearest_to_one_half_is_chosen_and_its_own_value_is_no_yes() -> None:
    apart = Binary(np.array([0.05, 0.1, 0.8, 0.95]), np.array([False, False, True, True]))
    assert choose("yes", apart, ThresholdConfig(maximize="f1")) == pytest.approx(0.45)
    mixed = Binary(np.array([0.1, 0.3, 0.6, 0.9]), np.array([False, True, False, True]))  # 3 of 4 by 0.2 and by 0.75
    assert choose("yes", mixed, ThresholdConfig(maximize="accuracy")) == pytest.approx(0.75)
    none_right = Binary(np.array([0.2, 0.4, 0.9]), np.array([True, True, False]))
    with pytest.raises(Failed, match="reaches precision 0.6667"):
        choose("yes", none_right, ThresholdConfig(recall_at_precision=0.99))
    assert counts(Binary(np.array([0.5]), np.array([True])), 0.5).tolist() == [[0, 0, 1, 0]]


def test_an_entity_of_another_type_or_end_is_not_found() -> None:
    scheme = scheme_of(("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))
    assert scheme is not None

    def entity(stop: int, kind: int) -> Entities:
        return Entities(*(np.array([value]) for value in (0, 0, stop, kind)))

    found = [scheme.found(entity(*predicted), entity(2, 1), (1, 4)).tolist() for predicted in ((2, 1), (2, 0), (3, 1))]
    assert found == [[True], [False], [False]]


def test_rates_are_among_those_that_they_are_rates_of() -> None:
    decision = Binary(np.array([0.9, 0.5, 0.2, 0.8]), np.array([True, True, False, False]))
    rates = rates_of(decision, 0.5)
    values = {name: rate.holds[rate.among].tolist() for name, rate in rates.items()}
    assert values == {
        "selection_rate": [True, False, False, True],
        "true_positive_rate": [True, False],
        "false_positive_rate": [False, True],
        "accuracy": [True, False, True, False],
    }


def test_groups_are_compared_among_those_of_a_rate_alone_and_corrected_for_each_other() -> None:
    random = np.random.default_rng(1)
    group = np.arange(200) < 100
    among = np.arange(200) % 2 == 0
    holds = np.where(group, random.random(200) < 0.9, random.random(200) < 0.3)
    compared = fairness.compare(
        "column",
        {"one": group, "other": ~group, "twenty": np.arange(200) < 20, "nineteen": np.arange(200) < 19},
        {"rate": Rate(holds, among), "none": Rate(holds & False, np.zeros(200, bool))},
        {},
        500,
    )
    assert compared["too_small"] == {"nineteen": 19} and compared["compared"] == 3
    rows = {row["group"]: row for row in compared["rows"] if row["measure"] == "rate"}
    inside, outside = holds[among & group], holds[among & ~group]
    assert rows["one"]["value"] == inside.mean() and rows["one"]["rest"] == outside.mean()
    assert rows["one"]["difference"]["value"] == pytest.approx(inside.mean() - outside.mean())
    # of two shares of 50 examples each, and not of 100
    assert rows["one"]["difference"] == fairness.newcombe((inside.mean(), outside.mean()), (50, 50)).as_json()
    table = [[inside.sum(), (~inside).sum()], [outside.sum(), (~outside).sum()]]
    by_itself = stats.fisher_exact(table).pvalue
    assert rows["one"]["p_value"] == pytest.approx(3 * by_itself) == rows["other"]["p_value"]
    values = [row["value"] for row in rows.values()]
    assert compared["largest_differences"] == {"rate": pytest.approx(max(values) - min(values)), "none": None}
    assert [row["p_value"] for row in compared["rows"] if row["measure"] == "none"] == [None] * 3


def test_a_group_that_is_everybody_is_compared_with_nobody() -> None:
    half, everybody = np.arange(60) < 30, np.ones(60, bool)
    values = {"loss": (MEAN, np.random.default_rng(0).random((60, 1)))}
    compared = fairness.compare("column", {"one": half, "all": everybody}, {"rate": Rate(half, everybody)}, values, 100)
    assert [row["group"] for row in compared["rows"]] == ["one", "one"] and compared["too_small"] == {"all": 60}


def test_a_group_whose_values_are_all_equal_has_no_test() -> None:
    group = np.arange(60) < 30
    compared = fairness.compare("column", {"one": group}, {}, {"loss": (MEAN, np.ones((60, 1)))}, 100)
    assert compared["compared"] == 0 and compared["rows"][0]["p_value"] is None


def test_an_example_of_several_rows_is_in_a_slice_where_all_of_them_are() -> None:
    judge: Any = SimpleNamespace(example_of=np.array([0, 0, 1, 1, -1]), examples=2)
    masks, divided = slices.of_examples(judge, {"some": np.array([True, True, True, False, True])})
    assert masks["some"].tolist() == [True, False] and divided == {"some": 1}
    frame = pl.DataFrame({"same": [1, 1, 2, 2, 9], "other": [1, 2, 3, 3, 3]})
    made = slices.example_columns(judge, frame)
    assert made.columns == ["same"] and made["same"].to_list() == [1, 2]


def test_the_columns_of_examples_are_in_their_order() -> None:
    judge: Any = SimpleNamespace(example_of=np.array([2, 0, 1, 2, 0]), examples=3)
    made = slices.example_columns(judge, pl.DataFrame({"number": [30, 10, 20, 30, 10]}))
    assert made["number"].to_list() == [10, 20, 30]


def test_a_slice_of_five_has_a_score_and_one_of_all_examples_has_none() -> None:
    judge: Any = SimpleNamespace(examples=20, units=None)
    values = np.arange(20, dtype=float)[:, None]
    masks = {"four": np.arange(20) < 4, "five": np.arange(20) < 5, "all": np.ones(20, bool)}
    rows = {row["slice"]: row for row in slices._scored(judge, MEAN, values, masks, {"five": 2})}
    assert rows["five"]["value"] == 2.0 and rows["five"]["divided"] == 2
    assert (rows["four"]["why"], rows["all"]["why"]) == ("fewer than 5", "the whole split")


def test_only_the_largest_slices_have_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST", 1)
    judge: Any = SimpleNamespace(examples=20, units=None)
    masks = {"six": np.arange(20) < 6, "seven": np.arange(20) < 7}
    six, seven = slices._scored(judge, MEAN, np.ones((20, 1)), masks, {})
    assert six["why"] == "beyond the limit" and seven["value"] == 1.0


def test_damage_is_what_an_example_takes_from_a_metric() -> None:
    right = np.array([[1.0], [0.0]])
    assert worst_slices.damage(SHARE, right, 1).tolist() == [0, 1]
    assert worst_slices.damage(SHARE, right, -1).tolist() == [1, 0]
    losses = np.array([[1.0], [2.0], [6.0]])
    assert worst_slices.damage(MEAN, losses, -1) == pytest.approx([-2, -1, 3])
    assert worst_slices.damage(MEAN, losses, 1) == pytest.approx([2, 1, -3])


def test_a_pair_of_conditions_is_shown_only_where_it_is_worse_than_either() -> None:
    """All that is wrong is in `bad`, in both halves alike: the pairs add nothing but chance."""
    count = 400
    frame = pl.DataFrame({"kind": ["bad", "good"] * (count // 2), "half": ["x"] * (count // 2) + ["y"] * (count // 2)})
    features = {name: Feature("category", "string") for name in frame.columns}
    wrong = (frame["kind"] == "bad").to_numpy() & (np.arange(count) % 4 == 0)
    found = worst_slices.find(frame, features, SHARE, (~wrong).astype(float)[:, None], 1, 99, 100)
    shown = [row["slice"] for row in found["slices"]]
    assert shown[0] == "kind = bad" and found["slices"][0]["beyond_chance"]
    assert not [name for name in shown if "kind = bad and" in name]
    assert found["looked_at"] == 1 + 1 + 4, "a condition and the other value of its column are one"
    assert found["slices"][0]["rest"] == 1.0 and found["slices"][0]["value"] == 0.5


def test_numbers_are_noisy_by_their_own_deviation_and_pixels_do_not_turn_over() -> None:
    draws, config = draws_of(0, 0, np.arange(4000)), MADE["noise"](scale=0.5)
    noisy = config.change(np.zeros((4000, 2), np.float32), draws, {"variance": [9.0, 0.04]})
    assert noisy.std(axis=0) == pytest.approx([1.5, 0.1], rel=0.05) and noisy.dtype == np.float32
    bright = config.change(np.full((50, 4, 4, 1), 250, np.uint8), draws_of(0, 0, np.arange(50)), {})
    dark = config.change(np.full((50, 4, 4, 1), 5, np.uint8), draws_of(0, 0, np.arange(50)), {})
    assert (bright == 255).mean() > 0.4 and (dark == 0).mean() > 0.4


def test_a_missing_value_is_the_one_of_its_kind() -> None:
    config = MADE["missing_columns"](share=1.0)
    draws = draws_of(0, 0, np.arange(2))
    assert config.change(np.array([5, 6], np.int64), draws, {"kind": "time"}).tolist() == [NO_TIME] * 2
    assert config.change([b"x", b"y"], draws, {"kind": "image"}) == [b"", b""]
    assert config.change([["a", "b"], []], draws_of(0, 0, np.arange(2)), {"kind": "words"}) == [["", ""], []]
    assert np.isnan(config.change(np.ones((2, 3), np.float32), draws, {"kind": "number"})).all()


def test_a_shift_reaches_as_far_as_is_set_in_each_direction_and_repeats_the_edge() -> None:
    rows = np.broadcast_to(np.arange(9, dtype=np.uint8)[:, None, None], (200, 9, 9, 1))
    moved = MADE["shift"](pixels=2).change(rows, draws_of(0, 0, np.arange(200)), {})[:, :, 4, 0]
    by = {int(image[4]) - 4 for image in moved}
    assert by == {-2, -1, 0, 1, 2}
    furthest = next(image for image in moved if image[4] == 2)
    assert furthest.tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6]


def test_errors_in_the_words_of_a_list_leave_it_as_long_as_it_is() -> None:
    words = [["alpha", "beta", "7"], []]
    typed = MADE["typos"](share=1.0).change(words, draws_of(0, 0, np.arange(2)), {"kind": "words"})
    assert [len(each) for each in typed] == [3, 0] and typed[0][2] == "7" and typed != words


def test_a_label_that_is_neither_predicted_nor_true_counts_as_0() -> None:
    logits = np.array([[2.0, -1.0], [3.0, -1.0]])
    predictions = multilabel.Predictions(logits, np.array([[True, False], [True, False]]))
    assert multilabel.METRICS["macro_f1"](predictions) == 0.5
    assert multilabel.METRICS["micro_f1"](predictions) == 1.0
    assert multilabel.METRICS["loss"](predictions) == pytest.approx(
        sklearn_metrics.log_loss([1, 0, 1, 0], 1 / (1 + np.exp(-logits.ravel())))
    )
    edge = multilabel.Predictions(np.zeros((1, 2)), np.array([[True, False]]))
    assert not edge.predicted.any(), "a probability of one half is no yes"


def test_r_squared_is_the_mean_over_targets_and_agreement_is_in_units_of_their_deviation(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    truth = random.normal(0, (1, 100), (50, 2))
    predicted = truth + random.normal(0, (0.5, 10), (50, 2))
    judge = judge_of("regression", {"target": truth}, EvaluateConfig(), ["small", "large"], tmp_path)
    predictions = judge.predictions({"outputs": predicted})
    assert judge.metrics["r2"](predictions) == pytest.approx(sklearn_metrics.r2_score(truth, predicted))
    expected = np.sqrt(sklearn_metrics.mean_squared_error(truth, predicted))
    assert judge.metrics["rmse"](predictions) == pytest.approx(expected)
    bounds_of_steps = regression.SAME * truth.std(axis=0)
    moved = judge.decisions({"outputs": np.zeros((1, 2))}) != judge.decisions({"outputs": bounds_of_steps[None] * 0.6})
    assert moved.all(), "each target by its own deviation"
    small = judge_of("regression", {"target": 1e-20 * truth}, EvaluateConfig(), ["small", "large"], tmp_path)
    as_small = small.predictions({"outputs": 1e-20 * predicted})
    assert small.metrics["r2"](as_small) == pytest.approx(judge.metrics["r2"](predictions)), "in another unit"
    assert (small.decisions({"outputs": 1e-20 * predicted}) == judge.decisions({"outputs": predicted})).mean() > 0.99
    furthest = judge.details(predictions)["furthest"][0]["row"]
    assert furthest == np.abs(truth - predicted).max(axis=1).argmax()


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e-20, 12345.678])
def test_of_a_target_of_equal_values_r_squared_is_1_where_nothing_is_wrong_and_else_0(constant: float) -> None:
    truth = np.full((30, 1), constant)
    right, wrong = (regression.Predictions(truth + error, truth) for error in (0.0, 1e-3 * np.arange(30)[:, None]))
    assert (regression.METRICS["r2"](right), regression.METRICS["r2"](wrong)) == (1.0, 0.0)
    assert sklearn_metrics.r2_score(np.ones(30), np.ones(30)) == 1.0, "as scikit-learn's, where sums are exact"
    assert sklearn_metrics.r2_score(np.ones(30), np.zeros(30)) == 0.0


def test_of_a_resample_of_equal_targets_r_squared_is_0_and_no_large_number() -> None:
    truth = (np.arange(30) == 0)[:, None] + 0.1
    rare = regression.Predictions(np.zeros((30, 1)), truth)
    metric = regression.METRICS["r2"]
    found = interval_of(metric, metric.contributions(rare))
    assert found.value == pytest.approx(sklearn_metrics.r2_score(truth, rare.predicted))
    assert -10 < found.low <= found.high <= 1.0


def test_quarters_are_named_by_their_own_ends() -> None:
    masks = quarters(np.array([1, 2, 3, 4, 5, 6, 7, 8.0]), "{} tokens".format, ",.0f")
    assert list(masks) == ["1 to 2 tokens", "3 to 4 tokens", "5 to 6 tokens", "7 to 8 tokens"]
    assert list(quarters(np.full(5, 3.0), "{} tokens".format, ",.0f")) == ["3 tokens"]


def test_macro_f1_of_tags_is_of_the_classes_that_occur_or_are_predicted_and_of_no_padding() -> None:
    tags = np.array([[0, 1, 1, -1], [0, 0, -1, -1]], np.int32)
    labels = np.array([[0, 1, 0, -1], [0, 0, -1, -1]], np.int32)
    predictions = Tagged(tags, labels, ("a", "b", "c"))
    expected = sklearn_metrics.f1_score([0, 1, 0, 0, 0], [0, 1, 1, 0, 0], average="macro")
    assert macro_f1(token_counts(predictions).mean(axis=0)) == pytest.approx(expected)


def test_the_interval_over_seeds_is_students() -> None:
    made = over_seeds([0.7, 0.8, 0.9])
    low, high = stats.t.interval(0.95, 2, loc=0.8, scale=stats.sem([0.7, 0.8, 0.9]))
    assert [made.value, made.low, made.high] == pytest.approx([0.8, low, high])


class Rows:
    """A judge that keeps what a model answers."""

    outputs = 1

    def __init__(self, count: int) -> None:
        self.inputs: Any = RowInputs(count)

    def keep(self, outputs: Any, start: int) -> dict[str, Any]:
        return {"value": outputs[:, 0], "row": np.arange(start, start + len(outputs))}


class RowInputs:
    """The numbers of the rows, as inputs."""

    def __init__(self, count: int) -> None:
        self._values = np.arange(count, dtype=np.float32)[:, None]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: Any) -> dict[str, Any]:
        return {"x": self._values[rows]}


def test_a_model_is_run_on_every_row_once_and_a_last_one_alone_as_two() -> None:
    sizes: list[int] = []

    def call(batch: dict[str, Any]) -> Any:
        sizes.append(len(batch["x"]))
        return 2 * batch["x"]

    judge: Any = Rows(9)
    made = run_model(judge, call, batch_size=4)
    assert made.kept["value"].tolist() == [2 * row for row in range(9)] and sizes == [4, 4, 2]
    assert made.kept["row"].tolist() == list(range(9)), "threads give back their shares in order"


def test_a_probe_is_compared_on_its_first_rows_in_every_batch() -> None:
    def other(batch: dict[str, Any]) -> Any:
        return np.where(batch["x"] == 5, -99.0, batch["x"])

    judge: Any = Rows(9)
    seen: ModelOutputs = run_model(judge, lambda batch: batch["x"], probe=Probe(other, 6), batch_size=4)
    assert (seen.max_abs_difference, seen.largest) == (104.0, 99.0)
    short = run_model(judge, lambda batch: batch["x"], probe=Probe(other, 5), batch_size=4)
    assert (short.max_abs_difference, short.largest) == (0.0, 4.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_answers_no_number_in_any_batch_fails(bad: float) -> None:
    judge: Any = Rows(9)
    with pytest.raises(Failed, match="outputs of 1 of . test examples are not finite"):
        run_model(judge, lambda batch: np.where(batch["x"] == 7, bad, batch["x"]), name="test", batch_size=4)


class Letters:
    """A tokenizer whose tokens are letters, the last of which begins a document."""

    bos = 3

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [["abc".index(letter) for letter in text] for text in texts]

    def decode(self, tokens: list[int]) -> bytes:
        return "".join("abc"[token] for token in tokens).encode()


def test_a_text_goes_on_from_its_last_tokens_until_a_document_begins() -> None:
    codec: Any = Letters()
    seen: list[list[int]] = []

    def next_letter(batch: dict[str, Any]) -> Any:
        tokens = batch["tokens"][0].tolist()
        seen.append(tokens)
        return np.where(np.arange(4) == (tokens[-1] + 1) % 4, 50.0, 0.0)[None, None]

    assert sample(next_letter, codec, "a", 9, 1.0, block=2) == "bc"
    assert seen == [[3, 0], [0, 1], [1, 2]]
    assert sample(next_letter, codec, "", 2, 1.0, block=2, document=False) == "ab", "something begins it"


def test_a_low_temperature_takes_the_likeliest_and_a_high_one_any() -> None:
    codec: Any = Letters()

    def flat(batch: dict[str, Any]) -> Any:
        return np.array([[[2.0, 1.0, 0.0, -99.0]]])

    assert sample(flat, codec, "", 40, 0.01, block=8) == "a" * 40
    hot = sample(flat, codec, "", 600, 1.0, block=8)
    chances = np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    assert [hot.count(letter) / 600 for letter in "abc"] == pytest.approx(chances, abs=0.06)
    assert hot == sample(flat, codec, "", 600, 1.0, block=8), "by a fixed seed"
