"""why, diff, gc and doctor on a home with a finished pipeline."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import psutil
import pytest

from infra.health import ports
from infra.services import Layout
from tasks.config.compose import load
from tasks.errors import Failed
from tasks.evaluation.estimates import TANGO
from tasks.runner.attempt import RunRequest, attempt_run
from tasks.runs.home import Home
from tasks.runs.runs import find_runs
from tasks.snapshots.config import ImageSnapshot
from tests.support.homes import DIGITS, SMALL, CommandHome
from tests.support.pages import Loads
from tests.support.stacks import free_ports


@pytest.fixture(scope="module")
def home(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A copy of the finished home, to be changed."""
    return finished.copied_to(tmp_path_factory.mktemp("questions") / "home")


@pytest.mark.parametrize("stage", ["convert", "snapshot", "train", "evaluate", "compress", "export"])
def test_why_foresees_the_very_digests_that_a_run_makes(finished: CommandHome, stage: str) -> None:
    made = {f"{row['kind']}/{row['digest']}" for row in finished.newest_run()["stages"][stage]}
    answers = finished.here("why", stage, DIGITS, *SMALL, "--json").json["answers"]
    assert {answer["artifact"] for answer in answers} == made
    assert all(answer["in_store"] for answer in answers)


def test_why_names_the_field_also_of_an_earlier_stage(finished: CommandHome) -> None:
    answer = finished.here("why", "train", DIGITS, *SMALL, "--train.clip_norm", "0.5", "--snapshot.height", "9")
    assert answer.code == 0
    assert "train would run" in answer.stdout
    assert "train.clip_norm: 1.0 → 0.5" in answer.stdout
    assert "snapshot.height: 8 → 9" in answer.stdout
    assert len(answer.stdout.splitlines()) == 3


