"""What a page and a terminal say where a value is missing, zero, at a limit or the only one; what is drawn where."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from jinja2 import UndefinedError
from PIL import Image
from rich.console import Console
from rich.progress import Progress

from tasks.artifacts import Model, Records, Snapshot
from tasks.config.space import FloatRange, SpaceConfig
from tasks.config.task import TASKS
from tasks.display import examples, terminal
from tasks.display import seeds as seeds_in_words
from tasks.display.evaluation import lines as report_lines
from tasks.display.variants import lines
from tasks.display.variants import row as variant_row
from tasks.display.words import describe_search, describe_trial, describe_variant
from tasks.evaluation.metrics import Metric, mean
from tasks.pages import (
    batch,
    comparison_page,
    curves,
    data,
    description,
    evaluation,
    front,
    judgement,
    results,
    samples,
    sections,
    summary,
    templates,
)
from tasks.pages import comparison as comparison_of_runs
from tasks.pages import seeds as seeds_on_page
from tasks.pages import trials as trials_page
from tasks.pages import variants as variants_page
from tasks.pages.comparison import Comparison
from tasks.pages.facts import Facts, StageResult
from tasks.training.seeds import OVER_SEEDS, Choice
from tasks.tuning.table import COMPLETE, FAILED, PRUNED, Table, Trial

FEATURES = {"label": {"classes": ["no", "yes"], "shape": []}, "target": {"shape": [2], "names": ["left", "right"]}}


def pixels(uri: str) -> np.ndarray:
    """The pixels behind the address of a picture."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def test_a_sound_is_shown_with_time_to_the_right_and_high_bands_above() -> None:
    sound = np.array([[0.0, 1.0, 2.0], [4.0, 3.0, 5.0]], np.float32)  # two moments of three bands
    made = batch._pixels("sound", sound)
    assert made.shape == (3, 2, 3) and (made == made[..., :1]).all()
    assert made[..., 0].tolist() == [[102, 255], [51, 153], [0, 204]]
    assert not batch._pixels("sound", np.full((2, 2), 7.0, np.float32)).any(), "silence is black"
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    shown = pixels(batch.picture(grey))
    assert shown.shape == (64, 96, 3) and shown[::32, ::32, 1].tolist() == grey[..., 0].tolist(), "enlarged 32 times"
    assert pixels(batch.picture(np.zeros((200, 300, 3), np.uint8))).shape == (200, 300, 3), "not made smaller"


@pytest.mark.parametrize(
    ("statistics", "said"),
    [
        ({"missing": 0, "count": 0}, ""),
        ({"missing": 1, "count": 0, "mean": 0.0}, "100.0%"),
        ({"missing": 3, "count": 0}, ""),
        ({"missing": 1, "count": 1000}, "0.1%"),
        ({}, ""),
    ],
)
def test_a_share_of_missing_values_is_said_where_there_are_some(statistics: dict[str, Any], said: str) -> None:
    assert data._missing(statistics) == said


def test_a_column_is_described_by_its_middle_or_its_first_values() -> None:
    assert data._middle({"quantiles": {"train": [0, 1, 2.5, 3.25, 4.125, 9, 10]}}) == "3.25 (2.5 to 4.125)"
    for values, said in ((["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d"], "a, b, c, …"), ([], "")):
        assert data._middle({"histogram": {"values": values}}) == said


def test_three_shapes_of_images_are_named_and_the_others_counted() -> None:
    assert data._shapes({"8x9x1": 2, "7x7x3": 1, "1x2x3": 1}) == "8 x 9 x 1, 7 x 7 x 3, 1 x 2 x 3"
    assert data._shapes(dict.fromkeys(("1x1x1", "2x2x1", "3x3x1", "4x4x1", "5x5x1"), 1)).endswith(" and 2 more")


def test_figures_of_columns_are_said_for_each_split_that_has_them() -> None:
    image = {"shapes": {"8x8x1": 9}, "pixels": {"1": {"mean": [12.34], "std": [5.0]}}}
    assert data._figures([image, {"shapes": {}}]) == [
        ("shapes", ["8 x 8 x 1", ""]),
        ("pixels, 1 channel", ["12.3 ± 5.0", ""]),
    ]
    assert data._figures([{}, image])[0] == ("shapes", ["", "8 x 8 x 1"])
    assert data._figures([{"pixels": {"3": {"mean": [1, 2], "std": [3, 4]}}, "shapes": {}}])[1] == (
        "pixels, 3 channels",
        ["1.0, 2.0 ± 3.0, 4.0"],
    )
    numbers = [{"mean": 1.5, "std": 0.25, "min": -1, "max": 12345}, {}]
    assert data._figures(numbers) == [
        ("mean ± standard deviation", ["1.5 ± 0.25", ""]),
        ("range", ["-1 to 1.234e+04", ""]),
    ]
    assert data._figures([{"bytes": {"mean": 1234.5, "min": 7, "max": 9999}}, {"bytes": {}}]) == [
        ("bytes, mean (range)", ["1,234 (7 to 9,999)", ""])
    ]


def test_bars_and_points_of_a_distribution_are_as_high_as_their_share_of_the_highest() -> None:
    svg = data.histogram({"shares": {"train": [0.5, 0.25], "test": [1.0, 0.0]}})
    heights = [float(each) for each in re.findall(r'<rect [^>]*height="([\d.]+)"', svg)]
    tops = [float(each) for each in re.findall(r'<rect [^>]*y="([\d.]+)"', svg)]
    assert heights == [data.HEIGHT / 2, data.HEIGHT / 4] and tops == [data.HEIGHT / 2, data.HEIGHT * 3 / 4]
    [points] = re.findall(r'points="([^"]*)"', svg)
    assert [float(point.split(",")[1]) for point in points.split()] == [0.0, data.HEIGHT]
    across = [float(point.split(",")[0]) for point in points.split()]
    assert across == [data.WIDTH / 4, data.WIDTH * 3 / 4], "in the middle of the bars"


def test_ticks_of_a_range_without_extent_are_its_only_value() -> None:
    assert curves.linear_ticks(2.0, 2.0) == [2.0] and curves.linear_ticks(3.0, 2.0) == [3.0]
    assert curves.linear_ticks(0.0, 1.0) == [0.0, 0.5, 1.0] and curves.linear_ticks(-1.0, 9.0) == [0.0, 5.0]
    assert curves.linear_ticks(0.0, 0.4) == [0.0, 0.1, 0.2, 0.3, 0.4]


def point(size: int, loss: float, **more: Any) -> dict[str, Any]:
    return {"bytes": size, "loss": loss, "latency": None, "accepted": True, "dominated_by": None, **more}


def test_the_line_of_the_front_goes_from_the_smallest_to_the_largest() -> None:
    points = {"c": point(900, 0.0), "a": point(100, 0.3), "b": point(500, 0.1)}
    [path] = re.findall(r'class="curve c0 dashed" points="([^"]*)"', front.draw(points, "loss"))
    places = [tuple(map(float, each.split(","))) for each in path.split()]
    assert len(places) == 3 and places == sorted(places)
    width = front.WIDTH - front.LEFT - front.RIGHT
    assert [x for x, _ in places] == pytest.approx([front.LEFT + width * size / 9 for size in (1, 5, 9)], abs=0.06)
    heights = [y for _, y in places]
    bottom = front.HEIGHT - front.BOTTOM
    assert heights[2] == bottom and heights[0] == pytest.approx(front.TOP), "0 is below, the greatest loss above"
    assert heights[1] == pytest.approx(bottom - (bottom - front.TOP) / 3, abs=0.06)


