"""Figures of parts that are not alike: bins, groups, targets, classes and blocks of other sizes and values."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse, stats
from sklearn import metrics as sklearn_metrics

from tasks.evaluation import (
    binary,
    calibration,
    columns,
    fairness,
    multiple_testing,
    own_metrics,
    paired,
    report,
    robustness,
    slices,
    splits,
    worst_slices,
)
from tasks.evaluation.binary import MEASURES, Binary
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.intervals import difference, interval_of
from tasks.evaluation.metrics import Means, Share, WithoutInterval, mean, root
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import language_model, make_judge, multilabel, tagging
from tasks.exporting.score import RawSplit
from tasks.sources.features import Feature

MEAN = Means(lambda values: values, mean)
ROOT = Means(lambda values: values, root, of_mean=np.sqrt, mean_of=np.square)


class NamedSplit(RawSplit):
    """Its rows have keys."""

    def keys(self, rows: Any) -> list[str]:
        return [f"key {row}" for row in rows]


def judge_of(task: str, truth: dict[str, np.ndarray], config: EvaluateConfig, names: list[str]) -> Any:
    [(role, values)] = truth.items()
    named = {"classes": names} if role == "label" else {"names": names}
    features = {"numbers": {"dtype": "float32", "shape": [1]}, role: {"dtype": "x", "shape": [], **named}}
    arrays = {"numbers": np.arange(len(values), dtype=np.float32)[:, None], **truth}
    return make_judge(task, NamedSplit("test", features, arrays, Path()), config)


def scores_of(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of three classes, and labels that are theirs more often than not."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 2, (count, 3)).astype(np.float32)
    chosen = logits.argmax(axis=1)
    return logits, np.where(random.random(count) < 0.6, chosen, (chosen + 1) % 3)


def test_a_calibrated_model_is_drawn_with_the_confidence_of_each_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confidences of several bins, in no order: the mean error of draws is that of draws made one by one."""
    random = np.random.default_rng(5)
    confidence = random.choice([0.35, 0.36, 0.6, 0.92, 1.0], 300, p=[0.1, 0.3, 0.2, 0.3, 0.1])
    correct = random.random(300) < confidence
    found = calibration.consistency_test(confidence, correct, 10, 1001)
    drawn = [
        np.abs(calibration.gaps(confidence, random.random(300) < confidence, 10).mean(axis=0)).sum()
        for _ in range(3000)
    ]
    assert found.expected == pytest.approx(np.mean(drawn), rel=0.03)
    assert found.p_value == pytest.approx(np.mean(np.array(drawn) >= found.error), abs=0.05)
    monkeypatch.setattr(calibration, "MAX_VALUES", 300 * 7)  # 143 batches of 7
    assert calibration.consistency_test(confidence, correct, 10, 1001) == found
    monkeypatch.setattr(calibration, "MAX_VALUES", 300 * 6)  # the last one has 5 draws
    assert calibration.consistency_test(confidence, correct, 10, 1001) == found


def test_confidences_are_binned_and_the_calibration_tested_as_the_settings_say() -> None:
    logits, labels = scores_of(60)
    judges = [
        judge_of("classification", {"label": labels}, EvaluateConfig(bins=bins, resamples=resamples), ["a", "b", "c"])
        for bins, resamples in ((4, 100), (9, 100), (4, 199))
    ]
    made = [(judge, judge.predictions({"logits": logits})) for judge in judges]
    widths = [judge.metrics["calibration_error"].contributions(predictions).shape[1] for judge, predictions in made]
    assert widths == [4, 9, 4]
    first, finer, more = (judge.figures(predictions) for judge, predictions in made)
    assert first["calibration_error/expected"] != finer["calibration_error/expected"]
    assert (first["calibration_error/p_value"] * 101) % 1 == pytest.approx(0, abs=1e-6)
    assert (more["calibration_error/p_value"] * 200) % 1 == pytest.approx(0, abs=1e-6)


