"""What the processes of a training tell each other: integers, times, weights, scores; and their share of a host."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.environment import hardware
from tasks.errors import Failed, Lost
from tasks.processes.workbench import Workbench
from tasks.training import memory as of_training
from tasks.training import sidecar
from tasks.training.checkpoints import pack, unpack
from tasks.training.config import TrainConfig
from tasks.training.engines import OutOfMemory
from tasks.training.group import Alone, Cluster, Seconds, agree, signed
from tasks.training.ledger import hash_of
from tasks.training.meter import Meter
from tasks.training.sidecar import Sidecar, connected, serve
from tasks.training.speed import Ranks, added, stragglers
from tasks.training.strategies import MultiWorker, ParameterServer


class Sums:
    """The group of a process whose numbers are added to those that the others have given before."""

    def __init__(self, rank: int, size: int, total: list[int]) -> None:
        self.cluster, self.total = Cluster(rank, ("a:1",) * size), total

    def totals(self, values: list[int]) -> list[int]:
        self.total[:] = [signed(a + b) for a, b in zip(self.total or [0] * len(values), values, strict=True)]
        return list(self.total)


def test_integers_wrap_into_64_bits() -> None:
    assert [signed(value) for value in (2**63 - 1, 2**63, 2**64 - 1, 2**64 + 5, -(2**63), -(2**63) - 1)] == [
        *(2**63 - 1, -(2**63), -1, 5),
        *(-(2**63), 2**63 - 1),
    ]
    assert Alone().totals([2**64 - 1, 3]) == [-1, 3] and Alone().share(b"x") == b"x"


def test_processes_agree_on_all_rows_and_on_the_times_of_each() -> None:
    times = [Seconds(1.5, 0.25, 0.5, 0.125), Seconds(2.5, 0.75, 1.0, 0.0625)]
    hashes = []
    for number in range(20):
        rows = [np.array([number, 2, 3]), np.array([7, 8])]
        total: list[int] = []
        for rank in (0, 1):
            agreed = agree(Sums(rank, 2, total), rows[rank], times[rank])  # type: ignore[arg-type]
        assert (agreed.fed, agreed.fed_hash, agreed.ranks) == (5, hash_of(np.concatenate(rows)), times)
        hashes.append(agreed.fed_hash)
    assert min(hashes) < 2**63 < max(hashes) < 2**64, "never below 0, as in a ledger"


def test_times_are_added_by_process_and_by_what_they_are_of() -> None:
    one, other = Seconds(1, 2, 3, 4), Seconds(5, 6, 7, 8)
    assert added([], [one, other]) == [one, other]
    assert added([one, other], [other, one]) == [Seconds(6, 8, 10, 12)] * 2


def test_times_of_one_process_are_not_compared() -> None:
    measured: list[Any] = []
    ranks = Ranks(1, ("a",), lambda *args: measured.append(args))
    meter = Meter(last=SimpleNamespace(ranks=[Seconds(1, 0)], steps=1))  # type: ignore[arg-type]
    for step in (1, 2):
        ranks(step, meter, SimpleNamespace(group=Alone()))  # type: ignore[arg-type]
    ranks.end()
    assert measured == [] and ranks.total == []


def test_a_process_that_becomes_slow_is_named_by_the_steps_since_the_last_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Calls of two steps; four steps are looked at together. The first call compiles."""
    measured = dict[str, Any]()
    ranks = Ranks(4, ("a", "b", "c"), lambda name, value: measured.update({name: value}))
    engine: Any = SimpleNamespace(group=SimpleNamespace(cluster=Cluster(0, ("a:1",) * 3)))
    even = [Seconds(1, 0.010, 0.010), Seconds(1, 0.004, 0.012), Seconds(1, 0.006, 0.018)]
    slow_b, slow_c = [*even], [*even]
    slow_b[1], slow_c[2] = Seconds(1, 0.060, 0.020, 0.5), Seconds(1, 0.008, 0.032, 0.5)
    with caplog.at_level("WARNING"):
        for number, times in enumerate((slow_c, even, slow_b, slow_b, slow_b, even, slow_c, slow_c, slow_c)):
            ranks(2 + 2 * number, Meter(last=SimpleNamespace(ranks=times, steps=2)), engine)  # type: ignore[arg-type]
    ranks.end()
    assert caplog.messages == [
        "step 6: rank 1 on b is slow: 24.0 ms a step where the others take 11.0",
        "step 14: rank 2 on c is slow: 16.0 ms a step where the others take 9.0",
    ]
    rows = measured["train/ranks"]
    assert [row["straggler"] for row in rows] == [False, True, False]
    assert [row["host"] for row in rows] == ["a", "b", "c"]
    waiting = (8 * 10 / 16, (5 * 4 + 3 * 60) / 16, (5 * 6 + 3 * 8) / 16)
    assert [row["waiting_ms"] for row in rows] == pytest.approx(waiting)
    assert [row["call_ms"] for row in rows] == pytest.approx([500] * 3)


