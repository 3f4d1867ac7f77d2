"""A training for TensorBoard, and the command that shows it."""

from __future__ import annotations

import json
import signal
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_ndarray

from tasks.artifacts import Snapshot
from tasks.config.base import Conflict
from tasks.errors import Stopped
from tasks.processes.workbench import Workbench
from tasks.runs.home import Home
from tasks.runs.runs import resolve_run
from tasks.training.board import FOLDER, written_in
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.sections import TensorBoard
from tasks.view.facts import Facts
from tasks.view.summary import describe_run
from tests.support.homes import ROOT, CommandHome
from tests.support.stacks import free_ports
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

    written = {(name, step): value for name, step, value in events(tmp_path / FOLDER)}
    for step, metrics in bench.journal.points:  # type: ignore[attr-defined]
        for name in ("train/loss", "validation/loss"):
            if name in metrics:
                assert float(written[name, step]) == pytest.approx(metrics[name])
    buckets = written["dense0/kernel", STEPS]
    assert buckets[:, 2].sum() == 16 * 8, "a bucket has its ends and the number of values"
    assert list((tmp_path / FOLDER / "plugins" / "profile").rglob("*.xplane.pb"))


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
    assert (STEPS, "validation/loss") in {(step, name) for name, step, _ in events(tmp_path / FOLDER)}
    assert len(list((tmp_path / FOLDER).glob("events.out.tfevents.*"))) == 1


@pytest.mark.slow
def test_the_command_shows_what_a_run_has_written(prepared: Callable[[str], CommandHome]) -> None:
    home, port = prepared("home"), free_ports()[0]
    ran = home("run", "training", DIGITS, "--train.tensorboard", "true", "--train.steps", "40", "--json")
    assert ran.code == 0, ran.stderr
    run = ran.json["run_id"]
    folder = home.root / "runs" / run
    described = describe_run(Facts(resolve_run(Home(home.root), run)))
    assert f"TensorBoard: `millrace board {run}`" in described
    assert home("board", run, "--json").json["folder"] == str(folder / FOLDER)
    board = home.start("board", run, "--port", port)
    try:
        tags = f"http://127.0.0.1:{port}/data/plugin/scalars/tags"
        assert {"train/loss", "validation/loss"} <= set(answer(tags)["."])
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
