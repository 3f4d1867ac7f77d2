"""What is drawn in the pictures of a report, read from the figures, and how each metric is a metric."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from scipy import stats
from scipy.optimize import minimize_scalar
from sklearn.metrics import average_precision_score, roc_auc_score

from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation import pictures
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.differences import tango
from tasks.evaluation.intervals import intervals
from tasks.evaluation.judging import Judge, run_model
from tasks.evaluation.metrics import Share, mean, ratio
from tasks.evaluation.tasks import classification, judge_of, language_model, make_judge, multilabel, regression

OF_CLASSES = dict.fromkeys(("precision", "recall", "f1"), "Proportion") | {"mcc": "Score"}
ORDER = dict.fromkeys(("average_precision", "roc_auc"), "Order")
METRICS = {
    "classification": {
        "accuracy": "Share",
        "balanced_accuracy": "Score",
        "macro_f1": "Score",
        **OF_CLASSES,
        **ORDER,
        "loss": "Means",
        "calibration_error": "WithoutInterval",
    },
    "multilabel": {**dict.fromkeys(("macro_f1", "micro_f1", "label_accuracy"), "Score"), "loss": "Means"},
    "anomaly": {**ORDER, "loss": "Means"},
    "ranking": {**dict.fromkeys(("ndcg", "mrr", "recall"), "Score"), "loss": "Means"},
    "regression": dict.fromkeys(("rmse", "mae", "r2", "loss"), "Means"),
    "language_model": {**dict.fromkeys(("bits_per_byte", "loss"), "Means"), "token_accuracy": "Score"},
    "tagging": {
        **dict.fromkeys(("macro_f1", "token_accuracy", "entity_f1", "entity_precision", "entity_recall"), "Score"),
        "loss": "Means",
    },
}
"""The kind of each metric, by which its interval is computed."""


@pytest.mark.parametrize("task", TASKS)
def test_each_metric_has_the_kind_of_interval_that_fits_it(task: str) -> None:
    metrics = judge_of(task).metrics
    assert {name: type(metric).__name__ for name, metric in metrics.items()} == METRICS[task]
    assert set(metrics) == set(TASKS[task].metrics)
    ends = {name: (metric.least, metric.most) for name, metric in metrics.items()}
    for name, kind in METRICS[task].items():
        high = np.inf if kind in ("Means", "WithoutInterval") else 1
        assert ends[name] == {"r2": (-np.inf, 1), "mcc": (-1, 1)}.get(name, (0, high))


def test_another_task_is_judged_by_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class NearestJudge(Judge):
        """Judges whether an output is near the target."""

        task = "nearest"
        metrics = {"near": Share(lambda predictions: np.abs(predictions[:, :1]) < 1)}
        saved = "outputs"

        def __init__(self, split: Any, config: EvaluateConfig, loss: str) -> None:
            super().__init__(split, config, loss)
            self.examples, self.outputs = split.arrays["target"].shape

        def keep(self, outputs: Any, start: int) -> Any:
            return {"outputs": outputs}

        def predictions(self, kept: Any) -> Any:
            return kept["outputs"] - self.split.arrays["target"]

    features = {"x": {"dtype": "float32", "shape": [1]}, "target": {"dtype": "float32", "shape": [1], "names": ["y"]}}
    arrays = {"x": np.zeros((4, 1), np.float32), "target": np.arange(4.0)[:, None]}
    split: Any = SimpleNamespace(name="test", features=features, arrays=arrays, groups=lambda: ["a", "b", "a", "b"])
    judge = make_judge("nearest", split, EvaluateConfig(), "squared_error")
    kept = run_model(judge, lambda batch: batch["x"] + np.float32(1.5)).kept
    assert judge.metrics["near"](judge.predictions(kept)) == 0.5 and judge.extents(None).tolist() == [1.0] * 4
    assert judge.units is not None and judge.units.tolist() == [0, 1, 0, 1] and judge.binary(None) == {}


def test_a_mean_is_of_the_first_contribution_and_a_ratio_of_the_first_to_the_second() -> None:
    means = np.array([[3.0, 4.0], [1.0, 8.0]])
    assert mean(means).tolist() == [3.0, 1.0] and ratio(means).tolist() == [0.75, 0.125]


def figure_of(draw: Any, *arguments: Any) -> Any:
    """The figure behind a picture; it is not drawn, which takes longest."""
    figure = draw.__wrapped__(*arguments)
    FigureCanvasAgg(figure)
    return figure


def test_each_cell_of_a_confusion_matrix_has_its_number_in_an_ink_that_can_be_read() -> None:
    labels = np.repeat([0, 1, 2], [10, 10, 20])
    predicted = np.concatenate([np.repeat([0, 1], [7, 3]), np.repeat([1, 2], [9, 1]), np.repeat([2], [20])])
    [axes] = figure_of(pictures.confusion, labels, predicted, ["a", "b", "c"], "test").axes
    found = {
        (int(text.get_position()[1]), int(text.get_position()[0])): (text.get_text(), text.get_color())
        for text in axes.texts
    }
    # of a label seven in ten and three in ten, nine and one, all: white on what is darker than that
    dark, light = "white", pictures.INK
    assert found == {
        (0, 0): ("7", light),
        (0, 1): ("3", dark),
        (1, 1): ("9", dark),
        (1, 2): ("1", light),
        (2, 2): ("20", dark),
    }
    assert axes.get_title(loc="center") + axes.get_title(loc="left") == "test: 4 of 40 wrong"
    assert [image.get_cmap().name for image in axes.images] == ["Blues", "Oranges"]
    assert [np.ma.count(image.get_array()) for image in axes.images] == [3, 2], "right ones, and wrong ones that occur"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    many = np.arange(21)
    [crowded] = figure_of(pictures.confusion, many, many, [str(number) for number in many], "test").axes
    assert not crowded.texts, "of more than 20 classes no cell has a number"


def test_bars_of_reliability_are_the_share_right_at_their_confidence() -> None:
    confidence = np.array([0.55, 0.6, 0.9, 0.95, 0.95])
    correct = np.array([True, False, True, True, False])
    above, below = figure_of(pictures.reliability, confidence, correct, 4, "test").axes
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in above.patches]
    assert bars == [pytest.approx((0.625, 1 / 2)), pytest.approx((0.875, 2 / 3))]
    dots = above.collections[0].get_offsets().tolist()
    assert dots == [pytest.approx([0.575, 0.5]), pytest.approx([2.8 / 3, 2 / 3])]
    assert [bar.get_height() for bar in below.patches] == [0, 0, 2, 3]
    assert (below.get_xlabel(), below.get_ylabel(), above.get_ylabel()) == ("confidence", "examples", "share right")
    gap = abs(2 * 0.575 - 1) / 5 + abs(2.8 - 2) / 5
    assert above.get_title(loc="left") + above.get_title(loc="center") == f"test: calibration error {gap:.4f}"


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") + axes.get_title(loc="center") for axes in figure.axes]


def drawn(judge: Any, predictions: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The figure of the curves that a judge would draw."""
    figures: dict[str, Any] = {}
    for name in ("confusion", "reliability", "curves"):
        plot = getattr(pictures, name)
        keep = lambda *given, name=name, plot=plot: figures.setdefault(name, figure_of(plot, *given))  # noqa: E731
        monkeypatch.setattr(pictures, name, keep)
    judge.pictures(predictions, {"most_wrong": []})
    return figures["curves"]


