"""A stage: what it notes before it uses an artifact, what it checks after the work, and what decides a digest."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig, WantConfig
from tasks.compression.judgement import Judgement
from tasks.compression.search import space
from tasks.compression.specs import FLOAT, VariantSpec, compressed
from tasks.config.compose import load
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gates import Verdict
from tasks.exporting.config import ExportConfig
from tasks.processes.workbench import Work
from tasks.runner import identities
from tasks.runner.attempt import Attempt, current, threads_of_trials
from tasks.runner.compressing import judged, kept
from tasks.runner.hosts import expectations
from tasks.runner.identities import Code, Identity
from tasks.runner.stages import previewing, run_stage
from tasks.runs.home import Home
from tasks.store.store import Store, digest_of
from tests.support.homes import DIGITS

EVENTS: list[str] = []


class Stub:
    """An attempt whose work is done at once, and that keeps what happens."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root / "store")
        self.run = SimpleNamespace(home=Home(root), use=lambda kind, digest: EVENTS.append(f"use {kind}"), folder=root)
        self.signals = SimpleNamespace(working=contextlib.nullcontext)
        self.shown = lambda stage, name: contextlib.nullcontext(
            SimpleNamespace(say=print, progress=print, finish=lambda *words: None)
        )

    def raise_if_stopped(self) -> None:
        pass

    def work(self, stage: str, work: Work[Any], staging: Any, **options: Any) -> Outcome:
        EVENTS.append("work")
        staging.put("part", b"bytes")
        return Outcome(counts={"examples": 1})

    def produced_by(self) -> dict[str, Any]:
        return {"run": "r", "layout": {}}

    def made(self, stage: str, artifact: Any, seconds: float, *, cached: bool) -> None:
        EVENTS.append(f"made, {'cached' if cached else 'new'}")


@pytest.fixture
def attempt(tmp_path: Path) -> Any:
    EVENTS.clear()
    token = current.set(Stub(tmp_path))  # type: ignore[arg-type]
    yield current.get()
    current.reset(token)


def stage(sources: Any = tuple, **more: Any) -> Records:
    identity = Identity({"a": 1}, {}, Code(1), sources=sources)
    return run_stage("convert", Records, identity, Work(print), prepare=lambda: EVENTS.append("prepare"), **more)