def test_a_point_of_the_front_is_as_large_as_its_latency_and_crossed_where_it_is_rejected() -> None:
    points = {
        "fast": point(100, 0.0, latency=0.5),
        "slow": point(200, 0.0, latency=2.0),
        "none": point(300, 0.0),
        "out": point(400, 0.0, accepted=False),
        "worse": point(500, 0.1, dominated_by="fast"),
    }
    svg = front.draw(points, "loss")
    shapes = {
        name: svg[svg.index(f"<title>{name}:") :].partition("</g>")[0] for name in points
    }  # each with its own circle
    radii = {name: float(re.findall(r' r="([\d.]+)"', shape)[0]) for name, shape in shapes.items()}
    assert radii["slow"] == 14.0 and radii["fast"] == 9.0 and radii["none"] == 4.0, "its area is its latency"
    assert "0.50 x time" in shapes["fast"] and "x time" not in shapes["none"]
    assert ["<line" in shapes[name] for name in points] == [False, False, False, True, False]
    x1, y1, x2, y2 = (float(re.findall(rf' {end}="([-\d.]+)"', shapes["out"])[0]) for end in ("x1", "y1", "x2", "y2"))
    assert (x2 - x1, y2 - y1) == pytest.approx((8.0, 8.0), abs=0.11), "from corner to corner"
    classes = {name: re.findall(r'<circle class="([^"]*)"', shape)[0] for name, shape in shapes.items()}
    assert classes == {**dict.fromkeys(("fast", "slow", "none"), "dot c0"), "out": "curve c1", "worse": "curve c0"}
    assert front.draw({"a": point(1, 0.0), "b": point(2, 0.0)}, "loss").count("<circle") == 2, "without any latency"


def trial(number: int, value: float | None, **more: Any) -> Trial:
    plain = Trial(number, COMPLETE, {"rate": 0.1}, value, 10, 1.0, None, False, None)
    return replace(plain, **more)


def test_a_line_of_a_trial_ends_at_its_score() -> None:
    made = [
        trial(0, 0.9, values={"rate": 0.0}),
        trial(1, 0.6, values={"rate": 0.5}),
        trial(2, 0.5, values={"rate": 1.0}),
    ]
    svg = trials_page.parallel(Table("s", "accuracy", True, made), made, {"rate": FloatRange(low=0.0, high=1.0)})
    drawn = re.findall(r'<polyline class="curve (c\d)" opacity="([\d.]+)" points="([^"]*)"', svg)
    assert [style for style, _, _ in drawn] == ["c0", "c0", "c1"], "the best one last, above the others"
    ends = [[tuple(map(float, each.split(","))) for each in points.split()] for _, _, points in drawn]
    bottom, height = trials_page.HEIGHT - trials_page.BOTTOM, trials_page.HEIGHT - trials_page.TOP - trials_page.BOTTOM
    shares = [[(bottom - y) / height for _, y in line] for line in ends]
    assert shares == [pytest.approx(each, abs=1e-3) for each in ([1.0, 0.0], [0.5, 0.25], [0.0, 1.0])]
    assert [x for x, _ in ends[0]] == [trials_page.LEFT, trials_page.WIDTH - trials_page.RIGHT]
    assert [float(opacity) for _, opacity, _ in drawn] == pytest.approx([0.27, 0.53, 1.0], abs=0.01)
    equal = [trial(0, 0.5), trial(1, 0.5)]
    space: dict[str, SpaceConfig] = {"rate": FloatRange(low=0.0, high=1.0)}
    assert "nan" not in trials_page.parallel(Table("s", "accuracy", True, equal), equal, space)


def test_an_ended_trial_is_described_by_what_it_has() -> None:
    table = Table("s", "accuracy", True, [trial(0, 0.5), trial(1, 0.25)])
    assert describe_trial(table.trials[0], table) == "accuracy 0.5000, the best, rate 0.1, 1.0 s"
    assert describe_trial(table.trials[1], table) == "accuracy 0.2500, rate 0.1, 1.0 s"
    assert describe_search(table) == "trial 0 of 2 (2 complete): validation accuracy 0.5000, rate 0.1"
    unscored = Table("s", "accuracy", True, [trial(0, None, state=FAILED), trial(1, None, state=PRUNED)])
    assert describe_search(unscored) == "2 trials (1 pruned, 1 failed)"
    cached = trial(2, 0.125, cached=True, seconds=None)
    assert describe_trial(cached, table) == "accuracy 0.1250, rate 0.1, from the store"
    pruned = trial(3, 0.4, state=PRUNED, steps=7)
    assert describe_trial(pruned, table) == f"accuracy 0.4000, {PRUNED} at step 7, rate 0.1, 1.0 s"
    failed = trial(4, None, state=FAILED, steps=0, seconds=None, reason="no memory")
    assert describe_trial(failed, table) == f"{FAILED}, rate 0.1: no memory"


def facts(**more: Any) -> Any:
    return SimpleNamespace(**{"report": None, "one": lambda kind: None, **more})


def balance(supports: list[int], **more: Any) -> str:
    classes = [{"support": support} for support in supports]
    test = {"figures": {"macro_f1": 0.5}, "classes": classes, **more}
    return str(Facts.balance.__get__(facts(report={"splits": {"test": test}})))


def test_macro_f1_is_said_from_a_tenth_above_an_equal_share_or_five_times_another() -> None:
    assert balance([59, 41]) == "" and balance([60, 40]) == "macro F1 0.5000" and balance([30, 20]) != ""
    assert balance([20] * 9 + [5]) == "" and balance([20] * 9 + [4]) != "" and balance([20] * 9 + [0]) == ""
    assert balance([60, 40], figures={}) == ""
    assert Facts.balance.__get__(facts()) == ""


def test_a_result_of_the_store_is_marked_in_the_table_of_a_description() -> None:
    def result(kind: str, cached: bool) -> StageResult:
        return StageResult("stage", "name", kind, "0123456789abcdef", cached, 1.0, "a|b")

    rows = [result("model", False), result("model", True), result("release", True)]
    said = list(description._table(facts(results=rows)))
    assert said[2:] == [
        "| stage | a/b | `model/0123456789ab` |",
        "| stage | a/b, from the store | `model/0123456789ab` |",
        "| stage | a/b | `export/0123456789ab` |",
    ]


def test_what_was_not_decided_is_not_shown() -> None:
    assert evaluation.decision(facts()) == {} and evaluation.decision(facts(report={"splits": {}})) == {}


def artifact(kind: str, digest: str, parents: dict[str, str], size: int = 1000, **statistics: Any) -> Any:
    manifest = {
        "parents": parents,
        "statistics": statistics,
        "produced_by": {"run": "here"},
        "files": [{"bytes": size}],
        "inputs": {"sources": [["a", "b"]] * 3},
    }
    return SimpleNamespace(kind=kind, name=kind, digest=digest, manifest=manifest)


