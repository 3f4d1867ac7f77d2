"""The search for methods: repeatable, kill-proof, on the validation split, within its budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Report, Variant
from tasks.compression.config import CompressConfig, SearchConfig
from tasks.compression.methods.method import Chain
from tasks.compression.search import Trial, ask, on_front, space
from tasks.compression.specs import FLOAT, VariantSpec, compressed
from tasks.compression.variants import build
from tasks.compression.variants import lost_on_validation as lost_on_validation
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build as evaluate
from tasks.exporting.formats.litert import LiteRT
from tasks.feed import open_snapshot
from tasks.runner import compressing, identities
from tests.support.digits import Digits

CONFIG, EVALUATE = CompressConfig(), EvaluateConfig(resamples=100)
TASK = "classification"
SPACE = space(TASK, CONFIG, "accuracy")


def chain_of(entry: list[Any]) -> Chain:
    return CompressConfig.model_validate({"methods": [entry]}).chains[0]


def made_up(methods: Any) -> tuple[int, float]:
    """A size and a loss by the names of the methods, so that no variant needs to be made."""
    return 100 + sum(map(ord, methods.name)) % 97, (sum(map(ord, methods.name)) % 13) / 100


class Home:
    """A home with runs, in which variants cost nothing."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.made, self.monkeypatch = root, [], monkeypatch  # type: ignore[var-annotated]

    def search(self, run: str, trials: int, seed: int = 0, stop: int | None = None, **others: Any) -> list[str]:
        folder = self.root / "runs" / run
        folder.mkdir(parents=True, exist_ok=True)
        attempt = SimpleNamespace(run=SimpleNamespace(folder=folder, home=SimpleNamespace(runs=self.root / "runs")))

        def make(methods: Any) -> Any:
            if stop is not None and len(self.made) == stop:
                raise KeyboardInterrupt
            self.made.append(methods.name)
            if "gptq" in methods.name:
                raise Failed("compress.methods", "gptq", "no layer fits", "leave it out")
            size, loss = made_up(methods)
            return SimpleNamespace(manifest={"statistics": {"bytes": size}}, loss=loss)

        token = compressing.current.set(attempt)  # type: ignore[arg-type]
        try:
            config = SearchConfig(trials=trials, seed=seed, **others)
            return [
                each.name for each in compressing.search(config, {"model": "m"}, SPACE, make, lambda each: each.loss)
            ]
        finally:
            compressing.current.reset(token)

    def trials(self, run: str) -> list[dict[str, Any]]:
        return json.loads((self.root / "runs" / run / "search.json").read_bytes())["trials"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch)


def test_a_search_repeats_and_a_second_run_makes_nothing(home: Home, tmp_path: Path) -> None:
    found = home.search("one", 14)
    made = list(home.made)
    assert home.search("two", 14) == found and home.made == made, "taken from the first run"
    other = Home(tmp_path / "elsewhere", home.monkeypatch)
    assert other.search("one", 14) == found and other.trials("one") == home.trials("one")
    assert Home(tmp_path / "third", home.monkeypatch).search("one", 14, seed=1) and len(set(made)) == len(made)
    longer = home.search("three", 16)
    assert home.trials("three")[:14] == home.trials("one") and longer


