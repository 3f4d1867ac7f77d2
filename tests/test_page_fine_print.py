"""What a page and a terminal say where a value is missing, zero, at a limit or the only one; what is drawn where."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from jinja2 import UndefinedError
from PIL import Image

from tasks.artifacts import Model, Records, Release, Snapshot
from tasks.compression.judgement import Judgement
from tasks.config.task import TASKS
from tasks.training.samples import SAMPLES
from tasks.view import columns, comparison, examples, report, run_page, sections, settings, summary, trainings
from tasks.view import summary as description
from tasks.view import variants as variants_page
from tasks.view.attempts import Attempt
from tasks.view.facts import Facts, StageResult
from tests.support.stand_ins import bounded, facts, variant


def released(verdict: str) -> Release:
    return Release("digits", "7", "champion", "", verdict, True)


FEATURES = {"label": {"classes": ["no", "yes"], "shape": []}, "target": {"shape": [2], "names": ["left", "right"]}}


def pixels(uri: str) -> np.ndarray:
    """The pixels behind the address of a picture."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def test_a_sound_is_shown_with_time_to_the_right_and_high_bands_above() -> None:
    sound = np.array([[0.0, 1.0, 2.0], [4.0, 3.0, 5.0]], np.float32)  # two moments of three bands
    made = examples._as_pixels("sound", sound)
    assert made.shape == (3, 2, 3) and (made == made[..., :1]).all()
    assert made[..., 0].tolist() == [[102, 255], [51, 153], [0, 204]]
    assert not examples._as_pixels("sound", np.full((2, 2), 7.0, np.float32)).any(), "silence is black"
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    shown = pixels(examples.picture(grey))
    assert shown.shape == (64, 96, 3) and shown[::32, ::32, 1].tolist() == grey[..., 0].tolist(), "enlarged 32 times"
    assert pixels(examples.picture(np.zeros((200, 300, 3), np.uint8))).shape == (200, 300, 3), "not made smaller"


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
    assert columns.missing(statistics) == said


def test_a_column_is_described_by_its_middle_or_its_first_values() -> None:
    assert columns.middle({"quantiles": {"train": [0, 1, 2.5, 3.25, 4.125, 9, 10]}}) == "3.25 (2.5 to 4.125)"
    for values, said in ((["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d"], "a, b, c, …"), ([], "")):
        assert columns.middle({"histogram": {"values": values}}) == said


def test_three_shapes_of_images_are_named_and_the_others_counted() -> None:
    assert sections._shapes({"8x9x1": 2, "7x7x3": 1, "1x2x3": 1}) == "8 x 9 x 1, 7 x 7 x 3, 1 x 2 x 3"
    assert sections._shapes(dict.fromkeys(("1x1x1", "2x2x1", "3x3x1", "4x4x1", "5x5x1"), 1)).endswith(" and 2 more")


def test_figures_of_columns_are_said_for_each_split_that_has_them() -> None:
    image = {"shapes": {"8x8x1": 9}, "pixels": {"1": {"mean": [12.34], "std": [5.0]}}}
    assert sections._figures([image, {"shapes": {}}]) == [
        ("shapes", ["8 x 8 x 1", ""]),
        ("pixels, 1 channel", ["12.3 ± 5.0", ""]),
    ]
    assert sections._figures([{}, image])[0] == ("shapes", ["", "8 x 8 x 1"])
    assert sections._figures([{"pixels": {"3": {"mean": [1, 2], "std": [3, 4]}}, "shapes": {}}])[1] == (
        "pixels, 3 channels",
        ["1.0, 2.0 ± 3.0, 4.0"],
    )
    numbers = [{"mean": 1.5, "std": 0.25, "min": -1, "max": 12345}, {}]
    assert sections._figures(numbers) == [
        ("mean ± standard deviation", ["1.5 ± 0.25", ""]),
        ("range", ["-1 to 1.234e+04", ""]),
    ]
    assert sections._figures([{"bytes": {"mean": 1234.5, "min": 7, "max": 9999}}, {"bytes": {}}]) == [
        ("bytes, mean (range)", ["1,234 (7 to 9,999)", ""])
    ]


