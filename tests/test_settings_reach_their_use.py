"""A setting counts at each of its uses: what is called there gets the value of the config, and not a default."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks import compress as compressing
from tasks import export as exporting
from tasks import train as verbs
from tasks.compression import work as compression
from tasks.compression.config import CompressConfig
from tasks.config.compose import Config, load
from tasks.errors import Failed
from tasks.evaluation import calibration, decisions, paired, report, slices
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gating import AbsoluteGate
from tasks.evaluation.measured import Interval, Value
from tasks.evaluation.paired import PairedDifference
from tasks.evaluation.tasks.language_model import LanguageModelJudge
from tasks.exporting import export as exports
from tasks.exporting import score as scores
from tasks.exporting.config import ExportConfig
from tasks.records.assignment import Assignment
from tasks.records.config import RecordsConfig
from tasks.registry import approval, comparison
from tasks.runner import identities, releasing
from tasks.runner import starting_models as of_methods
from tasks.runs.runs import Run, opened
from tasks.search import study as studies
from tasks.search.config import TuneConfig
from tasks.sources.hashes import split_numbers
from tasks.training import fit as fitting
from tasks.training.config import TrainConfig
from tasks.training.engines import parameter_server as served
from tasks.training.engines.tensorflow import engine as tensorflow_engine
from tasks.training.group import Cluster
from tasks.training.strategies import OneDevice
from tasks.view import results
from tests.support.homes import DIGITS
from tests.support.registries import YES, RegistryHome
from tests.support.stand_ins import contributions


class Seen(Exception):
    """What was looked at has been called: what follows it does not matter."""


class Calls(list[Any]):
    """Keeps the arguments of calls; the last call raises where `stop` is set."""

    def __init__(self, result: Any = None, stop: bool = False) -> None:
        super().__init__()
        self.result, self.stop = result, stop

    def __call__(self, *given: Any, **more: Any) -> Any:
        self.append((given, more))
        if self.stop:
            raise Seen
        return self.result

    @property
    def given(self) -> tuple[Any, ...]:
        [(given, _)] = self
        return tuple(given)

    @property
    def more(self) -> dict[str, Any]:
        [(_, more)] = self
        return dict(more)


# The registry.


def run_with(registry_home: RegistryHome, seed: int, **promote: Any) -> Run:
    """A run of the pipeline with settings of `promote`, as it stands before that stage."""
    settings = {"baseline": "none", **promote}
    flags = [("seed", str(seed)), *((f"promote.{name}", str(value)) for name, value in settings.items())]
    with opened(registry_home.home, "pipeline", load(DIGITS, flags), new=True, prefect_id=None, waiting=print) as run:
        return run


def asked(registry_home: RegistryHome, number: int, score: float, **promote: Any) -> tuple[Run, str]:
    """A run that came to `promote` with an export of that score, by the margin of its own config; its status."""
    run = run_with(registry_home, number, **promote)
    return run, registry_home.promote(run, number, score, margin=run.config.promote.margin)


def test_an_approval_after_the_champion_was_replaced_asks_what_each_run_asks(registry_home: RegistryHome) -> None:
    """Five of 100 examples more are no more than noise."""
    asks: list[dict[str, Any]] = [{"require": "better"}, {"margin": 0.2}, {"margin": 0.01}]
    runs = [asked(registry_home, n, 0.9, approval="required", **promote) for n, promote in enumerate(asks, 1)]
    assert [status for _, status in runs] == ["awaiting_approval"] * 3, "there is no champion yet"
    assert asked(registry_home, 4, 0.85, approval="none")[1] == "completed"
    settled = [approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES) for run, _ in runs]
    assert [made.alias for made in settled] == ["candidate", "candidate", "champion"]
    assert "; within noise by a permutation test, 95 % interval" in settled[0].verdict
    assert "promote.margin 0.2000" in settled[1].verdict and registry_home.at("champion") == "3"


def test_a_promotion_asks_what_each_run_asks(registry_home: RegistryHome) -> None:
    """And an approval against the champion of then is not compared again."""
    asked(registry_home, 1, 0.8, approval="none")
    assert asked(registry_home, 2, 0.84, approval="none", require="better")[1] == "rejected"
    assert asked(registry_home, 3, 0.9, approval="none", margin=0.2)[1] == "rejected"
    run, status = asked(registry_home, 4, 0.9, approval="required", require="better")
    assert status == "awaiting_approval"
    shutil.rmtree(registry_home.home.store / "report")
    made = approval.settle(registry_home.client, Run(registry_home.home, run.folder), YES)
    assert made.alias == "champion" == registry_home.tags("4")["gate"].partition(",")[0]


def test_a_champion_is_scored_with_the_evaluation_of_the_run(
    registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [("evaluate.resamples", "123"), ("evaluate.bins", "7")]
    with opened(registry_home.home, "pipeline", load(DIGITS, flags), new=True, prefect_id=None, waiting=print) as run:
        work = Calls({"accuracy": 0.5})
        attempt: Any = SimpleNamespace(run=run, config=run.config, store=None, work=work)
        monkeypatch.setattr("tasks.registry.registry.fetch", lambda *given: SimpleNamespace(path=Path("export")))
        records: Any = SimpleNamespace(path=Path("records"))
        champion: Any = SimpleNamespace(export="e", version="1")
        assert releasing._score_again(attempt, None, champion, records, run.config.evaluate) == {"accuracy": 0.5}  # type: ignore[arg-type]
    assert work.given[1].arguments == (Path("export"), Path("records"), "test", run.config.evaluate)
    assert (work.given[1].arguments[3].resamples, work.given[1].arguments[3].bins) == (123, 7)


def test_a_champion_that_cannot_be_run_on_the_records_is_named_with_what_is_compared_instead(
    registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*given: Any) -> Any:
        raise Failed("records", "region", "no such column", "compare on records that have it")

    said: list[str] = []
    with opened(registry_home.home, "pipeline", load(DIGITS), new=True, prefect_id=None, waiting=print) as run:
        attempt: Any = SimpleNamespace(run=run, config=run.config, store=None, work=work)
        monkeypatch.setattr("tasks.registry.registry.fetch", lambda *given: SimpleNamespace(path=Path("export")))
        monkeypatch.setattr(releasing.terminal, "say", lambda text, **style: said.append(text))
        champion: Any = SimpleNamespace(export="e", version="1")
        records: Any = SimpleNamespace(path=Path("records"))
        assert releasing._score_again(attempt, None, champion, records, run.config.evaluate) == {}  # type: ignore[arg-type]
    assert said == [
        "warning: champion version 1 cannot be run on these records, so its own report is compared, where it has these "
        "examples: records: region; no such column; compare on records that have it"
    ]


def test_a_run_is_compared_with_the_champion_and_not_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    champion: Any = SimpleNamespace(tags={"millrace.run": "of the champion"})
    run: Any = SimpleNamespace(home="home", run_id="new")
    monkeypatch.setattr(comparison, "resolve_run", lambda home, name: name)
    monkeypatch.setattr(comparison, "Facts", lambda run: run)
    sides = Calls([SimpleNamespace(values="of the champion"), "own"])
    monkeypatch.setattr(comparison.results, "pair", sides)
    assert comparison.by_report(champion, run, EVALUATE) == ("own", "of the champion")
    assert sides.given == ("of the champion", run, "test", EVALUATE)
    monkeypatch.setattr(comparison.results, "pair", lambda *runs: None)
    assert comparison.by_report(champion, run) is None, "it was made on other examples"


def test_versions_are_compared_by_the_resamples_of_the_newer_run(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(evaluate=EvaluateConfig(resamples=321), model=SimpleNamespace(task="classification"))
    after: Any = SimpleNamespace(
        metric="test/accuracy", config=config, metrics={"test/accuracy": 0.9}, judged="examples"
    )
    before: Any = SimpleNamespace(metrics={"test/accuracy": 0.8}, config=SimpleNamespace(evaluate=EvaluateConfig()))
    own = contributions(accuracy=np.linspace(0, 1, 9)[:, None])
    change = Calls(PairedDifference(Interval(0.1, 0.05, 0.15, "", 9), more_than_noise=True, same=False))
    monkeypatch.setattr(paired, "change", change)
    beside = comparison.Compared(own, own.values, np.ones(9, bool))
    champion: Any = SimpleNamespace(version="1", metric="test/accuracy", score=0.8, behind=0.0)
    champion.tags = {}
    comparison.champion_of(champion, SimpleNamespace(config=config), beside)  # type: ignore[arg-type]
    assert change.given[3] == 321
    subject = Calls(stop=True)
    monkeypatch.setattr(comparison, "Facts", lambda run: after)
    monkeypatch.setattr(comparison.results, "contributions", lambda *given: own)
    monkeypatch.setattr("tasks.evaluation.gating.Subject", subject)
    monkeypatch.setattr("tasks.evaluation.report.read_slices", lambda *given: (None, {}))
    with pytest.raises(Seen):
        comparison.judge(None, None, (), "1", None, ("f1", True))  # type: ignore[arg-type]
    assert subject.more["primary"] == ("f1", True)
    change.clear()
    monkeypatch.setattr(results, "interval", lambda *given: None)
    results._row(before, after, "test/accuracy", "accuracy", (own, own))
    assert change.given[3] == 321


# Compression, evaluation and export.


def test_variants_are_judged_by_the_limits_of_compress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.compression import verdicts

    config = CompressConfig.model_validate(
        {"max_difference": 0.25, "undecided": "reject", "gates": []}
        | {"gates": [{"kind": "absolute", "metric": "accuracy", "at_least": 0.5}]}
    )
    described = {"methods": [], "against_float": {"max_abs_difference": 0.2, "largest": 0.5}}
    described["against_float"]["drawn"] = {"max_abs_difference": 0.1, "largest": 0.4}  # type: ignore[index]
    variants: list[Any] = []
    for name in ("saved_model", "int8"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "variant.json").write_text(json.dumps(described))
        variants.append(SimpleNamespace(name=name, path=tmp_path / name))
    forms: list[Any] = [SimpleNamespace(on_file=None, methods=()), SimpleNamespace(on_file="int8", methods=("int8",))]
    subject, found = Calls("subject"), Calls([])
    standing = Calls("accepted", stop=True)
    monkeypatch.setattr(verdicts, "read_slices", lambda *given: (None, {}))
    monkeypatch.setattr(verdicts, "subject_of", subject)
    monkeypatch.setattr(AbsoluteGate, "find", lambda gate, *given: found(gate, *given))
    monkeypatch.setattr(verdicts, "by_slice", lambda *given: {})
    monkeypatch.setattr(verdicts, "standing_of", standing)
    parity = Calls(passed := SimpleNamespace(passed=True))
    monkeypatch.setattr(verdicts.gates, "parity", parity)
    monkeypatch.setattr(verdicts, "decide", lambda found: found)
    bench: Any = SimpleNamespace(progress=lambda *given: None)
    with pytest.raises(Seen):
        verdicts.judge(
            bench,
            forms,
            variants,
            variants[0],
            None,
            {},
            "classification",
            config,
            EVALUATE,  # type: ignore[arg-type]
        )
    asked = {(0.2, 0.5, 0.25), (0.1, 0.4, 0.25, "outputs for drawn inputs")}
    assert {given for given, _ in parity} == asked
    assert subject.given[-1] is EVALUATE
    assert found.given == (config.gates[0], "subject")
    assert standing.given == ([passed], "reject")


def test_what_is_searched_and_judged_is_another_for_other_settings() -> None:
    made: Any = SimpleNamespace(digest="d", name="v")
    plain = CompressConfig()

    class Space:
        chains = ()

    def search(config: CompressConfig, evaluate: EvaluateConfig) -> str:
        return json.dumps(identities.search(made, made, Space(), "classification", config, evaluate))  # type: ignore[arg-type]

    evaluate = EvaluateConfig()
    stricter = CompressConfig.model_validate({"gates": [{"kind": "float", "max_loss": 0.125}]})
    keys = [search(plain, evaluate), search(stricter, evaluate), search(plain, EvaluateConfig(at=3))]
    keys.append(search(plain.model_copy(update={"max_difference": 0.5}), evaluate))
    assert len(set(keys)) == 4 and keys[0] == search(plain, evaluate)
    judged = [
        json.dumps(identities.judgement([made], made, config, each), default=str)
        for config, each in ((plain, evaluate), (stricter, evaluate), (plain, EvaluateConfig(primary="f1")))
    ]
    assert len(set(judged)) == 3


@contextlib.contextmanager
def stages(monkeypatch: pytest.MonkeyPatch, module: Any) -> Iterator[Calls]:
    """Calls of `run_stage` from a module, which makes nothing."""
    calls = Calls(SimpleNamespace(name="made", digest="d", manifest={"statistics": {}}, path=Path()))
    monkeypatch.setattr(module, "run_stage", calls)
    yield calls


def test_each_part_of_compress_gets_its_own_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [("export.formats", "[saved_model, keras]"), ("compress.max_difference", "0.01"), ("evaluate.bins", "7")]
    config = load(DIGITS, flags)
    compress, evaluate, export = config.compress, config.evaluate, config.export
    model: Any = SimpleNamespace(digest="m", task="classification")
    monkeypatch.setattr(compressing, "parent_of", lambda *given: "records")
    for name in ("variant", "judgement"):
        monkeypatch.setattr(identities, name, Calls("identity"))
    measured = Calls("measured")
    monkeypatch.setattr(compressing, "measure_stage", measured)
    monkeypatch.setattr(compressing, "judged", lambda stage, key, judge: judge())
    monkeypatch.setattr(compressing, "kept", lambda variants, judgement: variants)
    from tasks.runner.stages import body_of

    with stages(monkeypatch, compressing) as calls:
        body_of(compressing.compress)(model, "snapshot", "report", compress, evaluate, export, config.train, 7)  # type: ignore[arg-type]
    names = [more["name"] for _, more in calls]
    assert names == ["saved_model", "keras", "litert", "int8_dynamic"], "one for each of export.formats"
    assert all(given[3].arguments[-2:] == (compress, evaluate) for given, _ in calls)
    latency, gates = (given for given, _ in measured)
    assert latency[1] == "latency" and gates[2].arguments[-2:] == (compress, evaluate)
    for given, _ in calls:
        assert given[3].function is compression.write_variant


@pytest.mark.parametrize("served", [True, False])
def test_the_report_is_part_of_an_export_where_predictions_use_it(
    served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.runner.stages import body_of

    monkeypatch.setattr(exporting, "parent_of", lambda artifact, name, kind: SimpleNamespace(name=name, digest="d"))
    identity = Calls("identity")
    monkeypatch.setattr(identities, "export", identity)
    config, evaluate = ExportConfig(golden=5), EvaluateConfig(calibrate="temperature" if served else None)
    model: Any = SimpleNamespace(digest="d")
    with stages(monkeypatch, exporting) as calls:
        body_of(exporting.export)(model, [], "report", config, evaluate)  # type: ignore[arg-type]
    expected = "report" if served else None
    assert identity.given[3:] == (config, expected)
    assert calls.given[3].arguments[4:6] == (config, expected) and calls.more["threads"] == 1


def test_an_export_has_as_many_golden_examples_as_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Calls(stop=True)
    monkeypatch.setattr(exports, "golden_inputs", inputs)
    variant: Any = SimpleNamespace(name="saved_model", bytes=1, path=Path("v"))
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"{}")
    bench: Any = SimpleNamespace(staging=SimpleNamespace(reserve=lambda size: None))
    with pytest.raises(Seen):
        exports.build(bench, *("model", "snapshot", "records"), [variant], ExportConfig(golden=5), None, {})  # type: ignore[arg-type]
    assert inputs.given == ("snapshot", 5)


EVALUATE = EvaluateConfig(resamples=123, metrics=("accuracy",), positive="b", threshold={"maximize": "f1"})  # type: ignore[arg-type]


def test_every_interval_of_a_report_is_over_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Calls({"loss": SimpleNamespace(as_json=dict, flat=lambda name: {})})
    change = Calls(SimpleNamespace(as_json=dict))
    monkeypatch.setattr(calibration, "intervals", found)
    monkeypatch.setattr(calibration, "difference", change)
    monkeypatch.setattr(calibration, "flat", lambda split, metrics: {})
    predictions: Any = SimpleNamespace(scaled=lambda by: "scaled")
    judge: Any = SimpleNamespace(
        metrics={"loss": SimpleNamespace(contributions=lambda each: each, resampled=False), "accuracy": None},
        figures=lambda each: {},
        binary=Calls("decisions"),
        examples=9,
        predictions=lambda kept: "predictions",
        extents=lambda predictions: np.ones(9),
        units="units",
    )
    calibration.measured(judge, predictions, 2.0, EVALUATE)
    assert [given[3] for given, _ in found] == ["units", "units"] and change.given[3] == "units"

    thresholds = Calls(({}, {}))
    monkeypatch.setattr(decisions.binary, "measured", thresholds)
    decisions.measured(judge, "predictions", decisions.Decision(None, {"b": 0.5}), EVALUATE)  # type: ignore[dict-item]
    assert judge.binary.given == ("predictions",) and thresholds.given[2] == "units"

    compared = Calls("compared")
    monkeypatch.setattr(slices.fairness, "compare", compared)
    made, scored = Calls(judge), Calls({})
    monkeypatch.setattr(scores, "read_transform", lambda folder: {})
    monkeypatch.setattr(scores, "RecordsReader", lambda path: SimpleNamespace(counts={"test": 9}))
    monkeypatch.setattr(scores, "_open", lambda *given: ("classification", "raw"))
    monkeypatch.setattr(scores, "make_judge", made)
    monkeypatch.setattr(scores, "float_model", lambda export: None)
    monkeypatch.setattr(scores, "run_model", lambda *given, **more: SimpleNamespace(kept={}))
    monkeypatch.setattr(scores, "names_of", lambda *given: ("accuracy",))
    monkeypatch.setattr(scores, "intervals", scored)
    judge.metrics["accuracy"] = SimpleNamespace(resampled=False)
    bench: Any = SimpleNamespace(progress=None)
    assert scores.score(bench, Path(), Path(), "test", EVALUATE)["examples"] == 9
    assert made.given[2] is EVALUATE and scored.given[3] == "units"


def test_a_report_asks_for_its_metrics_and_its_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EVALUATE.model_copy(update={"robustness": ("a probe",)})
    judge: Any = SimpleNamespace(
        predictions=lambda kept: "predictions",
        metrics={"accuracy": "accuracy"},
        saved="logits",
        details=lambda each: {},
        figures=lambda each: {},
        baselines={},
        examples=8,
        units=None,
        targets=[0],
        pictures=lambda *given: {},
        show=lambda call: {},
    )
    judges, names, probes = Calls(judge), Calls(("accuracy",)), Calls(stop=True)
    found = Calls({"accuracy": Value(0.5)})
    beside = Calls({"baselines": {}, "learned_baseline": None})
    own, fitted, decided, of_slices = Calls({}), Calls(decisions.Decision()), Calls(({}, {})), Calls({})
    piece = contextlib.nullcontext(SimpleNamespace(path=tmp_path / "slices"))
    for name, stub in {
        "architecture": lambda path: {"model": {"task": "classification"}, "loss": "cross_entropy"},
        "inference_function": lambda model: "call",
        "load": lambda path: None,
        "with_main_output": lambda network: network,
        "SnapshotSplit": lambda snapshot, records, split: split,
        "_seen": lambda usage, judge, split: {},
        "make_judge": judges,
        "run_model": lambda *given, **more: SimpleNamespace(kept={"logits": np.zeros(1)}),
        "_file": lambda *given: "file",
        "intervals": found,
        "names_of": names,
        "own_metrics": own,
        "learned": lambda *given: None,
        "flat": lambda split, metrics: {},
    }.items():
        monkeypatch.setattr(report, name, stub)
    monkeypatch.setattr(report.further, "measured", lambda *given: ({}, {}))
    monkeypatch.setattr(report.comparing, "measured", beside)
    monkeypatch.setattr(report.comparing, "flat", lambda *given: {})
    monkeypatch.setattr(report.decisions, "fit", fitted)
    monkeypatch.setattr(report.decisions, "measured", decided)
    monkeypatch.setattr(report.slices, "measured", of_slices)
    monkeypatch.setattr(report.slices, "masks_of", lambda *given: {})
    monkeypatch.setattr(report.robustness, "measured", probes)
    bench: Any = SimpleNamespace(progress=None, staging=SimpleNamespace(piece=lambda name: piece))
    made: Any = SimpleNamespace(path=Path())
    with pytest.raises(Seen):
        report.build(bench, made, made, made, config)
    assert [(given[1], given[2]) for given, _ in judges] == [("validation", config), ("test", config)]
    assert [given[-1] for given, _ in beside] == [config, config]
    assert all(given[2] is config for given, _ in names) and all(given[3] is None for given, _ in found)
    assert fitted.given[2] is config and len(fitted) == 1, "on the validation split"
    assert all(given[-1] is config for given, _ in (*decided, *of_slices)) and own[0][0][0] is config
    assert probes.given[0] is config and probes.given[-2] == 1


def test_a_sample_of_a_language_model_is_as_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.evaluation.tasks import language_model

    sample = Calls("text")
    monkeypatch.setattr(language_model, "sample", sample)
    monkeypatch.setattr(language_model.Codec, "open", lambda folder: "codec")
    judge: Any = LanguageModelJudge.__new__(LanguageModelJudge)
    judge.split, judge.tokens = SimpleNamespace(transform="t"), np.zeros((2, 33))
    judge.config = EvaluateConfig(sample_tokens=7, sample_temperature=0.3, sample_prompt="once")
    shown = judge.show("call")
    assert sample.given == ("call", "codec", "once", 7, 0.3, 32)
    assert shown == {"sample": {"prompt": "once", "temperature": 0.3, "text": "text"}}
    judge.config = EvaluateConfig(sample_tokens=0)
    assert judge.show("call") == {}


# Records.


@pytest.mark.parametrize("seed", [0, 7])
def test_what_is_carved_from_train_is_of_its_share_and_by_the_seed(seed: int) -> None:
    """Of a source with train and test of its own."""
    import pyarrow as pa

    config = RecordsConfig(splits="official", validation_share=0.25, split_seed=seed)
    hashes = np.random.default_rng(3).integers(0, 2**63, 4000).astype(np.uint64)
    official = pa.array(["train"] * 3000 + ["test"] * 1000)
    numbers, carved = Assignment(config, {}, ("train", "test")).numbers(pa.table({}), {}, hashes, official, {})
    assert carved.tolist() == [True] * 3000 + [False] * 1000
    names = np.array(config.names)[numbers]
    expected = split_numbers(hashes, {"train": 0.75, "validation": 0.25}, seed)
    np.testing.assert_array_equal(names[:3000], np.array(["train", "validation"])[expected[:3000]])
    assert set(names[3000:]) == {"test"} and 0.2 < (names[:3000] == "validation").mean() < 0.3
    shares = {"train": 0.5, "validation": 0.3, "test": 0.2}
    by_share = RecordsConfig(splits=shares, split_seed=seed)
    of_all, _ = Assignment(by_share, {}, ()).numbers(pa.table({}), {}, hashes, None, {})
    np.testing.assert_array_equal(of_all, split_numbers(hashes, shares, seed))


@pytest.mark.parametrize("seed", [0, 7])
def test_the_place_of_an_example_is_by_the_seed_of_the_split(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    from tasks.records import sorting

    places, table = Calls(stop=True), pa.table({sorting.KEY: ["a", "b"]})
    monkeypatch.setattr(sorting, "places", places)
    sorter: Any = sorting.Sorter.__new__(sorting.Sorter)
    sorter._config, sorter._split, sorter._key = RecordsConfig(split_seed=seed), None, "id"
    sorter._rules = SimpleNamespace(check=lambda *given: None, keep=lambda table, good: good)
    sorter._assignment = SimpleNamespace(numbers=lambda *given: (np.zeros(2, np.int64), np.zeros(2, bool)))
    sorter._typed, sorter._contents = lambda *given: (table, {}), lambda *given: np.zeros((2, 2), np.uint64)
    rows: Any = SimpleNamespace(columns={}, keys=pa.array(["a", "b"]), splits=None, bad=[], skipped=[])
    with pytest.raises(Seen):
        sorter._sorted_out(rows, sorting.Spill(0))
    assert places.given[1] == seed


# Training and tuning.


TRAIN: dict[str, Any] = {
    "steps": 100,
    "batch_size": 48,
    "log_every": 3,
    "evaluate_every": 5,
    "checkpoint": {"every": 7, "keep": 4},
    "on_spike": {"factor": 3.0},
    "tensorboard": {"trace": [20, 21]},
}


@pytest.mark.parametrize("beside", [False, True])
def test_a_training_does_each_thing_at_its_own_interval(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {name: value for name, value in TRAIN.items() if name != "on_spike" or not beside}
    config = TrainConfig.model_validate({**settings, "evaluate": "sidecar" if beside else "inline"})
    trained, plans, boards, reserved = Calls(stop=True), Calls("plan"), Calls(), Calls()
    snapshot: Any = SimpleNamespace(counts={"train": 480, "validation": 9}, features={})
    engine: Any = SimpleNamespace(state=lambda: {"a": np.zeros(5, np.float32)}, layout={})
    plan: Any = SimpleNamespace(steps=100, batch_size=48)
    plans.result = plan

    class Board:
        actions = ()

        def __init__(self, *given: Any) -> None:
            boards(*given)

        def curves(self, journal: Any) -> Any:
            return journal

    monkeypatch.setattr("tasks.models.features.positions", lambda features: 1)
    for name, stub in {
        "open_snapshot": lambda path: snapshot,
        "make_plan": plans,
        "Board": Board,
        "validation": lambda snapshot: "batches",
        "names_of": lambda *given: str,
        "micro_batches": lambda *given: 1,
        "train": trained,
    }.items():
        monkeypatch.setattr(fitting, name, stub)
    built = Calls(engine)
    monkeypatch.setattr(fitting, "make_engine", built)
    bench: Any = SimpleNamespace(
        rank=0,
        addresses=("a:1", "a:2") if beside else ("a:1",),
        hosts=("here",),
        progress=lambda *given, **more: None,
        measure=lambda *given: None,
        journal=SimpleNamespace(reached=0, folder=tmp_path),
        staging=SimpleNamespace(reserve=reserved, root=tmp_path),
        stopping=lambda: 0,
        saving=lambda size: None,
        saved=lambda step: None,
        layout={},
        key="key",
    )
    model: Any = SimpleNamespace(own=False, task="classification")
    with pytest.raises(Seen):
        fitting.fit(bench, SimpleNamespace(path=tmp_path), model, config, 11)  # type: ignore[arg-type]
    _, of_plan, checkpoints, meter, actions, _ = trained.given
    every = {type(getattr(action, "action", action)).__name__: action.every for action in actions}
    assert of_plan is plan and plans.given == (config, 480, (3, 5, 7, fitting.SPAN))
    assert (every["LogCurves"], every["Samples"], every["Save"]) == (3, 5, 7)
    assert ("Sidecar" in every, "Evaluate" in every) == (beside, not beside)
    assert every["Sidecar" if beside else "Evaluate"] == 5
    ranks = next(action for action in actions if isinstance(action, fitting.Ranks))
    assert ranks.log_every == 3 and boards.given[1:] == (config.tensorboard, 5)
    assert checkpoints.config is config.checkpoint and meter.spikes.config is config.on_spike
    assert reserved.given == ((4 + 3) * 20,), "four checkpoints, one being written, the model and its weights"
    assert built.given[0] is config and built.given[4] == 11


STEP: dict[str, Any] = {
    "steps": 100,
    "batch_size": 48,
    "accumulate": 4,
    "precision": "bfloat16",
    "clip_norm": 0.5,
    "ema": 0.9,
    "order": "shuffled",
    "log_every": 3,
    "layer_rates": {"a*": 0.5},
    "optimizer": {"kind": "sgd", "momentum": 0.5},
    "augment": [{"kind": "flip"}],
}


@pytest.mark.parametrize("more", [{}, {"remat": True}, {"jit": True}, {"order": "lengths"}])
def test_a_step_is_built_with_all_of_its_settings(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    config = TrainConfig.model_validate({**STEP, **more})
    policies: list[str] = []
    model: Any = SimpleNamespace(variables=[], trainable_variables=[SimpleNamespace(path="a/kernel")])
    feeds, steps, optimizers, rates, watched = Calls("feed"), Calls(), Calls("optimizer"), Calls(), Calls("watched")
    again, engines, adapted, strategies, objectives = Calls(), Calls("engine"), Calls([]), Calls(), Calls("loss")
    steps.result, again.result = SimpleNamespace(variables=["v"]), SimpleNamespace(variables=["w"])
    strategies.result = SimpleNamespace(scope=contextlib.nullcontext, place=lambda model: model)

    def build(features: Any, seed: int) -> Any:
        policies.append(keras.config.dtype_policy().name)
        assert seed == 11
        return model

    for name, stub in {
        "make_objective": objectives,
        "adapt": adapted,
        "check_layers": Calls(),
        "make_optimizer": optimizers,
        "scale_rates": rates,
        "Step": steps,
        "RematerialisedStep": again,
        "segments": lambda model: ["segment"],
        "with_added": lambda *given: None,
        "Feed": feeds,
        "Watched": watched,
        "Weights": Calls("weights"),
        "TensorFlowEngine": engines,
        "trimmed": lambda order, features: f"padded for {order}",
    }.items():
        monkeypatch.setattr(tensorflow_engine, name, stub)
    monkeypatch.setattr(OneDevice, "create", strategies)
    snapshot: Any = SimpleNamespace(features={})
    place: Any = SimpleNamespace(rank=2, size=4)
    of_task: Any = SimpleNamespace(task="classification", build=build)
    tensorflow_engine.build(config, of_task, snapshot, "plan", 11, place)
    assert strategies.given == (place,) and objectives.given[1] is config
    assert policies == ["mixed_bfloat16"] and keras.config.dtype_policy().name == "float32"
    assert adapted.given == (model, config, 11)
    assert (optimizers.given[0], optimizers.given[2], optimizers.more) == (config.optimizer, "bfloat16", {"ema": 0.9})
    assert list(rates.given[1]) == [0.5]
    assert steps.given[3:] == (0.5, 4, config.jit) and steps.more["timed"] is True
    assert steps.more["padded"] == f"padded for {config.order}"
    assert len(again) == config.remat and (not config.remat or again.more["segments"] == ("segment",))
    assert feeds.given == (snapshot, "plan", 11, 2, 4, config.augment)
    assert watched.given[1] == 3 and engines.given[0] == (again.result if config.remat else steps.result)


def test_a_step_on_servers_is_built_with_all_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    several = {"kind": "parameter_server", "workers": 2, "servers": 3, "min_shard_bytes": 4096}
    given = {name: value for name, value in STEP.items() if name not in ("ema", "layer_rates")}
    config = TrainConfig.model_validate({**given, "strategy": several, "order": "blocks"})
    policies: list[str] = []
    feeds, steps, optimizers, pieces = Calls("feed"), Calls("step"), Calls("optimizer"), Calls()
    pieces.result = SimpleNamespace(flat=["variable"], paths=["path"])
    adapted, connected = Calls(), Calls("strategy")

    def build(features: Any, seed: int) -> Any:
        policies.append(keras.config.dtype_policy().name)
        assert seed == 11
        return "model"

    for name, stub in {
        "lost_processes": contextlib.nullcontext,
        "connect": connected,
        "make_objective": Calls("loss"),
        "adapt": adapted,
        "check_layers": Calls(),
        "Shards": pieces,
        "make_optimizer": optimizers,
        "ServedStep": steps,
        "Feed": feeds,
        "ParameterServerEngine": Calls("engine"),
        "trimmed": lambda order, features: f"padded for {order}",
    }.items():
        monkeypatch.setattr(served, name, stub)
    monkeypatch.setattr(served.tf, "device", lambda name: contextlib.nullcontext())
    snapshot: Any = SimpleNamespace(features={})
    of_task: Any = SimpleNamespace(task="classification", build=build)
    served.build(config, of_task, snapshot, "plan", 11, Cluster(0, ("a:1",)))
    assert policies == ["mixed_bfloat16"] and connected.given[0] is config.strategy
    assert adapted.given == ("model", config, 11) and pieces.given == ("model", 3, 4096)
    assert optimizers.given == (config.optimizer, ["variable"], "bfloat16") and optimizers.more == {"paths": ["path"]}
    assert steps.given == ("model", "optimizer", "loss", 0.5, 4) and steps.more["padded"] == "padded for blocks"
    assert feeds.given == (snapshot, "plan", 11) and feeds.more == {"augment": config.augment}


def test_what_evaluates_beside_a_training_has_its_precision_and_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    config = TrainConfig.model_validate({"steps": 9, "precision": "float16", "evaluate": "sidecar"})
    policies: list[Any] = []
    objective = Calls("loss")
    monkeypatch.setattr(tensorflow_engine, "make_objective", objective)
    monkeypatch.setattr(tensorflow_engine, "Scoring", Calls("scoring"))
    snapshot: Any = SimpleNamespace(features={})
    of_task: Any = SimpleNamespace(
        task="classification", build=lambda *given: policies.append(keras.config.dtype_policy().name)
    )
    tensorflow_engine.scorer(config, of_task, snapshot, 11)
    assert policies == ["mixed_float16"] and objective.given[1] is config


def test_lost_processes_start_again_as_often_as_the_training_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.runner.stages import body_of

    config = load(DIGITS, [("train.restarts", "9"), ("train.evaluate", "sidecar"), ("train.seeds", "3")])
    examples: Any = SimpleNamespace(manifest={"features": {}}, digest="d")
    for name in ("base_model", "initial_model"):
        monkeypatch.setattr(verbs, name, Calls())
    monkeypatch.setattr(verbs, "parent_of", Calls("records"))
    chosen = Calls("identity")
    monkeypatch.setattr(identities, "model", Calls("identity"))
    monkeypatch.setattr(identities, "choice", chosen)
    with stages(monkeypatch, verbs) as calls:
        body_of(verbs.train)(examples, config.model, config.train, 5, config.evaluate)
    trainings, choice = calls[:-1], calls[-1]
    assert len(trainings) == 3, "train.seeds"
    for _, more in trainings:
        assert more["restarts"] == 9 and more["roles"] == config.train.roles and len(more["roles"]) == 2
    seeds = [given[3].arguments[3] for given, _ in trainings]
    assert seeds[0] == 5 and len(set(seeds)) == 3
    assert {given[3].arguments[2].seeds for given, _ in trainings} == {1}
    assert choice[0][3].arguments[4] is config.train


def test_a_method_that_trains_is_started_again_as_often_as_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(DIGITS, [("train.restarts", "9"), ("train.log_every", "13"), ("train.batch_size", "24")])
    flags = {"methods": [[{"kind": "prune", "fine_tune": {"steps": 9}}, "int8_dynamic"]]}
    [method] = CompressConfig.model_validate(flags).on_models
    monkeypatch.setattr(identities, "prepared", Calls("identity"))
    retrained = Calls("identity")
    monkeypatch.setattr(identities, "retrained", retrained)
    model: Any = SimpleNamespace(digest="m")
    examples: Any = SimpleNamespace(digest="s", manifest={"features": {}})
    with stages(monkeypatch, of_methods) as calls:
        of_methods.change_model(method, model, examples, "prune", config.train, 5)
    given, last = calls[1]
    assert len(calls) == 3 and last["restarts"] == 9 and last["roles"] == config.train.roles
    own = retrained.given[2]
    assert (own.steps, own.log_every, own.batch_size, own.init.model) == (9, 13, 24, "d")
    assert given[3].arguments[4:] == (own, 5)


def test_a_study_is_kept_where_the_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TuneConfig.model_validate(
        {"space": {"train.ema": {"kind": "choice", "values": [0.5]}}, "trials": 3, "storage": "env:STUDY"}
    )
    opens = Calls(contextlib.nullcontext("storage"))
    monkeypatch.setattr(studies, "opened_storage", opens)
    made = Calls("study")
    monkeypatch.setattr(studies, "Study", made)
    with studies.opened(tmp_path / "s.db", "name", config, higher_is_better=False, seed=5) as study:
        assert study == "study"
    assert opens.given == (tmp_path / "s.db", "env:STUDY", "name", "minimize")
    assert made.given == ("storage", "name", config, "minimize", 5)


def test_a_study_is_another_where_evaluations_are_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**train: Any) -> str:
        config: Config = load(DIGITS, [(f"train.{name}", str(value)) for name, value in train.items()])
        made: Any = SimpleNamespace(inputs=lambda kind: "inputs", sources=list)
        monkeypatch.setattr(identities, "model", lambda *given: made)
        tune = TuneConfig.model_validate({"space": {"train.ema": {"kind": "choice", "values": [0.5]}}, "trials": 3})
        return json.dumps(identities.study(made, config.model, config.train, 1, tune, None, None), default=str)

    assert key() == key(log_every=7) != key(evaluate_every=7)