def test_the_most_wrong_have_their_own_row_key_classes_and_confidence() -> None:
    logits = np.array([[9, 0, 0], [0, 1, 0], [0, 3, 0], [0, 0, 9], [0, 0, 5]], np.float32)
    labels = np.array([0, 0, 2, 1, 0])
    judge = judge_of("classification", {"label": labels}, EvaluateConfig(most_wrong=3), ["a", "b", "c"])
    details = judge.details(judge.predictions({"logits": logits}))
    rows = [(row["row"], row["key"], row["label"], row["predicted"]) for row in details["most_wrong"]]
    assert rows == [(3, "key 3", "b", "c"), (4, "key 4", "a", "c"), (2, "key 2", "c", "b")]
    chances = [np.exp(9) / (np.exp(9) + 2), np.exp(5) / (np.exp(5) + 2), np.exp(3) / (np.exp(3) + 2)]
    assert [row["confidence"] for row in details["most_wrong"]] == pytest.approx(chances, rel=1e-6)
    assert details["confusion"] == [[1, 1, 1], [0, 0, 1], [0, 1, 0]], "labels are rows, predictions columns"


def test_the_furthest_of_a_regression_have_their_own_key_and_both_numbers() -> None:
    truth = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
    predicted = truth + np.array([[0.5, 0.0], [0.0, -9.0], [3.0, 1.0], [0.0, 9.0]])
    judge = judge_of("regression", {"target": truth}, EvaluateConfig(most_wrong=3), ["x", "y"])
    predictions = judge.predictions({"outputs": predicted})
    rows = judge.details(predictions)["furthest"]
    assert [(row["row"], row["key"]) for row in rows] == [(1, "key 1"), (3, "key 3"), (2, "key 2")]
    assert rows[0]["true"] == [2.0, 20.0] and rows[0]["predicted"] == [2.0, 11.0]
    variance = truth.var(axis=0).mean()  # 1.25 and 125: of both targets
    assert judge.baselines["mean_rmse"] == pytest.approx(variance**0.5)
    assert judge.metrics["mae"](predictions) == pytest.approx(np.abs(predicted - truth).mean())
    named = list(judge.slices(predictions))
    assert named == ["x 1", "x 2", "x 3", "x 4"], "of the first target"


def test_a_label_has_its_own_precision_recall_and_support() -> None:
    random = np.random.default_rng(0)
    truth = random.random((90, 3)) < (0.1, 0.5, 0.8)
    logits = np.where(truth, 1.0, -1.0) + random.normal(0, (0.5, 1.5, 3.0), (90, 3))
    judge = judge_of("multilabel", {"target": truth.astype(np.float32)}, EvaluateConfig(), ["a", "b", "c"])
    predictions = judge.predictions({"logits": logits.astype(np.float32)})
    rows = judge.details(predictions)["classes"]
    predicted = logits > 0
    precision, recall, f1, support = sklearn_metrics.precision_recall_fscore_support(truth, predicted)
    for name, expected in (("precision", precision), ("recall", recall), ("f1", f1), ("support", support)):
        assert [row[name] for row in rows] == pytest.approx(expected), name
    assert [row["accuracy"] for row in rows] == pytest.approx((truth == predicted).mean(axis=0))
    named = judge.binary(predictions)
    assert list(named) == ["a", "b", "c"]
    for number, each in enumerate(named.values()):
        assert (each.truth == truth[:, number]).all() and ((each.probabilities > 0.5) == predicted[:, number]).all()
    share = multilabel.METRICS["label_accuracy"](predictions)
    assert share == pytest.approx((truth == predicted).mean())


def test_the_positive_class_is_the_one_that_is_named() -> None:
    logits, labels = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], np.float32), np.array([0, 0, 1])
    for name, number in ((None, 1), ("bad", 1), ("good", 0)):
        judge = judge_of("classification", {"label": labels}, EvaluateConfig(positive=name), ["good", "bad"])
        predictions = judge.predictions({"logits": logits})
        [(found, decision)] = judge.binary(predictions).items()
        assert found == (name or "bad") and decision.truth.tolist() == (labels == number).tolist()
        assert decision.probabilities == pytest.approx(predictions.probabilities[:, number])


