"""`promote.gates` on a finished run, and the judgement of its variants: found again, tagged, shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Report, Variant
from tasks.compression.config import WantConfig
from tasks.compression.judgement import Judgement, read
from tasks.errors import Failed
from tasks.evaluation.gates import FAIL, PASS, promotion, tags_of, with_gates
from tasks.evaluation.gating import PromoteGate
from tasks.registry import comparison
from tasks.registry.comparison import Compared
from tasks.runner import compressing
from tasks.runs.home import Home
from tasks.runs.runs import Run, find_runs
from tasks.view import results
from tasks.view.facts import Facts
from tests.support.homes import DIGITS, SMALL, Answer, CommandHome
from tests.support.registries import champion_beside


@pytest.fixture(scope="module")
def run(finished: CommandHome) -> Run:
    [found] = find_runs(Home(finished.root))
    return found


def report_of(run: Run) -> Report:
    [row] = run.record["stages"]["evaluate"]
    return Report(row["digest"], run.store.path("report", row["digest"]), "report")


def judge(run: Run, gate: dict[str, Any], champion: str | None = None, reference: Any = None) -> Any:
    adapter: TypeAdapter[Any] = TypeAdapter(PromoteGate)
    own = results.contributions(Facts(run), "test")
    assert own is not None
    beside = None if reference is None else Compared(own, reference, np.ones(len(own), bool))
    [verdict] = comparison.judge(
        run, report_of(run), [adapter.validate_python(gate)], champion, beside, ("accuracy", True)
    )
    return verdict


def test_a_new_version_is_judged_by_its_own_predictions(run: Run) -> None:
    accuracy = report_of(run).metrics["test/accuracy"]
    gate = {"kind": "absolute", "metric": "accuracy"}
    assert judge(run, {**gate, "at_least": accuracy - 0.1}).verdict == PASS
    assert judge(run, {**gate, "at_least": 0.5 + accuracy / 2}).verdict == FAIL
    assert judge(run, {**gate, "at_most": 0.5}).verdict == FAIL


def test_a_new_version_is_compared_with_the_champion_on_the_same_examples(run: Run) -> None:
    own = results.contributions(Facts(run), "test")
    assert own is not None
    gate, slices = {"kind": "champion", "max_loss": 0.05}, {"kind": "slices", "max_loss": 0.2, "least": 10}
    for each in (gate, slices):
        assert judge(run, each).verdict == PASS, "there is no champion"
        assert "not comparable: champion version 3" in judge(run, each, "3").text
    assert judge(run, gate, "3", own.values).verdict == PASS
    worse = {"accuracy": np.zeros_like(own.values["accuracy"])}
    assert judge(run, gate, "3", worse).verdict == PASS, "it wins"
    first = own.values["accuracy"].copy()
    assert judge(run, {**gate, "max_loss": 0.0}, "3", {"accuracy": first}).verdict == "not enough data"
    losing = {"loss": own.values["loss"] - 1.0}
    failed = judge(run, {**gate, "metric": "loss"}, "3", losing)
    assert failed.verdict == FAIL and failed.text.startswith("loses at least")


def test_a_version_passes_only_with_all_of_its_gates(run: Run) -> None:
    before = promotion("test/accuracy", 0.9, champion_beside(0.8, 0.9), 0.0, True)
    good = judge(run, {"kind": "absolute", "metric": "accuracy", "at_least": 0.01})
    bad = judge(run, {"kind": "absolute", "metric": "accuracy", "at_least": 0.9999})
    assert with_gates(before, [good]).passed
    together = with_gates(before, [good, bad])
    assert not together.passed and "accuracy at least 0.9999 fail: has at most" in together.text
    lost = promotion("test/accuracy", 0.7, champion_beside(0.8, 0.7), 0.0, True)
    assert not with_gates(lost, [good]).passed
    assert tags_of({"promote": [good, bad]}) == {"millrace.gates.promote": "fail: accuracy at least 0.9999"}


def test_the_mlflow_run_has_the_verdicts_and_the_front_as_tags(run: Run, finished: CommandHome) -> None:
    client = mlflow.MlflowClient(tracking_uri=run.home.mlflow_uri)
    tags = client.get_run(run.record["mlflow_run_id"]).data.tags
    judgement = json.loads((run.folder / "judgement.json").read_bytes())
    for name, verdicts in judgement["verdicts"].items():
        passed = all(verdict["passed"] for verdict in verdicts)
        assert (tags[f"millrace.gates.{name}"] == "pass") is passed
    front = [name for name, point in judgement["front"].items() if point["accepted"] and not point["dominated_by"]]
    assert tags["millrace.front"] == ", ".join(front) and "int8_dynamic" in front


def test_a_judgement_is_found_again_by_its_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def attempt(number: int, cached: bool) -> Any:
        folder = tmp_path / "runs" / f"{number}"
        folder.mkdir(parents=True)
        record = {"stages": {"compress": [{"cached": cached}]}}
        home = SimpleNamespace(runs=tmp_path / "runs")
        shipper = SimpleNamespace(tags=lambda tags: None)
        return SimpleNamespace(run=SimpleNamespace(record=record, folder=folder, home=home), shipper=shipper)

    def work() -> dict[str, Any]:
        made.append("once more")
        return {"verdicts": {}, "front": {}, "want": None, "missed": f"judged {len(made)}"}

    for number, (cached, key, expected) in enumerate(
        [(False, "a", 1), (True, "a", 1), (True, "b", 2), (True, "a", 1), (False, "a", 3), (True, "a", 3)]
    ):
        token = compressing.current.set(attempt(number, cached))
        judgement = compressing.judged("compress", {"gates": key}, work)
        compressing.current.reset(token)
        assert judgement.missed == f"judged {expected}"
        assert read(tmp_path / "runs" / f"{number}") == judgement


def test_a_want_that_nothing_meets_ends_the_stage_with_what_each_misses(tmp_path: Path) -> None:
    variants = [Variant("0" * 64, tmp_path, name) for name in ("litert", "int8_dynamic")]
    met = Judgement(want=WantConfig(bytes=1000), chosen="int8_dynamic")
    assert [each.chosen for each in compressing.kept(variants, met)] == [False, True]
    missed = Judgement(want=WantConfig(bytes=10), missed="litert: bytes 90 of at most 10")
    with pytest.raises(Failed, match=r"compress.want: bytes 10; no variant meets it: litert: bytes 90 of at most 10"):
        compressing.kept(variants, missed)
    assert compressing.kept(variants, Judgement()) == variants, "while planning"


@pytest.fixture(scope="module")
def second(asking: CommandHome) -> CommandHome:
    return asking


def releasing(home: CommandHome, gate: str, *flags: str) -> Answer:
    """Run the pipeline with another export of the same model, or another model, and a gate against the champion."""
    return home.here("run", "pipeline", DIGITS, *SMALL, *flags, "--promote.gates", f"[{gate}]", "--json")


def judged(home: CommandHome, run: str) -> tuple[list[str], str]:
    """The verdicts in the run's folder, and the tag of its MLflow run."""
    folder = home.root / "runs" / run
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{home.root}/mlflow.db")
    tags = client.get_run(json.loads((folder / "run.json").read_bytes())["mlflow_run_id"]).data.tags
    gates = json.loads((folder / "release.json").read_bytes())["gates"]
    return [gate["verdict"] for gate in gates], tags["millrace.gates.promote"]


