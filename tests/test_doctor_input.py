"""`millrace doctor --input` measures each part of a preset's input, and names the one that is slowest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from flows.commands import doctor
from tasks.artifacts import Records, Snapshot
from tasks.config.compose import Config
from tasks.feed.augmentations import Cutout
from tasks.feed.snapshot_reader import BatchReader
from tasks.processes.fork_server import SHARED
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.snapshots import work as snapshots
from tasks.training import ceilings
from tasks.training.ceilings import Ceiling, Trained, slowest
from tests.support.homes import DIGITS, CommandHome
from tests.support.shared import shared_fork_servers

PRESET: dict[str, Any] = {
    "name": "digits",
    "source": {"kind": "sklearn"},
    "snapshot": {"kind": "image", "height": 8, "width": 8, "channels": 1},
    "model": {"kind": "mlp", "units": [8]},
    "train": {"steps": 3, "batch_size": 32, "schedule": {"warmup": 1}},
}
PARTS = ["source", "transform", "read", "batch", "transfer", "step"]

Measured = Callable[..., list[Ceiling]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Measured:
    """`measured(**train)`: the ceilings of the preset with these settings, each part timed for a moment."""
    root, config = tmp_path_factory.mktemp("doctor"), Config.model_validate(PRESET)
    bench: Workbench = workbench_at(root / "records")
    converted = publish(Records, bench, conversion.build(bench, config.source, config.records))
    bench = workbench_at(root / "snapshot")
    made = publish(Snapshot, bench, snapshots.build(bench, converted, config.snapshot))

    def measure(**train: Any) -> list[Ceiling]:
        ours = Config.model_validate({**PRESET, "train": {**PRESET["train"], **train}})
        return ceilings.measure(
            bench, ours.source, ours.snapshot, ours.model, ours.train, ours.seed, converted, made, root
        )

    return measure


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SECONDS", 0.1)


def test_a_slow_reader_is_named_with_what_is_sure_of_it(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = measured()
    assert [each.part for each in plain] == PARTS
    assert all(each.rate > 0 and each.what and each.advice for each in plain)
    assert slowest(plain, conversion=False).rate == min(each.rate for each in plain[2:])
    assert slowest(plain, conversion=True).rate == min(each.rate for each in plain[:2])
    quick = BatchReader.read

    def slow(self: BatchReader, start: int, stop: int) -> Any:
        time.sleep(0.004 * (stop - start))
        return quick(self, start, stop)

    monkeypatch.setattr(BatchReader, "read", slow)
    *_, step = slowly = measured()
    found = slowest(slowly, conversion=False)
    assert found.part == "batch" and found.rate < 32 / 0.004
    assert step.rate > 2 * found.rate, "the step's waits for input are not the step's"


def test_the_slowest_augmentation_is_named(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def slow(config: Cutout, values: Any, draws: Any, feature: Any) -> Any:
        seen.append(values.shape)
        time.sleep(0.02)
        return values

    monkeypatch.setattr(Cutout, "change", slow)
    found = measured(augment=[{"kind": "flip"}, {"kind": "cutout"}])
    assert [each.part for each in found] == [*PARTS[:4], "augment", *PARTS[4:]]
    assert 0 < found[4].rate < seen[0][0] / 0.02
    assert "train.augment.1 (cutout)" in found[4].advice


def test_an_order_is_advised_only_where_it_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = iter([100.0, 300.0, 100.0, 110.0, 100.0, 300.0])
    monkeypatch.setattr(ceilings, "_gathering", lambda batches: next(speeds))
    advices = [ceilings._read(None, None, order).advice for order in ("shuffled", "shuffled", "blocks")]  # type: ignore[arg-type]
    assert "train.order: blocks reads 3.0 times as fast" in advices[0]
    assert not any("train.order" in advice for advice in advices[1:])


COMMAND = ("doctor", "--input", DIGITS, "--json")


def test_the_command_refuses_without_the_snapshot(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "empty").here(*COMMAND)
    assert answer.code == 2
    assert answer.json["error"]["remedy"] == f"run millrace run dataset {DIGITS}"


@pytest.mark.slow
def test_the_command_measures(prepared: Callable[[str], CommandHome], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part for a second."""
    monkeypatch.setenv(SHARED, shared_fork_servers())
    answer = prepared("home").here(*COMMAND)
    assert answer.code == 0, answer.stderr
    found = {each["part"]: each["rate"] for each in answer.json["ceilings"]}
    assert list(found) == PARTS and min(found.values()) > 0
    assert answer.json["bottleneck"] == min(PARTS[2:], key=lambda part: found[part])
    assert answer.json["conversion_bottleneck"] == min(PARTS[:2], key=lambda part: found[part])