def test_each_decision_is_measured_at_its_own_threshold_and_at_one_half() -> None:
    random = np.random.default_rng(1)
    made: dict[str, Binary] = {}
    for name, share in (("rare", 0.1), ("often", 0.7)):
        truth = random.random(200) < share
        made[name] = Binary(np.clip(0.5 * truth + random.random(200) * 0.7, 0, 1), truth)
    limits = {"rare": 0.6, "often": 0.3}
    rows, flat = binary.measured(made, limits, None)
    for row in rows:
        each = made[row["decision"]]
        for name, limit in (("at_threshold", limits[row["decision"]]), ("at_half", 0.5)):
            yes = each.probabilities > limit
            precision, recall, f1, _ = sklearn_metrics.precision_recall_fscore_support(
                each.truth, yes, average="binary"
            )
            expected = {
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "accuracy": (yes == each.truth).mean(),
                "balanced_accuracy": sklearn_metrics.balanced_accuracy_score(each.truth, yes),
                "mcc": sklearn_metrics.matthews_corrcoef(each.truth, yes),
                "false_positive_rate": yes[~each.truth].mean(),
            }
            assert expected.keys() == MEASURES.keys()
            found = {key: value if name == "at_half" else value["value"] for key, value in row[name].items()}
            assert found == pytest.approx(expected), (row["decision"], name)
    middle = np.mean([row["at_threshold"]["f1"]["value"] for row in rows])
    assert flat == {"threshold/macro_f1": pytest.approx(middle)}
    [alone], of_one = binary.measured({"rare": made["rare"]}, limits, None)
    assert of_one["threshold/f1"] == alone["at_threshold"]["f1"]["value"]
    assert {f"threshold/{name}" for name in MEASURES} <= of_one.keys()


def test_columns_are_read_for_every_slice_and_for_the_groups() -> None:
    features = {name: Feature("number", "float32") for name in ("age", "height", "weight", "income", "left")}
    config = EvaluateConfig(slices=("height", "age > 3 AND weight < 2"), groups="income")
    assert columns.needed(features, config) == ["age", "height", "weight", "income"]
    assert columns.needed(features, EvaluateConfig(groups="left")) == ["left"]
    frame = pl.DataFrame({"height": [1.0, 1.0, 2.0], "age": [5.0, 1.0, None], "weight": [1.0, 1.0, 1.0]})
    masks = columns.of_config(frame, features, config)
    assert masks["age > 3 AND weight < 2"].tolist() == [True, False, False], "of a missing value nothing holds"
    assert [name for name in masks if name.startswith("height")] and len(masks) > 2


def test_quartiles_of_equal_values_are_whole_and_end_at_their_bounds() -> None:
    values = [1.0] * 2 + [2.0] * 5 + [3.0] * 2 + [9.0] * 3
    masks = columns.quartiles(pl.Series("x", values))
    sizes = {name: int(mask.sum()) for name, mask in masks.items()}
    edges = np.unique(np.quantile(values, (0.25, 0.5, 0.75)))
    assert edges.tolist() == [2.0, 4.5] and sizes == {"x 1 to 2": 7, "x 3 to 3": 2, "x 9 to 9": 3}


def test_groups_of_other_sizes_are_compared_by_what_a_metric_makes_of_their_means() -> None:
    """The root of a mean: neither its value nor its test is that of the mean itself."""
    random = np.random.default_rng(3)
    squares = (random.normal(0, 1, 140) ** 2)[:, None]
    groups = {
        "few": np.arange(140) < 30,
        "some": (np.arange(140) >= 30) & (np.arange(140) < 70),
        "many": np.arange(140) >= 70,
    }
    squares[groups["some"]] *= 6
    made = fairness.compare("age", groups, {}, {"rmse": (ROOT, squares)}, 400)
    rows = {row["group"]: row for row in made["rows"]}
    influence = worst_slices.damage(ROOT, squares, 1)
    for name, group in groups.items():
        row = rows[name]
        inside, outside = np.sqrt(squares[group].mean()), np.sqrt(squares[~group].mean())
        assert (row["value"], row["rest"], row["examples"]) == (
            pytest.approx(inside),
            pytest.approx(outside),
            group.sum(),
        )
        assert row["difference"]["value"] == pytest.approx(inside - outside)
        assert row["difference"]["low"] < inside - outside < row["difference"]["high"]
    members = sparse.csr_matrix(np.array(list(groups.values()), float))
    tested = multiple_testing.permuted(members, influence, np.ones(3, bool), False, 400)
    assert [rows[name]["p_value"] for name in groups] == tested.p_values.tolist()
    assert tested.statistics[1] == pytest.approx(
        stats.ttest_ind(influence[groups["some"]], influence[~groups["some"]], equal_var=False).statistic
    )
    assert rows["some"]["p_value"] < 0.01
    values = [row["value"] for row in rows.values()]
    assert made["largest_differences"] == {"rmse": pytest.approx(max(values) - min(values))}
    assert made["compared"] == 3