def champion_of(client: Any) -> Any:
    return client.get_model_version_by_alias("digits", "champion")


GATE = "{kind: champion, max_loss: 0.1}"


def test_a_second_release_passes_a_gate_against_the_champion_and_is_judged_again_where_that_changed(
    second: CommandHome, asked: Answer
) -> None:
    """Through whole runs; in the end the champion is another one, whose run is not in this home."""
    client: Any = mlflow.MlflowClient(tracking_uri=f"sqlite:///{second.root}/mlflow.db")
    assert asked.json["status"] == "awaiting_approval"
    run = asked.json["run_id"]
    assert judged(second, run) == (["pass"], "pass")
    assert "against 0." in asked.stderr and "of champion version 1 " in asked.stderr
    assert "; quality against the champion pass: " in client.get_model_version("digits", "2").tags["millrace.gate"]

    tags = client.get_model_version("digits", "1").tags | {"millrace.run": "of another home"}
    client.create_model_version("digits", "file:///nowhere", tags=tags)
    client.set_registered_model_alias("digits", "champion", "3")
    answer = second.here("approve", run, "--reason", "looked at", "--json")
    assert (answer.code, answer.json["alias"]) == (3, "candidate"), answer.stderr
    why = "quality against the champion not enough data: not comparable: champion version 3 has no accuracy of each"
    assert "not comparable: champion version 3 cannot be scored on these records" in answer.json["verdict"]
    assert why in answer.json["verdict"]
    assert judged(second, run) == (["not enough data"], "not enough data: quality against the champion")

    shown = second.here("show", run, "--json").json
    trained = shown["ledgers"]["prune_trained_50-trained"]
    assert next(iter(shown["ledgers"])) == "model" and shown["ledger"]["steps"] == 60
    assert (trained["steps"], trained["missing"], trained["repeated"], trained["wrong"]) == (4, 0, 0, [])
    paths = {row["name"]: Path(row["path"]) for row in asked.json["artifacts"]["compress"]}
    manifests = [paths[f"prune_trained_50-{each}"] / "manifest.json" for each in ("prepared", "trained", "model")]
    weights = [json.loads(each.read_bytes())["counts"]["parameters"] for each in manifests]
    assert len(set(weights)) == 1, "without masks"


@pytest.mark.slow
def test_a_second_release_that_loses_too_much_fails_the_gate(second: CommandHome) -> None:
    client: Any = mlflow.MlflowClient(tracking_uri=f"sqlite:///{second.root}/mlflow.db")
    client.set_registered_model_alias("digits", "champion", "1")
    bad = releasing(second, GATE, "--train.learning_rate", "0.000001", "--compress.methods", "[]")
    assert (bad.code, bad.json["status"]) == (3, "rejected"), bad.stderr
    assert judged(second, bad.json["run_id"]) == (["fail"], "fail: quality against the champion")
    assert "quality against the champion fail: loses at least" in bad.stderr
    assert int(client.get_model_version_by_alias("digits", "champion").version) == 1