def test_an_artifact_stands_below_its_deepest_parent_or_the_one_that_was_chosen() -> None:
    made = [
        artifact("records", "r", {}),
        artifact("snapshot", "s", {"records": "r"}),
        artifact("model", "m0", {"snapshot": "s", "records": "r"}),
        artifact("model", "m1", {"snapshot": "s"}),
        artifact("model", "m", {"seed0": "m0", "seed1": "m1"}, chosen="seed0"),
        artifact("variant", "v", {"model": "m", "snapshot": "s"}),
        artifact("export", "e", {"model": "m", "variant": "v", "snapshot": "s"}, 2000),
    ]
    config = SimpleNamespace(source=SimpleNamespace(listed="files", name="digits", kind="csv"))
    one = facts(
        named={each.digest: each for each in made},
        one={"records": made[0]}.get,
        config=config,
        run=SimpleNamespace(run_id="here"),
        release=None,
    )
    [source] = sections.lineage(one)
    assert source["what"].startswith("3 raw files of digits") and source["name"] == "csv digits"

    def tree(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {row["digest"]: tree(row["under"]) for row in rows}

    assert tree(source["under"]) == {"r": {"s": {"m0": {"m": {"v": {}, "e": {}}}, "m1": {}}}}
    [_, export] = source["under"][0]["under"][0]["under"][0]["under"][0]["under"]
    assert export["what"] == "2.0 kB with variant" and export["under"] == []
    one.release = {"name": "digits", "version": 7, "alias": "champion"}
    [version] = sections.lineage(one)[0]["under"][0]["under"][0]["under"][0]["under"][0]["under"][1]["under"]
    assert (version["name"], version["what"]) == ("digits version 7", "as champion")
    other = facts(**{**vars(one), "one": lambda kind: None, "run": SimpleNamespace(run_id="later")})
    [root] = sections.lineage(other)
    assert (root["digest"], root["by"], root["what"]) == ("r", "here", "1.0 kB")
    assert source["under"][0]["by"] is None


def test_text_of_data_is_no_markup_and_a_missing_value_of_a_template_is_an_error() -> None:
    environment = templates.environment()
    assert environment.from_string("{{ name }}").render(name="<b>&") == "&lt;b&gt;&amp;"
    with pytest.raises(UndefinedError):
        environment.from_string("{{ missing }}").render()
    assert environment.from_string("{% if true %}\n  a\n  {% endif %}\nb").render() == "  a\nb"


def test_a_prediction_is_right_where_its_class_is_the_label() -> None:
    texts: Any = None
    for label, right in ((1, True), (0, False)):
        arrays = {"label": np.array(label)}
        assert samples._class([[1, 0.876], [0, 0.124]], arrays, FEATURES, texts) == ("yes 88%", right)
    said = samples._labels([[1, 0.9], [0, 0.05]], {}, FEATURES, texts)
    assert said == ("right 90%, left 5%", None)
    assert samples._values([1.23456, -2e9], {}, FEATURES, texts) == ("1.235, -2e+09", None)
    assert samples._right_labels({"target": np.array([0, 1])}, FEATURES) == "right"
    assert samples._right_labels({"target": np.array([0, 0])}, FEATURES) == "none"
    tagged = {"label": np.array([0, 1, -1, 1])}
    assert samples._tags([1, 1, 0, 0], tagged, FEATURES, texts) == ("yes yes no", None)
    assert samples.SHOWN["tagging"][0](tagged, FEATURES) == "no yes yes"
    assert {task: len(shown) for task, shown in samples.SHOWN.items()} == dict.fromkeys(TASKS, 2)
    assert samples.SHOWN["multilabel"] == samples.SHOWN["anomaly"] == samples.SHOWN["ranking"]
    assert samples.SHOWN["multilabel"][1]([[0, 0.5]], {}, FEATURES, texts) == ("left 50%", None)
    assert samples.SHOWN["regression"][0]({"target": np.array([[1.5, 2.0]])}, FEATURES) == "1.5, 2"


def test_a_long_text_is_cut_after_its_first_characters() -> None:
    assert samples.shortened(f"a\n  b{'x' * 157}") == f"a b{'x' * 157}", "160 characters in one line"
    assert samples.shortened("x" * 161) == "x" * 160 + "…"


def variant(name: str, metrics: dict[str, float], **statistics: Any) -> Any:
    return SimpleNamespace(name=name, metrics=metrics, manifest={"statistics": {"bytes": 1000, **statistics}})


def test_a_row_of_a_variant_is_empty_where_nothing_was_measured() -> None:
    one = facts(metric="accuracy", judgement={})
    bare = variants_page._variant(one, variant("v", {}), {})
    assert {key: bare[key] for key in ("gzip", "ratio", "score", "lost", "bound", "slowest", "memory")} == {
        **dict.fromkeys(("gzip", "ratio", "lost", "bound", "slowest", "memory"), ""),
        "score": None,
    }
    metrics = {"v/test/accuracy": 0.9, "v/test/accuracy_loss": 0.0, "v/test/accuracy_loss/high": 0.02}
    row: dict[str, Any] = {"batch": 1, "threads": 1, "conclusive": True, "again": 1.0}
    row["variants"] = {"v": {"ratio": 0.5, "p50": 0.05, "p90": 1.0, "p99": 20.0}}
    other = {"batch": 8, "threads": 2, "variants": {}}
    made = variants_page._variant(
        one, variant("v", metrics, gzip_bytes=500), {"settings": [row, other], "peak_bytes": {"v": 0}}
    )
    assert (made["lost"], made["bound"], made["gzip"]) == ("0.0000", "at most 0.0200", "0.5 kB after gzip")
    assert made["slowest"] == "0.50 x"
    assert made["latency"] == [("0.50 x", "50 µs / 1 ms / 20 ms"), ("", "")] and made["memory"] == "0.1 kB"
    assert [variants_page.setting(each) for each in (row, other)] == ["batch 1, 1 thread", "batch 8, 2 threads"]


def test_a_line_of_a_variant_says_its_score_and_its_loss_where_it_was_compressed() -> None:
    metrics = {"v/test/accuracy": 0.9, "v/test/accuracy_loss": 0.0}
    assert variant_row(variant("v", metrics, methods=["int8"]), {}, "accuracy")[3] == "accuracy 0.9000 (loses 0.0000)"
    assert variant_row(variant("v", metrics, methods=[]), {}, "accuracy")[3] == "accuracy 0.9000"
    unmeasured = variant_row(variant("v", {}, methods=["int8"]), {}, "accuracy")
    assert unmeasured[2:5] == ("", "", "")
    assert list(lines([], {}, "accuracy")) == []
    short, long = variant("a", {}), variant("longer", {})
    long.manifest["statistics"]["bytes"] = 123_456
    assert [each.rstrip() for each in lines([short, long], {}, "accuracy")] == ["a         1.0 kB", "longer  123.5 kB"]


def test_a_choice_among_seeds_is_said_with_the_interval_of_each_split() -> None:
    metrics = {
        f"{OVER_SEEDS}/validation/accuracy": 0.9,
        f"{OVER_SEEDS}/validation/accuracy/low": 0.85,
        f"{OVER_SEEDS}/validation/accuracy/high": 0.95,
        f"{OVER_SEEDS}/test/accuracy": 0.8,
    }
    choice: Any = SimpleNamespace(
        metric="accuracy", metrics=metrics, seeds={"seed0": {}, "seed1": {}}, verdict="seed1 was chosen"
    )
    assert seeds_in_words.summary(choice) == [
        "mean over 2 seeds, 95 % t interval: validation accuracy 0.9000 (0.8500 to 0.9500), test accuracy 0.8000",
        "seed1 was chosen",
    ]


def model(digest: str, name: str = "model", run: Any = None, **parents: str) -> Any:
    return SimpleNamespace(digest=digest, kind="model", name=name, folder=run, manifest={"parents": parents})


def trained_facts(folders: dict[str, Path], chosen: Any, choice: Any, *seeds: Any) -> Any:
    return facts(
        one={"model": chosen}.get,
        choice=choice,
        named={each.digest: each for each in (chosen, *seeds)},
        maker=lambda artifact: folders.get(artifact.digest),
    )


def test_the_models_of_a_run_are_those_of_its_seeds_or_its_only_one(tmp_path: Path) -> None:
    runs = {digest: tmp_path / digest for digest in ("one", "two", "alone")}
    for digest, folder in runs.items():
        folder.mkdir()
        names = {"one": "seed0", "two": "seed1", "alone": "model"}
        stages = {"train": [{"name": "other", "digest": "x"}, {"name": names[digest], "digest": digest}]}
        (folder / "run.json").write_text(json.dumps({"stages": stages}))
    alone = trained_facts(runs, model("alone"), None)
    assert [*seeds_on_page.trained(alone).items()] == [("model", alone.one("model"))]
    assert seeds_on_page.own_folder(alone) == runs["alone"]
    chosen = model("chosen", seed0="one", seed1="two", seed2="gone")
    choice = SimpleNamespace(seeds={"seed0": {}, "seed1": {}, "seed2": {}}, chosen="seed1")
    several = trained_facts(runs, chosen, choice, model("one"), model("two"))
    assert {name: each.digest for name, each in seeds_on_page.trained(several).items()} == {
        "seed0": "one",
        "seed1": "two",
    }, "those that are in the store"
    assert seeds_on_page.own_folder(several) == runs["two"] / "seed1"
    choice.chosen = "average"
    assert seeds_on_page.own_folder(several) is None
    assert seeds_on_page.trained(facts(choice=None)) == {} and seeds_on_page.own_folder(facts(choice=None)) is None
    assert seeds_on_page.seeds(facts(choice=None)) == {}
    assert seeds_on_page.points_of(several, model("gone")) == {} and comparison_page._points(facts(choice=None)) == {}
    assert seeds_on_page.name_in(tmp_path, model("one")) == "model"


def bounded(value: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, **more}


GROUPS = {
    "column": "town",
    "compared": 3,
    "correction": "Holm",
    "rows": [
        {"group": "Ulm", "examples": 50, "measure": "true_positive_rate", "value": 0.0, "rest": 0.5}
        | {"difference": bounded(-0.5), "p_value": 0.001, "beyond_chance": True},
        {"group": "Ulm", "examples": 50, "measure": "precision", "value": None, "rest": 0.5, "difference": None},
    ],
    "largest_differences": {"true_positive_rate": 0.5, "precision": None, "accuracy": 0.0},
    "too_small": {"Hof": 1234, "Ulm": 3},
}


def test_groups_and_slices_are_shown_with_what_they_are_compared_with() -> None:
    found: dict[str, Any] = {
        "slices": [bounded(0.5, slice="a", examples=9, rest=0.75, p_value=0.2, beyond_chance=False)]
    }
    found |= {"looked_at": 1234, "least_examples": 20, "correction": "Holm", "columns_left_out": ["a", "b"]}
    test = {"groups": GROUPS, "worst_slices": found}
    one = facts(report={"splits": {"test": test}})
    made = evaluation.groups(one)
    assert [(row["measure"], row["value"], row["rest"]) for row in made["rows"]] == [
        ("true positive rate", "0.0000", "0.5000")
    ]
    assert made["rows"][0]["chance"] == "beyond chance, p = 0.001" and made["rows"][0]["beyond"] is True
    assert made["largest"] == [("true positive rate", "0.5000")] and made["too_small"] == "Hof (1,234), Ulm (3)"
    shown = evaluation.worst_slices(one)
    assert shown["rows"] == [
        {"slice": "a", "examples": 9, "value": "0.5000 [0.4000, 0.6000]", "rest": "0.7500"}
        | {"chance": "may be chance, p = 0.2", "beyond": False}
    ]
    said = "1,234 slices of at least 20 examples were looked at; without a, b, which differ within an example"
    assert shown["looked_at"] == f"{said}; p-values by Holm's method"
    assert list(report_lines({"primary": {"metric": "macro_f1"}, "splits": {"test": test}})) == [
        ("slices", shown["looked_at"]),
        ("", "a: macro f1 0.5000 [0.4000, 0.6000] of 9; may be chance, p = 0.2"),
        ("groups", "by town, each against all others; 3 comparisons, p-values by Holm's method"),
        (
            "",
            "Ulm: true positive rate 0.0000, others 0.5000; difference -0.5000 [-0.6000, -0.4000]; "
            "beyond chance, p = 0.001",
        ),
    ]
    assert evaluation.groups(facts(report={"splits": {"test": {}}})) == {}
    assert evaluation.worst_slices(facts(report={"splits": {"test": {}}})) == {}


def test_a_decision_is_shown_before_and_after_and_at_half() -> None:
    at = {name: bounded(0.6) for name in evaluation.MEASURES}
    half = dict.fromkeys(evaluation.MEASURES, 0.55)
    test = {
        "calibration": {"before": {"log_loss": {"value": 0.5}}, "after": {"log_loss": {"value": 0.25}}},
        "thresholds": [{"decision": "yes", "threshold": 0.123456, "at_threshold": at, "at_half": half}],
    }
    report = {"decision": {"temperature": 1.23456}, "splits": {"test": test}}
    made = evaluation.decision(facts(report=report))
    assert made["temperature"] == "1.235"
    assert made["calibration"] == [{"name": "log loss", "before": "0.5000", "after": "0.2500"}]
    [row] = made["thresholds"]
    assert row["threshold"] == "0.1235" and row["cells"] == [("0.6000", "0.5000 to 0.7000", "0.5500 at 0.5")] * 6
    bare = evaluation.decision(facts(report={"decision": {}, "splits": {"test": {}}}))
    assert (bare["temperature"], bare["calibration"], bare["thresholds"]) == (None, [], [])


def test_a_report_is_said_in_lines_of_what_it_has() -> None:
    at = {name: bounded(0.6) for name in ("precision", "recall", "f1")}
    half = dict.fromkeys(at, 0.55)
    before = {"loss": {"value": 0.5}, "calibration_error": {"value": 0.125}}
    after = {"loss": {"value": 0.25}, "calibration_error": {"value": 0.0625}}
    test = {
        "tokens": 1234,
        "cut": 0,
        "without_entities": "2 sentences have no entity",
        "calibration": {"before": before, "after": after},
        "thresholds": [{"decision": "yes", "threshold": 0.25, "at_threshold": at, "at_half": half}],
        "robustness": [
            {"probe": "noise", "value": 0.5, "drop": bounded(0.25)},
            {"probe": "blur", "value": 0.25, "drop": bounded(0.5)},
        ],
    }
    report = {"primary": {"metric": "macro_f1"}, "decision": {"temperature": 2.0}, "splits": {"test": test}}
    of = "0.6000 [0.5000, 0.7000] (at 0.5: 0.5500)"
    expected = [
        ("tokens", "1,234; 2 sentences have no entity"),
        (
            "calibrate",
            "temperature 2, fitted on validation: loss 0.5000, then 0.2500, calibration error 0.1250, then 0.0625",
        ),
        ("threshold", f"yes above 0.25, chosen on validation: precision {of}, recall {of}, f1 {of}"),
        ("probes", "noise: macro f1 0.5000, drop 0.2500 [0.1500, 0.3500]"),
        ("", "blur: macro f1 0.2500, drop 0.5000 [0.4000, 0.6000]"),
    ]
    assert list(report_lines(report)) == expected
    for part in (before, after):
        del part["calibration_error"]
    test |= {"cut": 5}
    del test["without_entities"]
    shorter = list(report_lines(report))
    assert shorter[0] == ("tokens", "1,234; 5 more were cut, and have no tag")
    assert shorter[1] == ("calibrate", "temperature 2, fitted on validation: loss 0.5000, then 0.2500")
    assert list(report_lines({"primary": {"metric": "rmse"}, "splits": {"test": {}}})) == []


def side(metrics: dict[str, float], minimised: str | None, **more: Any) -> Any:
    config = SimpleNamespace(model=SimpleNamespace(task="classification"))
    return facts(metrics=metrics, minimised=minimised, config=config, metric="accuracy", **more)


def test_losses_are_compared_where_they_are_of_one_kind() -> None:
    metrics = {"test/accuracy": 0.5, "test/loss": 1.0}
    one, other = side(metrics, "cross_entropy"), side({**metrics, "test/accuracy": 0.75}, "own:focal")
    pairs: Any = {"test": None, "validation": None}
    assert [row.name for row in results.compare(one, one, pairs)] == ["test/accuracy", "test/loss"]
    [row] = results.compare(one, other, pairs)
    assert (row.name, row.a, row.b, row.higher_is_better) == ("test/accuracy", 0.5, 0.75, True)
    [row] = results.compare(side({"test/accuracy": 0.5}, "a"), side(metrics, "a"), pairs)
    assert row.name == "test/accuracy", "what both have"


def test_records_have_the_same_examples_where_keys_and_contents_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def records(digest: str, count: int, sources: dict[str, str], keys: str = "") -> Any:
        manifest = {"counts": {"test": count}, "inputs": {"sources": [*sources.items()]}}
        return SimpleNamespace(digest=digest, manifest=manifest, keys=list(keys or sources))

    monkeypatch.setattr(results, "_keys", lambda made, split: made.keys)
    one = records("a", 2, {"x": "1", "y": "2"})
    assert results._same_examples(one, records("a", 3, {}), "test"), "the same records, whatever they say"
    assert results._same_examples(one, records("b", 2, {"x": "1", "y": "2"}), "test")
    assert not results._same_examples(one, records("b", 3, {"x": "1", "y": "2"}), "test")
    assert not results._same_examples(one, records("b", 2, {"y": "2", "x": "1"}), "test")
    assert not results._same_examples(one, records("b", 2, {"x": "1", "y": "3"}), "test")
    rows = {"file": "1"}  # the content of a row of a table is not known by its key
    assert not results._same_examples(records("a", 2, rows, "xy"), records("b", 2, rows, "xy"), "test")
    assert not results._same_examples(records("c", 2, rows, "xy"), one, "test")
    assert not results._same_examples(one, records("b", 2, rows, "xy"), "test")


def test_a_row_of_a_comparison_says_by_what_it_was_compared() -> None:
    metric = Metric(lambda values: values, mean, share=True)

    def half(values: list[float], **metrics: float) -> Any:
        contributions = SimpleNamespace(
            metrics={"accuracy": metric}, values={"accuracy": np.array(values)[:, None]}, examples=len(values)
        )
        evaluate = SimpleNamespace(resamples=200)
        config = SimpleNamespace(model=SimpleNamespace(task="classification"), evaluate=evaluate)
        flat = {
            "test/accuracy": float(np.mean(values)),
            **{f"test/accuracy/{key}": each for key, each in metrics.items()},
        }
        return contributions, facts(metrics=flat, config=config, judged="images", minimised=None)

    def row(one: Any, other: Any, paired: bool = True) -> Any:
        pair = (one[0], other[0]) if paired else None
        return results._row(one[1], other[1], "test/accuracy", "accuracy", pair)

    alone = row(half([0.0], low=0.0, high=0.0), half([1.0], low=0.5, high=1.0))
    assert (alone.name, alone.a, alone.b, alone.difference) == ("test/accuracy", 0.0, 1.0, 1.0)
    assert alone.by == "one example: no interval" and not alone.more_than_noise
    few = row(half([0.0, 1.0] * 9), half([1.0, 1.0] * 9))
    assert few.by == "paired bootstrap over 18 images, too few for 95 % and McNemar's test" and few.difference == 0.5
    many = row(half([0.0, 1.0] * 10), half([1.0, 1.0] * 10))
    assert many.by == "paired bootstrap over 20 images and McNemar's test" and many.more_than_noise
    assert many.interval is not None and many.interval[0] > 0 and not many.same
    lacking = half([0.0, 1.0])
    lacking[0].values = {}
    assert row(lacking, half([0.0, 1.0])).by == row(half([0.0, 1.0]), lacking).by == "no interval"
    same = row(half([0.0, 1.0] * 10), half([0.0, 1.0] * 10))
    assert same.same and not same.more_than_noise
    for one, other in ((half([0.0, 1.0]), half([1.0])), (half([1.0, 0.0]), half([1.0, 1.0]))):
        assert row(one, other, paired=len(one[0].values["accuracy"]) == 1).by == "no interval"


def test_splits_are_shown_in_the_order_of_a_training_and_further_ones_behind_them() -> None:
    counts = {"later": 4, "test": 3, "train": 1, "validation": 2}
    statistics = {"splits": {name: {"label": {"classes": {"a": count}}} for name, count in counts.items()}}
    records = SimpleNamespace(manifest={"statistics": statistics, "counts": counts, "features": {}})
    made = data.data(facts(one=lambda kind: records))
    assert list(made["splits"].items()) == [("train", 1), ("validation", 2), ("test", 3), ("later", 4)]
    assert made["total"] == 10 and [count for count, _ in made["balance"][0]["rows"][0]["counts"]] == [1, 2, 3, 4]
    assert data.data(facts()) == {}


def test_the_first_lines_of_a_text_are_shown_as_wide_as_there_is_room() -> None:
    sample = {"prompt": "a\tb", "text": "\n" + "x" * 100}
    assert list(summary._sample(sample, 40)) == ["  sample    │ a   b", f"  {'':<9} │ {'x' * 26}"]
    long = {"prompt": "", "text": "y\n" * (summary.SAMPLE_LINES + 1)}
    shown = list(summary._sample(long, 200))
    assert len(shown) == summary.SAMPLE_LINES + 1 and shown[-1] == "            │ …"


@pytest.mark.parametrize("chosen", ["int8", "", None])
def test_the_variant_that_was_chosen_is_said(chosen: str | None) -> None:
    judged = {"chosen": chosen} if chosen is not None else {}
    said = list(summary._variants(facts(variants=[], judgement=judged, metric="accuracy")))
    assert said == ([] if chosen is None else [f"  chosen    {chosen}, by compress.want"])


def test_each_chart_has_its_metrics_and_those_of_many_sizes_a_logarithmic_axis() -> None:
    assert {chart.title: (" ".join(chart.names), chart.log) for chart in curves.CHARTS} == {
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
    width = curves.WIDTH - curves.LEFT - curves.RIGHT
    height = curves.HEIGHT - curves.TOP - curves.BOTTOM
    drawn = re.findall(r'<polyline class="([^"]*)" points="([^"]*)"', svg)
    found = []
    for style, points in drawn:
        pairs = [tuple(map(float, each.split(","))) for each in points.split()]
        shares = [((x - curves.LEFT) / width, (curves.HEIGHT - curves.BOTTOM - y) / height) for x, y in pairs]
        found.append((style, [*dict.fromkeys((round(x, 2), round(y, 2)) for x, y in shares)]))
    return found


def test_points_of_a_curve_are_at_their_step_and_their_value() -> None:
    one = curves.Curve("train", [(10, 0.0), (40, 1.0)])
    two = curves.Curve("validation", [(20, 0.5)], 1, dashed=True)
    svg = curves.draw("loss", [one, two])
    assert places(svg) == [("curve c0", [(0.25, 0.0), (1.0, 1.0)]), ("curve c1 dashed", [(0.5, 0.5)])]
    assert svg.count("<circle") == 3 and ">train<" in svg and ">validation<" in svg
    alone = curves.draw("loss", [one])
    assert ">train<" not in alone, "of one curve there is no legend"
    many = [(step, step / 13) for step in range(1, 14)]
    assert "<circle" not in curves.draw("x", [curves.Curve("a", many)])
    assert curves.draw("x", [curves.Curve("a", many[:12])]).count("<circle") == 12


def test_an_axis_is_logarithmic_where_values_are_more_than_tenfold_apart() -> None:
    def heights(values: list[float], log: bool = True) -> list[float]:
        points = [(step, value) for step, value in enumerate(values, 1)]
        [(_, drawn)] = places(curves.draw("x", [curves.Curve("", points)], log))
        return [y for _, y in drawn]

    assert heights([1.0, 10.0, 100.0]) == [0.0, 0.5, 1.0] and heights([100.0, 0.01]) == [1.0, 0.0]
    assert heights([1.0, 10.0, 100.0], log=False) == [0.0, 0.09, 1.0]
    assert heights([1.0, 5.5, 10.0]) == [0.0, 0.5, 1.0], "just tenfold"
    assert heights([0.0, 50.0, 100.0]) == heights([-100.0, 0.0, 100.0]) == [0.0, 0.5, 1.0]
    assert len(set(heights([3.0, 3.0]))) == 1, "of one value a line"


def own_row(kind: str, cached: bool = False, name: str = "release") -> dict[str, Any]:
    return {"name": name, "kind": kind, "digest": "d" * 64, "cached": cached, "seconds": 2.5}


def test_a_result_is_said_by_its_release_its_search_or_what_is_left_of_it() -> None:
    stages = {"tune": [own_row("study")], "train": [own_row("model", cached=True)], "promote": [own_row("release")]}
    one = facts(stages=stages, named={}, release={"verdict": "became champion"}, trials=None)
    rows = vars(Facts)["results"].func(one)
    assert [(row.stage, row.what, row.cached, row.seconds) for row in rows] == [
        ("tune", "", False, 2.5),
        ("train", "is no longer in the store", True, 2.5),
        ("promote", "became champion", False, 2.5),
    ]
    assert vars(Facts)["results"].func(facts(**{**vars(one), "release": None}))[-1].what == ""


def finished(**more: Any) -> Any:
    rows = [StageResult("train", "model", "model", "d", cached, 1.5, "a model") for cached in (True, False, True)]
    given = {"results": rows, "record": {"status": "awaiting_approval", "flow": "release"}, "score": None}
    return facts(**{**given, "choice": None, "sample": None, "variants": [], "release": None, **more})


def test_a_summary_says_what_came_from_the_store_and_how_good_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(summary, "_next", lambda one: "NEXT")
    run: Any = SimpleNamespace(folder=tmp_path)

    def said(one: Any) -> list[str]:
        monkeypatch.setattr(summary, "Facts", lambda run: one)
        return [*summary.lines(run, 95.0)]

    lines = said(finished(score="test accuracy 0.9"))
    assert lines[1] == "release awaiting approval: 1:35 min in all, 4.5 s in the stages, 2 of 3 results from the store"
    assert lines[3:] == ["  quality   test accuracy 0.9", f"  page      {tmp_path / 'page.html'}", "  next      NEXT"]
    fresh = finished(results=[StageResult("train", "model", "model", "d", False, 1.5, "a model")])
    assert said(fresh)[1].endswith("1.5 s in the stages") and len(said(fresh)) == 5
    export = SimpleNamespace(path=tmp_path / "store", digest="e" * 64)
    released = finished(one={"export": export}.get, release={"verdict": "became champion of " + "x " * 60})
    assert said(released)[3].startswith("  release   became champion") and f"  export    {export.path}" in said(
        released
    )
    assert summary.in_a_line(run) == released.release["verdict"]
    said(finished(results=fresh.results))
    assert summary.in_a_line(run) == "a model"
    said(finished(results=finished().results[:1]))
    assert summary.in_a_line(run) == "nothing new: a model"
    said(finished(score="test accuracy 0.9"))
    assert summary.in_a_line(run) == "test accuracy 0.9"


def test_latencies_are_those_of_the_run_or_of_the_one_that_made_the_variants(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, latency in ((own, {}), (other, {"settings": [1]})):
        folder.mkdir()
        (folder / "measurements.json").write_text(json.dumps({"latency": latency}))
    made = SimpleNamespace(digest="v")
    one = facts(run=SimpleNamespace(folder=own), variants=[made], maker={made.digest: other}.get)
    one.maker = lambda artifact: other
    assert variants_page.latency_of(one) == {"settings": [1]}
    one.maker = lambda artifact: None
    assert variants_page.latency_of(one) == {}
    one.run.folder = other
    assert variants_page.latency_of(one) == {"settings": [1]}
    one.variants = []
    assert variants_page.latency_of(one) == {}, "a run without variants has none"


def test_each_metric_that_was_measured_has_a_row_with_what_it_means() -> None:
    evaluate = SimpleNamespace(own_metrics={"profit": "own.metrics:profit"})
    config = SimpleNamespace(model=SimpleNamespace(task="classification"), evaluate=evaluate)
    metrics = {"test/accuracy": 0.9, "validation/loss": 0.5, "test/profit": 2.0, "test/majority_accuracy": 0.25}
    rows = judgement.metrics(facts(config=config, metrics=metrics))
    assert [(row["name"], row["better"]) for row in rows] == [
        ("accuracy", "higher is better"),
        ("loss", "lower is better"),
        ("profit", "own.metrics:profit"),
        ("majority accuracy", "of always predicting the most frequent class"),
    ]
    assert [row["values"] for row in rows[:2]] == [[None, ("0.9000", "")], [("0.5000", ""), None]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((2, 3, 1), np.uint8), ["  x: 2 x 3 x 1 pixels"]),
        (np.zeros((2, 1), np.uint8), ["  x: 0, 0"]),
        (np.array([1.0, np.nan, 1e-7, 123456.0]), ["  x: 1, missing, 1e-07, 1.2346e+05"]),
        (np.arange(12), [f"  x: {', '.join(map(str, range(12)))}"]),
        (np.arange(13), [f"  x: {', '.join(map(str, range(12)))}, …"]),
        ("a\n b", ["  x: a b"]),
        ("", ["  x: missing"]),
        ("y" * 300, [f"  x: {'y' * 300}"]),
        ("y" * 301, [f"  x: {'y' * 300}…"]),
    ],
)
def test_a_value_of_an_example_is_said_in_a_line(value: Any, said: list[str]) -> None:
    assert list(examples._value("x", value, False)) == said


def test_an_image_is_drawn_as_two_rows_of_pixels_in_each_line() -> None:
    pixels = np.array([[[0], [255]], [[7], [8]]], np.uint8)
    _, line = examples._value("x", pixels, True)
    cells = ("0;0;0;48;2;7;7;7", "255;255;255;48;2;8;8;8")
    assert line == "    " + "".join(f"\x1b[38;2;{each}m▀" for each in cells) + "\x1b[0m"
    assert len(list(examples._value("x", np.zeros((64, 64, 3), np.uint8), True))) == 1 + 16, "32 pixels wide"


def test_an_artifact_is_known_after_all_of_its_ancestors_that_are_there(tmp_path: Path) -> None:
    for name in ("r", "s", "m"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text('{"inputs": {"config": {}}, "parents": {}}')
    records, snapshot = Records("r", tmp_path / "r", "x"), Snapshot("s", tmp_path / "s", "x")
    parents = {"m": {"snapshot": snapshot}, "s": {"records": records}}
    one = Facts.__new__(Facts)
    one.named = {}
    store = SimpleNamespace(parents_of=lambda artifact: parents.get(artifact.digest, {}))
    one.run = SimpleNamespace(store=store)  # type: ignore[assignment]
    one._take(Model("m", tmp_path / "m", "model"))
    one._take(Model("gone", tmp_path / "gone", "model"))
    assert [(each.digest, each.name) for each in one.named.values()] == [
        ("r", "records"),
        ("s", "snapshot"),
        ("m", "model"),
    ]


def test_classes_are_shown_by_their_number_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "CLASSES", 2)
    rows = [{"class": name, "support": support} for name, support in (("a", 1), ("b", 5), ("c", 9))]

    def shown(**test: Any) -> list[str]:
        return [row["class"] for row in judgement.classes(facts(report={"splits": {"test": test}}))]

    assert shown(classes=rows) == ["c", "b"] and shown(classes=rows[:2]) == ["a", "b"]
    assert shown(entities=rows[:1], classes=rows[1:2]) == ["a", "b"] and shown() == []
    sliced = [{"slice": row["class"], "low": 0.1, "high": 0.2, "examples": row["support"]} for row in rows]
    of = [judgement._shown_slices(facts(report={"splits": {"test": {"slices": sliced[:count]}}})) for count in (2, 3)]
    assert [[row["slice"] for row in each] for each in of] == [["a", "b"], ["c", "b"]]


def test_curves_of_two_runs_are_in_one_plot_each_with_its_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, list[Any]] = {}
    monkeypatch.setattr(curves, "draw", lambda title, lines, log: drawn.setdefault(title, [*lines, log]) and title)
    line = [(1, 1.0), (2, 0.5)]
    runs: Any = {"a": {"train/loss": line, "validation/loss": [(1, 2.0), (2, 3.0)]}, "b": {"train/loss": line[::-1]}}
    assert [title for title, _ in curves.draw_both(runs)] == ["loss"]
    *lines_drawn, log = drawn["loss"]
    assert log and [(line.label, line.colour, line.dashed) for line in lines_drawn] == [
        ("train a", 0, False),
        ("validation a", 0, True),
        ("train b", 1, False),
    ]


