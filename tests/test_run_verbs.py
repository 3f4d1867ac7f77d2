"""What a verb hands on: the check that a deployed run has no other place for, and what is measured together."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tasks.compress
import tasks.train
from tasks.artifacts import Model, Report, Snapshot, Variant
from tasks.compress import compress
from tasks.compression.judgement import JUDGEMENT
from tasks.config.compose import Config, load
from tasks.convert import convert
from tasks.errors import Refused
from tasks.processes.workbench import Work
from tasks.runner.attempt import RunRequest, attempt_run
from tasks.runner.stages import body_of
from tasks.train import train
from tests.support.homes import DIGITS


def test_a_run_without_the_commands_preflight_refuses_old_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a deployment are; nothing of it is in the store."""
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    (tmp_path / "old.txt").write_text("text")
    os.utime(tmp_path / "old.txt", (time.time() - 50 * 3600,) * 2)
    source = {"kind": "text_files", "path": str(tmp_path), "glob": "*.txt"}
    config = Config.model_validate(
        {"name": "old", "source": source, "records": {"max_age": "2d"}, "snapshot": {"kind": "tokens"}}
        | {"model": {"kind": "transformer"}, "train": {"steps": 1}}
    )
    request = RunRequest()
    with pytest.raises(Refused, match="newest file"):
        attempt_run("dataset", config, lambda: body_of(convert)(config.source, config.records), request, None)
    assert request.run is not None and request.run.record["status"] == "refused"
    assert not list((tmp_path / "home/store").glob("records/*"))


class Identities:
    """What decides digests is tested elsewhere."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls of a stage's seam, in order, without the work behind it."""
    calls: list[tuple[Any, ...]] = []

    def run_stage(stage: str, kind: Any, identity: Any, work: Any, *, name: str = "", **_: Any) -> Any:
        calls.append((stage, name or kind.kind, work.arguments))
        return kind(f"{len(calls):064d}", Path(), name or kind.kind)

    for module in (tasks.compress, tasks.train):
        monkeypatch.setattr(module, "run_stage", run_stage)
        monkeypatch.setattr(module, "parent_of", lambda *_: SimpleNamespace())
        monkeypatch.setattr(module, "identities", Identities())
    return calls


def test_the_float_file_is_measured_although_it_is_not_exported(
    made: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ratios are of it."""
    measured: dict[str, list[str]] = {}

    def measure_stage(stage: str, name: str, work: Work[Any]) -> dict[str, Any]:
        arguments = work.arguments
        variants = arguments[0] if name == "latency" else arguments[1]
        measured[name] = [variant.name for variant in variants]
        if name == "gates":
            assert arguments[2].name == "litert", "the reference"
        return {}

    monkeypatch.setattr(tasks.compress, "measure_stage", measure_stage)
    monkeypatch.setattr(tasks.compress, "judged", lambda stage, key, work: JUDGEMENT.validate_python(work()))
    config = load(DIGITS, [("export.formats", "[saved_model]"), ("compress.methods", "[int8_dynamic]")])
    kept = body_of(compress)(
        SimpleNamespace(task="classification"),  # type: ignore[arg-type]
        Snapshot("1" * 64, Path(), "snapshot"),
        Report("2" * 64, Path(), "report"),
        config.compress,
        config.evaluate,
        config.export,
        config.train,
        config.seed,
    )
    assert [variant.name for variant in kept] == ["saved_model", "int8_dynamic"]
    assert all(isinstance(variant, Variant) for variant in kept)
    assert sorted(measured["latency"]) == ["int8_dynamic", "litert", "saved_model"]
    assert measured["gates"] == ["saved_model", "int8_dynamic"]


def test_each_of_several_trainings_has_a_seed_of_its_own(
    made: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.train, "base_model", lambda *_: None)
    monkeypatch.setattr(tasks.train, "initial_model", lambda *_: None)
    config = load(DIGITS, [("train.seeds", "3"), ("seed", "5")])
    examples = Snapshot("1" * 64, Path(), "snapshot")
    chosen = body_of(train)(examples, config.model, config.train, config.seed, config.evaluate)
    assert isinstance(chosen, Model)
    *trainings, choice = made
    assert [name for _, name, _ in trainings] == ["seed_0", "seed_1", "seed_2"]
    seeds = [arguments[3] for _, _, arguments in trainings]
    assert seeds[0] == 5 and len(set(seeds)) == 3
    assert all(arguments[2].seeds == 1 for _, _, arguments in trainings)
    assert [model.name for model in choice[2][0]] == ["seed_0", "seed_1", "seed_2"]