def balance(supports: list[int], **more: Any) -> str:
    classes = [{"class": "c", "support": support} for support in supports]
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
    assert facts(report={"splits": {}}).report.decision is None and list(report.lines(report.ReportContent())) == []


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
    assert source.what.startswith("3 raw files of digits") and source.name == "csv digits"

    def tree(rows: list[sections.Leaf]) -> dict[str, Any]:
        return {row.digest: tree(row.under) for row in rows}

    assert tree(source.under) == {"r": {"s": {"m0": {"m": {"v": {}, "e": {}}}, "m1": {}}}}
    [_, export] = source.under[0].under[0].under[0].under[0].under
    assert export.what == "2.0 kB with variant" and export.under == []
    one.release = released("champion")
    [version] = sections.lineage(one)[0].under[0].under[0].under[0].under[0].under[1].under
    assert (version.name, version.what) == ("digits version 7", "as champion")
    other = facts(**{**vars(one), "one": lambda kind: None, "run": SimpleNamespace(run_id="later")})
    [root] = sections.lineage(other)
    assert (root.digest, root.by, root.what) == ("r", "here", "1.0 kB")
    assert source.under[0].by == ""


def test_text_of_data_is_no_markup_and_a_missing_value_of_a_template_is_an_error() -> None:
    environment = run_page.environment()
    assert environment.from_string("{{ name }}").render(name="<b>&") == "&lt;b&gt;&amp;"
    with pytest.raises(UndefinedError):
        environment.from_string("{{ missing }}").render()
    assert environment.from_string("{% if true %}\n  a\n  {% endif %}\nb").render() == "  a\nb"


def test_a_prediction_is_right_where_its_class_is_the_label() -> None:
    def cell(task: str, kept: Any, **arrays: Any) -> tuple[str, bool | None]:
        return SAMPLES[task].cell(kept, {name: np.array(each) for name, each in arrays.items()}, FEATURES, str)

    def right(task: str, **arrays: Any) -> str:
        return SAMPLES[task].right({name: np.array(each) for name, each in arrays.items()}, FEATURES)

    for label, correct in ((1, True), (0, False)):
        assert cell("classification", [[1, 0.876], [0, 0.124]], label=label) == ("yes 88%", correct)
    assert cell("multilabel", [[1, 0.9], [0, 0.05]]) == ("right 90%, left 5%", None)
    assert cell("anomaly", [[0, 0.5]]) == cell("ranking", [[0, 0.5]]) == ("left 50%", None)
    assert cell("regression", [1.23456, -2e9]) == ("1.235, -2e+09", None)
    assert cell("tagging", [1, 1, 0, 0], label=[0, 1, -1, 1]) == ("yes yes no", None)
    assert right("multilabel", target=[0, 1]) == right("anomaly", target=[0, 1]) == "right"
    assert right("ranking", target=[0, 0]) == "none"
    assert right("tagging", label=[0, 1, -1, 1]) == "no yes yes"
    assert right("regression", target=[[1.5, 2.0]]) == "1.5, 2"
    assert SAMPLES.keys() == TASKS.keys()


def test_a_long_text_is_cut_after_its_first_characters() -> None:
    assert examples.shortened(f"a\n  b{'x' * 157}") == f"a b{'x' * 157}", "160 characters in one line"
    assert examples.shortened("x" * 161) == "x" * 160 + "…"


def test_a_row_of_a_variant_is_empty_where_nothing_was_measured() -> None:
    bare = variants_page.row(variant("v", {}), Judgement(), "accuracy", variants_page.Latency())
    assert (bare.gzip, bare.of_float, bare.memory) == ("", "", "")
    assert (bare.score, bare.loss, bare.bound, bare.slowest, bare.calls) == (None, None, None, None, [])
    metrics = {"v/test/accuracy": 0.9, "v/test/accuracy_loss": 0.0, "v/test/accuracy_loss/high": 0.02}
    speed = variants_page.Speed(0.5, 0.05, 1.0, 20.0)
    settings = (variants_page.Setting(1, 1, {"v": speed}), variants_page.Setting(8, 2))
    latency = variants_page.Latency(settings, peak_bytes={"v": 0})
    made = variants_page.row(variant("v", metrics, gzip_bytes=500), Judgement(), "accuracy", latency)
    assert (made.loss, made.bound, made.gzip) == (0.0, 0.02, "0.5 kB after gzip")
    assert made.slowest == 0.5 and speed.took == "50 µs / 1 ms / 20 ms"
    assert made.calls == [speed, None] and made.memory == "0.1 kB"
    assert [str(each) for each in settings] == ["batch 1, 1 thread", "batch 8, 2 threads"]


def model(digest: str, **parents: str) -> Model:
    return Model(digest, Path(), "model", planned={"parents": parents})