def test_an_artifact_is_noted_before_it_is_made_and_made_once(attempt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Store.claim

    def claim(*words: Any) -> Any:
        EVENTS.append("lock")
        return real(*words)

    monkeypatch.setattr(Store, "claim", claim)
    first, second = stage(), stage()
    assert first.digest == second.digest and first.path == second.path
    assert EVENTS == ["use records", "lock", "prepare", "work", "made, new", "use records", "lock", "made, cached"]


def test_a_source_that_changed_during_the_work_is_not_published(attempt: Any) -> None:
    contents = iter(["first", "second", "second"])
    with pytest.raises(Failed, match="it changed during the run"):
        stage(lambda: [("file", next(contents))])
    assert attempt.store.published() == [] and EVENTS[-1] == "work"


def test_a_file_of_a_stored_artifact_is_put_where_users_look_for_it(attempt: Any, tmp_path: Path) -> None:
    for _ in range(2):
        stage(keep=("part", "copy"))
        assert (tmp_path / "copy").read_bytes() == b"bytes"
        (tmp_path / "copy").unlink()


@pytest.mark.parametrize("field", ["format", "config", "parents", "sources", "version", "kind"])
def test_each_part_of_an_identity_is_in_the_digest(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(**more: Any) -> str:
        made: dict[str, Any] = {"config": {"a": 1}, "parents": {}, "code": Code(1), "sources": tuple, **more}
        return digest_of(Identity(**made).inputs(Records))

    before = digest()
    changed = {
        "config": lambda: digest(config={"a": 2}),
        "parents": lambda: digest(parents={"x": Model("d", Path(), "model")}),
        "sources": lambda: digest(sources=lambda: [("a", "b")]),
        "version": lambda: digest(code=Code(2)),
    }
    if field == "format":
        monkeypatch.setattr(Records, "format", 2)
        assert digest() != before
    elif field == "kind":
        assert digest_of(Identity({"a": 1}, {}, Code(1)).inputs(Snapshot)) != before
    else:
        assert changed[field]() != before
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


MODEL, OTHER = Model("1" * 64, Path(), "model"), Model("2" * 64, Path(), "model")
SNAPSHOT, REPORT = Snapshot("3" * 64, Path(), "snapshot"), Report("4" * 64, Path(), "report")
FLOAT_FILE, ANOTHER = Variant("5" * 64, Path(), "litert"), Variant("6" * 64, Path(), "litert")
EVALUATE = EvaluateConfig()


def variant(
    form: VariantSpec = FLOAT, reference: Variant | None = None, config: CompressConfig | None = None, **evaluate: Any
) -> str:
    settings = EVALUATE.model_copy(update=evaluate)
    made = identities.variant(
        form, MODEL, SNAPSHOT, None, reference, "classification", config or CompressConfig(), settings
    )
    return digest_of(made.inputs(Variant))


def test_a_variant_is_that_of_all_that_it_is_judged_and_made_by() -> None:
    quantised, selective = (
        compressed(CompressConfig.model_validate({"methods": [name]}).chains[0])
        for name in ("int8_dynamic", "int8_selective")
    )
    digests = [
        variant(),
        variant(quantised),
        variant(quantised, FLOAT_FILE),
        variant(quantised, ANOTHER),
        variant(config=CompressConfig(max_difference=0.5)),
        variant(bins=7),
        variant(primary="f1"),
        variant(positive="b"),
    ]
    assert len(set(digests)) == len(digests) and variant(resamples=123) == digests[0]
    gated = CompressConfig.model_validate({"gates": [{"kind": "float", "max_loss": 0.005}]})
    assert variant(quantised, config=gated) == variant(quantised), "it does not read the limit"
    assert variant(selective, config=gated) != variant(selective), "and this one does"


def test_a_judgement_is_that_of_the_report_the_settings_and_the_variants() -> None:
    def key(report: Report = REPORT, variants: Any = (FLOAT_FILE,), **more: Any) -> str:
        config = CompressConfig(undecided=more.pop("undecided", "keep"))
        return digest_of(identities.judgement(variants, report, config, EVALUATE.model_copy(update=more)))

    keys = [key(), key(Report("9" * 64, Path(), "report")), key(primary="f1"), key(undecided="reject")]
    keys += [key(variants=(ANOTHER,)), key(variants=())]
    assert len(set(keys)) == len(keys)


def test_a_search_is_that_of_the_report_the_limits_and_the_rank() -> None:
    def key(report: Report = REPORT, config: CompressConfig | None = None, at: int = 10) -> str:
        config = config or CompressConfig()
        evaluate = EVALUATE.model_copy(update={"at": at})
        tried = space("classification", CompressConfig(), "accuracy")
        return digest_of(identities.search(MODEL, report, tried, "classification", config, evaluate))

    keys = [key(), key(Report("9" * 64, Path(), "report")), key(config=CompressConfig(max_difference=0.5)), key(at=5)]
    assert len(set(keys)) == len(keys)


def test_an_export_is_that_of_the_report_whose_thresholds_it_has_and_of_what_is_said_of_its_variants() -> None:
    def digest(fitted: Report | None = None, **marks: Any) -> str:
        variants = [Variant("5" * 64, Path(), "litert", **marks)]
        return digest_of(identities.export(MODEL, SNAPSHOT, variants, ExportConfig(), fitted).inputs(Model))

    digests = [digest(), digest(REPORT), digest(note="too few"), digest(chosen=True)]
    assert len(set(digests)) == len(digests)


def test_a_prepared_model_is_that_of_its_seed_and_a_trained_one_of_its_settings() -> None:
    method: Any = CompressConfig.model_validate({"methods": [["cluster", "int8_dynamic"]]}).chains[0][0]
    prepared = {digest_of(identities.prepared(MODEL, SNAPSHOT, method, seed).inputs(Model)) for seed in (1, 2)}
    train = load(DIGITS).train
    trained = {
        digest_of(identities.retrained(MODEL, SNAPSHOT, each, seed, teacher).inputs(Model))
        for each in (train, train.model_copy(update={"batch_size": 7}))
        for seed in (1, 2)
        for teacher in (None, OTHER)
    }
    assert len(prepared) == 2 and len(trained) == 8


def test_hosts_must_agree_on_code_strategy_and_settings() -> None:
    config = load(DIGITS, [("train.strategy", "{kind: multi_worker, workers: 2}")])
    expected = expectations(config)
    assert expected["train.strategy.workers"] == 2 and expected["train.strategy.kind"] == "multi_worker"
    assert {"code of training", "tensorflow", "seed", "train.batch_size"} <= expected.keys()
    other = expectations(load(DIGITS, [("train.strategy", "{kind: multi_worker, workers: 2, devices: 2}")]))
    assert [name for name in expected if expected[name] != other.get(name)] == ["train.strategy.devices"]


def test_processes_share_the_threads_of_their_host_and_those_of_other_hosts_do_not() -> None:
    attempt: Any = Attempt.__new__(Attempt)
    attempt.threads, attempt.rendezvous = 8, None
    assert [attempt.threads_of_each(count) for count in (1, 2, 3, 20)] == [8, 4, 2, 1]
    attempt.rendezvous = object()
    assert attempt.threads_of_each(4) == 8
    for parallel, threads in ((1, 8), (3, 2), (16, 1)):
        assert threads_of_trials(SimpleNamespace(tune=SimpleNamespace(parallel=parallel)), 8) == threads  # type: ignore[arg-type]
    assert threads_of_trials(SimpleNamespace(tune=None), 8) == 8  # type: ignore[arg-type]


def test_the_layout_says_what_changes_the_last_bits() -> None:
    def layout(strategy: str) -> dict[str, Any]:
        attempt: Any = Attempt.__new__(Attempt)
        attempt.threads, attempt.rendezvous = 4, None
        attempt.config = load(DIGITS, [("train.strategy", strategy)])
        made: dict[str, Any] = attempt.layout
        return {name: value for name, value in made.items() if name != "processor"}

    assert layout("{kind: one_device}") == {"threads": 4, "strategy": "one_device", "devices": 1}
    assert layout("{kind: pipeline, devices: 2, micro_batches: 8}")["micro_batches"] == 8
    assert "micro_batches" not in layout("{kind: pipeline, devices: 2, micro_batches: 1}")
    workers = layout("{kind: multi_worker, workers: 2}")
    assert (workers["threads"], workers["workers"]) == (2, 2)


def test_a_judgement_is_made_anew_where_a_variant_is_new(attempt: Any, tmp_path: Path) -> None:
    """Its latencies are those of the machine at that time: of a stored variant those of then count."""
    worked: list[int] = []
    attempt.shipper = SimpleNamespace(tags=lambda tags: None)
    attempt.run.home = SimpleNamespace(runs=tmp_path)
    empty: dict[str, Any] = {"verdicts": {}, "front": {}, "want": None, "chosen": None}

    def work() -> dict[str, Any]:
        worked.append(1)
        return {**empty, "missed": f"judged {len(worked)}"}

    found = []
    for run, cached in (("1", [False]), ("2", [True, True]), ("3", [True, False]), ("4", [True])):
        attempt.run.folder = tmp_path / run
        attempt.run.record = {"stages": {"compress": [{"cached": each} for each in cached]}}
        found.append(judged("compress", {"key": 1}, work).missed)
    assert found == ["judged 1", "judged 1", "judged 2", "judged 2"], "of equal ones that of the newest run"


def test_a_rejected_variant_is_left_out_and_an_undecided_one_marked() -> None:
    def of(verdict: str) -> tuple[Verdict, ...]:
        return (Verdict("quality", 0.0, 0.1, verdict, f"text of {verdict}"),)

    verdicts = {"a": of("pass"), "b": of("fail"), "c": of("not enough data")}
    standing = {"a": "accepted", "b": "rejected", "c": "undecided"}
    made = Judgement(verdicts, standing, chosen="a")
    found = kept([Variant(name * 64, Path(), name) for name in "abc"], made)
    assert [(each.name, each.note, each.chosen) for each in found] == [
        ("a", "", True),
        ("c", "text of not enough data", False),
    ]
    with pytest.raises(Failed, match="no variant meets it: a: too large"):
        kept([], replace(made, missed="a: too large", want=WantConfig(bytes=9)))


def test_a_plan_knows_parents_of_other_stages(tmp_path: Path) -> None:
    with previewing(Store(tmp_path), load(DIGITS)) as preview:
        parent = preview.plan("convert", Records, Identity({"a": 1}, {}, Code(1)), "records")
        child = preview.plan("snapshot", Snapshot, Identity({"b": 1}, {"records": parent}, Code(1)), "snapshot")
        assert preview.planned["snapshot"][0].parents["records"].digest == parent.digest
        assert preview.find(Snapshot, child.digest, "snapshot").manifest["parents"] == {"records": parent.digest}
        assert preview.call("promote", pytest.fail, lambda: pytest.fail("it always runs")) is None