@pytest.mark.parametrize("positive", [None, "no"])
def test_the_curves_of_two_classes_are_those_of_the_positive_one_with_the_values_of_the_metrics(
    positive: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    labels = (random.random(200) < 0.1).astype(np.int64)
    logits = np.stack([np.zeros(200), random.normal(0, 1, 200) + 1.5 * labels], axis=1)
    features = {"x": {"kind": "number", "shape": [1], "dtype": "float32"}, "label": {"classes": ["no", "yes"]}}
    arrays = {"x": np.zeros((200, 1), np.float32), "label": labels}
    split: Any = SimpleNamespace(name="test", features=features, arrays=arrays, keys=lambda rows: [])
    judge = classification.ClassificationJudge(split, EvaluateConfig(positive=positive), "cross_entropy")
    predictions = judge.predictions({"logits": logits})
    figure, metrics = drawn(judge, predictions, monkeypatch), classification.METRICS
    value = {
        name: metrics[name].of(metrics[name].contributions(predictions)) for name in ("average_precision", "roc_auc")
    }
    of, own = positive or "yes", labels == (0 if positive else 1)
    scores = logits[:, 1] * (-1 if positive else 1)
    assert value["average_precision"] == pytest.approx(average_precision_score(own, scores), rel=1e-12)
    assert titles(figure) == [
        f"test: average precision\nof {of}: {value['average_precision']:.4f}",
        f"test: area under the ROC\nof {of}: {value['roc_auc']:.4f}",
    ]
    [ranked], [passed] = (axes.lines for axes in figure.axes)
    assert ranked.get_label() == of and ranked.get_drawstyle() == "steps-post"
    steps = -np.diff(ranked.get_xdata()) @ ranked.get_ydata()[:-1]
    assert steps == pytest.approx(value["average_precision"]), "the area that is drawn is the number above it"
    assert np.trapezoid(passed.get_ydata(), passed.get_xdata()) == pytest.approx(value["roc_auc"])


def test_curves_of_several_classes_are_of_those_that_occur_and_their_titles_of_the_mean() -> None:
    labels = np.array([0, 1, 1, 0, 0])
    scores = np.array([[0.8, 0.25, 0.1], [0.3, 0.6, 0.1], [0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    orders = {name: (scores[:, number], labels == number) for number, name in enumerate(["a", "b", "never"])}
    figure = figure_of(pictures.curves, orders, "test")
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["a", "b"] and len(right.lines) == 2
    areas = [np.trapezoid(line.get_ydata(), line.get_xdata()) for line in right.lines]
    assert areas == pytest.approx([5 / 6, 4 / 6]), "of the six pairs of one that is and one that is not"
    precision = np.mean([average_precision_score(truth, score) for score, truth in list(orders.values())[:2]])
    assert titles(figure) == [
        f"test: average precision\nmacro average of 2 classes: {precision:.4f}",
        "test: area under the ROC\nmacro average of 2 classes: 0.7500",
    ]


def test_a_split_of_one_class_alone_has_no_curves() -> None:
    orders = {name: (np.array([0.2, 0.7]), np.full(2, name == "a")) for name in "ab"}
    left, right = figure_of(pictures.curves, orders, "test").axes
    assert not left.lines and not right.lines


def test_of_many_classes_the_mean_curve_alone_is_drawn() -> None:
    labels, random = np.arange(300) % 21, np.random.default_rng(2)
    orders = {str(number): (random.random(300) + (labels == number), labels == number) for number in range(21)}
    left, right = figure_of(pictures.curves, orders, "test").axes
    [ranked], [passed] = left.lines, right.lines
    assert ranked.get_label() == "mean of 21 classes"
    area = np.mean([roc_auc_score(truth, scores) for scores, truth in orders.values()])
    assert np.trapezoid(passed.get_ydata(), passed.get_xdata()) == pytest.approx(area, abs=0.01)
    assert ranked.get_ydata()[0] == 1.0, "a recall of 0 is first"


def wrong(number: int) -> dict[str, Any]:
    return {"label": "cat", "predicted": "dog", "confidence": 0.987, "key": f"{'x' * 40}/{number}"}


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (6, (1, 6)), (7, (2, 6))])
def test_each_picture_that_was_taken_wrong_has_its_caption_below_it(count: int, shape: tuple[int, int]) -> None:
    images = np.full((count, 9, 5, 1), 7, np.uint8)
    figure = figure_of(pictures.most_wrong, images, [wrong(number) for number in range(count)], "test")
    assert len(figure.axes) == shape[0] * shape[1]
    for number, axes in enumerate(figure.axes):
        if number >= count:
            assert not axes.images and not axes.axison
            continue
        [text] = axes.texts
        assert text.get_text() == f"99% sure\n{'x' * 26}\n{'x' * 14}/{number}", "the whole key, in lines"
        place, box = text.get_window_extent(), axes.get_window_extent()
        assert place.y1 < box.y0 and (place.x0 + place.x1) / 2 == pytest.approx((box.x0 + box.x1) / 2, abs=1)
        assert axes.get_title(loc="center") == "cat taken for dog"
        assert axes.images[0].get_clim() == (0, 255), "black is black, whatever else is in the picture"


def laid_out(draw: Any, *arguments: Any) -> Any:
    """The figure in its style, with everything in its place."""
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **pictures.STYLE}):
        figure = figure_of(draw, *arguments)
        figure.get_layout_engine().execute(figure)
    return figure


