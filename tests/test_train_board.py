"""A training for TensorBoard, and the command that shows it."""

from __future__ import annotations

import base64
import io
import json
import signal
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_ndarray

from tasks.artifacts import Snapshot
from tasks.config.base import Conflict
from tasks.errors import Stopped
from tasks.processes.workbench import Workbench
from tasks.runs.home import Home
from tasks.runs.runs import resolve_run
from tasks.training.board import FOLDER, TRAINING, WORST, written_in
from tasks.training.config import TrainConfig
from tasks.training.event_file import EventFile, records
from tasks.training.fit import fit
from tasks.training.sections import TensorBoard
from tasks.view import worst
from tasks.view.facts import Facts
from tasks.view.summary import describe_run
from tests.support.homes import ROOT, CommandHome
from tests.support.stacks import free_ports, wait
from tests.support.tiny import CONFIG, MODEL, STEPS, files, stopping_after
from tests.support.training import Training, raise_conflict

DIGITS = ROOT / "flows/presets/digits.yaml"


def events(folder: Path) -> Iterator[tuple[str, int, np.ndarray]]:
    """Name, step and value of each summary, of all files in the order of their names."""
    for file in sorted(folder.glob("events.out.tfevents.*")):
        content = file.read_bytes()
        while content:
            (size,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + size])
            content = content[16 + size :]
            for value in event.summary.value:
                yield value.tag, event.step, make_ndarray(value.tensor)


def test_curves_histograms_and_a_trace_are_written_and_change_nothing(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    plain, bench = benches("plain"), benches("board")
    fit(plain, tiny, MODEL, CONFIG, seed=5)
    bench.journal.folder = tmp_path  # type: ignore[misc]
    config = CONFIG.model_copy(update={"tensorboard": TensorBoard(trace=(3, 5))})
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(3)), tiny, MODEL, config, seed=5)
    fit(bench, tiny, MODEL, config, seed=5)
    assert files(bench) == files(plain)

    folder = tmp_path / FOLDER / TRAINING
    written = {(name, step): value for name, step, value in events(folder)}
    for step, metrics in bench.journal.points:  # type: ignore[attr-defined]
        for name in ("train/loss", "validation/loss"):
            if name in metrics:
                assert float(written[name, step]) == pytest.approx(metrics[name])
    [_] = folder.glob("events.out.tfevents.*")  # over both attempts
    assert len(list(events(folder))) == len(written), "each point once, also after a resumption"
    journal = {(name, step) for step, metrics in bench.journal.points for name in metrics}  # type: ignore[attr-defined]
    assert {point for point in written if point[0].startswith(("train/", "validation/"))} == journal, "the same names"
    assert not [name for name, _ in written if "seed_generator" in name], "no state of random numbers"
    buckets = written["dense0/kernel", STEPS]
    assert buckets[:, 2].sum() == 16 * 8, "a bucket has its ends and the number of values"
    assert list((folder / "plugins" / "profile").rglob("*.xplane.pb"))


def test_a_file_goes_on_with_what_is_whole_of_those_before_it_and_has_a_point_once(tmp_path: Path) -> None:
    """As TensorBoard's own reader finds it."""
    first = EventFile(tmp_path)
    first.scalars(1, {"loss": 0.5})
    first.scalars(2, {"loss": 0.4, "accuracy": 0.9})
    first.histograms(2, {"kernel": np.arange(4.0)})
    first.close()
    [file] = tmp_path.iterdir()
    (tmp_path / "events.out.tfevents.0.torn").write_bytes(file.read_bytes()[:-7])
    again = EventFile(tmp_path)
    again.scalars(2, {"loss": 9.0, "rate": 0.1})
    again.scalars(3, {"loss": 0.3})
    again.close()
    [file] = tmp_path.iterdir()
    assert file.name.startswith("events.out.tfevents.") and (tmp_path / "draft").exists() is False
    reader = EventAccumulator(str(tmp_path)).Reload()
    points = {
        name: [(event.step, make_ndarray(event.tensor_proto).item()) for event in reader.Tensors(name)]
        for name in ("loss", "accuracy", "rate")
    }
    assert points["loss"] == [(1, 0.5), (2, pytest.approx(0.4)), (3, pytest.approx(0.3))]
    assert points["accuracy"] == [(2, pytest.approx(0.9))] and points["rate"] == [(2, pytest.approx(0.1))]
    assert sorted(reader.Tags()["tensors"]) == ["accuracy", "kernel", "loss", "rate"]
    EventFile(tmp_path, anew=True).close()
    assert EventAccumulator(str(tmp_path)).Reload().Tags()["tensors"] == []


def test_records_end_at_the_first_that_is_damaged() -> None:
    def record(content: bytes) -> bytes:
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(content)
        return path.read_bytes()

    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        whole = record(b"one") + record(b"two") + record(b"three")
    assert list(records(whole)) == [b"one", b"two", b"three"]
    damaged = whole.replace(b"two", b"tow")
    assert list(records(damaged)) == [b"one"] and list(records(whole[:-1])) == [b"one", b"two"]


