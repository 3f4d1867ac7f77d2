"""Predictions for a few validation examples over a training, on the run's page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.errors import Stopped
from tasks.processes.workbench import Workbench
from tasks.runs.home import Home
from tasks.runs.runs import resolve_run
from tasks.training.fit import fit
from tasks.training.samples import COUNT, FILE, SAMPLES, Samples, read
from tasks.view.examples import samples
from tasks.view.facts import Facts
from tests.support.homes import CommandHome
from tests.support.tiny import CONFIG, MODEL, stopping_after


def test_each_evaluation_has_its_predictions_once_also_after_a_stop(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    bench = benches("model")
    bench.journal.folder = tmp_path  # type: ignore[misc]
    config = CONFIG.model_copy(update={"evaluate_every": 2, "log_every": 1})
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(5)), tiny, MODEL, config, seed=5)
    for file in (bench.staging.root / "checkpoints").glob("*.npz"):
        if "5" in file.name:
            file.unlink()  # steps 4 and 5 come again
    fit(bench, tiny, MODEL, config, seed=5)
    taken = read(tmp_path / FILE)
    assert [step for step, _ in taken] == [2, 4, 6, 7]
    assert len((tmp_path / FILE).read_text().splitlines()) == 4
    for _, predictions in taken:
        assert len(predictions) == 5, "of five validation examples"
        for classes in predictions:
            assert sorted(number for number, _ in classes) == [0, 1]
            assert sum(probability for _, probability in classes) == pytest.approx(1, abs=1e-3)


def test_what_is_kept_of_outputs_depends_on_the_task() -> None:
    logits = np.log(np.array([[0.1, 0.6, 0.2, 0.1]], np.float32))
    assert SAMPLES["classification"].kept(logits) == [[[1, 0.6], [2, 0.2], [0, 0.1]]]
    assert SAMPLES["multilabel"].kept(np.array([[0.0, 9.0]], np.float32)) == [[[1, 0.9999], [0, 0.5]]]
    assert SAMPLES["regression"].kept(np.array([[1 / 3, 2e9]], np.float32)) == [[0.333333, 2e9]]
    assert SAMPLES["language_model"].kept(np.array([[3, 1]])) == [[3, 1]] == SAMPLES["tagging"].kept(np.array([[3, 1]]))
    for task in ("anomaly", "ranking"):
        assert SAMPLES[task].kept(np.array([[0.0]], np.float32)) == [[[0, 0.5]]], task


def test_samples_are_kept_before_there_is_a_journal_and_each_step_once(tmp_path: Path) -> None:
    file = tmp_path / "runs/run" / FILE
    predicted = np.array([[0.5, 2.0]], np.float32)
    for steps in ((2, 4, 4), (4, 6)):
        taken = Samples(2, file, "regression")
        for step in steps:
            taken(step, None, SimpleNamespace(samples=predicted))  # type: ignore[arg-type]
            taken(step, None, SimpleNamespace(samples=None))  # type: ignore[arg-type]
    taken(8, None, SimpleNamespace(samples=None))  # type: ignore[arg-type]
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"step": step, "predictions": [[0.5, 2.0]]} for step in (2, 4, 6)
    ]
    with open(file, "a") as torn:
        torn.write('{"step": 2, "predictions": [[9.0]]}\n{"step": 8, "pre')
    assert read(file) == [(step, [[0.5, 2.0]]) for step in (2, 4, 6)], "the first of a step, and whole lines"


def test_the_page_shows_pictures_right_answers_and_predictions(finished: CommandHome) -> None:
    run = next(file.parent.name for file in (finished.root / "runs").glob("*/run.json"))
    facts = Facts(resolve_run(Home(finished.root), run))
    shown = samples(facts)
    assert shown is not None and len(shown[1]) == COUNT
    for row in shown[1]:
        assert str(row.picture).startswith("data:image/png;base64,") and row.right in [*"0123456789"]
        for text, right in row.cells:
            assert right == text.startswith(f"{row.right} ")
    page = (facts.run.folder / "page.html").read_text()
    assert "Predictions for the first validation examples" in page