def test_models_of_seeds_are_rows_with_the_metrics_that_decide_first() -> None:
    metrics = {
        name: {"validation/accuracy": score, "validation/loss": 1.0, "test/accuracy": 0.5, "test/loss": 2.0}
        for name, score in (("seed_0", 0.75), ("seed_1", 0.5), ("average", 0.25))
    }
    runs = {name: {"seed": 2**60, "steps": 9, "metrics": metrics[name]} for name in ("seed_0", "seed_1")}
    choice = Choice("accuracy", "seed_0", "average", runs, metrics["average"], {})
    rows = seeds_in_words.table(choice)
    assert [(row["model"], row["chosen"], row["seed"], row["steps"]) for row in rows] == [
        ("seed_0", "yes", str(2**60), 9),
        ("seed_1", "", str(2**60), 9),
        ("average", "", "", ""),
    ]
    columns = ["validation/accuracy", "validation/loss", "test/accuracy", "test/loss"]
    assert all(list(row)[4:] == columns for row in rows) and rows[1]["validation/accuracy"] == 0.5
    alone = Choice("accuracy", "seed_0", "best", runs, None, {})
    assert [row["model"] for row in seeds_in_words.table(alone)] == ["seed_0", "seed_1"]


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 0), (2, 2), (3, 3)])
def test_attempts_are_shown_where_there_were_several(count: int, shown: int) -> None:
    rows: list[dict[str, Any]] = [{"number": number} for number in range(count)]
    if rows:
        rows[-1]["status"] = "completed"
    made = sections.attempts(facts(record={"attempts": rows}))
    assert len(made) == shown
    assert [row["status"] for row in made] == ["killed"] * (shown - 1) + ["completed"] * bool(shown), (
        "no end, no status"
    )