def test_the_worst_examples_are_shown_as_images_and_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (8, 4)).save(file := io.BytesIO(), "PNG")
    picture = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    example = worst.Example("a|b", ["cat", "dog", "98%"], picture, ["5"])
    shown = worst.Worst(["label", "predicted", "#confidence"], ["age"], 0, [example])
    monkeypatch.setattr(worst, "worst", lambda facts: shown)
    facts: Any = SimpleNamespace(
        run=SimpleNamespace(folder=tmp_path), model=SimpleNamespace(manifest={"counts": {"steps": 7}})
    )
    worst.on_board(facts)
    assert not list(tmp_path.iterdir()), "its training wrote nothing for TensorBoard"
    (tmp_path / FOLDER).mkdir()
    for _ in range(2):
        worst.on_board(facts)
    written = {name: (step, value) for name, step, value in events(tmp_path / FOLDER / WORST)}
    step, (width, height, png) = written["worst test examples/a|b"]
    assert (step, width, height, png) == (7, b"8", b"4", file.getvalue())
    assert written["worst test examples"][1].item().decode().splitlines() == [
        "| key | label | predicted | confidence | age |",
        "| --- | --- | --- | --- | --- |",
        "| a/b | cat | dog | 98% | 5 |",
    ]
    assert written_in(tmp_path) == tmp_path / FOLDER


def test_true_stands_for_the_defaults_and_a_trace_has_steps() -> None:
    assert TrainConfig(steps=3, tensorboard=True).tensorboard == TensorBoard()
    assert TrainConfig(steps=3, tensorboard=False).tensorboard is None
    with pytest.raises(Conflict, match="must be two steps, the first one lower"):
        raise_conflict(lambda: TensorBoard(trace=(9, 5)))


def test_the_folder_of_one_training_is_shown_or_that_of_the_run_where_several_wrote(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert written_in(tmp_path) is None
    (tmp_path / "trials/0" / FOLDER).mkdir(parents=True)
    assert written_in(tmp_path) == tmp_path / "trials/0" / FOLDER
    (tmp_path / "trials/1" / FOLDER).mkdir(parents=True)
    assert written_in(tmp_path) == tmp_path


@pytest.mark.slow
def test_the_chief_of_several_processes_writes(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    """After its strategy has configured the devices."""
    Training(tiny, benches("two"), tmp_path)(tensorboard=TensorBoard(trace=(3, 5)))
    assert (STEPS, "validation/loss") in {(step, name) for name, step, _ in events(tmp_path / FOLDER / TRAINING)}
    assert len(list((tmp_path / FOLDER / TRAINING).glob("events.out.tfevents.*"))) == 1


@pytest.mark.slow
def test_the_command_shows_each_point_of_a_resumed_run_once(prepared: Callable[[str], CommandHome]) -> None:
    """By TensorBoard's default server, which reads the files otherwise than its Python does."""
    home, port = prepared("home"), free_ports()[0]
    words = ["run", "training", DIGITS, "--train.tensorboard", "true", "--train.log_every", "10", "--json"]
    stopped = home.start(*words)
    wait(lambda: any(b'"step":60,' in path.read_bytes() for path in home.root.glob("runs/*/metrics.jsonl")))
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=60)
    assert stopped.returncode == 75
    ran = home(*words)
    assert ran.code == 0, ran.stderr
    run = ran.json["run_id"]
    folder = home.root / "runs" / run
    described = describe_run(Facts(resolve_run(Home(home.root), run)))
    assert f"TensorBoard: `millrace board {run}`" in described
    assert home("board", run, "--json").json["folder"] == str(folder / FOLDER)
    board = home.start("board", run, "--port", port)
    try:
        scalars = f"http://127.0.0.1:{port}/data/plugin/scalars"
        assert {"train/loss", "validation/loss"} <= set(answer(f"{scalars}/tags")[TRAINING])
        points = answer(f"{scalars}/scalars?run={TRAINING}&tag=train/loss")
        assert [step for _, step, _ in points] == list(range(10, 601, 10))
    finally:
        board.send_signal(signal.SIGINT)
        stdout, stderr = board.communicate(timeout=30)
    assert board.returncode == 130, stderr
    assert stdout.startswith(f"TensorBoard of {run}: http://127.0.0.1:{port}/")
    assert "Traceback" not in stderr


def only_run(home: CommandHome) -> Path:
    return next(file.parent for file in (home.root / "runs").glob("*/run.json"))


def answer(address: str) -> Any:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address) as reply:
                return json.loads(reply.read())
        except OSError:
            assert time.monotonic() < until, f"nothing answers at {address}"
            time.sleep(0.3)


def test_a_run_that_wrote_nothing_is_refused(finished: CommandHome) -> None:
    refused = finished("board", only_run(finished).name)
    assert refused.code == 2 and "train it with --train.tensorboard true" in refused.stderr
