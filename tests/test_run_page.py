"""A run's page and its MLflow run show all of its results, in a browser and by MLflow's client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.config.compose import Config, load, validate
from tasks.errors import Failed
from tasks.runs.home import Home
from tasks.runs.runs import find_runs, opened
from tasks.view import charts, figure, run_page, seconds
from tasks.view.words import raw_input, score, span
from tests.support.fresh import in_fresh_process
from tests.support.homes import ROOT, CommandHome
from tests.support.pages import Loads

STAGES = ["convert", "snapshot", "train", "evaluate", "compress", "export", "promote"]


@pytest.fixture(scope="module")
def page(finished: CommandHome) -> str:
    """The finished run's page, as the run left it."""
    [path] = finished.root.glob("runs/*/page.html")
    return path.read_text(encoding="utf-8")


def manifest(row: dict[str, Any]) -> dict[str, Any]:
    return json.loads((Path(row["path"]) / "manifest.json").read_bytes())


def test_the_page_needs_nothing_but_itself(page: str) -> None:
    loads = Loads(page)
    assert loads.addresses, "there are pictures"
    assert all(address.startswith("data:image/png;base64,") for address in loads.addresses)
    assert not loads.tags & {"script", "link", "iframe", "object", "embed"}
    assert not re.search(r"@import|url\(", page)


def test_the_page_holds_score_stages_variants_and_lineage(page: str, finished: CommandHome) -> None:
    run, text = finished.newest_run(), Loads(page).text
    [report] = run["stages"]["evaluate"]
    metrics = manifest(report)["statistics"]["metrics"]
    low, high = metrics["test/accuracy/low"], metrics["test/accuracy/high"]
    assert f"test accuracy {metrics['test/accuracy']:.4f} [{low:.4f}, {high:.4f}]" in text
    assert f"{low:.4f} to {high:.4f}" in text
    for stage in STAGES:
        assert stage in text
        for row in run["stages"][stage]:
            assert row["digest"] in page
    for row in run["stages"]["compress"]:
        assert row["name"] in text
    judgement = json.loads(next(finished.root.glob("runs/*/judgement.json")).read_bytes())
    assert judgement["verdicts"].keys() == {row["name"] for row in run["stages"]["compress"]}
    for gate in (gate for verdicts in judgement["verdicts"].values() for gate in verdicts):
        assert gate["text"] in text
    for row in judgement["slices"]["int8_dynamic"]:
        assert f"{figure(row['loss']['low'])} to {figure(row['loss']['high'])}" in text
    assert page.count("<circle") >= 2 and "loss of accuracy by size" in page
    report_file = json.loads((Path(report["path"]) / "report.json").read_bytes())
    assert len(report_file["splits"]["test"]["slices"]) == 10
    for row in report_file["splits"]["test"]["slices"]:
        assert row["low"] <= row["value"] <= row["high"]
        assert f"{row['low']:.4f} to {row['high']:.4f}" in text and row["slice"] in text
    for word in (
        "Training",
        "Variants",
        "accuracy by slice",
        "Data",
        "Lineage",
        "Config",
        "Environment",
        "Cost",
        "none missing, none repeated",
    ):
        assert word in text
    assert "1,797 raw examples" in text
    measured = json.loads(next(finished.root.glob("runs/*/measurements.json")).read_bytes())
    took = seconds(measured["evaluate/learned_baseline_seconds"])
    assert "a simple model (linear model of 8 x 8 pixels)" in text and f"training on 1,075 examples and {took}" in text
    # loss, accuracy, rate, gradient, update, step time: too short for validation
    assert page.count('<polyline class="curve') == 6 + 1, "with the front"
    wrong = len(report_file["splits"]["test"]["most_wrong"])
    assert wrong and page.count("data:image/png") == 2 + wrong + 6, "plots, the worst examples, the samples"
    assert page.count('<svg class="confusion"') == 1
    for name in ("stages", "quality", "slices", "worst-examples", "training", "config", "cost"):
        assert f'<a href="#{name}">' in page and page.count(f'<h2 id="{name}">') == 1


