"""Charts of the page: each point stands where its value is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tasks.compression.judgement import FrontEntry
from tasks.search.space import FloatRange, SpaceConfig
from tasks.search.table import PRUNED, Table, Trial
from tasks.view import charts, trainings
from tests.support.stand_ins import trial


def test_bars_and_points_of_a_distribution_are_as_high_as_their_share_of_the_highest() -> None:
    svg = charts.histogram({"train": [0.5, 0.25], "test": [1.0, 0.0]})
    heights = [float(each) for each in re.findall(r'<rect [^>]*height="([\d.]+)"', svg)]
    tops = [float(each) for each in re.findall(r'<rect [^>]*y="([\d.]+)"', svg)]
    assert heights == [charts.HEIGHT / 2, charts.HEIGHT / 4] and tops == [charts.HEIGHT / 2, charts.HEIGHT * 3 / 4]
    [points] = re.findall(r'points="([^"]*)"', svg)
    assert [float(point.split(",")[1]) for point in points.split()] == [0.0, charts.HEIGHT]
    across = [float(point.split(",")[0]) for point in points.split()]
    assert across == [charts.WIDTH / 4, charts.WIDTH * 3 / 4], "in the middle of the bars"


def test_ticks_of_a_range_without_extent_are_its_only_value() -> None:
    assert charts.linear_ticks(2.0, 2.0) == [2.0] and charts.linear_ticks(3.0, 2.0) == [3.0]
    assert charts.linear_ticks(0.0, 1.0) == [0.0, 0.5, 1.0] and charts.linear_ticks(-1.0, 9.0) == [0.0, 5.0]
    assert charts.linear_ticks(0.0, 0.4) == [0.0, 0.1, 0.2, 0.3, 0.4]


def point(size: int, loss: float, **more: Any) -> FrontEntry:
    return FrontEntry(**{"name": "", "bytes": size, "loss": loss, "latency": None, **more})


def test_the_line_of_the_front_goes_from_the_smallest_to_the_largest() -> None:
    points = {"c": point(900, 0.0), "a": point(100, 0.3), "b": point(500, 0.1)}
    [path] = re.findall(r'class="curve c0 dashed" points="([^"]*)"', charts.front(points, "loss"))
    places = [tuple(map(float, each.split(","))) for each in path.split()]
    assert len(places) == 3 and places == sorted(places)
    width = charts.FRONT.width - charts.FRONT.left - charts.FRONT.right
    assert [x for x, _ in places] == pytest.approx(
        [charts.FRONT.left + width * size / 9 for size in (1, 5, 9)], abs=0.06
    )
    heights = [y for _, y in places]
    bottom = charts.FRONT.height - charts.FRONT.bottom
    assert heights[2] == bottom and heights[0] == pytest.approx(charts.FRONT.top), "0 is below, the greatest loss above"
    assert heights[1] == pytest.approx(bottom - (bottom - charts.FRONT.top) / 3, abs=0.06)


def test_a_point_of_the_front_is_as_large_as_its_latency_and_crossed_where_it_is_rejected() -> None:
    points = {
        "fast": point(100, 0.0, latency=0.5),
        "slow": point(200, 0.0, latency=2.0),
        "none": point(300, 0.0),
        "out": point(400, 0.0, accepted=False),
        "worse": point(500, 0.1, dominated_by="fast"),
    }
    svg = charts.front(points, "loss")
    shapes = {
        name: svg[svg.index(f"<title>{name}:") :].partition("</g>")[0] for name in points
    }  # each with its own circle
    radii = {name: float(re.findall(r' r="([\d.]+)"', shape)[0]) for name, shape in shapes.items()}
    assert radii["slow"] == 14.0 and radii["fast"] == 9.0 and radii["none"] == 4.0, "its area is its latency"
    assert "2.00 x faster" in shapes["fast"] and "faster" not in shapes["none"]
    assert ["<line" in shapes[name] for name in points] == [False, False, False, True, False]
    x1, y1, x2, y2 = (float(re.findall(rf' {end}="([-\d.]+)"', shapes["out"])[0]) for end in ("x1", "y1", "x2", "y2"))
    assert (x2 - x1, y2 - y1) == pytest.approx((8.0, 8.0), abs=0.11), "from corner to corner"
    classes = {name: re.findall(r'<circle class="([^"]*)"', shape)[0] for name, shape in shapes.items()}
    assert classes == {**dict.fromkeys(("fast", "slow", "none"), "dot c0"), "out": "curve c1", "worse": "curve c0"}
    assert charts.front({"a": point(1, 0.0), "b": point(2, 0.0)}, "loss").count("<circle") == 2, "without any latency"


def test_a_line_of_a_trial_ends_at_its_score() -> None:
    made = [
        trial(0, 0.9, values={"rate": 0.0}),
        trial(1, 0.6, values={"rate": 0.5}),
        trial(2, 0.5, values={"rate": 1.0}),
    ]
    svg = charts.parallel(Table("s", "accuracy", True, made), made, {"rate": FloatRange(low=0.0, high=1.0)})
    drawn = re.findall(r'<polyline class="curve (c\d)" opacity="([\d.]+)" points="([^"]*)"', svg)
    assert [style for style, _, _ in drawn] == ["c0", "c0", "c1"], "the best one last, above the others"
    ends = [[tuple(map(float, each.split(","))) for each in points.split()] for _, _, points in drawn]
    frame = charts.TRIALS
    bottom, height = frame.height - frame.bottom, frame.height - frame.top - frame.bottom
    shares = [[(bottom - y) / height for _, y in line] for line in ends]
    assert shares == [pytest.approx(each, abs=1e-3) for each in ([1.0, 0.0], [0.5, 0.25], [0.0, 1.0])]
    assert [x for x, _ in ends[0]] == [frame.left, frame.width - frame.right]
    assert [float(opacity) for _, opacity, _ in drawn] == pytest.approx([0.27, 0.53, 1.0], abs=0.01)
    equal = [trial(0, 0.5), trial(1, 0.5)]
    space: dict[str, SpaceConfig] = {"rate": FloatRange(low=0.0, high=1.0)}
    assert "nan" not in charts.parallel(Table("s", "accuracy", True, equal), equal, space)


def test_each_chart_has_its_metrics_and_those_of_many_sizes_a_logarithmic_axis() -> None:
    assert {chart.title: (" ".join(chart.names), chart.log) for chart in charts.CHARTS} == {
        "loss": ("train/loss validation/loss", True),
        "accuracy": ("train/accuracy validation/accuracy", False),
        "squared error": ("train/squared_error validation/squared_error", True),
        "learning rate": ("train/learning_rate", False),
        "norm of the gradient": ("train/gradient_norm", True),
        "update relative to the weights": ("train/update_ratio", True),
        "milliseconds per step": ("train/step_ms", True),
    }


def places(svg: str) -> list[tuple[str, list[tuple[float, float]]]]:
    """The class of each curve, and its points as shares of the width and of the height above the axis."""
    width = charts.CURVES.width - charts.CURVES.left - charts.CURVES.right
    height = charts.CURVES.height - charts.CURVES.top - charts.CURVES.bottom
    drawn = re.findall(r'<polyline class="([^"]*)" points="([^"]*)"', svg)
    found = []
    for style, points in drawn:
        pairs = [tuple(map(float, each.split(","))) for each in points.split()]
        shares = [
            ((x - charts.CURVES.left) / width, (charts.CURVES.height - charts.CURVES.bottom - y) / height)
            for x, y in pairs
        ]
        found.append((style, [*dict.fromkeys((round(x, 2), round(y, 2)) for x, y in shares)]))
    return found


def test_points_of_a_curve_are_at_their_step_and_their_value() -> None:
    one = charts.Curve("train", [(10, 0.0), (40, 1.0)])
    two = charts.Curve("validation", [(20, 0.5)], 1, dashed=True)
    svg = charts.draw("loss", [one, two])
    assert places(svg) == [("curve c0", [(0.25, 0.0), (1.0, 1.0)]), ("curve c1 dashed", [(0.5, 0.5)])]
    assert svg.count("<circle") == 3 and ">train<" in svg and ">validation<" in svg
    alone = charts.draw("loss", [one])
    assert ">train<" not in alone, "of one curve there is no legend"
    many = [(step, step / 13) for step in range(1, 14)]
    assert "<circle" not in charts.draw("x", [charts.Curve("a", many)])
    assert charts.draw("x", [charts.Curve("a", many[:12])]).count("<circle") == 12


def test_an_axis_is_logarithmic_where_values_are_more_than_tenfold_apart() -> None:
    def heights(values: list[float], log: bool = True) -> list[float]:
        points = [(step, value) for step, value in enumerate(values, 1)]
        [(_, drawn)] = places(charts.draw("x", [charts.Curve("", points)], log))
        return [y for _, y in drawn]

    assert heights([1.0, 10.0, 100.0]) == [0.0, 0.5, 1.0] and heights([100.0, 0.01]) == [1.0, 0.0]
    assert heights([1.0, 10.0, 100.0], log=False) == [0.0, 0.09, 1.0]
    assert heights([1.0, 5.5, 10.0]) == [0.0, 0.5, 1.0], "just tenfold"
    assert heights([0.0, 50.0, 100.0]) == heights([-100.0, 0.0, 100.0]) == [0.0, 0.5, 1.0]
    assert len(set(heights([3.0, 3.0]))) == 1, "of one value a line"


def test_curves_of_two_runs_are_in_one_plot_each_with_its_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, list[Any]] = {}
    monkeypatch.setattr(charts, "draw", lambda title, lines, log: drawn.setdefault(title, [*lines, log]) and title)
    line = [(1, 1.0), (2, 0.5)]
    runs: Any = {"a": {"train/loss": line, "validation/loss": [(1, 2.0), (2, 3.0)]}, "b": {"train/loss": line[::-1]}}
    assert [title for title, _ in charts.draw_both(runs)] == ["loss"]
    *lines_drawn, log = drawn["loss"]
    assert log and [(line.label, line.colour, line.dashed) for line in lines_drawn] == [
        ("train a", 0, False),
        ("validation a", 0, True),
        ("train b", 1, False),
    ]


def test_pictures_of_trials_are_drawn_where_two_have_a_score() -> None:
    space: dict[str, SpaceConfig] = {"rate": FloatRange(low=0.0, high=1.0)}

    def titles(*made: Trial) -> list[str]:
        table = Table("s", "accuracy", True, list(made))
        return [title for title, _ in trainings.pictures(table, space)]

    assert titles(trial(0, 0.5), trial(1, 0.6)) == ["best so far, by trial", "values and scores of the trials"]
    others: list[list[Trial]] = [[], [trial(1, 0.6, state=PRUNED)], [trial(1, None)]]
    for other in others:
        assert titles(trial(0, 0.5), *other) == []