def test_a_search_that_was_killed_goes_on_with_the_trials_that_it_would_have_had(home: Home, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        home.search("one", 12, stop=5)
    assert len(home.made) == 5
    found = home.search("one", 12)
    whole = Home(tmp_path / "whole", home.monkeypatch)
    assert whole.search("one", 12) == found and whole.trials("one") == home.trials("one")
    assert whole.made == home.made, "nothing was made twice"


def test_methods_that_do_not_fit_are_trials_without_a_result(home: Home) -> None:
    found = home.search("one", 30)
    unfit = [row for row in home.trials("one") if "gptq" in row["name"]]
    assert unfit and all(row["bytes"] is None and "no layer fits" in row["reason"] for row in unfit)
    assert not any("gptq" in name for name in found)


def test_no_trial_begins_after_the_minutes(home: Home) -> None:
    home.search("one", 50, minutes=1e-9)
    assert len(home.trials("one")) == 0


def test_the_front_has_each_variant_once_and_nothing_dominated() -> None:
    trials = [Trial(0, {}, "a", 10, 0.2), Trial(1, {}, "b", 20, 0.1), Trial(2, {}, "a", 10, 0.2)]
    trials += [Trial(3, {}, "c", 20, 0.15), Trial(4, {}, "d", reason="unfit")]
    assert [trial.name for trial in on_front(trials)] == ["a", "b"]


def test_all_that_is_tried_can_be_applied_under_names_of_their_own() -> None:
    names = [methods.name for methods in SPACE.chains]
    assert len(set(names)) == len(names) == len(SPACE.model) * len(SPACE.file)
    assert {"int8_selective", "int8_selective_0", "int8_selective_0_005"} <= set(names)
    of_texts = [
        method for chain in space("language_model", CompressConfig(), "bits_per_byte").chains for method in chain
    ]
    assert of_texts and not any(method.one_signature for method in of_texts), "its files have three"
    values = ask([], SPACE, seed=3)
    assert values == ask([], SPACE, seed=3) and values["file"] in SPACE.file


def test_what_is_listed_under_the_same_name_is_tried_with_its_settings() -> None:
    listed: list[Any] = [
        {"kind": "gptq", "examples": 1024},
        [{"kind": "prune", "share": 0.3, "scope": "layer"}, "int8_dynamic"],
        ["cluster", {"kind": "int8_static", "examples": 64}],
    ]
    config = CompressConfig.model_validate({"methods": listed})
    tried = {methods.name: methods for methods in space(TASK, config, "accuracy").chains}
    assert list(tried) == [methods.name for methods in SPACE.chains], "as many, under the same names"
    for mine in config.chains:
        assert tried[mine.name] == mine
    [pruned] = {methods[0] for name, methods in tried.items() if name.startswith("prune_30-")}
    assert pruned == config.chains[1][0], "each model is made once, by its name"
    for other in (["cluster", "gptq"], ["int8_static"]):
        assert tried[chain_of(other).name] == chain_of(other), "with default settings"


def test_the_trials_of_other_settings_code_or_libraries_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = identities.installed
    model, report = Model("m", Path(), "model"), Report("r", Path(), "report")

    def key(*methods: Any) -> Any:
        config = CompressConfig.model_validate({"methods": methods})
        return identities.search(model, report, space(TASK, config, "accuracy"), TASK, config, EVALUATE)

    assert key() == key("gptq") == key("float16", ["prune", "int8_dynamic"]) != key({"kind": "gptq", "examples": 1024})
    base = key()
    for kind in {type(method) for methods in SPACE.chains for method in methods}:
        with monkeypatch.context() as patch:
            patch.setattr(kind, "version", 99)
            assert key() != base, kind
    for library in ("scikit-learn", "ai-edge-quantizer", "optuna"):
        with monkeypatch.context() as patch:
            patch.setattr(identities, "installed", lambda name: "99" if name == library else installed(name))  # noqa: B023
            assert key() != base, library


def test_what_a_variant_loses_is_of_the_validation_split(
    digits: Digits, workbench_at: Callable, publish: Callable, tmp_path: Path
) -> None:
    bench = workbench_at(tmp_path / "report")
    common = (digits.model, digits.snapshot, digits.records)
    report = publish(Report, bench, evaluate(bench, *common, EVALUATE))
    made: dict[str, Variant] = {}
    for form in (FLOAT, compressed(SPACE.chain({"model": "none", "file": "int8_dynamic"}))):
        bench = workbench_at(tmp_path / form.name)
        reference = made.get("litert")
        outcome = build(bench, form, *common, report, reference, reference, CONFIG, EVALUATE)
        made[form.name] = replace(publish(Variant, bench, outcome), name=form.name)
    int8 = made["int8_dynamic"]
    reported = report.metrics["validation/accuracy"]
    arrays = open_snapshot(digits.snapshot.path).arrays("validation")
    images, labels = np.asarray(arrays["image"]), np.asarray(arrays["label"])
    own = (LiteRT(int8.path / "model.tflite", 1)({"image": images}).argmax(-1) == labels).mean()
    found = lost_on_validation(workbench_at(tmp_path / "lost"), int8, *common, report, EVALUATE)
    assert found == pytest.approx(reported - own)
    assert VariantSpec("litert").name == "litert"