def test_the_page_changes_nothing_when_made_again(page: str, finished: CommandHome) -> None:
    [run] = find_runs(Home(finished.root))
    files, description = run_page.publish(run)
    assert (run.folder / "page.html").read_text(encoding="utf-8") == page
    assert 4 <= len(description.split("\n\n")) <= 6
    names = [path.name for path, _ in files]
    assert names[:4] == ["page.html", "config.yaml", "judgement.json", "report.json"]


def test_the_config_beside_the_page_is_a_preset_of_the_run(finished: CommandHome) -> None:
    [run] = find_runs(Home(finished.root))
    assert load(run.folder / "config.yaml") == run.config


def test_a_failed_run_has_a_page_that_escapes_what_it_tells(tmp_path: Path) -> None:
    config = load(ROOT / "flows/presets/digits.yaml")
    run_folder = fail(config, Home(tmp_path), Failed("a<b", "<script>alert(1)</script>", 'rule & "law"', "mend <it>"))
    page = (run_folder / "page.html").read_text()
    assert "<script>alert" not in page
    shown = Loads(page)
    for part in ("a<b", "<script>alert(1)</script>", 'rule & "law"', "mend <it>", "failed"):
        assert part in shown.text
    for absent in ("Attempts", "Quality", "Training", "Variants", "Lineage", "Cost"):
        assert f"<h2>{absent}" not in page


def fail(config: Config, home: Home, error: Failed) -> Path:
    """A run that failed before its first stage."""
    with opened(home, "pipeline", config, new=True, prefect_id=None, waiting=print) as run:
        run.end(error.exit_code, error.status, error.as_json())
        files, description = run_page.publish(run)
        assert [path.name for path, _ in files] == ["page.html", "config.yaml"]
        assert "**failed**" in description
        return run.folder


def test_one_example_has_no_interval(page: str) -> None:
    alone = {"test/bits_per_byte": 2.0, "test/bits_per_byte/low": 2.0, "test/bits_per_byte/high": 2.0}
    assert score(alone, "test/bits_per_byte") == "bits per byte 2.0000"
    assert span(alone, "test/bits_per_byte") == ("2.0000", "")
    several = {**alone, "test/bits_per_byte/high": 2.5}
    assert score(several, "test/bits_per_byte") == "bits per byte 2.0000 [2.0000, 2.5000]"
    assert "no interval" not in page


def test_a_metric_that_is_the_loss_is_drawn_once(tmp_path: Path) -> None:
    journal = tmp_path / "metrics.jsonl"
    points = [{"train/loss": value, "train/squared_error": value, "train/accuracy": 1 / value} for value in (9.0, 4.0)]
    entries = [{"step": step, "time": 0.0, "metrics": metrics} for step, metrics in enumerate(points, start=1)]
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert [title for title, _ in charts.draw_all(charts.read(journal))] == ["loss", "accuracy"]


def test_a_nought_has_no_sign() -> None:
    assert [figure(value) for value in (-1e-9, 0.0, -0.25, 2e-5)] == ["0.0000", "0.0000", "-0.2500", "0.0000"]


def test_curves_leave_out_what_cannot_be_drawn(tmp_path: Path) -> None:
    journal = tmp_path / "metrics.jsonl"
    points = [
        {"step": step, "time": 0.0, "metrics": {"train/loss": loss}} for step, loss in enumerate([9, 2, "nan", 1])
    ]
    journal.write_text("".join(json.dumps(point) + "\n" for point in points) + '{"step": 4, "ti')
    assert charts.read(journal) == {"train/loss": [(1, 2.0), (3, 1.0)]}
    [(title, svg)] = charts.draw_all(charts.read(journal))
    assert title == "loss"
    assert svg.startswith("<svg") and "nan" not in svg
    assert charts.draw_all(charts.read(tmp_path / "none")) == []


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (2.5, 2.5), (0.0, 600.0), (1e-5, 3e-5), (-4.0, 1234.5)])
def test_ticks_are_few_and_within(low: float, high: float) -> None:
    ticks = charts.linear_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)


