"""Asynchronous training: equal to one device with one worker, counted exactly, and resumable after any loss."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.config.base import identity
from tasks.config.compose import Config, validate
from tasks.errors import Lost, Refused, Stopped
from tasks.feed import open_snapshot
from tasks.processes.workbench import Workbench
from tasks.store.journal import read
from tasks.training.checkpoints import STATE, unpack
from tasks.training.engines import parameter_server as served
from tasks.training.engines.shards import pieces_of, placed
from tasks.training.fit import fit
from tasks.training.group import Cluster
from tasks.training.initial import FileInit
from tasks.training.loop import make_plan
from tasks.training.optimizers import AdamW, Sgd
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import OneDevice, ParameterServer
from tests.support.homes import DIGITS, SMALL, CommandHome
from tests.support.tiny import CONFIG, MODEL
from tests.support.training import PLAIN, Training, distance, send


def test_variables_are_cut_and_balanced_by_their_bytes() -> None:
    assert pieces_of((1000, 10), 40_000, servers=3, min_bytes=10_000) == 3
    assert pieces_of((1000, 10), 40_000, servers=8, min_bytes=10_000) == 4
    assert pieces_of((2, 5000), 40_000, servers=8, min_bytes=10_000) == 2, "rows are not cut"
    assert pieces_of((), 4, servers=8, min_bytes=1) == 1
    assert placed([100, 10, 10, 90, 10], servers=2) == [0, 1, 1, 1, 0]


ALONE = ParameterServer(workers=1, servers=2, min_shard_bytes=64)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": Sgd(), "clip_norm": 0.5, "steps": None, "epochs": 3},
        pytest.param({"precision": "float16", "accumulate": 2, "optimizer": Sgd(momentum=0.9)}, marks=pytest.mark.slow),
    ],
)
def test_with_one_worker_it_equals_one_device(
    options: dict[str, Any], tiny: Snapshot, training: Callable[[str], Training], benches: Callable[[str], Workbench]
) -> None:
    """Pieces of variables on two servers; the state has the same names and shapes, and the ledger the same bytes.

    It begins with the weights of another model, a layer of which stays as it is.
    """
    base, one, served = benches("base"), benches("one"), training("served")
    fit(base, tiny, PLAIN, CONFIG, seed=1)
    options = {**options, "init": FileInit(path=str(base.staging.root / "model.keras")), "freeze": ("dense0",)}
    fit(one, tiny, PLAIN, CONFIG.model_copy(update=options), seed=5)
    served(**options, strategy=ALONE)
    assert distance(one, served.bench) < 1e-6
    ledgers = [(bench.staging.root / "state/ledger.jsonl").read_bytes() for bench in (one, served.bench)]
    assert ledgers[0] == ledgers[1]


class InPlace:
    """A worker in this process, which computes what is scheduled at once."""

    def __init__(self, strategy: Any = None) -> None:
        self.results: list[Any] = []

    def run(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        return work(*given)

    def schedule(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        return work(*given)

    def join(self) -> None:
        pass

    def fetch(self, results: list[Any]) -> list[Any]:
        return [{name: value.numpy() for name, value in result.items()} for result in results]


@pytest.fixture
def in_place(tf: Any, tiny: Snapshot, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The chief's engine with its worker and its servers in this process: what a step is, without the network."""
    monkeypatch.setattr(tf, "device", lambda name: contextlib.nullcontext())
    monkeypatch.setattr(served, "connect", lambda strategy, cluster: InPlace())
    monkeypatch.setattr(tf.distribute.coordinator, "ClusterCoordinator", InPlace)

    def made(model: Any = MODEL, **options: Any) -> Any:
        config = CONFIG.model_copy(update={"strategy": ALONE, **options})
        plan = make_plan(config, 10, (1000,))
        return served.build(config, model, open_snapshot(tiny.path), plan, 5, Cluster(0, ("a:1",) * 4))

    return made