def covered(texts: list[Any]) -> int:
    """How many of neighbours cover a part of the next one."""
    boxes = [text.get_window_extent() for text in texts]
    return sum(one.overlaps(other) for one, other in pairwise(boxes))


@pytest.mark.parametrize("classes", [2, 16, 100])
def test_no_name_or_title_of_a_plot_covers_another(classes: int) -> None:
    """Also of classes with long names."""
    names = [f"class of a long name {number}" for number in range(classes)]
    labels = np.arange(4 * classes) % classes
    [axes] = laid_out(pictures.confusion, labels, labels[::-1].copy(), names, "test").axes
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [tick.get_text() for tick in ticks] == names
    assert not covered(axes.get_yticklabels())
    orders = {name: (np.arange(4.0 * classes), labels == number) for number, name in enumerate(names)}
    figure = laid_out(pictures.curves, orders, "test")
    above = [axes._left_title for axes in figure.axes]
    assert not covered(above) and all(title.get_window_extent().x1 <= figure.bbox.x1 for title in above)


def test_numbers_are_drawn_above_the_true_ones_and_their_errors_counted() -> None:
    predictions: Any = regression.Predictions(
        predicted=np.array([[1.0, 9.0], [4.0, 9.0], [3.0, 9.0]]), truth=np.array([[1.0, 0.0], [2.0, 0.0], [7.0, 0.0]])
    )
    left, right = figure_of(regression.predicted_against_true, predictions, "price", "test").axes
    assert left.collections[0].get_offsets().tolist() == [[1, 1], [2, 4], [7, 3]]
    assert [tuple(line.get_xdata()) for line in left.lines] == [(1.0, 7.0)] == [tuple(left.lines[0].get_ydata())]
    bars = [(bar.get_x(), bar.get_height()) for bar in right.patches]
    assert len(bars) == 30 and sum(height for _, height in bars) == 3 and bars[0] == (-4.0, 1)
    assert left.get_xlabel() == "price, true" and left.get_ylabel() == "predicted"


