"""Training by several processes: equal to one device, exact after kills, and named where one is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.config.compose import validate
from tasks.errors import Failed, Lost, Refused, Stopped
from tasks.feed import open_snapshot
from tasks.processes.config import CHIEF, WORKER, Role
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.runner.showing import Presence
from tasks.store.journal import read
from tasks.training.fit import fit, make_engine
from tasks.training.group import Alone, Cluster, Seconds
from tasks.training.initial import FileInit
from tasks.training.loop import make_plan
from tasks.training.meter import Meter, StepSums
from tasks.training.optimizers import Adam, AdamW, Sgd
from tasks.training.sections import CheckpointConfig, Lora
from tasks.training.speed import Ranks, stragglers
from tasks.training.strategies import MultiWorker, OneDevice, Pipeline
from tests.support.homes import DIGITS, SMALL, CommandHome, compute_processes
from tests.support.stacks import wait
from tests.support.tiny import CONFIG, MODEL, files
from tests.support.training import LONG, PLAIN, TWO, Training, distance, listening, reached_from_elsewhere, send


def test_two_workers_adapt_a_trained_model_as_one_device_does(
    tiny: Snapshot, training: Callable[[str], Training], benches: Callable[[str], Workbench], publish: Callable
) -> None:
    """The second worker gets the initial weights from the chief."""
    base, one, two = benches("base"), benches("one"), training("two")
    trained = publish(Model, base, fit(base, tiny, PLAIN, CONFIG, seed=1))
    options = {"lora": Lora(rank=2, targets=("dense*",), also=("logits",)), "ema": 0.8, "optimizer": Sgd()}
    options |= {"init": FileInit(path=str(trained.path / "model.keras")), "clip_norm": 0.5, "steps": None, "epochs": 3}
    fit(one, tiny, PLAIN, CONFIG.model_copy(update=options), seed=5)
    two(**options)
    assert {rank for rank, line in two.logged if "validation" in line} == {0}, "what all do is logged once"
    rows = two.measured["train/ranks"]
    assert [row["rank"] for row in rows] == [0, 1]
    assert all(0 < row["computing_ms"] < row["call_ms"] and 0 < row["reducing_ms"] < row["call_ms"] for row in rows)
    assert distance(one, two.bench) < 3e-7
    assert files(one)["state/ledger.jsonl"] == files(two.bench)["state/ledger.jsonl"]


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_a_setting_that_this_machine_would_ignore_is_refused(training: Callable[[str], Training]) -> None:
    with pytest.raises(Failed, match=r"train\.strategy\.communication: nccl; NCCL adds up between"):
        training("nccl")(strategy=MultiWorker(communication="nccl"))


@pytest.mark.parametrize(
    ("options", "killed"),
    [
        pytest.param({}, 0, id="float32"),
        pytest.param({"precision": "float16", "accumulate": 2}, 1, id="float16-accumulate", marks=pytest.mark.slow),
    ],
)
def test_killed_and_stopped_at_any_rank_it_ends_with_the_same_bytes(
    options: dict[str, Any], killed: int, training: Callable[[str], Training]
) -> None:
    """With dropout: every replica has a seed of its own. One process is killed; then the other is stopped."""
    options = {**LONG, "steps": 600, **options}
    unbroken, broken = training("unbroken"), training("broken")
    found: list[tuple[int, list[str]]] = []

    def at(step: int, processes: list[int]) -> None:
        if step and not found:
            found.extend((len(listening(each)), reached_from_elsewhere(each)) for each in processes)

    unbroken(MODEL, at=at, **options)
    assert found and all(count > 0 and reached == [] for count, reached in found), (
        "TensorFlow's servers, for each other alone"
    )
    with pytest.raises(Lost, match=f"rank {killed} on .* was killed by signal 9"):
        broken(MODEL, at=send(signal.SIGKILL, killed, 50), **options)
    with pytest.raises(Stopped) as stopped:
        broken(MODEL, at=send(signal.SIGTERM, 1 - killed, 210), **options)
    assert stopped.value.saved == broken.on_disk and int(broken.on_disk.split()[1]) >= 210, "a checkpoint of its own"
    broken(MODEL, **options)
    assert broken.went_on_from == stopped.value.saved
    assert files(broken.bench) == files(unbroken.bench)


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "strategy"), [(0, TWO), (1, TWO), (1, Pipeline(micro_batches=2, workers=2))])
def test_a_frozen_worker_is_named_within_a_minute(
    rank: int, strategy: Any, training: Callable[[str], Training]
) -> None:
    """In the quick suite: `test_train_engine_door`, and a frozen worker of a parameter server."""
    frozen: list[float] = []
    freeze = send(signal.SIGSTOP, rank, 20)

    def at(step: int, processes: list[int]) -> None:
        freeze(step, processes)
        if step >= 20 and not frozen:
            frozen.append(time.monotonic())

    with pytest.raises(Lost, match=f"rank {rank} on .* has not answered for"):
        training("frozen")(MODEL, at=at, **{**LONG, "steps": 100_000, "strategy": strategy})
    assert time.monotonic() - frozen[0] < 60


@pytest.mark.parametrize(
    ("optimizer", "precision", "tolerance", "sizes"),
    [
        (Sgd(), "float32", 3e-7, (2, 3)),
        *(
            pytest.param(*case, (3,), marks=pytest.mark.slow)
            for case in (
                (Adam(), "float32", 2e-5),
                (AdamW(), "float32", 2e-5),
                (Sgd(), "bfloat16", 1e-4),
                (Adam(), "bfloat16", 1e-1),
                (AdamW(), "bfloat16", 5e-2),
            )
        ),
    ],
)
def test_resized_between_attempts_it_is_fed_the_same_batches(
    optimizer: Any,
    precision: str,
    tolerance: float,
    sizes: tuple[int, ...],
    tiny: Snapshot,
    training: Callable[[str], Training],
    benches: Callable[[str], Workbench],
) -> None:
    """Two processes, three, then one: no example is lost or repeated, and the weights are equal within rounding."""
    settings = {"optimizer": optimizer, "precision": precision}
    options = {**settings, "steps": 40, "batch_size": 6, "checkpoint": CheckpointConfig(every=5)}
    one, resized = benches("one"), training("resized")
    fit(one, tiny, PLAIN, CONFIG.model_copy(update=options), seed=5)
    for workers, step in zip(sizes, (10, 20), strict=False):
        with pytest.raises(Lost):
            layout = {"strategy": MultiWorker(workers=workers)}
            resized(PLAIN, at=send(signal.SIGKILL, workers - 1, step), **{**options, **layout})
    fit(resized.bench, tiny, PLAIN, CONFIG.model_copy(update=options), seed=5)
    assert distance(one, resized.bench) < tolerance
    assert files(one)["state/ledger.jsonl"] == files(resized.bench)["state/ledger.jsonl"]


def score(bench: Workbench, snapshot: Snapshot, strategy: Any) -> dict[str, float]:
    """Score the validation split in five batches of one example, by a model that is not trained."""
    config = CONFIG.model_copy(update={"strategy": strategy, "batch_size": 6})
    reader = open_snapshot(snapshot.path)
    plan = make_plan(config, reader.counts["train"], (1,))
    engine = make_engine(config, PLAIN, reader, plan, 5, Cluster(bench.rank, bench.addresses))
    return engine.score(reader.reader("validation", 1, order="stored"))


def test_validation_has_the_same_numbers_at_any_number_of_processes(tiny: Snapshot, tmp_path: Path) -> None:
    scores = []
    for strategy in (OneDevice(), MultiWorker(workers=3), Pipeline(micro_batches=1, workers=2)):
        roles = strategy.roles
        with ProcessLauncher(tmp_path, 1).gang("score", roles) as gang:
            work = Work(score, (tiny, strategy))
            found = gang.call(work, None, tmp_path / "journal", limits=Limits(), on_report=lambda *_: None)
        scores.append(found)
    assert scores[0]["loss"] > 0
    assert scores == [scores[0]] * 3


@pytest.mark.parametrize("strategy", [OneDevice(), pytest.param(TWO, marks=pytest.mark.slow)])
def test_a_sidecar_gives_the_same_scores_and_the_same_best_weights(
    strategy: Any, training: Callable[[str], Training]
) -> None:
    """Also after kills: of the chief, then of the process that evaluates."""
    options = {**LONG, "steps": 400, "strategy": strategy, "select": "best", "evaluate_every": 20, "log_every": 100}
    inline, beside = training("inline"), training("beside")
    inline(MODEL, **options)
    sidecar = strategy.processes
    for rank, step in ((0, 100), (sidecar, 200)):
        with pytest.raises(Lost, match=f"rank {rank} on .* was killed by signal 9"):
            beside(MODEL, at=send(signal.SIGKILL, rank, step), **options, evaluate="sidecar")
    beside(MODEL, **options, evaluate="sidecar")
    assert files(beside.bench) == files(inline.bench)
    scores = [
        sorted((p.step, p.metrics) for p in read(one.launcher.logs / "journal.jsonl") if "validation/loss" in p.metrics)
        for one in (inline, beside)
    ]
    assert scores[0] == scores[1] and len(scores[0]) == 20


@pytest.mark.slow
def test_a_run_with_a_sidecar_makes_the_same_files(finished: CommandHome, tmp_path: Path) -> None:
    """The training has all threads of the machine, as without a sidecar."""
    home = CommandHome(tmp_path / "home")
    answer = home("run", "training", DIGITS, *SMALL, "--train.evaluate", "sidecar", "--json")
    assert answer.code == 0, answer.stderr
    made = home.artifacts()
    assert made and made.items() <= finished.artifacts().items()


def test_a_sidecar_is_refused_where_it_is_too_late() -> None:
    with pytest.raises(Refused, match=r"train\.evaluate: sidecar; its scores come when the training has gone on"):
        validate({"name": "a", "train": {"steps": 3, "evaluate": "sidecar", "early_stopping": {"patience": 1}}})


@pytest.mark.slow
def test_the_command_starts_lost_workers_again_and_makes_the_same_model(tmp_path: Path) -> None:
    """A worker is killed, then all processes; the same command continues. Prefect and the summary have one run."""
    flags = ["--train.strategy.kind", "multi_worker", "--train.steps", "200", "--train.checkpoint.every", "20"]
    words = ["run", "training", DIGITS, *flags, "--json"]
    unbroken, broken = CommandHome(tmp_path / "unbroken"), CommandHome(tmp_path / "broken")
    answer = unbroken(*words)
    assert answer.code == 0, answer.stderr

    def trained(step: int) -> Callable[[], bool]:
        return lambda: any(
            point.step >= step for path in broken.root.glob("runs/*/metrics.jsonl") for point in read(path)
        )

    process = broken.start(*words)
    wait(trained(40))
    worker = next(
        one for one in compute_processes(broken.root) if Path(f"/proc/{one.pid}/fd/1").readlink().name == "train-1.log"
    )
    worker.kill()
    wait(trained(100))
    os.killpg(process.pid, signal.SIGKILL)
    _, stderr = process.communicate(timeout=200)
    assert "rank 1 on " in stderr and "starting again in 2 s (1 of 3 without a new checkpoint)" in stderr
    answer = broken(*words)
    assert answer.code == 0 and answer.json["attempt"] == 2, answer.stderr
    assert broken.artifacts() == unbroken.artifacts()
    assert broken("show", answer.json["run_id"], "--json").json["ledger"]["wrong"] == []


def test_the_times_of_each_process_are_measured_and_the_slow_one_is_named(caplog: pytest.LogCaptureFixture) -> None:
    measured: dict[str, Any] = {}
    ranks = Ranks(10, ("a", "b", "c"), lambda name, value: measured.update({name: value}))
    meter, engine = Meter(), SimpleNamespace(group=Alone())
    with caplog.at_level("WARNING"):
        for step in range(1, 32):
            meter.last = sums_of([FAST, Seconds(0.050, 0.031, 0.009, 0.005), FAST])
            ranks(step, meter, engine)  # type: ignore[arg-type]
    ranks.end()
    assert caplog.messages == ["step 11: rank 1 on b is slow: 40.0 ms a step where the others take 10.0"]
    rows = measured["train/ranks"]
    assert [(row["rank"], row["host"], row["straggler"]) for row in rows] == [
        (0, "a", False),
        (1, "b", True),
        (2, "c", False),
    ]
    assert rows[1]["waiting_ms"] == pytest.approx(31) and rows[0]["reducing_ms"] == pytest.approx(35)


def test_a_process_that_is_a_little_slower_is_no_straggler() -> None:
    slower = Seconds(0.100, 0.0, 0.052, 0.048)
    assert stragglers([slower._replace(computing=0.040), slower, slower], 1) == []
    assert stragglers([slower._replace(computing=0.030), slower._replace(computing=0.030), slower], 1) == [2]
    quick = Seconds(0.002, 0.0, 0.001, 0.001)
    assert stragglers([quick, quick._replace(computing=0.003)], 1) == [], "three times as slow, by 2 ms"


FAST = Seconds(0.050, 0.001, 0.009, 0.035)


def sums_of(ranks: list[Seconds]) -> StepSums:
    one = np.ones(1)
    return StepSums({"loss": one}, one, one > 0, one.astype(np.float32), 1, 1, 0.05, 0.0, ranks=ranks)


def test_processes_that_start_together_are_shown_once_and_each_loss_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[list[str]] = []
    monkeypatch.setattr("tasks.tracking.prefect_page.processes", lambda stage, events: None)
    run = SimpleNamespace(measure=lambda name, events: shown.append([f"{e['rank']} {e['event']}" for e in events]))
    presence = Presence("train", (CHIEF, WORKER, Role("worker", serves=True, replaced=True)), run)  # type: ignore[arg-type]
    events = [(0, "started"), (1, "started"), (2, "started"), (2, "killed"), (2, "started"), (1, "killed")]
    for rank, event in [*events, (0, "started"), (1, "started"), (2, "started")]:
        presence.note(rank, "host", event)
    assert [len(events) for events in shown] == [3, 4, 5, 6, 9]
    assert shown[-1][3:6] == ["2 killed", "2 started", "1 killed"]