def test_a_step_drops_out_by_its_own_number_however_many_are_computed_in_a_call(
    in_place: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one batch for all steps and a rate of 0 nothing differs between steps but what is dropped."""
    engine = in_place(learning_rate=0.0)
    engine.seek(0)
    batch = engine.feed.take(1)
    monkeypatch.setattr(engine.feed, "take", lambda n: {name: np.repeat(each, n, 0) for name, each in batch.items()})

    def losses(start: int, *calls: int) -> list[float]:
        engine.seek(start)
        return [loss for n in calls for loss in engine.step(np.zeros(n, np.float32)).sums["loss"].tolist()]

    whole = losses(0, 6)
    assert len({round(loss, 3) for loss in whole}) == 6, "each step has masks of its own"
    for start, calls in ((0, (2, 2, 2)), (0, (1, 5)), (2, (4,)), (3, (1, 2))):
        assert losses(start, *calls) == pytest.approx(whole[start:], rel=1e-3), (start, calls)
    engine.close()


LONG = {
    "steps": 300,
    "optimizer": AdamW(),
    "strategy": ParameterServer(workers=2, servers=2, min_shard_bytes=64),
    "checkpoint": CheckpointConfig(every=20),
    "log_every": 20,
    "evaluate_every": 300,
}


@pytest.mark.slow
def test_lost_and_frozen_workers_are_replaced_and_no_step_is_lost(training: Callable[[str], Training]) -> None:
    """One is killed; the other one stands still, when that one's place is taken."""
    trained = training("trained")
    kill, freeze = send(signal.SIGKILL, 1, 150), send(signal.SIGSTOP, 2, 250)

    def at(step: int, processes: list[int]) -> None:
        kill(step, processes)
        freeze(step, processes)

    trained(MODEL, at=at, silence=5, **LONG)
    goes_on = "starting another, the training goes on"
    assert trained.said == [
        f"rank 1 on {trained.host} was killed by signal 9; {goes_on}",
        f"rank 2 on {trained.host} has not answered for 5 s; {goes_on}",
    ]
    *_, point = (one for one in read(trained.launcher.logs / "journal.jsonl") if "train/loss" in one.metrics)
    last = point.metrics
    assert point.step == 300 and 0 <= last["train/staleness"] <= last["train/staleness_max"] < 50
    assert last["train/repeated_updates"] in (0, 1, 2), "the steps that the workers were computing"
    state = unpack((trained.bench.staging.root / STATE).read_bytes())[2]
    assert state["optimizer/00000"] == 300 + last["train/repeated_updates"], "Keras' own counter loses updates"
    lines = [json.loads(line) for line in (trained.bench.staging.root / "state/ledger.jsonl").read_text().splitlines()]
    assert sum(line["count"] for line in lines) == 300 * CONFIG.batch_size


def test_a_lost_server_resumes_from_the_checkpoint_and_a_signal_to_one_stops_all_at_a_saved_step(
    training: Callable[[str], Training],
) -> None:
    options = {**LONG, "steps": 100_000, "evaluate_every": 100_000, "strategy": ALONE}
    resumed = training("resumed")
    with pytest.raises(Lost, match=f"rank 3 on {resumed.host} was killed by signal 9"):
        resumed(MODEL, at=send(signal.SIGKILL, 3, 45), **options)
    steps: list[int] = []
    terminate = send(signal.SIGTERM, 2, 60)

    def at(step: int, processes: list[int]) -> None:
        steps.append(step)
        terminate(step, processes)

    with pytest.raises(Stopped) as stopped:
        resumed(MODEL, at=at, **options)
    assert min(steps[1:]) >= 40, "from its checkpoint"
    assert stopped.value.saved == resumed.on_disk and int(resumed.on_disk.split()[1]) >= 60


def test_every_step_has_dropout_seeds_of_its_own_and_constants_stay() -> None:
    import keras
    import tensorflow as tf

    from tasks.training.engines.parameter_server import ServedStep

    layers = [keras.layers.Normalization(mean=2.0, variance=4.0), keras.layers.Dropout(0.5, seed=1)]
    model = keras.Sequential([keras.Input((1,)), *layers])
    found = []
    for number in (0, 1, 10**6):
        step = ServedStep(model, None, None, number=tf.constant(number, tf.int64))
        constants = [step._constant(variable, variable.numpy()).numpy() for variable in model.non_trainable_variables]
        found.append(constants)
    seed = next(i for i, v in enumerate(model.non_trainable_variables) if v.path.endswith("seed_generator_state"))
    assert len({tuple(constants[seed]) for constants in found}) == 3
    for i in set(range(len(found[0]))) - {seed}:
        assert all(np.array_equal(constants[i], found[0][i]) for constants in found)


def test_its_strategy_is_part_of_the_identity_and_settings_that_it_cannot_keep_are_refused() -> None:
    config = CONFIG.model_copy(update={"strategy": ParameterServer(workers=3, servers=2)})
    assert identity(config)["strategy"] == {"kind": "parameter_server", "workers": 3}
    assert "strategy" not in identity(CONFIG.model_copy(update={"strategy": OneDevice()}))
    train = {"steps": 3, "strategy": {"kind": "parameter_server"}}
    refusals = (
        ({"jit": True}, "train.jit: True; XLA compiles for one device"),
        ({"continue_from": "abc"}, "train.continue_from"),
    )
    for option, words in refusals:
        with pytest.raises(Refused) as refused:
            validate({"name": "a", "train": {**train, **option}})
        assert words in str(refused.value)
    assert Config.model_validate({"name": "a", "train": train}).train.strategy.processes == 4


@pytest.mark.slow
def test_the_command_and_the_page_say_that_it_is_not_exact(prepared: Callable[[str], CommandHome]) -> None:
    home = prepared("home")
    answer = home("run", "training", DIGITS, *SMALL, "--train.strategy.kind", "parameter_server", "--json")
    assert answer.code == 0, answer.stderr
    assert "parameter_server is asynchronous: it can be resumed, and its result is not repeatable" in answer.stderr
    page = (home.root / "runs" / answer.json["run_id"] / "page.html").read_text()
    assert "Asynchronous:" in page and ">server<" in page
    assert answer.json["artifacts"]["train"][0]["cached"] is False
    assert home("run", "training", DIGITS, *SMALL, "--json").json["artifacts"]["train"][0]["cached"] is False