def test_a_rate_is_that_of_the_calls_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SECONDS", 1.0)
    now, asked = [0.0], list[int]()
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def work(number: int) -> int:
        asked.append(number)
        now[0] += 9.0 if number == 0 else 0.4
        return 10

    assert ceilings.rate(work) == pytest.approx(30 / 1.2) and asked == [0, 1, 2, 3]
    monkeypatch.setattr(ceilings, "SECONDS", 0.3)
    assert ceilings.rate(work) == pytest.approx(10 / 0.4), "one call at least"
    monkeypatch.setattr(ceilings, "SECONDS", 0.0)
    assert ceilings.rate(work) == pytest.approx(10 / 0.4)


def test_iterators_are_begun_anew_where_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SECONDS", 0.65)
    now, begun = [0.0], list[int]()
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def begin() -> Iterator[int]:
        begun.append(1)
        for count in (100, 20, 30):
            now[0] += 0.1
            yield count

    assert ceilings.rate_of(begin) == pytest.approx((20 + 30 + 100 + 20 + 30 + 100 + 20) / 0.7) and len(begun) == 3


def test_a_step_is_measured_without_its_compilation_and_its_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SECONDS", 1.0)
    calls: list[Any] = []

    class Engine:
        def seek(self, step: int) -> None:
            calls.append(("seek", step))

        def step(self, rates: Any) -> Any:
            count = len(rates)
            calls.append(count)
            first = len(calls) == 2
            return SimpleNamespace(seconds=60.0 if first else 0.5 * count, waited=50.0 if first else 0.1 * count)

        def close(self) -> None:
            calls.append("closed")

    monkeypatch.setattr(ceilings, "make_engine", lambda *given: Engine())
    reader: Any = SimpleNamespace(counts={"train": 1000})
    config: Any = SimpleNamespace(model=SimpleNamespace(kind="mlp"), seed=1)
    train = Config.model_validate(PRESET).train.model_copy(update={"steps": 1_000_000, "epochs": None})
    made = ceilings._step(reader, config.model, train, config.seed, 8)
    assert made.part == "step" and made.rate == pytest.approx(8 / 0.4)
    assert calls[0] == ("seek", 0) and calls[-1] == "closed" and len(calls) >= 2 + 3


def test_the_slowest_of_the_conversion_and_of_the_training_are_told_apart() -> None:
    rates = {"source": 3.0, "transform": 2.0, "read": 5.0, "batch": 4.0, "step": 9.0}
    made = [Ceiling(part, rate, "") for part, rate in rates.items()]
    assert slowest(made, conversion=True).part == "transform" and slowest(made, conversion=False).part == "batch"


@pytest.mark.slow
def test_the_command_compares_two_trainings_on_what_computes_here(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path).here("doctor", "--accelerator", "--json")
    assert answer.code == 0, answer.stderr
    assert [row["precision"] for row in answer.json["precisions"]] == ["float32", "bfloat16"]
    for row in answer.json["precisions"]:
        first, second = row["trainings"]
        assert row["equal"] and first["weights_sha256"] == second["weights_sha256"] and row["step_ms"] > 0
        assert 0 < first["loss"] < 2.5, "it has learned something of 64 images"
    if not Path("/dev/nvidia0").exists():
        assert answer.json["device"] == "CPU"


def test_bits_that_differ_are_a_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trained = [Trained("Some GPU", sha, 3.25, 2.0) for sha in ("a", "a", "a", "b")]
    monkeypatch.setattr(doctor, "_trained", lambda home, precision: trained.pop(0))
    with pytest.raises(typer.Exit) as left:
        doctor.doctor(accelerator=True)
    assert left.value.exit_code == 1
    said = capsys.readouterr().out
    assert "on Some GPU" in said and "float32         3.25 ms a step; two fresh trainings are equal bit for bit" in said
    assert "bfloat16        3.25 ms a step; two fresh trainings are DIFFERENT" in said
    with pytest.raises(typer.Exit) as left:
        doctor.doctor(Path("x.yaml"), accelerator=True)
    assert left.value.exit_code == 2
