"""What flatters a score is said beside it: choices on the validation split, and looks at the test split."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tasks.config.compose import Config
from tasks.runs.home import Home
from tasks.runs.runs import Run
from tasks.view import sections
from tasks.view.facts import Facts
from tests.support.stand_ins import facts


def test_what_was_chosen_on_the_validation_split_is_said() -> None:
    plain = Config.model_validate({"name": "n", "train": {"steps": 9}})
    chosen = {
        "name": "n",
        "train": {"steps": 9, "seeds": 3, "early_stopping": {"patience": 2}},
        "evaluate": {"calibrate": "temperature", "threshold": {"maximize": "f1"}},
    }
    both = (facts(config=each, trials=None) for each in (plain, Config.model_validate(chosen)))
    assert [sections.chosen_on_validation(each) for each in both] == ["", "weights, seed, temperature, thresholds"]
    assert sections.chosen_on_validation(facts(config=plain, trials="a table")) == "trial"


def test_models_that_were_judged_on_the_same_test_split_before_are_counted(tmp_path: Path) -> None:
    """Those of this home, each once; not the run's own, and not those of other test rows or later runs."""
    uses = {
        "0": "records/with-another-column report/o",
        "1": "records/r report/a",
        "2": "records/r report/a model/m",
        "3": "records/other report/b",
        "4": "records/r report/own report/c",
        "5": "records/r report/own",
        "6": "records/r report/later",
    }
    home: Any = Home(tmp_path / "home").make()
    for name, content in uses.items():
        (home.runs / name).mkdir()
        (home.runs / name / "uses").write_text("\n".join(content.split()))
        (home.runs / name / "run.json").write_text(json.dumps({"run_id": name}))
    for name, rows in {"r": "1", "with-another-column": "1", "other": "2"}.items():
        (home.store / "records" / name).mkdir(parents=True)
        files = [{"path": "rows/x-test.tfrecord-00000-of-00001.npy", "sha256": rows}, {"path": "y", "sha256": name}]
        (home.store / "records" / name / "manifest.json").write_text(json.dumps({"files": files}))
    of = Facts.__new__(Facts)
    of.run = Run(home, home.runs / "5")
    digests = {"records": "r", "report": "own"}
    artifacts = {
        kind: SimpleNamespace(kind=kind, digest=digest, path=home.store / kind / digest)
        for kind, digest in digests.items()
    }
    of.one = artifacts.get  # type: ignore[method-assign, assignment]
    assert of.judged_before == 3
    said = "3 other models were judged on this test split before: the best of several looks better than it is."
    assert sections.looks(of) == said
    assert sections.looks(facts(judged_before=0)) == ""
    assert sections.looks(facts(judged_before=1)).startswith("1 other model was judged")