@pytest.mark.parametrize(
    ("own", "other", "slow"),
    [
        (0.015, 0.010, False),
        (0.010, 0.005, False),
        (0.0151, 0.010, True),
        (0.030, 0.020, False),
        (0.011, 0.005, True),
        (0.0061, 0.002, False),
    ],
)
def test_a_straggler_is_slower_by_more_than_half_and_by_more_than_five_milliseconds(
    own: float, other: float, slow: bool
) -> None:
    ranks = [Seconds(0, other, 0), Seconds(0, 0, own)]
    assert stragglers(ranks, 1) == ([1] if slow else [])
    assert stragglers([Seconds(0, 2 * each.waiting, 2 * each.computing) for each in ranks], 2) == ([1] if slow else [])


def test_processes_of_a_training_by_servers_are_the_chief_the_workers_and_the_servers() -> None:
    from tasks.training.engines.parameter_server import jobs

    addresses = tuple(f"host:{number}" for number in range(6))
    made = jobs(ParameterServer(workers=3, servers=2), Cluster(4, addresses))
    assert made == {"chief": ["host:0"], "worker": ["host:1", "host:2", "host:3"], "ps": ["host:4", "host:5"]}


KEY = "the key of the call"


def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def serving(place: str, score: Callable[[Any], dict[str, float]], stopping: Callable[[], int]) -> None:
    """Begin to score as another process does, until the connection is closed."""

    def work() -> None:
        with suppress(Lost):
            serve(place, KEY, score, stopping)

    threading.Thread(target=work, daemon=True).start()


def engine_of(value: float) -> Any:
    return SimpleNamespace(weights=lambda: {"w": np.full(2, value)})


def test_scores_of_another_process_come_in_order_each_with_its_weights() -> None:
    place, taken = address(), list[tuple[int, dict[str, float], float]]()

    def score(weights: dict[str, np.ndarray]) -> dict[str, float]:
        time.sleep(0.01)
        return {"loss": float(weights["w"].sum())}

    def stopping() -> int:
        return 15  # a signal is the chief's affair

    def take(step: int, scores: dict[str, float], weights: Callable[[], dict[str, np.ndarray]]) -> None:
        taken.append((step, scores, float(weights()["w"][0])))

    serving(place, score, stopping)
    beside = Sidecar(place, KEY, 2, take)
    for step in (2, 4, 6, 8):
        beside(step, Meter(), engine_of(step))
    beside.settle(8)
    assert taken == [(step, {"loss": 2.0 * step}, float(step)) for step in (2, 4, 6, 8)]


def test_scores_are_taken_before_a_checkpoint_that_waits_for_them_is_committed() -> None:
    """A training that is killed then and resumed would lack the evaluation."""
    place, taking, go_on = address(), threading.Event(), threading.Event()
    happened: list[str] = []

    def take(*scores: Any) -> None:
        taking.set()
        go_on.wait(10)
        happened.append("scores")

    def commit() -> None:
        beside.settle(2)
        happened.append("checkpoint")

    serving(place, lambda weights: {"loss": 1.0}, lambda: 0)
    beside = Sidecar(place, KEY, 2, take)
    beside(2, Meter(), engine_of(1))
    assert taking.wait(10)
    saving = threading.Thread(target=commit, daemon=True)
    saving.start()
    saving.join(0.05)  # as long as it has to come too early
    go_on.set()
    saving.join(10)
    assert happened == ["scores", "checkpoint"]