def console(monkeypatch: pytest.MonkeyPatch, live: bool, width: int = 100) -> io.StringIO:
    """What the terminal shows, without colours."""
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "terminal", Console(file=shown, width=width, force_terminal=live, no_color=True))
    monkeypatch.setattr(terminal, "is_live", lambda: live)
    return shown


@pytest.mark.parametrize(
    ("live", "cached", "mark"), [(False, True, "="), (False, False, "+"), (True, True, "●"), (True, False, "✓")]
)
def test_a_finished_stage_has_a_mark_by_where_its_result_came_from(
    live: bool, cached: bool, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = console(monkeypatch, live)
    terminal.Stage("train", "model", None).finish("9 steps", cached, 95.0)
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown.getvalue())
    assert plain.split() == [mark, "train", "1:35", "min", "9", "steps"]


def test_a_stage_says_how_long_it_has_worked_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, clock = console(monkeypatch, False), iter([100.0, 130.5, 190.0])
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    stage = terminal.Stage("train", "model", None)
    stage.beat()
    stage.progress(1234, 5678, "steps", {"step_ms": 2.0})
    stage.beat()
    first, second = shown.getvalue().splitlines()
    assert first.split() == ["…", "train", "30.5", "s"]
    assert second.split("  ")[-1] == "steps 1,234/5,678 · 2.0 ms/step" and "1:30 min" in second