def test_a_rate_of_a_group_has_the_exact_interval_of_those_that_it_is_a_rate_of() -> None:
    """A rate of few: of the whole group it would be that of other numbers of examples."""
    random = np.random.default_rng(2)
    group, among = np.arange(300) < 100, np.arange(300) % 5 == 0
    holds = random.random(300) < np.where(group, 0.7, 0.4)
    made = fairness._of_rate(fairness.Rate(holds, among), group, np.arange(300))
    inside, outside = holds[group & among], holds[~group & among]
    expected = stats.binomtest(int(inside.sum()), 20).proportion_ci()
    assert (made["low"], made["high"]) == pytest.approx((expected.low, expected.high))
    assert made["method"] == "exact binomial"
    assert made["difference"] == fairness.newcombe((inside.mean(), outside.mean()), (20, 40)).as_json()
    assert made["few"] is False
    assert fairness._of_rate(fairness.Rate(holds, among & (np.arange(300) > 0)), group, np.arange(300))["few"] is True


def test_slices_are_counted_alike_in_blocks_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"kind": random.choice(list("abc"), 500), "place": random.choice(list("xy"), 500)})
    features = {name: Feature("category", "string") for name in frame.columns}
    for metric in (MEAN, Share(lambda values: values)):
        values = (random.random(500) < np.where(frame["kind"] == "a", 0.4, 0.8)).astype(float)[:, None]
        found = []
        for block in (1 << 15, 64):
            monkeypatch.setattr(worst_slices, "BLOCK", block)
            found.append(worst_slices.find(frame, features, metric, values, 1, 4, 100))
        whole, parts = (
            [(row["slice"], row["examples"], pytest.approx(row["p_value"])) for row in each["slices"]] for each in found
        )
        assert whole == parts and whole[0][0].startswith("kind = a")


def test_only_the_largest_conditions_are_paired_and_each_has_its_own_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worst_slices, "MOST_CONDITIONS", 3)
    frame = pl.DataFrame(
        {"kind": ["a"] * 60 + ["b"] * 40 + ["c"] * 25, "place": (["x"] * 5 + ["y"] * 3 + ["z"] * 2) * 12 + ["z"] * 5}
    )
    features = {name: Feature("category", "string") for name in frame.columns}
    masks, owners = worst_slices._conditions(frame, features)
    counts = {name: int(mask.sum()) for name, mask in masks.items()}
    assert counts == {"kind = a": 60, "kind = b": 40, "place = x": 60} and owners.tolist() == [0, 0, 1]


@pytest.mark.parametrize("share", [False, True])
def test_each_slice_is_tested_against_all_others_as_by_chance(share: bool) -> None:
    random = np.random.default_rng(4)
    values = random.normal(0, 1, 200) ** 2
    masks = [np.arange(200) < 30, np.arange(200) >= 120, random.random(200) < 0.3]
    values[masks[0]] += 0.8
    values = (values > 1).astype(float) if share else values
    looked_at = worst_slices._looked_at(masks, np.array([0, 1, 1]), 200)
    tested = worst_slices._tested(looked_at, values, share, None, 200)
    for conditions, count, statistic in zip(looked_at.conditions, looked_at.examples, tested.statistics, strict=True):
        inside = np.logical_and.reduce([masks[each] for each in conditions])
        welch = stats.ttest_ind(values[inside], values[~inside], equal_var=False).statistic
        pooled = (values[inside].mean() - values[~inside].mean()) / values.std(ddof=1)
        pooled /= np.sqrt(1 / inside.sum() + 1 / (~inside).sum())
        assert (count, statistic) == (inside.sum(), pytest.approx(pooled if share else welch))
    assert looked_at.conditions == [(0,), (1,), (2,)], "of pairs none has 20, or they are of one column"


