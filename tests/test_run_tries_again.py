"""A killed process is started again once; time-outs kill; a process gets no more variables than it needs."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import psutil
import pytest

from tasks.config.compose import load
from tasks.environment.process import THRESHOLD
from tasks.errors import Failed, Lost, Stopped
from tasks.processes.fork_server import SHARED, ForkServer, fork_server
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.local_process import Temporary, remove_left
from tasks.processes.threads import available_threads
from tasks.processes.workbench import Work, Workbench
from tasks.store.journal import read
from tests.support.homes import DIGITS, ROOT, SMALL, CommandHome, compute_processes
from tests.support.shared import shared_fork_servers
from tests.support.stacks import wait

SECRETS = ("AWS_SECRET_ACCESS_KEY", "MILLRACE_WEBHOOK", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The user's shell of whichever test starts the fork server that several use: secrets, and settings of Keras."""
    for name in SECRETS:
        monkeypatch.setenv(name, "of the shell")
    home = tmp_path_factory.mktemp("user")
    (home / ".keras").mkdir()
    settings = {"floatx": "float16", "epsilon": 0.001, "backend": "jax", "image_data_format": "channels_first"}
    (home / ".keras" / "keras.json").write_text(json.dumps(settings))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KERAS_HOME", str(home / ".keras"))


STUCK = ["--train.steps", "1000000", "--train.evaluate_every", "1000000", "--train.checkpoint.every", "1000000"]


def test_a_lost_process_is_started_again_and_nothing_is_lost(
    finished: CommandHome, prepared: Callable[[str], CommandHome]
) -> None:
    for number in range(3):  # where the test was not scheduled in time, the training has ended before it is killed
        home = prepared(f"home{number}")
        process = home.start("run", "training", DIGITS, *SMALL, "--json")
        deadline = time.monotonic() + 200
        # the point of step 20; by then the checkpoint of step 10 is written
        while not [point for path in home.root.glob("runs/*/metrics.jsonl") for point in read(path) if point.step > 0]:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        for training in compute_processes(home.root):
            training.kill()
        _, stderr = process.communicate(timeout=200)
        assert process.returncode == 0, stderr
        if "was killed" in stderr:
            break
    assert re.search(
        r"its process was killed by signal 9; .*; starting again in 2 s \(1 of 3 without a new checkpoint\)", stderr
    )
    assert len(home.newest_run("training")["attempts"]) == 1
    expected = finished.artifacts()
    assert all(expected[name] == sha256 for name, sha256 in home.artifacts().items())
    log = next(home.root.glob("runs/*/logs/train.log")).read_text()
    assert "going on from its checkpoint" in log


@pytest.mark.slow
def test_a_stage_that_runs_past_its_time_saves_is_ended_and_named(prepared: Callable[[str], CommandHome]) -> None:
    home = prepared("home")
    answer = home.here("run", "training", DIGITS, *STUCK, "--resources.timeouts.train", "15", "--json")
    assert answer.code == 1
    assert answer.json["error"]["field"] == "resources.timeouts.train"
    assert "trying again" not in answer.stderr
    assert list(home.root.glob("store/.staging/model/*/checkpoints/*.npz"))
    assert load(DIGITS).resources.limit("train") == ("resources.timeout", float("inf")), "none by default"


def ignore_signals_and_sleep(bench: Workbench) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def test_a_process_that_ignores_the_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    limits, launcher = Limits("resources.timeout", 2, grace=1, reminders=0.2), ProcessLauncher(tmp_path, 1)
    with launcher.gang("train") as gang:  # so that the time-out is not that of the first import
        gang.call(Work(environment), None, tmp_path / "journal", limits=Limits(), on_report=print)
    with pytest.raises(Failed, match="ran past 2 s"), launcher.gang("train") as gang:
        gang.call(Work(ignore_signals_and_sleep), None, tmp_path / "journal", limits=limits, on_report=print)
    assert gang.processes[0].process.poll() == -signal.SIGKILL