# What MLflow holds ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracked(finished: CommandHome) -> Iterator[tuple[Any, Any]]:
    """MLflow's client on the finished home, and the MLflow run in it."""
    from tasks.tracking.runs import connect

    client = connect(f"sqlite:///{finished.root}/mlflow.db")
    yield client, client.get_run(finished.newest_run()["mlflow_run_id"])


def leaves(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict):
        for key, value in values.items():
            yield from leaves(value, (*path, key))
    else:
        yield ".".join(path), values


def test_every_leaf_that_the_config_sets_is_a_parameter(tracked: tuple[Any, Any], finished: CommandHome) -> None:
    params = tracked[1].data.params
    wanted = {name: value for name, value in leaves(finished.newest_run()["config"]) if value not in (None, "")}
    assert params.keys() == wanted.keys()
    assert {"train.steps", "seed"} <= params.keys() and "null" not in params.values()
    for name, value in wanted.items():
        assert params[name] == (value if isinstance(value, str) else json.dumps(value)), name


def test_the_learned_baseline_has_its_score_and_its_time(tracked: tuple[Any, Any], finished: CommandHome) -> None:
    _, run = tracked
    [report] = finished.newest_run()["stages"]["evaluate"]
    name = "test/learned_baseline/accuracy"
    assert run.data.metrics[name] == manifest(report)["statistics"]["metrics"][name]
    assert run.data.metrics["seconds/learned_baseline"] > 0


def test_metrics_by_step_are_the_journals_points(tracked: tuple[Any, Any], finished: CommandHome) -> None:
    client, run = tracked
    [journal] = finished.root.glob("runs/*/metrics.jsonl")
    wanted: dict[str, list[tuple[int, float]]] = {}
    for line in journal.read_text().splitlines():
        point = json.loads(line)
        for name, value in point["metrics"].items():
            wanted.setdefault(name, []).append((point["step"], float(value)))
    assert run.data.metrics.keys() == wanted.keys()
    for name, points in wanted.items():
        history = [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]
        assert sorted(history) == sorted(points), name
    for name, points in wanted.items():
        assert len(points) == 1 or min(step for step, _ in points) > 0, f"{name}: a curve begins with its own end"
    assert {"test/accuracy", "test/accuracy/low", "seconds/train", "seconds/compress.litert"} <= wanted.keys()
    assert {"int8_dynamic/bytes", "int8_dynamic/test/accuracy", "validation/loss"} <= wanted.keys()
    assert not {"test/loss/low", "validation/accuracy/low", "litert/test/loss"} & wanted.keys()


def test_page_report_pictures_and_manifests_are_artifacts(tracked: tuple[Any, Any]) -> None:
    client, run = tracked
    listed = {
        item.path for folder in ("", "pictures", "manifests") for item in client.list_artifacts(run.info.run_id, folder)
    }
    assert {"page.html", "report.json", "config.yaml"} <= listed
    for name in ("confusion", "reliability", "curves", "most_wrong"):
        assert f"pictures/{name}.png" in listed
    for name in ("convert-records", "snapshot-snapshot", "train-model", "compress-int8_dynamic", "export-export"):
        assert f"manifests/{name}.json" in listed