def test_why_names_the_code_of_another_version_of_millrace(
    finished: CommandHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade (docs/how-to-upgrade.md)."""
    before = ImageSnapshot.version
    monkeypatch.setattr(ImageSnapshot, "version", before + 1)
    answer = finished.here("why", "train", DIGITS, *SMALL)
    assert "train would run" in answer.stdout
    assert answer.stdout.splitlines()[1:] == [f"  snapshot: code version: {before} → {before + 1}"]


def test_why_names_the_variants_of_methods_that_train(finished: CommandHome) -> None:
    """Each is planned by the verb, from the settings of the preset."""
    tuned = {"fine_tune": {"steps": 2}}
    methods = [
        {"kind": "prune", "share": 0.5, **tuned},
        {"kind": "qat", **tuned},
        [{"kind": "distill", "student": {"kind": "convnet", "filters": [4, 4]}, **tuned}, "int8_dynamic"],
        {"kind": "low_rank", "rank": 4, **tuned},
        {"kind": "prune_structured", "share": 0.5, **tuned},
    ]
    answer = finished.here("why", "compress", DIGITS, *SMALL, "--compress.methods", json.dumps(methods))
    assert answer.code == 0, answer.stderr
    for name in ("prune", "qat", "distill_convnet-int8_dynamic", "low_rank", "prune_structured"):
        assert f"compress ({name}" in answer.stdout


def test_why_refuses_what_a_run_refuses(finished: CommandHome) -> None:
    flags = ("--snapshot.kind", "tokens", "--model.kind", "transformer", "--model.task", "language_model")
    refused, why = finished.here("run", "pipeline", DIGITS, *flags), finished.here("why", "train", DIGITS, *flags)
    assert refused.code == why.code == 2
    assert refused.stderr == why.stderr and "snapshot.kind" in why.stderr


def test_runs_and_models_are_listed_and_a_version_is_shown_by_number_and_alias(finished: CommandHome) -> None:
    [run] = finished.here("list", "runs", "--json").json["runs"]
    assert (run["flow"], run["status"], run["alias"]) == ("pipeline", "completed", "champion")
    assert run["score"].startswith("test accuracy 0.9") and "(majority 0.1" in run["score"]
    line = finished.here("list", "runs").stdout
    assert run["run_id"] in line and run["score"] in line and " UTC  became champion" in line
    [version] = finished.here("list", "models", "--json").json["models"]
    assert (version["name"], version["version"], version["aliases"]) == ("digits", "1", ["champion"])
    assert version["run"] == run["run_id"] and f"test accuracy {version['score']:.4f}" in run["score"] + line
    assert finished.here("list", "models").stdout.startswith("digits@1         champion   test accuracy 0.9")
    shown = finished.here("show", "digits@champion").stdout
    assert shown == finished.here("show", "digits@1").stdout
    assert shown.startswith("digits version 1: champion\n") and f"\nexport/{version['export']}\n" in shown
    assert "see `millrace list models`" in finished.here("show", "digits@2").stderr


def test_a_failed_run_is_listed_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    with pytest.raises(Failed) as failed:
        attempt_run("dataset", load(DIGITS), fail, RunRequest(), None)
    assert CommandHome(tmp_path).here("list", "runs").stdout.endswith(f"  {failed.value}\n")


def fail() -> None:
    raise Failed("source.path", "nothing", "there must be something", "add it")


def test_an_empty_list_names_the_home_and_of_an_empty_home_the_next_command(
    finished: CommandHome, tmp_path: Path
) -> None:
    assert CommandHome(tmp_path).here("list").stdout == (
        f"no artifact in {tmp_path}; next: millrace run flows/presets/digits.yaml\n"
    )
    (tmp_path / "runs/20260101-000000-digits-0000").mkdir(parents=True)
    (tmp_path / "runs/20260101-000000-digits-0000/run.json").write_text("{}")
    assert CommandHome(tmp_path).here("list", "export").stdout == f"no export in {tmp_path}\n"


def test_why_of_an_empty_store_says_so(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path).here("why", "convert", DIGITS)
    assert answer.stdout == "convert would run: the store has no records yet\n"


@pytest.fixture(scope="module")
def slow_learner(home: CommandHome) -> str:
    """A second run in that home, which differs by its seed and learns too little."""
    words = ("--seed", "3", "--train.learning_rate", "0.00005")
    answer = home.here("run", "training", DIGITS, *SMALL, *words, "--json")
    assert answer.code == 0, answer.stderr
    return str(answer.json["run_id"])


def test_diff_shows_config_data_and_whether_the_results_differ_by_more_than_noise(
    home: CommandHome, slow_learner: str, tmp_path: Path
) -> None:
    first = str(find_runs(Home(home.root))[0].run_id)
    answer = home.here("diff", first, slow_learner, "--html", tmp_path / "both.html")
    assert answer.code == 0, answer.stderr
    for words in ("  seed: 1 → 3", "  train.learning_rate: 0.002 → 5e-05", "data: the same", "environment: the same"):
        assert words in answer.stdout
    assert "b is worse than a by 0." in answer.stdout
    answer_read = home.here("diff", first, slow_learner, "--json").json
    rows = {row["name"]: row for row in answer_read["results"]}
    kinds = ("accuracy", "balanced_accuracy", "macro_f1", "loss", "calibration_error")
    assert list(rows)[:5] == [f"test/{kind}" for kind in kinds]
    accuracy = rows["test/accuracy"]
    assert accuracy["more_than_noise"] and accuracy["interval"][1] < 0
    assert accuracy["by"] == f"{TANGO} over 531 examples and McNemar's test"
    assert rows["test/loss"]["more_than_noise"] and rows["test/loss"]["difference"] > 0
    examples = answer_read["examples"]
    assert len(examples["broken"]) - len(examples["fixed"]) == round(-accuracy["difference"] * 531)
    assert sum(len(examples[what]) for what in ("fixed", "broken")) + sum(
        examples[what] for what in ("both_right", "both_wrong")
    ) == 531  # fmt: skip
    assert examples["broken"][0] in answer.stdout
    page = (tmp_path / "both.html").read_text()
    loads = Loads(page)
    assert not loads.addresses and not loads.tags & {"script", "link", "iframe", "img"}
    assert "more than noise" in loads.text and f"{TANGO} over 531 examples" in loads.text
    assert page.count("<polyline") == 2 * 6, "loss, accuracy, rate, gradient, update and step time, each of both runs"
    assert "train a" in page and "train b" in page


def test_diff_of_a_run_with_itself_finds_nothing(home: CommandHome, slow_learner: str) -> None:
    answer = home.here("diff", slow_learner, slow_learner)
    assert "b is as good as a in test accuracy: no example differs" in answer.stdout
    assert "more than noise" not in answer.stdout and "within noise" not in answer.stdout


def test_diff_refuses_a_folder_as_its_page(home: CommandHome, slow_learner: str, tmp_path: Path) -> None:
    answer = home.here("diff", slow_learner, slow_learner, "--html", tmp_path)
    assert answer.code == 2
    assert "a folder is there" in answer.stderr


def test_gc_keeps_what_runs_and_releases_need(home: CommandHome, slow_learner: str) -> None:
    """After the run of another seed, whose artifacts go when only a later run is kept; the champion's stay."""
    before = {row["digest"] for row in home.here("list", "--json").json["artifacts"]}
    assert home.here("gc", "--keep", "9", "--json").json["dropped"] == []
    home.here("run", "dataset", DIGITS, *SMALL)
    predicted = home.here("gc", "--keep", "1", "--dry-run", "--json").json["dropped"]
    assert {row["digest"] for row in home.here("list", "--json").json["artifacts"]} == before
    dropped = home.here("gc", "--keep", "1", "--json").json["dropped"]
    assert dropped == predicted
    assert sorted(row["what"].partition("/")[0] for row in dropped) == ["model", "report"]
    shown = home.here("show", slow_learner, "--json")  # its model is gone
    assert shown.code == 0 and shown.json["run"]["run_id"] == slow_learner and shown.json["ledger"] is None
    assert home.here("verify", "--all").code == 0


def test_doctor_finds_this_machine_fit(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path).here("doctor", "--json")
    findings = {finding["what"]: finding for finding in answer.json["findings"]}
    assert findings["python"]["verdict"] == findings["packages"]["verdict"] == findings["home"]["verdict"] == "ok"
    assert answer.code == (1 if any(all_values["verdict"] == "fault" for all_values in findings.values()) else 0)


def test_doctor_asks_for_the_ports_of_this_stack(tmp_path: Path) -> None:
    free, used = map(int, free_ports())
    with socket.create_server(("127.0.0.1", used)):
        layout = Layout(tmp_path, tmp_path, prefect_port=used, mlflow_port=free)
        document = {"mark": "x", "layout": {**vars(layout), "home": str(tmp_path), "project": str(tmp_path)}}
        (tmp_path / "stack.json").write_text(json.dumps(document))
        [prefect, mlflow] = ports(tmp_path)
        assert (prefect.what, prefect.verdict) == (f"port {used}", "warning")
        assert (mlflow.what, mlflow.saw) == (f"port {free}", "free for MLflow")
        me = psutil.Process()
        document["started"] = {"prefect": {"pid": me.pid, "created": me.create_time()}}
        (tmp_path / "stack.json").write_text(json.dumps(document))
        assert next(ports(tmp_path)).as_json() == {
            "what": f"port {used}", "verdict": "ok", "saw": "Prefect of this home", "remedy": ""
        }  # fmt: skip


def test_doctor_refuses_a_home_that_cannot_be_one() -> None:
    answer = CommandHome(Path("/proc/home")).here("doctor", "--json")
    assert answer.code == 1
    [place] = [finding for finding in answer.json["findings"] if finding["what"] == "home"]
    assert place["verdict"] == "fault" and "MILLRACE_HOME" in place["remedy"]