def test_probabilities_of_a_label_are_counted_by_whether_it_holds() -> None:
    chances = np.array([0.925, 0.225, 0.425])
    logits = np.stack([np.log(chances / (1 - chances)), np.zeros(3)], axis=-1)
    truth = np.array([[True, False], [False, False], [True, True]])
    figure = figure_of(multilabel.labels, multilabel.Predictions(logits, truth), ["a", "b"], "test")
    first, second = figure.axes
    counted = {}
    for bars in first.containers:
        places = {round(bar.get_x() + bar.get_width() / 2, 3): bar.get_height() for bar in bars}
        counted[to_hex(bars[0].get_facecolor())] = {place: count for place, count in places.items() if count}
    assert counted == {pictures.MUTED: {0.225: 1}, pictures.WARM: {0.425: 1, 0.925: 1}}
    assert (first.get_title(loc="left") or first.get_title()) == "a" and len(second.containers) == 2


def text_of(size: int = 3) -> language_model.Predictions:
    """Files of 100, 0 and 1000 bytes, of 2, no and 4 bits each; its loss falls by one with each position."""
    sizes = np.array([100.0, 0.0, 1000.0])
    nats = sizes * np.array([2.0, 1.0, 4.0]) * np.log(2)
    return language_model.Predictions(nats, sizes, np.maximum(sizes, 1), sizes, np.arange(size, 0, -1.0))


def test_each_file_is_a_dot_at_its_size_and_the_lines_are_of_all_bytes() -> None:
    assert text_of().bits.tolist() == pytest.approx([2.0, 0.0, 4.0])
    [axes] = figure_of(language_model.bits_by_size, text_of(), {"gzip_bits_per_byte": 3.0}, "test").axes
    assert axes.collections[0].get_offsets().tolist() == [pytest.approx([100, 2]), pytest.approx([1000, 4])]
    assert [line.get_ydata()[0] for line in axes.lines] == pytest.approx([4200 / 1100, 3.0])
    assert [text.get_text() for text in axes.texts] == ["the model 3.818", "gzip 3.000"]
    for text, line in zip(axes.texts, axes.lines, strict=True):
        box = text.get_window_extent()
        height = axes.transData.transform((100, line.get_ydata()[0]))[1]
        assert (box.y0 + box.y1) / 2 == pytest.approx(height, abs=3) and box.x0 > axes.get_window_extent().x1