def test_inputs_tags_and_description_lead_back(tracked: tuple[Any, Any], finished: CommandHome) -> None:
    _, run = tracked
    record = finished.newest_run()
    inputs = {item.dataset.name: item.dataset.digest for item in run.inputs.dataset_inputs}
    for stage, kind in (("convert", "records"), ("snapshot", "snapshot")):
        [row] = record["stages"][stage]
        assert inputs[kind] == row["digest"][:36]
    tags = run.data.tags
    assert tags["millrace.run"] == record["run_id"]
    assert tags["millrace.outcome"] == "completed"
    assert tags["mlflow.source.git.commit"].startswith(tags["millrace.commit"].removesuffix("-dirty"))
    [export] = record["stages"]["export"]
    assert tags["millrace.export"] == export["digest"][:12]
    description = tags["mlflow.note.content"]
    assert description.startswith("**champion**")
    assert record["attempts"][0]["prefect_flow_run_id"] in description
    assert f"/runs/{run.info.run_id}/artifacts/page.html?workflowType=machine_learning)" in description
    for row in (row for rows in record["stages"].values() for row in rows):
        assert row["digest"][:12] in description


def test_the_version_says_which_gates_it_passed(tracked: tuple[Any, Any], finished: CommandHome) -> None:
    client, run = tracked
    version = client.get_model_version_by_alias("digits", "champion")
    [export] = finished.newest_run()["stages"]["export"]
    assert version.run_id == run.info.run_id
    assert version.tags["millrace.export"] == export["digest"]
    assert version.tags["millrace.run"] == run.data.tags["millrace.run"]
    assert version.tags["millrace.gate"].startswith("champion")
    for words in (
        "Champion, with test",
        "int8_dynamic, size passed",
        "int8_dynamic, quality passed",
        "litert, parity passed",
        f"`millrace predict digits@{version.version} IMAGE.png`",
    ):
        assert words in version.description


def test_the_registered_version_answers_without_our_code(finished: CommandHome, tmp_path: Path) -> None:
    [export] = finished.newest_run()["stages"]["export"]
    script = (
        "import importlib.util\n"
        "assert not any(importlib.util.find_spec(name) for name in ('tasks', 'flows', 'infra'))\n"
        "import mlflow, numpy as np\n"
        f"mlflow.set_tracking_uri({f'sqlite:///{finished.root}/mlflow.db'!r})\n"
        f"golden = np.load({str(Path(export['path']) / 'golden.npz')!r})\n"
        "import io, pandas\n"
        "from PIL import Image\n"
        "files = []\n"
        "for pixels in golden['inputs/image']:\n"
        "    Image.fromarray(pixels.squeeze(-1)).save(file := io.BytesIO(), 'PNG')\n"
        "    files.append(file.getvalue())\n"
        "rows = pandas.DataFrame({'image': files})\n"
        "model = mlflow.pyfunc.load_model('models:/digits@champion')\n"
        "outputs = model.predict(rows, params={'raw': True})\n"
        "assert outputs.shape == golden['outputs'].shape and outputs.dtype == golden['outputs'].dtype\n"
        "np.testing.assert_allclose(outputs, golden['outputs'], atol=1e-4)\n"
        "answers = model.predict(rows)\n"
        "assert [answer['class'] for answer in answers] == [str(each) for each in outputs.argmax(-1)]\n"
        "print('answered', len(outputs))\n"
    )
    assert in_fresh_process(script, folder=tmp_path).strip().endswith("answered 32")


@pytest.mark.parametrize(
    ("expected", "source", "snapshot"),
    [
        ("SOUND.wav", {"kind": "audio_folder", "path": "a"}, "table"),
        ("ROWS.jsonl", {"kind": "jsonl", "path": "a", "columns": {"x": "number"}}, "table"),
        ("FILE.txt", {"kind": "jsonl", "path": "a", "columns": {"x": "text"}}, "tokens"),
        ("ROWS.csv", {"kind": "tfrecord", "path": "a", "columns": {"x": "number"}}, "table"),
    ],
)
def test_the_next_command_names_a_file_as_the_source_has_them(expected: str, source: dict[str, Any], snapshot: str):
    model = {"kind": "transformer" if snapshot == "tokens" else "mlp"}
    sections = {"source": source, "snapshot": {"kind": snapshot}, "model": model, "train": {"steps": 1}}
    assert raw_input(validate({"name": "x", **sections})) == expected