def test_a_checkpoint_does_not_wait_for_the_scores_of_later_steps() -> None:
    """Or it would be committed when the training is far ahead, and a kill until then cost all these steps."""
    place, scored, go_on = address(), threading.Event(), threading.Event()

    def score(weights: dict[str, np.ndarray]) -> dict[str, float]:
        if weights["w"][0] > 2:
            go_on.wait(10)
        return {"loss": 1.0}

    serving(place, score, lambda: 0)
    beside = Sidecar(place, KEY, 2, lambda step, scores, weights: scored.set())
    for step in (2, 4, 6):
        beside(step, Meter(), engine_of(step))
    waiting = threading.Thread(target=lambda: beside.settle(3), daemon=True)
    waiting.start()
    waiting.join(5)
    assert not waiting.is_alive() and scored.is_set()
    waiting = threading.Thread(target=lambda: beside.settle(4), daemon=True)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    go_on.set()
    waiting.join(5)
    assert not waiting.is_alive()


def test_an_error_of_what_takes_the_scores_or_a_lost_process_ends_the_training() -> None:
    place = address()

    def fail(*scores: Any) -> None:
        raise ValueError("the journal is full")

    serving(place, lambda weights: {"loss": 1.0}, lambda: 0)
    beside = Sidecar(place, KEY, 2, fail)
    beside(2, Meter(), engine_of(1))
    with pytest.raises(ValueError, match="the journal is full"):
        beside.settle(2)
    with pytest.raises(ValueError, match="the journal is full"):
        beside(4, Meter(), engine_of(1))


def test_a_process_that_never_listens_is_lost_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "CONNECT_SECONDS", 0.2)
    place, raised = address(), list[float]()

    def connect() -> None:
        before = time.monotonic()
        with suppress(ConnectionRefusedError):
            connected(place, KEY)
        raised.append(time.monotonic() - before)

    trying = threading.Thread(target=connect, daemon=True)
    trying.start()
    trying.join(5)
    assert raised and raised[0] >= 0.2
    beside = Sidecar(place, KEY, 2, lambda *scores: None)
    with pytest.raises(Lost, match="the process that evaluates must answer"):
        for step in range(9):
            beside(step, Meter(), engine_of(1))
    with pytest.raises(Lost):
        beside.settle(2)


def test_whoever_has_not_the_key_is_turned_away_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "GREETING_SECONDS", 1)
    place = address()
    serving(place, lambda weights: {"loss": float(weights["w"][0])}, lambda: 0)
    host, _, port = place.partition(":")
    with pytest.raises(AuthenticationError):
        connected(place, "another key")
    silent, noisy = (socket.create_connection((host, int(port))) for _ in range(2))
    noisy.sendall(b"\xff" * 4096)
    taken: list[float] = []
    beside = Sidecar(place, KEY, 2, lambda step, scores, weights: taken.append(scores["loss"]))
    beside(2, Meter(), engine_of(7))
    beside.settle(2)
    assert taken == [7.0]
    with silent, noisy:
        for stranger in (silent, noisy):
            stranger.settimeout(5)
            with suppress(ConnectionError):
                while stranger.recv(4096):
                    pass


def test_weights_are_sent_bit_for_bit_and_never_as_objects() -> None:
    weights = {"a": np.array([1.5, -0.0, np.nan], np.float32), "b": np.arange(4, dtype=np.uint32).reshape(2, 2)}
    _, _, again = unpack(pack(0, {}, weights))
    assert list(again) == ["a", "b"] and all(again[name].tobytes() == weights[name].tobytes() for name in weights)
    assert again["b"].shape == (2, 2) and again["a"].dtype == np.float32
    with pytest.raises(ValueError, match="allow_pickle"):
        pack(0, {}, {"a": np.array([{}], object)})