def test_reminders_of_a_signal_do_not_move_the_end_of_the_grace(tmp_path: Path) -> None:
    limits, said, begun = Limits(grace=1, reminders=0.2), list[str](), time.monotonic()
    with pytest.raises(Stopped), ProcessLauncher(tmp_path, 1).gang("train") as gang:
        gang.call(
            Work(ignore_signals_and_sleep),
            None,
            tmp_path / "journal",
            limits=limits,
            on_report=print,
            stop=lambda: signal.SIGTERM if time.monotonic() - begun > 1 else 0,
            say=said.append,
        )
    assert len(said) >= 3 and gang.processes[0].process.poll() == -signal.SIGKILL


RUN = """
from pathlib import Path
from tasks.processes.gang import ProcessLauncher
from tasks.processes.workbench import Limits, Work
from {module} import {function}

with ProcessLauncher(Path({folder!r}), {threads}).gang("train") as gang:
    print(gang.call(Work({function}), None, Path({folder!r}, "journal"), limits=Limits(), on_report=print))
"""


def test_what_a_shared_fork_server_forked_for_a_killed_run_dies_with_it(tmp_path: Path) -> None:
    runs = []
    for name in ("killed", "untouched"):
        folder = tmp_path / name
        values = {
            "folder": str(folder),
            "threads": available_threads(),
            "module": __name__,
            "function": "ignore_signals_and_sleep",
        }
        variables = {**os.environ, SHARED: shared_fork_servers(), "PYTHONPATH": str(ROOT)}
        runs.append(subprocess.Popen([sys.executable, "-c", RUN.format(**values)], env=variables))
    try:
        [killed] = wait(lambda: compute_processes(tmp_path / "killed"))
        [untouched] = wait(lambda: compute_processes(tmp_path / "untouched"))
        assert not psutil.Process(runs[0].pid).children()
        runs[0].kill()
        killed.wait(10)
        assert untouched.is_running() and untouched.status() != psutil.STATUS_ZOMBIE
    finally:
        for run in runs:
            run.kill()
            run.wait()
    untouched.wait(10)


def working_folder(bench: Workbench) -> str:
    return str(Path.cwd())