def test_records_behind_rows_are_found_where_rows_are_in_another_order_or_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows 0, 1, 2 were made from the pieces 2, 0, 1, and these from the records 7, 3, 5."""
    split: Any = SnapshotSplit.__new__(SnapshotSplit)
    split.name, split.records, split.features = "test", Path(), {}
    lineage = np.array([[2, 0], [0, 0], [1, 0]]), np.array([[7, 0], [3, 0], [5, 0]])
    split._reader = SimpleNamespace(lineage=lambda name: lineage)
    number = pl.DataFrame({"number": range(10)})
    monkeypatch.setattr(splits, "RecordsReader", lambda path: SimpleNamespace(features={}, tables=lambda *of: [1, 2]))
    monkeypatch.setattr("tasks.evaluation.splits.frame_of", lambda table, features: number[5 * (table - 1) : 5 * table])
    assert split.columns(["number"])["number"].to_list() == [5, 7, 3]
    monkeypatch.setattr(splits, "queries_of", lambda records, name: np.array(list("abcdefghij")))
    assert split.queries().tolist() == ["f", "h", "d"]
    split.features = {"tokens": {}}
    assert len(split.columns(["number"])) == 10, "of texts the files"


def test_records_without_groups_are_asked_for_none_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import takes seconds, and logs, in the process of a flow: `promote` asks for the groups."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    records: Any = SimpleNamespace(features={"grape": Feature("category", "string")})
    assert splits.groups_of(records, "test") is None


def test_the_log_probability_of_a_target_is_its_own_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    logits = random.normal(0, 3, (3, 5, 7)).astype(np.float32)
    targets = random.integers(0, 7, (3, 5))
    whole = language_model.nats(logits, targets)
    for most in (7 * 4, 7, 1):
        monkeypatch.setattr(language_model, "MAX_LOGITS", most)
        assert (language_model.nats(logits, targets) == whole).all()
    expected = -np.take_along_axis(
        logits - np.log(np.exp(logits.astype(float)).sum(axis=-1, keepdims=True)), targets[..., None], axis=-1
    )[..., 0]
    assert whole == pytest.approx(expected, abs=1e-5)


def texts() -> Any:
    """A judge of three files in four rows of three targets, of which some are not scored."""
    judge: Any = language_model.LanguageModelJudge.__new__(language_model.LanguageModelJudge)
    of_targets = np.array([[0, 0, 1], [1, 1, 1], [1, 2, 2], [2, -1, -1]])
    judge.scored = (of_targets >= 0) & np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]], bool)
    judge.documents = SimpleNamespace(
        of_targets=of_targets, keys=["a/one", "b/two", "c/three"], contents=[b"x" * 10, b"y" * 4, b"z" * 7]
    )
    judge.tokens = np.arange(16).reshape(4, 4)
    judge.examples, judge.config = 3, EvaluateConfig(most_wrong=5)
    return judge


def test_tokens_count_for_their_own_file_and_position() -> None:
    judge = texts()
    nats = np.arange(1.0, 13.0).reshape(4, 3).astype(np.float32)
    likeliest = judge.tokens[:, 1:].copy()
    likeliest[0, 0] = likeliest[1, 2] = 99
    predictions = judge.predictions({"nats": nats, "likeliest": likeliest})
    assert predictions.nats.tolist() == [1 + 2, 3 + 4 + 6 + 7, 8 + 10]
    assert predictions.tokens.tolist() == [2, 4, 2] and predictions.right.tolist() == [1, 3, 2]
    assert predictions.bytes.tolist() == [10, 4, 7]
    assert predictions.by_position == pytest.approx([(1 + 4 + 7 + 10) / 4, (2 + 8) / 2, (3 + 6) / 2])
    assert judge.decisions({"likeliest": likeliest}).tolist() == [99, 2, 3, 5, 99, 9, 10, 13]
    details = judge.details(predictions)
    assert [row["key"] for row in details["worst"]] == ["b/two", "c/three"]
    assert [row["key"] for row in details["best"]] == ["a/one"], "no file is in both lists"
    assert (details["bytes"], details["tokens"], details["worst"][0]["bytes"]) == (21, 8, 4)
    bits = language_model.METRICS["bits_per_byte"](predictions)
    assert bits == pytest.approx((3 + 20 + 18) / np.log(2) / 21)


def test_taggers_of_rows_of_other_lengths_have_their_own_most_wrong() -> None:
    labels = np.array([[0, 1, -1, -1], [1, 1, 1, 0], [0, -1, -1, -1], [0, 0, 1, -1]], np.int32)
    tags = np.array([[0, 1, -1, -1], [0, 0, 1, 0], [1, -1, -1, -1], [1, 1, 0, -1]], np.int32)
    features = {
        "tokens": {"dtype": "int32", "shape": [4]},
        "label": {"dtype": "int32", "shape": [4], "classes": ["a", "b"], "cut": {"test": 3, "validation": 1}},
    }
    cut = [[0, 1], [1, 1, 1, 0, 1, 1], [0], [0, 0, 1]]
    split = NamedSplit("test", features, {"tokens": np.ones((4, 4), np.int32), "label": labels}, Path(), tags=cut)
    judge: Any = tagging.TaggingJudge(split, EvaluateConfig(most_wrong=2), "cross_entropy")
    predictions = judge.predictions({"tags": tags})
    details = judge.details(predictions)
    assert details["sequences"] == [
        {"row": 1, "key": "key 1", "tokens": 6, "wrong": 4},
        {"row": 3, "key": "key 3", "tokens": 3, "wrong": 3},
    ], "what is cut has no answer"
    assert (details["tokens"], details["cut"]) == (12, 3)
    assert judge.decisions({"tags": tags}).tolist() == [0, 1, 0, 0, 1, 0, 1, 1, 1, 0]
    assert [row["support"] for row in details["classes"]] == [5, 7]
    outputs = np.zeros((2, 4, 2), np.float32)
    outputs[..., 1] = np.array([[2, -2, 2, 2], [-2, 2, 2, 2]])
    kept = judge.keep(outputs, 2)  # a batch that begins at the third row
    assert kept["tags"].tolist() == [[1, -1, -1, -1], [0, 1, 1, -1]]
    wrong, right = np.log1p(np.exp(2)), np.log1p(np.exp(-2))
    assert kept["nats"] == pytest.approx(np.array([[wrong, 0, 0, 0], [right, wrong, right, 0]]), abs=1e-6)


def test_a_temperature_is_measured_on_loss_and_calibration_before_and_after() -> None:
    logits, labels = scores_of(80, 7)
    judge = judge_of("classification", {"label": labels}, EvaluateConfig(resamples=100), ["a", "b", "c"])
    predictions = judge.predictions({"logits": 3 * logits})
    row, flat = calibration.measured(judge, predictions, 2.5, judge.config)
    cooled = predictions.scaled(2.5)
    for name in ("loss", "calibration_error"):
        assert row["before"][name]["value"] == pytest.approx(judge.metrics[name](predictions))
        assert row["after"][name]["value"] == flat[f"calibrated/{name}"] == pytest.approx(judge.metrics[name](cooled))
    tested = judge.figures(cooled)["calibration_error/p_value"]
    assert flat["calibrated/calibration_error/p_value"] == tested
    assert row["after"]["calibration_error/p_value"] == tested
    expected = [judge.figures(each)["calibration_error/expected"] for each in (cooled, predictions)]
    assert row["after"]["calibration_error/expected"] == expected[0] != expected[1]


class Probed:
    """A judge of rows whose model answers with the input."""

    outputs = 1
    units = None
    metrics = {"mean": MEAN}

    def __init__(self, inputs: Any) -> None:
        self.inputs = inputs

    def keep(self, outputs: Any, start: int) -> dict[str, Any]:
        return {"outputs": outputs}

    def predictions(self, kept: dict[str, Any]) -> Any:
        return kept["outputs"]


def test_probes_of_one_kind_draw_by_their_place_and_a_drop_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def altered(place: int, probe: Any, split: Any, inputs: Any) -> Any:
        seen.append((place, probe))
        return Rows(inputs.values + (place + 1) * np.arange(40.0)[:, None] / 100)

    monkeypatch.setattr(robustness, "altered", altered)
    probe: Any = SimpleNamespace(kind="noise", model_dump=lambda **how: {"kind": "noise"})
    rows = Rows(np.random.default_rng(0).normal(0, 1, (40, 1)))
    judge: Any = Probed(rows)
    kept = {"outputs": rows.values}
    split: Any = SimpleNamespace(name="test")
    for sign in (1, -1):
        config: Any = SimpleNamespace(robustness=[probe, probe], primary=None, own_metrics={})
        made = robustness.measured(
            config, judge, split, lambda batch: batch["x"], kept, "mean", sign, lambda *progress: None
        )
        for place, row in enumerate(made):
            after = rows.values + (place + 1) * np.arange(40.0)[:, None] / 100
            change = difference(MEAN, rows.values, after)
            assert row["value"] == pytest.approx(after.mean())
            assert row["drop"]["value"] == pytest.approx(-sign * change.value)
            assert (row["drop"]["low"], row["drop"]["high"]) == pytest.approx(
                tuple(sorted((-sign * change.low, -sign * change.high)))
            )
    assert seen == [(0, probe), (1, probe)] * 2


class Rows:
    """Inputs by row."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> dict[str, Any]:
        return {"x": self.values[rows]}


