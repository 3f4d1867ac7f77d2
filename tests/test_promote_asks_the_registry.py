"""A registry that does not answer: nothing is decided, and no champion is made."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.protos.databricks_pb2 import BAD_REQUEST, INTERNAL_ERROR, PERMISSION_DENIED, TEMPORARILY_UNAVAILABLE
from mlflow.tracking import MlflowClient

from tasks.config.compose import load
from tasks.errors import Failed, Lost
from tasks.registry import registry
from tasks.snapshots.text import LAYOUT
from tasks.store.store import Store
from tasks.tracking.runs import connect
from tests.support.homes import DIGITS, ONE_FORM, SMALL, CommandHome
from tests.support.registries import RegistryHome

DEAD = "http://127.0.0.1:9"


def test_no_model_and_no_alias_are_answers(tmp_path: Path) -> None:
    client = connect(f"sqlite:///{tmp_path}/mlflow.db")
    assert registry.aliased(client, "digits", "champion") is None
    client.create_registered_model("digits")
    assert registry.aliased(client, "digits", "champion") is None


def test_a_dead_server_is_one_error_and_not_an_absent_champion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    client = connect(DEAD)
    with pytest.raises(Failed, match="a release needs the registry") as failed, registry.user_errors(DEAD):
        registry.aliased(client, "digits", "champion")
    assert (failed.value.field, failed.value.saw) == (DEAD, "connection refused")
    assert isinstance(failed.value, Lost)  # tried again


@pytest.mark.parametrize("error", [ConnectionResetError(104, "Connection reset by peer"), TimeoutError("timed out")])
def test_a_connection_that_breaks_is_an_error_that_is_tried_again(error: OSError) -> None:
    with pytest.raises(Lost, match="a release needs the registry") as failed, registry.user_errors(DEAD):
        raise error
    assert failed.value.field == DEAD


@pytest.mark.parametrize(
    ("code", "kind"),
    [(INTERNAL_ERROR, Lost), (TEMPORARILY_UNAVAILABLE, Lost), (PERMISSION_DENIED, Failed), (BAD_REQUEST, Failed)],
)
def test_a_server_that_fails_is_asked_again_and_one_that_refuses_is_not(code: int, kind: type[Failed]) -> None:
    with pytest.raises(Failed) as failed, registry.user_errors(DEAD):
        raise MlflowException("no", error_code=code)
    assert type(failed.value) is kind


def test_what_the_registry_refuses_is_not_tried_again(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = connect(uri)
    client.create_registered_model("digits")
    with pytest.raises(Failed, match="already exists") as failed, registry.user_errors(uri):
        client.create_registered_model("digits")
    assert not isinstance(failed.value, Lost)


def test_a_run_waits_for_the_registry_says_until_when_and_gives_up_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tasks.runner import releasing
    from tasks.runner.attempt import RunRequest, attempt_run, current
    from tasks.view import terminal

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    def body() -> None:
        with terminal.stage("promote", "digits") as shown:
            releasing._connect(current.get(), shown, patience=4.0)

    with pytest.raises(Failed) as failed:
        attempt_run("release", load(DIGITS), body, RunRequest(), None)
    assert str(failed.value).startswith(f"{DEAD}: connection refused; a release needs the registry; run again")
    printed = capsys.readouterr().err.splitlines()
    assert sum(f"the registry at {DEAD}: connection refused; waiting for it until " in line for line in printed) == 1
    assert sum("metrics wait" in line for line in printed) == 1
    assert all(len(line) < 200 for line in printed), printed


def test_an_experiment_whose_files_lie_on_another_machine_takes_no_run_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.runner import releasing
    from tasks.runner.attempt import RunRequest, attempt_run, current
    from tasks.view import terminal

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    connect(f"sqlite:///{tmp_path}/mlflow.db").create_experiment("digits", "file:///elsewhere/mlartifacts")

    def body() -> None:
        with terminal.stage("promote", "digits") as shown:
            releasing._connect(current.get(), shown, patience=4.0)

    with pytest.raises(Failed, match="^experiment digits: its files are in file:///elsewhere/.* another name$"):
        attempt_run("release", load(DIGITS), body, RunRequest(), None)


@pytest.mark.filterwarnings("ignore:.*AnyType:UserWarning")
@pytest.mark.parametrize("task", ["classification", "language_model"])
def test_a_version_says_what_it_takes_what_it_gives_and_what_it_needs(task: str, registry_home: RegistryHome) -> None:
    """An export of a table, whose columns are what it takes, or of a language model, whose array has no name."""
    export = registry_home.home.root / "export"
    (export / "transform").mkdir(parents=True)
    kind, names = ("table", ("numbers", "ids")) if task == "classification" else ("tokens", ("tokens",))
    file = "transform.json" if kind == "table" else LAYOUT
    described = {"kind": kind, "classes": ["a", "b"], "temperature": 2.0, "targets": []}
    if kind == "table":
        described["columns"] = [{"name": name, "kind": kind} for name, kind in (("age", "number"), ("face", "image"))]
        described["transforms"] = {"age": {"kind": "keep"}, "face": {"kind": "image"}}
    (export / "transform" / file).write_text(json.dumps(described))
    shapes = {"numbers": np.ones((5, 3), np.float32), "ids": np.zeros((5, 2), np.int32), "tokens": np.ones((5, 4), int)}
    golden = {f"inputs/{name}": shapes[name] for name in names}
    outputs = np.zeros((5, 2) if kind == "table" else (5, 4, 9), np.float32)
    np.savez(export / "golden.npz", **golden, outputs=outputs)
    client, uri = registry_home.client, registry_home.home.mlflow_uri
    run = client.create_run("0").info.run_id
    assert registry.register(uri, run, "m", export, {"millrace.export": "e"}) == "1"
    made = client.get_model_version("m", "1")
    assert (made.run_id, made.tags) == (run, {"millrace.export": "e"})
    folder = Path(mlflow.artifacts.download_artifacts(made.source, tracking_uri=uri))
    needs = (folder / "requirements.txt").read_text().splitlines()
    more = ("pillow",) if kind == "table" else ()
    assert needs == [f"{name}=={version(name)}" for name in ("mlflow", "numpy", "pandas", "tensorflow", *more)]
    signature = Model.load(folder).signature
    inputs = [(each.name, str(each.type), getattr(each, "shape", None)) for each in signature.inputs.inputs]
    if kind == "table":
        assert inputs == [("age", "Any", None), ("face", "Any", None)]
        assert set(signature.outputs.input_names()) == {"class", "confidence", "top"}
        assert [(each.name, each.default) for each in signature.params.params] == [("raw", False)]
    else:
        assert inputs == [(None, "int64", (-1, 4))] and signature.params is None
        assert [each.shape for each in signature.outputs.inputs] == [(-1, 4, 9)]
    [transform] = folder.glob("artifacts/transform.json")
    kept = {name: described[name] for name in ("classes", "targets", "temperature")}
    assert json.loads(transform.read_bytes()) == {"task": task, **kept}
    example = Model.load(folder).load_input_example(str(folder))
    if kind == "table":
        assert example.isna().to_dict("records") == [{"age": True, "face": True}]
    else:
        assert np.asarray(example).tolist() == shapes["tokens"][:2].tolist()
    assert registry.download(client, "m", "1", registry_home.home.root / "into").joinpath("golden.npz").exists()
    assert registry.register(uri, run, "m", export, {}) == "2", "a model that is there gets a version"


def versions(client: MlflowClient, count: int) -> None:
    client.create_registered_model("digits")
    for number in range(count):
        client.create_model_version("digits", f"file:///nowhere/{number}", tags={"millrace.export": f"{number:04d}"})


def test_all_versions_and_all_models_are_read_page_by_page() -> None:
    class Page(list[Any]):
        token: str | None = None

    def paged(rows: list[Any]) -> Any:
        def search(*query: Any, order_by: list[str], page_token: str | None) -> Page:
            start = int(page_token or 0)
            page = Page(rows[start : start + 2])
            page.token = str(start + 2) if start + 2 < len(rows) else None
            return page

        return search

    for count in (0, 1, 2, 3, 4, 5):
        rows = [SimpleNamespace(version=number, tags={}, description="") for number in range(count)]
        models = [SimpleNamespace(name=f"m{number}") for number in range(count)]
        client: Any = SimpleNamespace(search_model_versions=paged(rows), search_registered_models=paged(models))
        assert [each.version for each in registry.versions(client, "m")] == [str(number) for number in range(count)]
        assert registry.models(client) == [f"m{number}" for number in range(count)]


def test_an_export_is_found_among_other_versions(tmp_path: Path) -> None:
    client = connect(f"sqlite:///{tmp_path}/mlflow.db")
    assert registry.find(client, "digits", "0000") is None
    versions(client, 3)
    client.create_model_version("digits", "file:///nowhere/again", tags={"millrace.export": "0001"})
    version_now = {export: registry.find(client, "digits", export) for export in ("0000", "0001", "0002", "0003")}
    assert {export: row and row.version for export, row in version_now.items()} == {
        "0000": "1",
        "0001": "4",
        "0002": "3",
        "0003": None,
    }


@pytest.mark.slow
def test_an_export_is_found_among_more_versions_than_a_page_holds(tmp_path: Path) -> None:
    client = connect(f"sqlite:///{tmp_path}/mlflow.db")
    versions(client, 1005)
    version_now = registry.find(client, "digits", "0000")
    assert version_now is not None and version_now.version == "1"


def test_what_a_server_says_of_itself_is_no_fault_of_this_machine() -> None:
    refused, full = MlflowException("Permission denied"), MlflowException("database or disk is full")
    with pytest.raises(Failed, match="a release needs the registry"), registry.user_errors(DEAD):
        raise refused
    with pytest.raises(OSError, match="No space left"), registry.user_errors("sqlite:////home/mlflow.db"):
        raise full
    with pytest.raises(PermissionError), registry.user_errors(DEAD):
        raise PermissionError(13, "Permission denied", "/home/fetched")


def test_a_version_that_somebody_else_registered_is_not_looked_for_in_the_store(tmp_path: Path) -> None:
    foreign = registry.Registered("3", "", "", 0.0, "", "")
    with pytest.raises(Failed, match="digits version 3: no tag millrace.export"):
        registry.fetch(connect(f"sqlite:///{tmp_path}/mlflow.db"), Store(tmp_path / "store"), "digits", foreign)


@pytest.mark.slow
def test_a_champion_of_other_records_is_scored_on_the_new_ones(finished: CommandHome, tmp_path: Path) -> None:
    """First where the store has it, then where only the registry does; with such a margin it stays the champion."""
    home = finished.copied_to(tmp_path / "home")
    [champion] = home.newest_run()["stages"]["export"]
    for margin in ("0.98", "0.99"):
        flags = ["--records.split_seed", "5", *ONE_FORM, "--promote.margin", margin, "--json"]
        answer = home.here("run", "pipeline", DIGITS, *SMALL, *flags)
        assert answer.code == 3, answer.stderr
        verdict = json.loads((home.root / "runs" / answer.json["run_id"] / "release.json").read_bytes())["verdict"]
        assert " against 0." in verdict and " of champion version 1 on " in verdict, verdict
        assert " test examples are in the train split of champion version 1" in verdict, "where this seed moves them"
        assert "warning" not in answer.stderr
        shutil.rmtree(home.root / "store/export" / Path(champion["path"]).name, ignore_errors=margin == "0.99")