def test_the_loss_at_a_position_is_that_of_the_tokens_before_and_is_smoothed_where_there_are_many() -> None:
    [axes] = figure_of(language_model.loss_by_position, text_of(32), "test").axes
    [line] = axes.lines
    assert line.get_xdata().tolist() == list(range(1, 33)) and line.get_ydata().tolist() == list(range(32, 0, -1))
    [axes] = figure_of(language_model.loss_by_position, text_of(33), "test").axes
    smooth = axes.lines[1]
    assert smooth.get_ydata() == pytest.approx([34 - x for x in smooth.get_xdata()]), "of a straight line the line"
    assert (smooth.get_xdata()[0], smooth.get_xdata()[-1]) == (4.5, 29.5)


@pytest.mark.parametrize("marked", [False, True])
def test_the_targets_of_a_text_that_are_scored_are_those_of_its_files_and_no_begin_of_one(marked: bool) -> None:
    """Of two files in two rows; 9 begins a document. What is scored may be said of each token, as of answers."""
    tokens = np.array([[9, 1, 2, 9], [3, 4, 9, 9]])
    of_targets = np.array([[0, 0, 1], [1, 1, -1]])
    features = {"tokens": {"dtype": "uint16", "shape": [4], "vocabulary": 10, "bos": 9}}
    arrays = {"tokens": tokens}
    if marked:
        features["scored"] = {"dtype": "uint8", "shape": [4]}
        arrays["scored"] = np.array([[1, 0, 1, 1], [0, 0, 1, 1]])
    documents = SimpleNamespace(of_targets=of_targets, keys=["a", "b"], contents=[b"x", b"yy"])
    split: Any = SimpleNamespace(features=features, arrays=arrays, documents=lambda: documents)
    judge = language_model.LanguageModelJudge(split, EvaluateConfig(), "cross_entropy")
    expected = [[False, True, True], [False, True, False]] if marked else [[True, True, False], [True, False, False]]
    assert judge.scored.tolist() == expected and judge.examples == 2 and judge.outputs == 30


@pytest.mark.parametrize(("lost", "won", "count"), [(3, 1, 50), (0, 4, 50), (12, 9, 200), (1, 0, 30), (40, 5, 400)])
@pytest.mark.parametrize("limit", [0.01, 0.05, 0.2, 0.6])
def test_tangos_score_is_that_of_the_likeliest_shares_at_the_limit(
    lost: int, won: int, count: int, limit: float
) -> None:
    """Of the shares whose difference is the limit, the likeliest is found by search, as no formula is needed for it."""

    def unlikely(share: float) -> float:
        same = 1 - 2 * share - limit
        return -(lost * np.log(share + limit) + won * np.log(share) + (count - lost - won) * np.log(same))

    found = minimize_scalar(
        unlikely, bounds=(1e-12, (1 - limit) / 2 - 1e-12), method="bounded", options={"xatol": 1e-13}
    )
    variance = count * (2 * found.x + limit - limit**2)
    expected = stats.norm.cdf((lost - won - count * limit) / np.sqrt(variance))
    assert tango(lost, won, count, limit) == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(("loss", "value"), [(None, 12.5), ("squared_error", 12.5), ("absolute_error", 3.5)])
def test_the_loss_of_a_report_is_the_one_that_was_minimised(loss: str | None, value: float) -> None:
    truth = np.array([[1.0], [2.0]], np.float32)
    features = {"x": {"dtype": "float32", "shape": [1]}, "target": {"dtype": "float32", "shape": [1]}}
    arrays = {"x": truth, "target": truth}
    split: Any = SimpleNamespace(name="test", features=features, arrays=arrays, groups=lambda: None)
    judge = make_judge("regression", split, EvaluateConfig(), loss)
    predictions = judge.predictions(judge.keep(truth + np.array([[3.0], [-4.0]], np.float32), 0))
    assert judge.metrics["loss"](predictions) == pytest.approx(value)
    assert judge.metrics["mae"](predictions) == pytest.approx(3.5)
    split.arrays = {"x": truth[:0], "target": truth[:0]}
    with pytest.raises(Failed, match="0 examples"):
        make_judge("regression", split, EvaluateConfig(), loss)


@dataclass(frozen=True)
class Known:
    """A metric of one value."""

    value: float
    resampled: bool = False

    def __call__(self, predictions: Any) -> float:
        return self.value


def test_what_has_no_value_in_a_split_is_left_out() -> None:
    """The area under the curve of examples of one class."""
    known: Any = {"accuracy": Known(0.5), "roc_auc": Known(float("nan"))}
    assert list(intervals(known, ("accuracy", "roc_auc"), None)) == ["accuracy"]