class Table(list[Any]):
    """A table of one column."""

    @property
    def num_rows(self) -> int:
        return len(self)

    def __getitem__(self, name: Any) -> Any:
        return np.array(list(self))


def test_columns_are_changed_by_row_wherever_a_batch_or_a_table_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 0 to 9 in tables of 4: each is drawn with its own number, and the transform gets as many as there are."""
    made: Any = robustness.AlteredColumns.__new__(robustness.AlteredColumns)
    drawn: list[tuple[int, int, list[int]]] = []

    def draws(place: int, column: int, rows: Any) -> Any:
        drawn.append((place, column, rows.tolist()))
        return rows

    def tables(split: str, names: list[str], start: int, stop: int) -> Any:
        at = start
        while at < stop:
            end = min(at + 4 - at % 4, stop)
            yield Table(range(at, end))
            at = end

    monkeypatch.setattr(robustness, "draws_of", draws)
    monkeypatch.setattr(robustness, "typed", lambda values, feature: values)
    made._place, made._split, made._inputs = 3, "test", range(10)
    made._records = SimpleNamespace(tables=tables, features={name: SimpleNamespace(kind=name) for name in ("a", "b")})
    made._changed, made._dtypes = ["a", "b"], {"x": "float32"}
    change = lambda values, draws, feature: values * 100 + draws + (0.5 if feature["kind"] == "b" else 0)  # noqa: E731
    made._probe = SimpleNamespace(change=change)

    def apply(values: dict[str, Any], count: int) -> dict[str, Any]:
        assert len(values["a"]) == count
        return {"x": values["a"] + 1000 * values["b"]}

    made._reader = SimpleNamespace(columns={"a": None, "b": None}, apply=apply)
    found = made[2:9]["x"]
    own = np.arange(2, 9) * 101.0
    assert found == pytest.approx(own + 1000 * (own + 0.5)) and found.dtype == np.float32
    assert [rows for _, column, rows in drawn if column == 0] == [[2, 3], [4, 5, 6, 7], [8]]
    assert {(place, column) for place, column, _ in drawn} == {(3, 0), (3, 1)}, "each column has draws of its own"


def test_what_saved_predictions_cannot_say_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the loss that the model was trained by, on the split that is asked for, with the config that is given."""
    (tmp_path / "predictions").mkdir()
    (tmp_path / "report.json").write_text('{"loss": "mae"}')
    np.save(tmp_path / "predictions/test.npy", np.arange(3.0))
    np.save(tmp_path / "predictions/validation.npy", np.arange(5.0))
    asked: list[Any] = []
    metrics = {
        "known": Means(lambda saved: saved[:, None], mean),
        "unknown": Means(lambda saved: np.where(saved == 1, np.nan, saved)[:, None], mean),
        "whole": WithoutInterval(lambda saved: saved[:, None], mean),
    }

    def judge(task: str, split: Any, config: Any, loss: str) -> Any:
        asked.append((task, split, config, loss))
        count = {"test": 3, "validation": 5}[split.name]
        return SimpleNamespace(
            metrics=metrics,
            saved="outputs",
            predictions=lambda kept: np.asarray(kept["outputs"]),
            extents=np.ones_like,
            example_of=None,
            units=None,
            examples=count,
        )

    def examples(snapshot: Path, records: Path, name: str) -> Any:
        return SimpleNamespace(
            name=name, features={}, hashes=lambda: np.arange(5 if name == "validation" else 3, dtype=np.uint64)
        )

    monkeypatch.setattr(paired, "SnapshotSplit", examples)
    monkeypatch.setattr(paired, "make_judge", judge)
    model = paired.EvaluatedModel(tmp_path, Path("snapshot"), Path("records"))
    config = EvaluateConfig()
    for split, count in (("test", 3), ("validation", 5)):
        made = paired.contributions("regression", split, model, config)
        assert made.values.keys() == {"known"} and len(made.values["known"]) == count
        task, of_split, given, loss = asked.pop()
        assert (task, of_split.name, given, loss) == ("regression", split, config, "mae")


