"""The command of docs/contracts.md, on real runs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tasks.artifacts import STAGES
from tests.support.homes import DIGITS, SMALL, CommandHome


@pytest.fixture(scope="module")
def second(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A copy of the finished home, in which the same preset has run once more."""
    return finished.copied_to(tmp_path_factory.mktemp("second") / "home")


def test_a_second_run_works_nowhere_and_says_so(second: CommandHome) -> None:
    first = second.newest_run()
    answer = second.here("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    reply = answer.json
    assert tuple(reply["artifacts"]) == STAGES
    rows = [row for stage in STAGES for row in reply["artifacts"][stage]]
    assert all(row["cached"] for row in rows)
    assert answer.stderr.count("from the store") == 8
    assert "champion already" in answer.stderr
    assert (reply["command"], reply["status"], reply["exit_code"], reply["error"]) == ("run", "completed", 0, None)
    assert reply["run_id"] != first["run_id"]
    assert reply["attempt"] == 1
    assert reply["metrics"]["test/accuracy/low"] <= reply["metrics"]["test/accuracy"]
    assert reply["mlflow_run_id"] and reply["prefect_flow_run_id"]


def test_one_changed_value_runs_the_stages_that_depend_on_it(second: CommandHome) -> None:
    answer = second.here("run", "pipeline", DIGITS, *SMALL, "--evaluate.most_wrong", "3", "--json")
    assert answer.code == 0, answer.stderr
    ran = {stage for stage, rows in answer.json["artifacts"].items() if not all(row["cached"] for row in rows)}
    assert ran == {"evaluate"}


def test_a_margin_that_cannot_be_met_ends_with_exit_code_3(second: CommandHome) -> None:
    answer = second.here("run", "pipeline", DIGITS, *SMALL, "--export.golden", "8", "--promote.margin", "0.9", "--json")
    assert answer.code == 3, answer.stderr
    assert answer.json["status"] == "rejected"
    [release] = answer.json["artifacts"]["promote"]
    assert json.loads(Path(release["path"]).read_bytes())["alias"] == "candidate"


def test_the_flow_release_takes_a_model_of_the_store(second: CommandHome) -> None:
    [model] = second.here("list", "model", "--json").json["artifacts"][:1]
    flags = [*SMALL, "--release.model", model["digest"][:12], "--promote.margin", "-1"]
    answer = second.here("run", "release", DIGITS, *flags, "--json")
    assert answer.code == 0, answer.stderr
    assert tuple(answer.json["artifacts"]) == STAGES[3:]


def test_a_continued_run_reports_its_own_model(second: CommandHome) -> None:
    made = []
    for flags in (["--train.steps", "20"], ["--train.steps", "30", "--train.continue_from"]):
        constant = ["--train.schedule", "{kind: constant}", "--train.checkpoint.every", "10"]
        answer = second.here("run", "training", DIGITS, *constant, *flags, *(row["digest"] for row in made))
        assert answer.code == 0, answer.stderr
        run = second.newest_run("training")
        made += run["stages"]["train"]
    base, model = (row["digest"][:12] for row in made)
    assert model in answer.stdout and base not in answer.stdout
    folder = second.root / "runs" / run["run_id"]
    for page in ("description.md", "page.html"):
        assert "trained for 30 steps" in (folder / page).read_text()


def test_a_runs_folder_holds_what_the_contract_names(finished: CommandHome) -> None:
    [folder] = finished.root.glob("runs/2*")
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "run.json",
        "uses",
        "metrics.jsonl",
        "ledger.jsonl",
        "measurements.json",
        "release.json",
        "page.html",
    }
    assert json.loads((folder / "ledger.jsonl").read_text().splitlines()[-1])["to"] == 60


def test_every_artifact_of_the_store_has_its_table_in_prefect(finished: CommandHome) -> None:
    """A thread sends them while the stages run; none is left behind."""
    with closing(sqlite3.connect(finished.root / "prefect/prefect.db")) as prefect:
        keys = [key for (key,) in prefect.execute("SELECT key FROM artifact WHERE type IN ('table', 'markdown')")]
    stages = finished.newest_run()["stages"]
    tables = [f"{stage}-{row['name']}".replace("_", "-") for stage in STAGES[:-1] for row in stages[stage]]
    assert sorted(keys) == sorted([*tables, "run"])


def test_list_show_and_verify_answer(finished: CommandHome) -> None:
    rows = finished.here("list", "--json").json["artifacts"]
    assert "nan" not in finished.here("list").stdout
    assert sorted({row["kind"] for row in rows}) == ["export", "model", "records", "report", "snapshot", "variant"]
    [export] = [row for row in rows if row["kind"] == "export"]
    shown = finished.here("show", export["digest"][:10], "--json").json
    assert shown["manifest"]["digest"] == export["digest"]
    assert shown["parents"]["model"]["parents"]["snapshot"]["parents"]["records"]["sources"] == 1797
    assert shown["releases"]
    assert finished.here("verify", "--all", "--json").json["checked"] == len(rows)
    assert "test accuracy" in finished.here("show", finished.newest_run()["stages"]["evaluate"][0]["digest"]).stdout


def test_predict_reads_a_picture(finished: CommandHome, tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    Image.fromarray((digits.images[3] * 255 / 16).astype(np.uint8)).save(tmp_path / "three.png")
    [export] = finished.here("list", "export", "--json").json["artifacts"]
    for name in (export["digest"][:12], export["path"], "digits@champion"):
        answer = finished.here("predict", str(name), tmp_path / "three.png", "--json")
        assert answer.code == 0, answer.stderr
        assert answer.json["predictions"][0]["class"] in [str(digit) for digit in range(10)]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "nowhere.yaml"], 2, "nowhere.yaml: no such file"),
        (["run", "pipelin"], 2, "FLOW is one of pipeline, dataset"),
        (["run", DIGITS, "--train.stepz", "3"], 2, "did you mean train.steps?"),
        (["run", DIGITS, "--train.steps"], 2, "a flag has a value"),
        (["run", DIGITS, "--seed", "1", "--seed=2"], 2, "--seed: 1 and 2; a flag may be used once"),
        (["run", "release", DIGITS], 2, "release.model"),
        (["run", DIGITS, "--release.model", "abc"], 2, "the flow pipeline does not use it"),
        (["show", "0123456789"], 2, "no such artifact"),
        (["verify"], 2, "verify needs an artifact or --all"),
        (["list", "weights"], 2, "it is one of runs, models, schedules, records"),
        (["predict", "0123", "x.png"], 2, "x.png"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_a_wrong_command_is_one_line_and_the_right_code(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    answer = CommandHome(tmp_path).here(*words, "--json")
    assert answer.code == code
    assert says in answer.stderr
    [error] = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert error.count("; ") >= 2
    assert "Traceback" not in answer.stderr
    if words != ["frobnicate"]:
        assert answer.json["error"]["remedy"]
    assert not any(tmp_path.glob("store/[!.]*/*"))
