"""Training by Horovod: refused where it is not built, equal to one device, exact after a kill."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tasks.artifacts import Snapshot
from tasks.errors import Lost, Stopped
from tasks.processes.config import CHIEF, WORKER
from tasks.processes.gang import Crew, Limits
from tasks.processes.workbench import Work, Workbench
from tasks.training.engines.tensorflow import self_test
from tasks.training.engines.tensorflow.strategies.horovod_rendezvous import slots
from tasks.training.fit import fit
from tasks.training.group import Cluster
from tasks.training.optimizers import Sgd
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import Horovod
from tests.support.homes import DIGITS, ROOT, surroundings
from tests.support.tiny import CONFIG, MODEL, files, write_snapshot
from tests.support.training import LONG, PLAIN, Training, distance, send, verdict

INFRA = ROOT / "infra/horovod"

WITHOUT = """
import importlib.metadata as metadata, sys
find, found = metadata.version, {found!r}
def version(name):
    if name != "horovod":
        return find(name)
    if found is None:
        raise metadata.PackageNotFoundError(name)
    return found
metadata.version = version
from flows.__main__ import main
main()
"""
"""The command where another version of Horovod is installed, or none."""


@pytest.mark.parametrize(
    ("found", "says"),
    [(None, "none is installed"), ("0.28.1+tensorflow2.20.0", "0.28.1+tensorflow2.20.0 is installed")],
)
@pytest.mark.parametrize("command", [["run", "training"], ["why", "train"]], ids=lambda words: words[0])
def test_it_is_refused_where_it_is_not_built_for_this_tensorflow(
    command: list[str], found: str | None, says: str, tmp_path: Path
) -> None:
    words = [*command, DIGITS, "--train.strategy", "{kind: horovod, workers: 2}"]
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(found=found), *map(str, words)],
        env={**surroundings(), "MILLRACE_HOME": str(tmp_path / "home"), "COLUMNS": "200"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2, answer.stderr
    needed = f"needs horovod built for tensorflow{tf.__version__}, and {says}"
    assert answer.stderr == f"error: train.strategy.kind: horovod; {needed}; run `make horovod`\n"
    assert not (tmp_path / "home").exists()


def test_places_are_counted_by_host() -> None:
    """Two processes of the first host, one of the second: horovodrun numbers them so."""
    first, second, third = slots(("10.0.0.1:5000", "10.0.0.1:5001", "10.0.0.2:5000"))
    assert first == ("10.0.0.1", 0, 3, 0, 2, 0, 2)
    assert second == ("10.0.0.1", 1, 3, 1, 2, 0, 1)
    assert third == ("10.0.0.2", 2, 3, 0, 1, 1, 2)
    variables = third.environment("10.0.0.1:5000")
    assert (variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"], variables["HOROVOD_GLOO_RENDEZVOUS_PORT"]) == (
        "10.0.0.1",
        "5000",
    )
    assert variables["HOROVOD_CROSS_RANK"] == "1"


def test_the_container_file_fits_the_project() -> None:
    """It cannot be built here: what it copies is there, and its versions are those of the lock."""
    lines = (INFRA / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = [name for line in re.findall(r"^COPY (.*)", lines, re.M) for name in line.split()[:-1]]
    assert "requirements.lock" in copied and all((ROOT / name).exists() for name in copied)
    assert f"cuda:{tf.sysconfig.get_build_info()['cuda_version']}-cudnn-devel" in lines
    assert "python3.11-devel" in lines and project["project"]["requires-python"] == ">=3.11,<3.12"
    [extra] = re.findall(r"^ENV EXTRAS=(\w+)", lines, re.M)
    assert "wheel" in project["project"]["optional-dependencies"][extra]
    [patched] = INFRA.glob("*.patch")
    assert f"tensorflow-{tf.__version__}".startswith(patched.stem)


@pytest.fixture(scope="module")
def built() -> None:
    """Horovod, built for this TensorFlow: in the first call in two minutes."""
    if shutil.which("g++") is None:
        pytest.skip("no g++, which compiles Horovod")
    made = subprocess.run(["make", "horovod"], cwd=ROOT, capture_output=True, text=True, check=False)
    if "the package registry must answer" in made.stderr:
        pytest.skip(f"no package registry, from which Horovod's source comes: {made.stderr.splitlines()[-2]}")
    assert made.returncode == 0, made.stderr
    Horovod().check_packages()


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Snapshot:
    bench = workbench_at(tmp_path_factory.mktemp("data") / "snapshot")
    return publish(Snapshot, bench, write_snapshot(bench))


@pytest.fixture
def training(
    built: None, snapshot: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> Callable[[str], Training]:
    """`training(name)`: a training on a workbench of its own."""
    return lambda name: Training(snapshot, benches(name), tmp_path / f"{name}-logs")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"jit": True, "accumulate": 2}], ids=["plain", "jit-accumulate"])
def test_two_processes_equal_one_device(
    options: dict[str, Any], snapshot: Snapshot, training: Callable[[str], Training], benches: Callable
) -> None:
    options = {"optimizer": Sgd(), "clip_norm": 0.5, "steps": None, "epochs": 3, **options}
    one, two = benches("one"), training("two")
    fit(one, snapshot, PLAIN, CONFIG.model_copy(update=options), seed=5)
    two(**options, strategy=Horovod())
    assert distance(one, two.bench) < 3e-7
    assert files(one)["state/ledger.jsonl"] == files(two.bench)["state/ledger.jsonl"]
    assert "uncaught exception" not in (two.crew.logs / "train-1.log").read_text()


@pytest.mark.slow
def test_killed_and_stopped_three_processes_end_with_the_same_bytes(training: Callable[[str], Training]) -> None:
    """float16, with dropout. Of three numbers the sum depends on their order."""
    options = {**LONG, "steps": 400, "precision": "float16", "batch_size": 6, "strategy": Horovod(workers=3)}
    unbroken, broken = training("unbroken"), training("broken")
    unbroken(MODEL, **options)
    with pytest.raises(Lost, match="rank 2 on .* was killed by signal 9"):
        broken(MODEL, at=send(signal.SIGKILL, 2, 60), **options)
    with pytest.raises(Stopped) as stopped:
        broken(MODEL, at=send(signal.SIGTERM, 1, 160), **options)
    assert stopped.value.saved == broken.on_disk and int(broken.on_disk.split()[1]) >= 160
    broken(MODEL, **options)
    assert broken.went_on_from == stopped.value.saved
    assert files(broken.bench) == files(unbroken.bench)


@pytest.mark.slow
def test_a_frozen_process_is_named(training: Callable[[str], Training]) -> None:
    options = {**LONG, "steps": 1_000_000, "strategy": Horovod(), "checkpoint": CheckpointConfig(every=100_000)}
    with pytest.raises(Lost, match="rank 1 on .* has not answered for"):
        training("frozen")(PLAIN, at=send(signal.SIGSTOP, 1, 20), silence=5, **options)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_its_arithmetic_passes_the_test(precision: str, built: None, tmp_path: Path) -> None:
    found = verdict(tmp_path, Horovod(), precision)
    assert found["weights"] < self_test.TOLERANCE[precision]
    assert found["different_masks"] == 2 and found.get("loss_scale", 2.0**14) == 2.0**14


def call(work: Callable, folder: Path, *arguments: Any) -> Any:
    """Call a function of this module in two processes."""
    with Crew(folder, 1).gang("call", (CHIEF, WORKER)) as gang:
        asked = Work(work, arguments)
        return gang.call(asked, None, folder / "journal", limits=Limits(), on_report=lambda *report: None)


def exchange(bench: Workbench, content: bytes) -> tuple[list[int], list[int], bytes]:
    """Exchange numbers and bytes, where rank 0 starts late."""
    if bench.rank == 0:
        time.sleep(3)
    group = Horovod().create(Cluster(bench.rank, bench.addresses)).group
    sums = group.totals([2**64 - 1, bench.rank])
    received = group.share(content if bench.rank == 0 else None)
    return sums, group.totals([received == content]), group.share(b"" if bench.rank == 0 else None)


@pytest.mark.slow
def test_processes_exchange_numbers_and_bytes(built: None, tmp_path: Path) -> None:
    assert call(exchange, tmp_path, os.urandom(1_000_003)) == ([-2, 1], [2], b"")


def left_alone(bench: Workbench) -> list[str]:
    """Return the errors of rank 0 in a step and in a sum after rank 1 has left."""
    strategy = Horovod().create(Cluster(bench.rank, bench.addresses))
    if bench.rank == 1:
        strategy.close()
        return []
    batch, errors = self_test.examples(steps=1, rows=2), []
    step = strategy.prepare(self_test.step_of("float32", strategy), self_test.specs(batch, 1))
    for attempt in (lambda: step(batch, np.ones(1, np.float32)), lambda: strategy.group.totals([1])):
        with pytest.raises(Lost) as lost:
            attempt()
        errors.append(lost.value.rule)
    return errors


@pytest.mark.slow
def test_a_process_that_has_left_is_reported(built: None, tmp_path: Path) -> None:
    assert call(left_alone, tmp_path) == ["all workers must answer"] * 2