def trained_facts(folders: dict[str, Path], chosen: Any, choice: Any, *seeds: Any) -> Any:
    return facts(
        model=chosen,
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
    assert [*trainings.trained(alone).items()] == [("model", alone.model)]
    assert trainings.own_folder(alone) == runs["alone"]
    chosen = model("chosen", seed0="one", seed1="two", seed2="gone")
    choice = SimpleNamespace(seeds={"seed0": {}, "seed1": {}, "seed2": {}}, chosen="seed1")
    several = trained_facts(runs, chosen, choice, model("one"), model("two"))
    assert {name: each.digest for name, each in trainings.trained(several).items()} == {
        "seed0": "one",
        "seed1": "two",
    }, "those that are in the store"
    assert trainings.own_folder(several) == runs["two"] / "seed1"
    choice.chosen = "average"
    assert trainings.own_folder(several) is None
    none = facts(model=None, choice=None)
    assert trainings.trained(none) == {} and trainings.own_folder(none) is None
    assert (
        trainings.points_of(several, model("gone")) == {} and comparison._points(facts(model=None, choice=None)) == {}
    )
    assert trainings.name_in(tmp_path, model("one")) == "model"


GROUPS = {
    "column": "town",
    "compared": 3,
    "correction": "a method",
    "least_examples": 20,
    "rows": [
        {"group": "Ulm", "examples": 50, "measure": "true_positive_rate", **bounded(0.0), "rest": 0.5}
        | {"difference": bounded(-0.5), "p_value": 0.001, "beyond_chance": True, "few": True},
        {"group": "Ulm", "examples": 50, "measure": "precision", "value": None, "rest": 0.5, "difference": None},
    ],
    "largest_differences": {"true_positive_rate": 0.5, "precision": None, "accuracy": 0.0},
    "too_small": {"Hof": 1234, "Ulm": 3},
}


def test_groups_and_slices_are_shown_with_what_they_are_compared_with() -> None:
    found: dict[str, Any] = {
        "slices": [bounded(0.5, slice="a", examples=9, rest=0.75, p_value=0.2, beyond_chance=False)]
    }
    found |= {"looked_at": 1234, "least_examples": 20, "correction": "method", "columns_left_out": ["a", "b"]}
    found |= {"found_from": {"difference": 0.0123456, "examples": 2100, "power": 0.8}}
    test = {"groups": GROUPS, "worst_slices": found}
    one = facts(report={"splits": {"test": test}})
    made, shown = one.test.groups, one.test.worst_slices
    [row] = made.measured
    assert (row.measure, str(row), row.rest) == ("true_positive_rate", "0.0000 [-0.1000, 0.1000]", 0.5)
    assert row.few and row.beyond_chance and row.chance == "beyond chance, p = 0.001, of few"
    assert made.largest == "true positive rate 0.5000" and made.small == "Hof (1,234), Ulm (3)"
    [part] = shown.slices
    assert (part.name, part.examples, str(part), part.rest) == ("a", 9, "0.5000 [0.4000, 0.6000]", 0.75)
    assert part.chance == "may be chance, p = 0.2" and not part.beyond_chance
    said = "1,234 slices of at least 20 examples were looked at; without a, b, which differ within an example"
    found_from = "a slice of 2,100 that is worse than all others by 0.01235 is found in 80 of 100 cases"
    assert shown.said == f"{said}; p-values by a method; {found_from}, a smaller difference less often"
    content = report.read({"primary": {"metric": "macro_f1"}, "splits": {"test": test}})
    assert list(report.lines(content)) == [
        ("slices", shown.said),
        ("", "a: macro f1 0.5000 [0.4000, 0.6000] of 9; may be chance, p = 0.2"),
        ("groups", "by town, each against all others; 3 comparisons, p-values by a method"),
        (
            "",
            "Ulm: true positive rate 0.0000 [-0.1000, 0.1000], others 0.5000; "
            "difference -0.5000 [-0.6000, -0.4000]; beyond chance, p = 0.001, of few",
        ),
    ]


def test_a_decision_is_shown_before_and_after_and_at_half() -> None:
    at = {name: bounded(0.6) for name in report.MEASURES}
    half = dict.fromkeys(report.MEASURES, 0.55)
    test = {
        "calibration": {"before": {"log_loss": {"value": 0.5}}, "after": {"log_loss": {"value": 0.25}}},
        "thresholds": [{"decision": "yes", "threshold": 0.123456, "at_threshold": at, "at_half": half}],
    }
    content = report.read({"decision": {"temperature": 1.23456}, "splits": {"test": test}})
    calibrated, threshold = list(report.lines(content))
    assert calibrated[1] == "temperature 1.235, fitted on validation: log loss 0.5000, then 0.2500"
    assert threshold[1].startswith(
        "yes above 0.1235, chosen on validation: precision 0.6000 [0.5000, 0.7000] (at 0.5: "
    )
    bare = report.read({"decision": {}, "splits": {"test": {}}})
    assert list(report.lines(bare)) == []


def test_splits_are_shown_in_the_order_of_a_training_and_further_ones_behind_them() -> None:
    counts = {"later": 4, "test": 3, "train": 1, "validation": 2}
    statistics = {"splits": {name: {"label": {"classes": {"a": count}}} for name, count in counts.items()}}
    records = SimpleNamespace(manifest={"statistics": statistics, "counts": counts, "features": {}})
    made = sections.data(facts(one=lambda kind: records))
    assert made is not None
    assert list(made.splits.items()) == [("train", 1), ("validation", 2), ("test", 3), ("later", 4)]
    [(_, [(_, balance)], _)] = made.balance
    assert [count for count, _ in balance] == [1, 2, 3, 4]
    assert sections.data(facts()) is None


def test_the_first_lines_of_a_text_are_shown_as_wide_as_there_is_room() -> None:
    sample = report.Sample("a\tb", "\n" + "x" * 100)
    shown = list(summary.labelled("sample", summary._sample(sample, 40)))
    assert shown == ["  sample    │ a   b", f"  {'':<9} │ {'x' * 26}"]
    long = list(summary._sample(report.Sample("", "y\n" * (summary.SAMPLE_LINES + 1)), 200))
    assert len(long) == summary.SAMPLE_LINES + 1 and long[-1] == "│ …"


@pytest.mark.parametrize("chosen", ["int8", "", None])
def test_the_variant_that_was_chosen_is_said(chosen: str | None) -> None:
    said = list(summary._variants(facts(variants=[], judgement=Judgement(chosen=chosen), metric="accuracy")))
    assert said == ([] if chosen is None else [f"  chosen    {chosen}, by compress.want"])


def own_row(kind: str, cached: bool = False, name: str = "release") -> dict[str, Any]:
    return {"name": name, "kind": kind, "digest": "d" * 64, "cached": cached, "seconds": 2.5}


def test_a_result_is_said_by_its_release_its_search_or_what_is_left_of_it() -> None:
    stages = {"tune": [own_row("study")], "train": [own_row("model", cached=True)], "promote": [own_row("release")]}
    one = facts(stages=stages, named={}, release=released("became champion"), trials=None)
    rows = vars(Facts)["results"].func(one)
    assert [(row.stage, row.what, row.cached, row.seconds) for row in rows] == [
        ("tune", "", False, 2.5),
        ("train", "is no longer in the store", True, 2.5),
        ("promote", "became champion", False, 2.5),
    ]
    assert vars(Facts)["results"].func(facts(**{**vars(one), "release": None}))[-1].what == ""


def finished(**more: Any) -> Any:
    rows = [StageResult("train", "model", "model", "d", cached, 1.5, "a model") for cached in (True, False, True)]
    config = SimpleNamespace(train=SimpleNamespace(losses={}))
    given = {"results": rows, "record": {"status": "awaiting_approval", "flow": "release"}, "score": None}
    given["config"] = config
    return facts(**{**given, "choice": None, "sample": None, "variants": [], "release": None, **more})


def test_a_summary_says_what_came_from_the_store_and_how_good_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(summary, "_next", lambda one: ["NEXT"])
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
    moved = finished(one={"export": export}.get, release=released("became champion of " + "x " * 60))
    lines = said(moved)
    assert lines[3].startswith("  release   became champion") and f"  export    {export.path}" in lines
    assert summary.in_a_line(run) == moved.release.verdict
    said(finished(results=fresh.results))
    assert summary.in_a_line(run) == "a model"
    said(finished(results=finished().results[:1]))
    assert summary.in_a_line(run) == "nothing new: a model"
    said(finished(score="test accuracy 0.9"))
    assert summary.in_a_line(run) == "test accuracy 0.9"


def test_latencies_are_those_of_the_run_or_of_the_one_that_made_the_variants(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, latency in ((own, {}), (other, {"settings": [{"batch": 1, "threads": 2}]})):
        folder.mkdir()
        (folder / "measurements.json").write_text(json.dumps({"latency": latency}))
    made = SimpleNamespace(digest="v")
    one = facts(run=SimpleNamespace(folder=own), variants=[made], maker={made.digest: other}.get)
    one.maker = lambda artifact: other
    assert variants_page.latency_of(one).settings == (variants_page.Setting(1, 2),)
    one.maker = lambda artifact: None
    assert variants_page.latency_of(one) == variants_page.Latency()
    one.run.folder = other
    assert variants_page.latency_of(one).settings == (variants_page.Setting(1, 2),)
    one.variants = []
    assert variants_page.latency_of(one) == variants_page.Latency(), "a run without variants has none"


def test_each_metric_that_was_measured_has_a_row_with_what_it_means() -> None:
    evaluate = SimpleNamespace(own_metrics={"profit": "own.metrics:profit"}, lower_is_better=())
    train = SimpleNamespace(losses={})
    config = SimpleNamespace(model=SimpleNamespace(task="classification"), evaluate=evaluate, train=train)
    metrics = {"test/accuracy": 0.9, "validation/loss": 0.5, "test/profit": 2.0, "test/majority_accuracy": 0.25}
    rows = sections.metrics(facts(config=config, metrics=metrics, metric="accuracy"))
    assert [(name, better) for name, better, _ in rows] == [
        ("accuracy", "higher is better, decides"),
        ("loss", "lower is better"),
        ("profit", "own.metrics:profit"),
        ("majority accuracy", "of always predicting the most frequent class"),
    ]
    assert [values for _, _, values in rows[:2]] == [[None, ("0.9000", "")], [("0.5000", ""), None]]


def test_each_interval_has_its_method_and_one_of_few_its_effective_sample_size() -> None:
    def row(method: str, units: int) -> dict[str, Any]:
        return {"value": 0.9, "low": 0.8, "high": 0.95, "method": method, "units": units}

    metrics = {"accuracy": row("exact binomial", 200), "macro_f1": row("exact binomial", 13), "loss": row("t", 20)}
    test = facts(report={"splits": {"test": {"examples": 200, "metrics": metrics}}}).test
    assert test.methods == "; of accuracy, macro f1: exact binomial; of loss: t"
    marks = [test.unsure(name) for name in metrics]
    assert marks == ["", ", effective sample size 13: too few for 95 %", ""]


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
    monkeypatch.setattr(report, "CLASSES", 2)
    rows = [{"class": name, "support": support} for name, support in (("a", 1), ("b", 5), ("c", 9))]

    def shown(**test: Any) -> list[str]:
        return [row.name for row in facts(report={"splits": {"test": test}}).test.largest_classes]

    assert shown(classes=rows) == ["c", "b"] and shown(classes=rows[:2]) == ["a", "b"]
    assert shown(entities=rows[:1], classes=rows[1:2]) == ["a", "b"] and shown() == []
    sliced = [{"slice": row["class"], "low": 0.1, "high": 0.2, "examples": row["support"]} for row in rows]
    of = [facts(report={"splits": {"test": {"slices": sliced[:count]}}}).test.scored_slices for count in (2, 3)]
    assert [[row.name for row in each] for each in of] == [["a", "b"], ["c", "b"]]


def test_an_attempt_without_an_end_was_killed() -> None:
    rows: list[dict[str, Any]] = [{"attempt": number, "started": "a", "host": "h"} for number in (1, 2)]
    rows[-1] |= {"ended": "b", "status": "completed"}
    made = vars(Facts)["attempts"].func(facts(record={"attempts": rows}))
    assert made == [Attempt(1, "a", "h", status="killed"), Attempt(2, "a", "h", ended="b", status="completed")]


def test_a_config_is_shown_a_line_for_each_key_and_is_a_preset() -> None:
    values = {
        "name": "a",
        "train": {"steps": 9, "augment": [{"kind": "flip"}], "loss": None},
        "seed": 0,
        "note": "x: y",
    }
    assert settings.as_yaml({"b": {"c": [1, 2]}, "a": "ü"}) == "b: {c: [1, 2]}\na: ü"
    written = settings.as_preset(values)
    assert written.splitlines()[:3] == ["name: a", "train:", "  steps: 9"] and yaml.safe_load(written) == values
    assert [name for name, _ in settings.grouped(values)] == ["run", "train"]


def test_curves_that_another_run_made_are_said_to_be_of_it(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    (other / "measurements.json").write_text(json.dumps({"train/peak_memory_bytes/0": {"host": 5}}))
    run = SimpleNamespace(folder=own, home=SimpleNamespace(runs=tmp_path))
    one = facts(run=run, one={"model": "m"}.get, maker=lambda made: other)
    assert str(trainings.elsewhere(one)) == "other"
    measured = Facts.measured(one, "model")
    assert trainings.memory(measured) == {"host": 5, "accelerator": 0} and trainings.ranks(measured) == []
    one.maker = lambda made: own
    assert trainings.elsewhere(one) is None
    one.maker = lambda made: None
    assert trainings.elsewhere(one) is None and trainings.memory(Facts.measured(one, "model")) == {}