@pytest.mark.parametrize(
    ("width", "figures"),
    [(200, "steps 5/9 · 1.0 s left · 2.0 ms/step"), (60, "steps 5/9 · 1.0 s left"), (20, "steps 5/9")],
)
def test_the_last_figures_are_left_out_where_a_terminal_is_narrow(
    width: int, figures: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    console(monkeypatch, True, width)
    bar = Progress(console=terminal.terminal)
    stage = terminal.Stage("train", "model", bar)
    stage.progress(5, 9, "steps", {"step_ms": 2.0, "seconds_left": 1.0})
    [task] = bar.tasks
    assert (task.completed, task.total, task.fields["figures"]) == (5, 9, figures)


@pytest.mark.parametrize("what", ["added", "removed", "changed"])
def test_what_differs_in_the_data_of_two_runs_is_counted_and_named(what: str) -> None:
    raw: dict[str, Any] = {"added": [], "removed": [], "changed": [], "same": 1234}
    comparison: Any = SimpleNamespace(
        raw=SimpleNamespace(**raw), statistics=[], after=SimpleNamespace(counted="images")
    )
    assert list(Comparison._data_lines(comparison)) == ["data: the same"]
    setattr(comparison.raw, what, [f"k{number}" for number in range(7)])
    assert list(Comparison._data_lines(comparison)) == [
        "data: 1,234 images are the same",
        f"  7 {what}: k0, k1, k2, k3, k4 and 2 more",
        "  statistics: the same",
    ]
    setattr(comparison.raw, what, [])
    comparison.statistics = ["train.label: 1 -> 2"]
    assert list(Comparison._data_lines(comparison))[1:] == ["  statistics:", "    train.label: 1 -> 2"]


def test_many_lines_of_a_section_are_cut_and_counted() -> None:
    lines = [f"line {number}" for number in range(comparison_of_runs.MOST)]
    assert list(comparison_of_runs._part("x", lines)) == ["x:", *(f"  {line}" for line in lines)]
    more = list(comparison_of_runs._part("x", [*lines, "a", "b"]))
    assert more[-1].startswith("  and 2 more") and len(more) == len(lines) + 2


def test_a_config_is_shown_a_line_for_each_key_and_is_a_preset() -> None:
    values = {
        "name": "a",
        "train": {"steps": 9, "augment": [{"kind": "flip"}], "loss": None},
        "seed": 0,
        "note": "x: y",
    }
    assert sections.as_yaml({"b": {"c": [1, 2]}, "a": "ü"}) == "b: {c: [1, 2]}\na: ü"
    written = sections.as_preset(values)
    assert written.splitlines()[:3] == ["name: a", "train:", "  steps: 9"] and yaml.safe_load(written) == values
    config = SimpleNamespace(model_dump=lambda mode: values)
    assert [name for name, _ in sections.config(facts(config=config))] == ["run", "train"]


def test_curves_that_another_run_made_are_said_to_be_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(seeds_on_page, "drawn", lambda one: one.drawn)
    monkeypatch.setattr(sections, "ledger", lambda one: "")
    strategy = SimpleNamespace(exact=True)
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    (other / "measurements.json").write_text(
        json.dumps({"train/accumulate": 4, "train/peak_memory_bytes/0": {"host": 5}, "train/ranks": [1]})
    )
    config = SimpleNamespace(train=SimpleNamespace(strategy=strategy))
    run = SimpleNamespace(folder=own, home=SimpleNamespace(runs=tmp_path))
    one = facts(run=run, config=config, one={"model": "m"}.get, maker=lambda made: other, drawn=[("loss", "")])
    made = sections.training(one)
    assert (str(made["by"]), made["accumulate"], made["memory"], made["ranks"]) == (
        *("other", 4),
        *({"host": 5, "accelerator": 0}, [1]),
    )
    one.maker = lambda made: own
    assert sections.training(one)["by"] is None
    one.maker = lambda made: None
    assert sections.training(one)["by"] is None and sections.training(one)["memory"] == {}


def test_pictures_of_trials_are_drawn_where_two_have_a_score() -> None:
    space: dict[str, SpaceConfig] = {"rate": FloatRange(low=0.0, high=1.0)}

    def titles(*made: Trial) -> list[str]:
        table = Table("s", "accuracy", True, list(made))
        return [title for title, _ in trials_page.pictures(table, trials_page.by_rank(table), space)]

    assert titles(trial(0, 0.5), trial(1, 0.6)) == ["best so far, by trial", "values and scores of the trials"]
    others: list[list[Trial]] = [[], [trial(1, 0.6, state=PRUNED)], [trial(1, None)]]
    for other in others:
        assert titles(trial(0, 0.5), *other) == []


def test_keys_of_examples_that_became_right_or_wrong_are_named_up_to_so_many() -> None:
    made = results.Examples(["a", "b", "c"], [], 1234, 5)
    assert list(made.lines(2)) == [
        "1,234 right in both, 5 wrong in both",
        "3 wrong in a, right in b: a, b and 1 more",
        "0 right in a, wrong in b",
    ]
    assert list(made.lines(3))[1] == "3 wrong in a, right in b: a, b, c"


def test_a_comparison_is_said_part_by_part() -> None:
    one = facts(run=SimpleNamespace(run_id="run-1"), record={"flow": "training", "status": "completed"})
    row = results.Row("test/accuracy", 0.5, 0.75, 0.25, by="no interval", higher_is_better=True)
    comparison: Any = SimpleNamespace(
        both=(one, one),
        verdict="b is better",
        _data_lines=lambda: iter(["data: the same"]),
        config=["train.steps: 1 -> 2"],
        code=[],
        history=None,
        environment=[],
        results=[row],
        examples=results.Examples(["k"], [], 1, 0),
    )
    lines = list(Comparison.lines(comparison))
    assert lines[:3] == ["a  run-1  training, completed", "b  run-1  training, completed", "b is better"]
    assert lines[3:6] == ["data: the same", "config:", "  train.steps: 1 -> 2"]
    assert lines[6:8] == ["code: the same", "environment: the same"]
    assert lines[8].split() == ["results:", "a", "b", "b", "-", "a"]
    assert lines[9].split()[:4] == ["test/accuracy", "0.5000", "0.7500", "+0.2500"] and "no interval" in lines[9]
    assert lines[10:12] == ["test examples:", "  1 right in both, 0 wrong in both"]
    comparison.results, comparison.examples = [], None
    comparison.history = SimpleNamespace(commits=["c1"], files=[])
    assert list(Comparison.lines(comparison))[7:] == [
        "  commits that only one has (1):",
        "    c1",
        "  files (0): the same",
        "environment: the same",
    ]


@pytest.mark.parametrize(("ratio", "said"), [(None, ""), (1.0, ""), (0.25, " (0.25 of float)")])
def test_a_variant_is_described_by_its_size_and_score(ratio: float | None, said: str) -> None:
    metrics = {"v/test/rmse": 0.5} | ({} if ratio is None else {"v/size_ratio": ratio})
    made = describe_variant("v", metrics, {"statistics": {"bytes": 1500}})
    assert made == f"v: 1.5 kB{said}, rmse 0.5000"