def test_what_a_judge_keeps_is_read_by_its_own_name_and_split(tmp_path: Path) -> None:
    folder = tmp_path / "predictions"
    folder.mkdir()
    judge: Any = SimpleNamespace(saved="nats")
    arrays: dict[str, Any] = {
        "test": np.arange(3),
        "test.likeliest": np.arange(4),
        "test.other": np.arange(6),
        "validation": [9],
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    made = report.read_kept(SimpleNamespace(path=tmp_path), "test", judge)  # type: ignore[arg-type]
    assert {name: len(values) for name, values in made.items()} == {"nats": 3, "likeliest": 4, "other": 6}
    assert [report._file("test", name, judge) for name in ("nats", "other")] == [
        "predictions/test.npy",
        "predictions/test.other.npy",
    ]


def test_masks_of_slices_are_read_for_as_many_examples_as_there_are(tmp_path: Path) -> None:
    """Eleven examples are not a whole number of bytes."""
    import json

    masks = np.array([np.arange(11) < 7, np.arange(11) == 10, np.arange(11) > 2])
    np.save(tmp_path / "slices.npy", np.packbits(masks, axis=1))
    named = [("one", 0.5), ("two", None), ("three", 0.25)]
    rows = [{"slice": name, "value": value} for name, value in named]
    (tmp_path / "report.json").write_text(json.dumps({"splits": {"test": {"examples": 11, "slices": rows}}}))
    found, read = report.read_slices(SimpleNamespace(path=tmp_path), "test")  # type: ignore[arg-type]
    assert [row["slice"] for row in found] == ["one", "three"] == list(read)
    assert (read["one"] == masks[0]).all() and (read["three"] == masks[2]).all()


def test_groups_are_compared_by_calibrated_decisions_at_the_thresholds_that_were_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Any] = []
    monkeypatch.setattr(fairness, "compare", lambda *given: compared.append(given[:-1]))
    random = np.random.default_rng(0)
    truth = random.random((60, 2)) < 0.5
    config = EvaluateConfig(groups="age", resamples=123)
    judge = judge_of("multilabel", {"target": truth.astype(np.float32)}, config, ["a", "b"])
    predictions = judge.predictions({"logits": random.normal(0, 3, (60, 2)).astype(np.float32)})
    decision = Decision(4.0, {"a": 0.3, "b": 0.6})
    values = multilabel.METRICS["macro_f1"].contributions(predictions)
    slices._compared(judge, "macro_f1", predictions, values, decision, {}, config)
    [(column, _, rates, values, resamples)] = compared
    assert (column, values, resamples) == ("age", {}, 123)
    cooled = predictions.scaled(4.0)
    for number, (name, limit) in enumerate((("a", 0.3), ("b", 0.6))):
        chances = 1 / (1 + np.exp(-cooled.logits[:, number]))
        assert (rates[f"{name}: selection_rate"].holds == (chances > limit)).all()
    assert len(rates) == 8


def test_own_metrics_have_their_own_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"first": np.arange(30.0)[:, None], "second": np.arange(30.0)[:, None] ** 2}
    monkeypatch.setattr(own_metrics, "contributions", lambda name, *more: values[name])
    config: Any = SimpleNamespace(own_metrics={"first": "a:f", "second": "b:g"}, resamples=77)
    made = own_metrics.own_metrics(config, np.zeros(30), np.zeros(30), None)
    for name, each in made.items():
        assert each == interval_of(own_metrics.MEAN, values[name])
