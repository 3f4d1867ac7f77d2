"""A signal at any time: the run saves and exits with the right code, and the same command continues it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import signal
import sqlite3
import subprocess
import termios
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from infra.services import call
from tasks.artifacts import Outcome, Records
from tasks.config.compose import load
from tasks.errors import Stopped
from tasks.processes.fork_server import SHARED
from tasks.processes.workbench import Work, Workbench
from tasks.runner.attempt import RunRequest, attempt_run, current
from tasks.runner.identities import Code, Identity
from tasks.runner.stages import run_stage
from tasks.sources.kinds.folders import TextFilesSource
from tasks.store.journal import read
from tests.support.homes import DIGITS, MILLRACE, SMALL, CommandHome
from tests.support.kills import stop
from tests.support.shared import shared_fork_servers, shared_server

LONG = ["--train.steps", "400", "--train.checkpoint.every", "100"]


def saved_in(home: CommandHome) -> set[int]:
    """The steps of the checkpoints of a training that has not ended."""
    return {int(path.stem[5:]) for path in home.root.glob("store/.staging/model/*/checkpoints/*.npz")}


def last_step(home: CommandHome) -> int:
    """The step of the newest point of a journal."""
    return max((point.step for path in home.root.glob("runs/*/metrics.jsonl") for point in read(path)), default=0)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_in_training_saves_and_the_next_run_goes_on(
    number: int, prepared: Callable[[str], CommandHome]
) -> None:
    """With a Prefect server of its own, and where the whole group gets the signal, a fork server, too."""
    given = {} if number == signal.SIGINT else {SHARED: shared_fork_servers()}
    home = replace(prepared("home"), own_processes=True, given=given)

    def due() -> bool:
        """Some steps past the checkpoint."""
        return bool(saved_in(home)) and last_step(home) > max(saved_in(home))

    stderr = stop(home, due, number, "run", "training", DIGITS, *LONG, "--json")
    saved = saved_in(home)
    assert max(saved) >= last_step(home), "what came after the last checkpoint is not saved"
    with closing(sqlite3.connect(home.root / "prefect" / "prefect.db")) as history:
        (message,) = history.execute("SELECT message FROM flow_run_state ORDER BY timestamp DESC").fetchone()
    words = f"stopped by {signal.Signals(number).name}; step {max(saved)} is saved"
    assert message == f"{words}; a new run with the same config continues from there"
    assert words in stderr

    answer = CommandHome(home.root).here("run", "training", DIGITS, *LONG, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == 2
    assert home.here("show", answer.json["run_id"], "--json").json["ledger"]["wrong"] == []


class Terminal:
    """A command on a terminal of its own, as behind ssh."""

    def __init__(self, home: CommandHome, *words: str | Path) -> None:
        self.master, slave = os.openpty()
        self.process = subprocess.Popen(
            [str(word) for word in words],
            cwd=home.root,
            env={**home.variables("run"), "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=self._begin,
        )
        os.close(slave)

    @staticmethod
    def _begin() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run behind nohup, too

    def close_when(self, due: Callable[[], bool]) -> int:
        """Close the terminal as soon as `due`, and return the exit code; pytest shows what was on it."""
        while not due() and self.process.poll() is None:
            if select.select([self.master], [], [], 0.01)[0]:
                with suppress(OSError):
                    print(os.read(self.master, 65536).decode(errors="replace"))
        os.close(self.master)
        return self.process.wait(120)


@pytest.mark.slow
def test_a_closed_terminal_saves_and_the_next_run_goes_on(prepared: Callable[[str], CommandHome]) -> None:
    home = prepared("home")
    endless = ["--train.steps", "100000", "--train.checkpoint.every", "20"]
    terminal = Terminal(home, MILLRACE, "run", "training", DIGITS, *endless)
    code = terminal.close_when(lambda: bool(saved_in(home)))
    record = home.newest_run("training")
    assert (code, record["status"], record["exit_code"]) == (75, "stopped", 75), record
    flow_run = call("GET", f"{shared_server()}/flow_runs/{record['attempts'][-1]['prefect_flow_run_id']}")
    assert flow_run["state"]["message"].startswith(f"stopped by SIGHUP; step {max(saved_in(home))} is saved")


@pytest.mark.slow
def test_nohup_outlives_its_terminal(prepared: Callable[[str], CommandHome]) -> None:
    home = prepared("home")
    terminal = Terminal(home, "nohup", MILLRACE, "run", "training", DIGITS, *SMALL)
    assert terminal.close_when(lambda: bool(saved_in(home))) == 0


def hash_a_huge_source(folder: Path) -> None:

    with open(folder / "huge.txt", "wb") as file:
        file.truncate(1 << 40)  # a hole: no byte of it is stored, and hashing it takes a quarter of an hour
    TextFilesSource(path=str(folder)).open().fingerprint()


def wait_for_a_lock(folder: Path) -> None:
    from tasks.store.lock import locked

    with locked(folder / "lock"), locked(folder / "lock"):
        pass


@pytest.mark.parametrize(
    ("busy", "number", "code"), [(hash_a_huge_source, signal.SIGTERM, 75), (wait_for_a_lock, signal.SIGINT, 130)]
)
def test_what_the_flows_own_process_does_is_left_at_once(
    busy: Callable[[Path], None], number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.config.compose import load
    from tasks.errors import Stopped
    from tasks.runner.attempt import RunRequest, attempt_run

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    (tmp_path / "source").mkdir()
    before, request = signal.getsignal(number), RunRequest()

    def body() -> None:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), number)).start()
        busy(tmp_path / "source")

    with pytest.raises(Stopped) as stopped:
        attempt_run("dataset", load(DIGITS), body, request, None)
    assert stopped.value.exit_code == code
    assert request.run is not None
    assert (request.run.record["status"], request.run.exit_code) == ("stopped", code)
    assert signal.getsignal(number) is before


class Locked(logging.Handler):
    """As Prefect's own: behind a lock that its holder must not take again. A signal comes while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.mutex, self.requests, self.hung = threading.Lock(), 0, False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.mutex.acquire(blocking=False):
            self.hung = True  # Prefect's waits, for ever
            return
        try:
            self.requests += 1
            if self.requests == 1:
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            self.mutex.release()