def test_processes_of_a_host_share_its_memory(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available", lambda: 1200)
    hosts = ("one", "two", "one", "one")
    shares = [of_training.share_of_host(SimpleNamespace(hosts=hosts, rank=rank)) for rank in range(4)]  # type: ignore[arg-type]
    assert shares == [400, 1200, 400, 400]


class Fitting:
    """An engine whose step fits from a number of micro-batches on, in each process another."""

    divisible = True

    def __init__(self, least: int, votes: Callable[[list[int]], list[int]] = list, activations: int = 0) -> None:
        self.least, self.activations, self.tried, self.set = least, activations, list[int](), 0
        self.group = SimpleNamespace(totals=votes)

    def fits(self, accumulate: int, available: int) -> bool:
        self.tried.append(accumulate)
        return accumulate >= self.least

    def accumulate(self, number: int) -> None:
        self.set = number


FIT = TrainConfig(steps=1, batch_size=16, fit_memory=True)


def test_the_least_micro_batches_that_fit_are_taken_kept_and_set(bench: Workbench) -> None:
    engine: Any = Fitting(3)
    assert of_training.micro_batches(engine, FIT, bench) == 4 == engine.set and engine.tried == [1, 2, 4]
    again: Any = Fitting(1)
    assert of_training.micro_batches(again, FIT, bench) == 4 == again.set, "a training that goes on has the same"
    assert again.tried == []


def test_micro_batches_must_fit_in_all_processes(bench: Workbench) -> None:
    """Another process says no, to less than 8."""
    votes: list[int] = []

    def totals(values: list[int]) -> list[int]:
        votes.append(values[0])
        return [values[0] + (0 < len(votes) - 1 < 4)]

    engine: Any = Fitting(1, totals)
    assert of_training.micro_batches(engine, FIT, bench) == 8 and engine.tried == [1, 2, 4, 8]


def test_what_never_fits_is_refused_and_a_model_that_cannot_be_divided_is_tried_as_it_is(bench: Workbench) -> None:
    engine: Any = Fitting(99)
    with pytest.raises(Failed, match="which is too much for the") as failed:
        of_training.micro_batches(engine, FIT, bench)
    assert engine.tried == [1, 2, 4, 8, 16] and "set train.remat: true" in failed.value.remedy
    engine = Fitting(2)
    engine.divisible = False
    with pytest.raises(Failed):
        of_training.micro_batches(engine, FIT.model_copy(update={"accumulate": 1}), bench)
    assert engine.tried == [1]


def test_a_step_is_measured_where_its_activations_are_a_quarter_of_what_is_free(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available", lambda: 4 * 16 * 100)
    config = TrainConfig(steps=1, batch_size=16)
    few: Any = Fitting(2, activations=100)
    assert of_training.micro_batches(few, config, bench) == 1 and few.tried == [], "not more than a quarter"
    many: Any = Fitting(2, activations=101)
    with pytest.raises(Failed, match="set it to 2, which fits, or set train.fit_memory: true"):
        of_training.micro_batches(many, config, bench)
    assert many.tried == [1, 2]
    halved: Any = Fitting(2, activations=199)
    assert of_training.micro_batches(halved, config.model_copy(update={"accumulate": 2}), bench) == 2
    assert halved.tried == [], "of half as many examples at once"


def test_a_step_that_does_not_fit_after_all_is_explained(bench: Workbench) -> None:
    engine: Any = Fitting(4)
    config = TrainConfig(steps=1, batch_size=16, accumulate=2)
    with (
        pytest.raises(Failed, match="2, which is too much for a tensor; the activations of 8 examples .*; set it to 4"),
        of_training.explained(engine, config, bench),
    ):
        raise OutOfMemory("a tensor")
    shared = TrainConfig(steps=1, batch_size=16, strategy=MultiWorker(workers=2))
    assert of_training.candidates(shared) == [1, 2, 4, 8], "of a replica's share"