def test_a_process_of_a_shared_fork_server_works_in_the_folder_of_its_command(tmp_path: Path) -> None:
    """Relative paths, as of `millrace predict`, are found there."""
    values = {"folder": str(tmp_path), "threads": available_threads(), "module": __name__, "function": "working_folder"}
    variables = {**os.environ, SHARED: shared_fork_servers(), "PYTHONPATH": str(ROOT)}
    script = RUN.format(**values)
    done = subprocess.run([sys.executable, "-c", script], env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == str(tmp_path), done.stderr


def test_a_process_that_cannot_begin_says_why_in_its_log(
    shell: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    server = fork_server(available_threads() + 2, tmp_path / "log")
    near, far = Pipe()
    with monkeypatch.context() as patch, open(tmp_path / "train.log", "wb") as log, near, far:
        patch.setattr(Path, "cwd", lambda: gone)
        process = server.fork("train", far.fileno(), log.fileno(), str(tmp_path))
        assert process.wait(60) == 1
    assert f"No such file or directory: '{gone}'" in (tmp_path / "train.log").read_text()


def test_a_run_with_other_threads_than_the_shared_fork_server_starts_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED, shared_fork_servers())
    server = ForkServer(available_threads() + 1, tmp_path / "log")
    assert server.process is not None
    server.close()


def environment(bench: Workbench) -> dict[str, str]:
    return dict(os.environ)


def variables_and_number(bench: Workbench) -> tuple[dict[str, str], float]:
    return dict(os.environ), float(np.random.random())


def keras_settings(bench: Workbench) -> tuple[str, float, str, str]:
    import keras

    return keras.config.floatx(), keras.config.epsilon(), keras.config.image_data_format(), keras.config.backend()


def collection(bench: Workbench) -> tuple[bool, int, int]:
    return gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count()


def leave_temporary_file(bench: Workbench, killed: bool) -> str:
    path = tempfile.mkstemp()[1]
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return path


def test_each_process_has_the_variables_of_its_own_request_and_other_random_numbers(
    shell: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the fork server has from its own start is in none of them."""
    answers = []
    for name in ("TF_FIRST", "TF_SECOND"):
        monkeypatch.setenv(name, "1")
        with ProcessLauncher(tmp_path, available_threads() + 2).gang("train") as gang:
            work = Work(variables_and_number)
            answers.append(gang.call(work, None, tmp_path / "journal", limits=Limits(), on_report=print))
        monkeypatch.delenv(name)
    (first, one), (second, other) = answers
    assert "TF_FIRST" in first and "TF_SECOND" in second and "TF_FIRST" not in second
    assert one != other


def test_settings_of_keras_that_decide_a_model_are_not_the_users(shell: None, tmp_path: Path) -> None:
    """They stand in a file in the home of the user, and are in no digest: with float16 the weights would be others."""
    with ProcessLauncher(tmp_path, available_threads() + 2).gang("train") as gang:
        work = Work(keras_settings)
        settings = gang.call(work, None, tmp_path / "journal", limits=Limits(), on_report=print)
    assert settings == ("float32", 1e-7, "channels_last", "tensorflow")


def test_a_compute_process_collects_garbage_again_after_the_imports(shell: None, tmp_path: Path) -> None:
    with ProcessLauncher(tmp_path, available_threads() + 2).gang("train") as gang:  # not of the shared fork server
        work = Work(collection)
        enabled, threshold, frozen = gang.call(work, None, tmp_path / "journal", limits=Limits(), on_report=print)
    assert enabled and threshold == THRESHOLD and frozen > 100_000


@pytest.mark.parametrize("end", ["normally", "killed"])
def test_temporary_files_of_a_compute_process_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """TensorFlow leaves a file there for every function that it converts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with suppress(Lost), ProcessLauncher(tmp_path / "logs", available_threads()).gang("train") as gang:
        [folder] = tmp_path.glob("millrace-train-*")
        work = Work(leave_temporary_file, (end == "killed",))
        left = gang.call(work, None, tmp_path / "journal", limits=Limits(), on_report=print)
        assert Path(left).parent == folder and Path(left).exists() and end == "normally"
    assert not folder.exists()


OWNER = """
import os, sys, tempfile
from tasks.processes.local_process import Temporary
tempfile.tempdir = sys.argv[1]
print(Temporary("train").name, flush=True)
sys.stdin.read()
"""


def test_folders_that_a_killed_run_has_left_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command, pipe = [sys.executable, "-c", OWNER, str(tmp_path)], subprocess.PIPE
    owners = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    living, killed = (Path(owner.stdout.readline().strip()) for owner in owners)  # type: ignore[union-attr]
    (killed / "inner").mkdir()
    (killed / "inner/function.pb").write_bytes(b"of TensorFlow")
    being_made, others = tmp_path / "millrace-train-new", tmp_path / "theirs"
    for folder in (being_made, others):
        folder.mkdir()
    own = Temporary("export")
    owners[1].kill()
    owners[1].communicate()
    remove_left()
    assert sorted(tmp_path.iterdir()) == sorted([living, being_made, others, Path(own.name)])
    own.cleanup()
    owners[0].communicate("")
    remove_left()
    assert sorted(tmp_path.iterdir()) == sorted([being_made, others])


def test_a_compute_process_gets_no_secret_of_ours(shell: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    threads = available_threads() + 2  # not of the shared fork server
    with ProcessLauncher(tmp_path, threads).gang("train") as gang:
        work = Work(environment)
        variables = gang.call(work, None, tmp_path / "journal", limits=Limits(), on_report=print)
    assert variables["MILLRACE_HOME"] == str(tmp_path) and variables["PATH"] == os.environ["PATH"]
    assert not variables.keys() & set(SECRETS) and "of the shell" not in str(variables)
    server = fork_server(threads, tmp_path / "log").process
    assert server is not None and "of the shell" not in Path(f"/proc/{server.pid}/environ").read_text()