def two_layouts(bench: Workbench) -> Outcome:
    bench.staging.put("some.txt", b"text")
    layouts = [{"from": 0, "to": 5, "threads": 2}, {"from": 5, "to": 9, "threads": 1}]
    return Outcome(counts={"examples": 1}, statistics={"metrics": {}}, layouts=layouts)


def test_a_training_under_two_layouts_says_so_in_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    body = partial(run_stage, "convert", Records, Identity({}, {}, Code(1)), Work(two_layouts))
    made = attempt_run("dataset", load(DIGITS), body, RunRequest(), None)
    assert "another layout from step 5 on: equal, not bit-identical" in capsys.readouterr().err
    assert [span["from"] for span in made.manifest["produced_by"]["layout"]["spans"]] == [0, 5]


@pytest.mark.parametrize("at_work", [False, True])
def test_a_signal_that_comes_while_a_line_is_logged_stops_the_run(
    at_work: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body() -> None:
        attempt = current.get()
        with attempt.signals.working() if at_work else contextlib.nullcontext():
            logging.getLogger("tasks.processes.gang").info("step 10: checkpoint")
            attempt.raise_if_stopped()

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    log, handler = logging.getLogger("tasks"), Locked()
    log.addHandler(handler)
    try:
        with pytest.raises(Stopped):
            attempt_run("dataset", load(DIGITS), body, RunRequest(), None)
    finally:
        log.removeHandler(handler)
    assert handler.requests >= 1 and not handler.hung


@pytest.mark.slow
def test_a_run_whose_stages_all_come_from_the_store_is_stopped_too(finished: CommandHome, tmp_path: Path) -> None:
    home = finished.copied_to(tmp_path / "home")
    before = home.newest_run()["run_id"]

    def due() -> bool:
        record = home.newest_run()
        return record.get("run_id") != before and "snapshot" in record["stages"]

    stop(home, due, signal.SIGTERM, "run", "pipeline", DIGITS, *SMALL, "--json")
    answer = home.here("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == 2
    assert home.artifacts() == finished.artifacts()
