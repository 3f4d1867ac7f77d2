"""A gang of processes that are pipes: whose result counts, who is frozen, replaced or stopped; and its wires."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import json
import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tasks.artifacts import Snapshot
from tasks.errors import Failed, Lost, Stopped
from tasks.processes import fork_server, member, messages
from tasks.processes import gang as gangs
from tasks.processes.child import Child, _sendable
from tasks.processes.config import ClusterConfig, slurm
from tasks.processes.gang import MOST_REPLACED, Gang
from tasks.processes.local_process import Process
from tasks.processes.messages import Channel, request_from_json
from tasks.processes.rendezvous import Joined, RemoteProcess, Rendezvous
from tasks.processes.threads import in_processes
from tasks.processes.workbench import Limits, Request, Work, secrets_of
from tasks.runner import hosts
from tasks.runner.showing import Presence
from tasks.runner.signals import Signals
from tasks.sources.kinds.tables import SqlSource
from tasks.training.fit import fit
from tests.support.stacks import free_ports

CHIEF, WORKER = (SimpleNamespace(name=name, serves=False, replaced=False) for name in ("chief", "worker"))
SERVER = SimpleNamespace(name="ps", serves=True, replaced=False)
REPLACED = SimpleNamespace(name="worker", serves=False, replaced=True)

MACHINE = {"threads": 1, "processor": "cpu"}

Script = Callable[["Piped"], None]


class Piped:
    """A compute process that is the near end of a pipe; a thread plays its part."""

    def __init__(self, rank: int, script: Script) -> None:
        self.rank, self.host, self.address, self.threads, self.log = rank, "here", f"a:{rank}", 1, Path("x.log")
        self.seen: float | None = None
        self.connection, self._far = Pipe()
        self.signals: list[int] = []
        self.killed = False
        self.request: Any = None
        self._script = script

    def call(self, request: Any) -> None:
        self.request = request
        threading.Thread(target=self._script, args=(self,), daemon=True).start()

    def say(self, *message: Any) -> None:
        self._far.send(message)

    def die(self) -> None:
        self._far.close()

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def kill(self) -> None:
        self.killed = True

    def lines(self) -> tuple[str, ...]:
        return ()

    def death(self, work: str, name: str) -> Failed:
        return Lost(work, f"{name} was killed", "it must answer", "run again")


def done(value: Any) -> Script:
    return lambda process: process.say("done", value)


def silent(process: Piped) -> None:
    """It shows once that it is there, and then nothing."""
    process.say("alive")


def started(process: Piped) -> None:
    """It is there, and has not begun to answer."""


def gang_of(roles: list[Any], *scripts: Script) -> Any:
    left = {rank: [script] for rank, script in enumerate(scripts)}
    return Gang(lambda rank: Piped(rank, left[rank][0]), roles)  # type: ignore[arg-type, return-value]


def call(gang: Any, limits: Limits | None = None, **more: Any) -> Any:
    more.setdefault("on_report", lambda *report: None)
    work = Work(reports, more.pop("arguments", ()))
    return gang.call(work, "staging", Path("journal"), limits=limits or Limits(seconds=5), **more)


def source_of(variable: str) -> SqlSource:
    return SqlSource.model_construct(kind="sql", url=f"env:{variable}")


def test_the_result_is_the_chiefs_and_it_alone_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", "postgresql://secret")
    source = source_of("DATABASE")
    gang = gang_of([CHIEF, WORKER], done("the chief's"), done("another"))
    assert call(gang, arguments=(source,)) == "the chief's"
    chief, worker = (process.request for process in gang.processes)
    assert (chief.staging, chief.journal, chief.secrets) == (
        "staging",
        Path("journal"),
        {"DATABASE": "postgresql://secret"},
    )
    assert (worker.staging, worker.journal, worker.secrets) == (None, None, {})
    assert worker.peers == ("chief", "worker") and worker.addresses == ("a:0", "a:1") and worker.rank == 1


def test_servers_are_not_waited_for() -> None:
    gang = gang_of([CHIEF, WORKER, SERVER], done(1), done(2), silent)
    started_at = time.monotonic()
    assert call(gang, Limits(seconds=60)) == 1 and time.monotonic() - started_at < 30


def test_a_call_that_ends_in_time_is_sent_no_signal() -> None:
    def slow(process: Piped) -> None:
        time.sleep(0.2)
        process.say("done", 1)

    gang = gang_of([CHIEF], slow)
    assert call(gang) == 1 and gang.processes[0].signals == []


def test_a_time_out_stays_the_reason_whatever_a_server_says_of_the_signal() -> None:
    def stopped(process: Piped) -> None:
        time.sleep(0.3)
        process.say("stopped", Stopped(signal.SIGTERM))

    gang = gang_of([CHIEF, SERVER], started, stopped)
    with pytest.raises(Failed, match="ran past 0 s"):
        call(gang, Limits(seconds=0.1, grace=0.5))
    assert gang.processes[0].signals == [signal.SIGTERM] and gang.processes[1].signals == []


def test_who_has_shown_itself_and_is_silent_is_frozen_and_who_is_starting_is_not() -> None:
    gang = gang_of([CHIEF, WORKER], started, silent)
    with pytest.raises(Lost, match="rank 1 on here has not answered for 0 s"):
        call(gang, Limits(seconds=5, silence=0.2))
    alone = gang_of([CHIEF], silent)
    with pytest.raises(Failed, match="ran past"):
        call(alone, Limits(seconds=0.5, grace=0.1, silence=0.1))


def test_where_one_reports_that_another_is_lost_that_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "BEAT", 0.05)
    monkeypatch.setattr(gangs, "ATTRIBUTION_SECONDS", 1.5)
    report = Lost("train", "no answer of a peer", "it must answer", "run again")
    gang = gang_of([CHIEF, WORKER], silent, lambda process: process.say("error", report))
    with pytest.raises(Lost, match="rank 0 on here has not answered"):
        call(gang)
    starting = gang_of([CHIEF, WORKER], started, lambda process: process.say("error", report))
    with pytest.raises(Lost, match="no answer of a peer"):
        call(starting)


def test_the_first_report_of_a_lost_one_is_the_calls() -> None:
    def first(process: Piped) -> None:
        process.say("error", Lost("train", "the first report", "it must answer", "run again"))
        said.set()

    def second(process: Piped) -> None:
        said.wait()
        until_it_is_read(gang.processes[1])
        process.say("error", Lost("train", "the second report", "it must answer", "run again"))

    said = threading.Event()
    gang = gang_of([CHIEF, WORKER], second, first)
    with pytest.raises(Lost, match="the first report"):
        call(gang)


def until_it_is_read(process: Piped) -> None:
    while process.connection.poll():
        time.sleep(0.01)


def after_a_signal(*message: Any) -> Script:
    def play(process: Piped) -> None:
        while not process.signals:
            time.sleep(0.01)
        process.say(*message) if message else process.die()

    return play


LOST = ("error", Lost("train", "no answer of a peer", "it must answer", "run again"))


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param((after_a_signal(*LOST), after_a_signal(*LOST)), id="all have reported one another"),
        pytest.param((started, after_a_signal(*LOST)), id="one has reported another, which has not begun"),
        pytest.param((started, after_a_signal()), id="one that would be replaced has ended"),
    ],
)
def test_what_is_lost_after_a_stop_was_asked_for_leaves_the_stop_the_reason(
    scripts: tuple[Script, Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gangs, "ATTRIBUTION_SECONDS", 0.1)
    told: list[Any] = []
    with pytest.raises(Stopped):
        call(
            gang_of([CHIEF, REPLACED], *scripts),
            Limits(seconds=60, grace=2),
            stop=lambda: signal.SIGTERM,
            on_report=lambda *report: told.append(report),
        )
    assert [report[1] for report in told if report[0] == "process" and report[3] == "started"] == [0, 1]


def test_what_ends_after_it_was_reported_as_lost_is_named_and_not_replaced() -> None:
    reported = threading.Event()

    def reports(process: Piped) -> None:
        process.say(*LOST)
        reported.set()

    def dies(process: Piped) -> None:
        reported.wait()
        until_it_is_read(gang.processes[0])
        process.die()

    gang, told = gang_of([CHIEF, REPLACED], reports, dies), list[Any]()
    with pytest.raises(Lost, match="rank 1 on here was killed"):
        call(gang, on_report=lambda *report: told.append(report))
    assert [report[3] for report in told] == ["started", "started", "was killed"]


def test_a_stop_is_asked_for_again_no_oftener_than_is_set() -> None:
    when: list[float] = []

    def heeds_the_third(process: Piped) -> None:
        process.send_signal = lambda number: when.append(time.monotonic())  # type: ignore[method-assign]
        asked.set()
        while len(when) < 3:
            time.sleep(0.01)
        process.say("stopped", Stopped(signal.SIGTERM))

    asked = threading.Event()
    with pytest.raises(Stopped):
        call(
            gang_of([CHIEF], heeds_the_third),
            Limits(seconds=60, reminders=0.15),
            stop=lambda: signal.SIGTERM if asked.is_set() else 0,
        )
    assert min(later - earlier for earlier, later in itertools.pairwise(when)) > 0.149


def saves(step: int, when: Callable[[Piped], None] = lambda process: None) -> Script:
    """After a signal, save a step and say so: when that of another process has been heard, where that is given."""

    def play(process: Piped) -> None:
        process.say("saved", step - 1)
        while not process.signals:
            time.sleep(0.01)
        when(process)
        process.say("saved", step)
        process.say("stopped", Stopped(signal.SIGTERM))

    return play


def test_a_chief_that_saves_after_the_time_out_leaves_the_time_out_the_reason() -> None:
    with pytest.raises(Failed, match="ran past 0 s; step 5 is saved; a stage ends in time"):
        call(gang_of([CHIEF], saves(5)), Limits(seconds=0.01))


@pytest.mark.parametrize("other", [WORKER, SERVER])
@pytest.mark.parametrize("ends", ["a signal to all", "a signal to another", "a time-out"])
def test_a_call_ends_when_the_chief_has_saved_however_early_another_is_ready(ends: str, other: Any) -> None:
    """The others have nothing to save, so that they are ready first."""

    def ready(process: Piped) -> None:
        while ends != "a signal to another" and not process.signals and not other.serves:
            time.sleep(0.01)
        process.say("stopped", Stopped(signal.SIGTERM))

    def after_the_other(process: Piped) -> None:
        until_it_is_read(gang.processes[1])
        time.sleep(0.3)  # the call has looked for other messages, and for what is frozen, since

    gang = gang_of([CHIEF, other], saves(5, after_the_other), ready)
    limits = Limits(seconds=0.1 if ends == "a time-out" else 60, grace=60)
    number = signal.SIGINT if ends == "a signal to all" else 0
    with pytest.raises((Stopped, Failed)) as ended:
        call(gang, limits, stop=lambda: number)
    assert "step 5 is saved" in str(ended.value)
    if not other.serves or ends == "a signal to all":
        kind = Failed if ends == "a time-out" else Stopped
        assert type(ended.value) is kind
    if number and not other.serves:
        assert ended.value.signal_number == signal.SIGINT  # type: ignore[union-attr]


def test_one_that_is_interrupted_before_it_has_begun_ends_the_call_as_no_step_can_end_without_it() -> None:
    started_at = time.monotonic()
    with pytest.raises(Stopped) as stop:
        call(gang_of([CHIEF, WORKER], silent, after_a_signal("interrupted", Stopped(15))), stop=lambda: signal.SIGINT)
    assert (stop.value.signal_number, stop.value.saved) == (signal.SIGINT, None)
    assert time.monotonic() - started_at < 4


def test_a_state_that_is_being_written_has_time_beyond_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a slow disk needs for its bytes; and each time that the end is put off it is said by when."""
    monkeypatch.setattr(gangs, "SLOWEST_DISK", 1000.0)
    told: list[Any] = []

    def writes(process: Piped) -> None:
        while not process.signals:
            time.sleep(0.01)
        process.say("saving", 3000)
        time.sleep(1)
        process.say("saved", 7)
        process.say("stopped", Stopped(signal.SIGTERM))

    with pytest.raises(Stopped) as stop:
        call(
            gang_of([CHIEF], writes),
            Limits(grace=0.4),
            stop=lambda: signal.SIGTERM,
            on_report=lambda *report: told.append(report),
        )
    assert stop.value.saved == "step 7"
    first, second = (seconds for kind, seconds, *_ in told if kind == "stopping")
    assert 0.3 < first <= 0.4 and 2.5 < second <= 3.4


def test_a_chief_that_is_not_ready_in_time_leaves_what_it_had_saved() -> None:
    said: list[str] = []

    def hangs(process: Piped) -> None:
        process.say("saved", 4)
        saved.set()

    saved = threading.Event()
    with pytest.raises(Stopped) as stop:
        call(
            gang_of([CHIEF], hangs),
            Limits(seconds=60, grace=0.3),
            stop=lambda: signal.SIGTERM if saved.is_set() else 0,
            say=said.append,
        )
    assert stop.value.saved == "step 4"
    assert said[-1] == "killed: not ready within 0 s (resources.grace)"


def test_what_is_replaced_is_started_again_so_many_times_without_progress() -> None:
    begun: list[int] = []
    made: list[Piped] = []

    def dies(process: Piped) -> None:
        begun.append(process.rank)
        made.append(process)
        process.die()

    gang = gang_of([CHIEF, REPLACED], started, dies)
    with pytest.raises(Lost, match="rank 1 on here was killed"):
        call(gang)
    assert len(begun) == 1 + MOST_REPLACED
    assert [process.killed for process in made] == [True] * MOST_REPLACED + [False]  # with what descends from them


def test_each_line_and_each_process_that_comes_or_goes_is_reported() -> None:
    told: list[Any] = []
    left = [3]

    def dies(process: Piped) -> None:
        left[0] -= 1
        process.say("done", None) if not left[0] else process.die()

    gang = gang_of([CHIEF, REPLACED], done(7), dies)
    lines = iter([["first", "second"], ["third"]])
    gang.processes[0].lines = lambda: next(lines, [])
    assert call(gang, on_report=lambda *report: told.append(report)) == 7
    assert [report for report in told if report[0] == "log"] == [
        ("log", 0, line) for line in ("first", "second", "third")
    ]
    assert [report for report in told if report[0] == "process"] == [
        *(("process", rank, "here", "started") for rank in (0, 1)),
        *(("process", 1, "here", event) for event in ("was killed", "started") * 2),
    ]


def test_progress_begins_the_count_of_replacements_anew() -> None:
    begun: list[int] = []
    gang: Any = None

    def dies(process: Piped) -> None:
        begun.append(process.rank)
        if len(begun) > 2 * MOST_REPLACED:
            process.say("done", None)
            gang.processes[0].say("done", "whole")
            return
        gang.processes[0].say("progress", len(begun))
        time.sleep(0.15)
        process.die()

    gang = gang_of([CHIEF, REPLACED], started, dies)
    assert call(gang) == "whole"
    assert len(begun) == 2 * MOST_REPLACED + 1


def test_a_stop_says_what_was_saved_and_by_which_signal() -> None:
    gang = gang_of([CHIEF], saves(5))
    with pytest.raises(Stopped) as stop:
        call(gang, stop=lambda: signal.SIGHUP)
    assert (stop.value.signal_number, stop.value.saved) == (signal.SIGHUP, "step 5")
    assert gang.processes[0].signals[0] == signal.SIGTERM


def test_a_crash_of_any_process_is_the_calls() -> None:
    gang = gang_of([CHIEF, WORKER], started, lambda process: process.say("crash", "ValueError: no"))
    with pytest.raises(Failed, match="ValueError: no; this is a bug of ours"):
        call(gang)


def test_only_variables_that_sources_name_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", "value")
    monkeypatch.delenv("ABSENT", raising=False)
    sources = [source_of(name) for name in ("DATABASE", "ABSENT")]
    assert secrets_of([*sources, "DATABASE", None]) == {"DATABASE": "value"}


def test_a_line_is_shown_when_it_is_whole_and_none_of_tensorflows_own(tmp_path: Path) -> None:
    process: Any = Process.__new__(Process)
    process.log, process._read_to = tmp_path / "train.log", 0
    process.log.write_bytes(b"one\nI0000 00:00 of TensorFlow\n\ntw")
    assert list(process.lines()) == ["one"]
    with open(process.log, "ab") as log:
        log.write(b"o\n")
    assert list(process.lines()) == ["two"] and list(process.lines()) == []


def test_a_process_is_killed_with_all_that_descends_from_it(tmp_path: Path) -> None:
    inner = f"sleep 600 & echo $! > {tmp_path}/last; wait"
    first = subprocess.Popen(["sh", "-c", f"sh -c '{inner}' & wait"], start_new_session=True)
    while not (tmp_path / "last").exists() or not (tmp_path / "last").read_text().strip():
        time.sleep(0.01)
    last = psutil.Process(int((tmp_path / "last").read_text()))
    assert last.ppid() != first.pid, "a grandchild"
    process: Any = Process.__new__(Process)
    process.process = SimpleNamespace(begun=lambda: first.pid, send_signal=first.send_signal, wait=first.wait)
    process.connection, process._temporary = SimpleNamespace(close=int), SimpleNamespace(cleanup=int)
    process.kill()
    last.wait(10)
    assert first.poll() is not None


@pytest.mark.parametrize(("code", "kind", "says"), [(-9, Lost, "killed by signal 9"), (3, Failed, "left with code 3")])
def test_a_process_that_was_killed_is_lost_and_one_that_left_has_failed(
    code: int, kind: type[Failed], says: str, tmp_path: Path
) -> None:
    process: Any = Process.__new__(Process)
    process.log, process.process = tmp_path / "train.log", SimpleNamespace(wait=lambda: code)
    process.log.write_text("first\n  last words\nI0000 00:00 of TensorFlow\n\n")
    error = process.death("train", "its process")
    assert type(error) is kind and says in error.saw and error.saw.endswith("last log line: last words")
    assert ("out of memory" in error.remedy) is (code == -9)


def test_work_that_asks_whether_to_stop_is_not_interrupted_any_more() -> None:
    child = Child(None)  # type: ignore[arg-type]
    child._signalled(signal.SIGTERM, None)  # between two calls
    child.signal_number, child.working = 0, True
    with pytest.raises(Stopped):
        child._signalled(signal.SIGTERM, None)
    child.signal_number = 0
    assert child._stopping() == 0
    child._signalled(signal.SIGINT, None)
    assert child._stopping() == signal.SIGINT


class Kept:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


def runs_out_of_memory(bench: Any) -> None:
    raise MemoryError


def is_interrupted_in_a_library(bench: Any) -> None:
    bench.journal  # noqa: B018 - it does not ask whether to stop
    CHILDREN[-1].signal_number = signal.SIGTERM
    raise RuntimeError("what a library made of the signal")


def fails_although_it_saves(bench: Any) -> None:
    bench.stopping()
    CHILDREN[-1].signal_number = signal.SIGTERM
    raise RuntimeError("a bug")


CHILDREN: list[Child] = []


@pytest.mark.parametrize(
    ("work", "kind", "says"),
    [
        (runs_out_of_memory, "crash", "out of memory"),
        (is_interrupted_in_a_library, "interrupted", "SIGTERM"),
        (fails_although_it_saves, "crash", "RuntimeError: a bug"),
    ],
)
def test_what_work_ends_with_is_what_the_parent_hears(
    work: Callable[..., None], kind: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.processes.threads.pin", lambda threads: None)
    connection: Any = Kept()
    CHILDREN.append(Child(connection))
    CHILDREN[-1].checks_for_stop = True  # by the call before
    CHILDREN[-1]._work(Request(Work(work), None, None, 1, {}))
    [(heard, value)] = connection.sent
    assert heard == kind and says in str(value) and not CHILDREN[-1].working


def test_only_the_chief_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.processes.threads.pin", lambda threads: None)
    level = logging.getLogger("tasks").level
    for rank, heard in ((0, ["progress", "measure", "done"]), (1, ["done"])):
        connection: Any = Kept()
        Child(connection)._work(Request(Work(reports), None, None, 1, {}, rank=rank))
        assert [kind for kind, *_ in connection.sent] == heard
        assert (logging.getLogger("tasks").level == logging.WARNING) is (rank == 1)
        logging.getLogger("tasks").setLevel(level)


def reports(bench: Any) -> None:
    bench.progress(1, 2, "steps")
    bench.measure("name", 1)


BENCHES: list[Any] = []


def keeps_its_bench(bench: Any) -> None:
    BENCHES.append(bench)


def test_work_has_all_that_its_request_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.processes.threads.pin", lambda threads: None)
    whole: dict[str, Any] = {
        "staging": "staging",
        "threads": 7,
        "layout": {"devices": 2},
        "role": "evaluator",
        "rank": 0,
        "peers": ("evaluator", "worker"),
        "addresses": ("a:1", "b:2"),
        "hosts": ("a", "b"),
    }
    Child(Kept())._work(  # type: ignore[arg-type]
        Request(Work(keeps_its_bench), journal=None, **whole)
    )
    assert {name: getattr(BENCHES[-1], name) for name in whole} == whole


def test_a_signal_while_the_result_is_sent_does_not_interrupt_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.processes.threads.pin", lambda threads: None)

    class Signalled(Kept):
        def send(self, message: Any) -> None:
            child._signalled(signal.SIGTERM, None)
            super().send(message)

    connection: Any = Signalled()
    child = Child(connection)
    child._work(Request(Work(keeps_its_bench), None, None, 1, {}))
    assert connection.sent == [("done", None)]


def test_a_process_shows_itself_until_its_work_has_ended_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.processes.threads.pin", lambda threads: None)
    monkeypatch.setattr("tasks.processes.child.BEAT", 0.01)
    before, connection = set(threading.enumerate()), Kept()
    request = Request(Work(keeps_its_bench), None, None, 1, {}, peers=("chief", "worker"))
    Child(connection)._work(request)  # type: ignore[arg-type]
    beating = [thread for thread in set(threading.enumerate()) - before if thread.join(1) or thread.is_alive()]
    assert beating == [] and connection.sent[0] == ("alive",)


def test_a_fork_server_that_has_ended_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        over = False

        def __init__(self, threads: int, log: Path) -> None:
            pass

        def ended(self) -> bool:
            return self.over

        def close(self) -> None:
            pass

    monkeypatch.setattr(fork_server, "ForkServer", Server)
    monkeypatch.setattr(fork_server, "_servers", {})
    first: Any = fork_server.fork_server(3, tmp_path)  # a `Server`
    assert fork_server.fork_server(3, tmp_path) is first is not fork_server.fork_server(4, tmp_path)
    monkeypatch.setattr(first, "over", True)
    assert fork_server.fork_server(3, tmp_path) is not first


def test_an_error_of_the_machine_arrives_as_one() -> None:
    full = _sendable(OSError(28, "No space left on device", "/disk/file"))
    assert isinstance(full, OSError) and (full.errno, full.filename) == (28, "/disk/file")
    of_a_library = _sendable(RuntimeError("RESOURCE_EXHAUSTED: /disk/file; No space left on device"))
    assert isinstance(of_a_library, OSError) and of_a_library.errno == 28
    assert _sendable(ValueError("x")) == "ValueError: x" and isinstance(_sendable(OSError("plain")), str)


def test_results_of_several_processes_are_in_the_order_of_their_items() -> None:
    def work(number: int) -> int:
        time.sleep(0.05 * (4 - number))
        return number * number

    assert list(in_processes(work, range(4), 2)) == [0, 1, 4, 9]


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    listener.close()
    made = Channel(near), Channel(far)
    yield made
    for each in made:
        each.close()


def test_a_connection_is_open_until_it_ends_also_while_a_message_waits(channels: tuple[Channel, Channel]) -> None:
    near, far = channels
    assert near.open()
    far.send("call", 1)
    deadline = time.monotonic() + 5
    while not near.open() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert near.recv() == ["call", 1] and near.open()
    far.close()
    while near.open() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not near.open()
    near.close()
    assert not near.open()


@pytest.mark.parametrize("content", [b'{"a": 1}', b"[]", b"no json", b"3", b"[" * 9999 + b"]" * 9999])
def test_what_is_no_message_ends_the_connection(content: bytes, channels: tuple[Channel, Channel]) -> None:
    near, far = channels
    far._socket.sendall(messages.LENGTH.pack(len(content)) + content)
    with pytest.raises(EOFError):
        near.recv()


def test_a_message_that_is_too_long_is_not_waited_for(channels: tuple[Channel, Channel]) -> None:
    near, far = channels
    far._socket.sendall(messages.LENGTH.pack(messages.MOST_BYTES + 1))
    with pytest.raises(EOFError):
        near.recv()


def test_a_message_that_comes_in_parts_is_put_together(channels: tuple[Channel, Channel]) -> None:
    near, far = channels
    content = json.dumps(["call", "x" * 100]).encode()
    whole = messages.LENGTH.pack(len(content)) + content
    received: list[Any] = []
    reader = threading.Thread(target=lambda: received.append(near.recv()))
    reader.start()
    for part in (whole[:2], whole[2:30], whole[30:31], whole[31:]):
        far._socket.sendall(part)
        until(lambda: not select.select([near], [], [], 0)[0])  # it is taken
    reader.join(10)
    assert received == [["call", "x" * 100]]


def test_a_message_may_be_as_long_as_it_is_allowed_to_be(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = channels
    monkeypatch.setattr(messages, "MOST_BYTES", len('["call", 1]'))
    far.send("call", 1)
    assert near.recv() == ["call", 1]


def test_a_request_has_all_of_its_parts_on_the_other_host() -> None:
    """All but those of the chief: its staging, its journal, its threads, and what its layout is."""
    place: Any = {"role": "ps", "rank": 2, "peers": ("a", "b"), "addresses": ("c:1",), "hosts": ("d", "e"), "key": "k"}
    sent = Request(Work(fit, (1, "a")), None, Path("j"), 8, {"a": 1}, **place)
    made = request_from_json(
        json.loads(json.dumps(messages.request_to_json(sent))), hosts.table(), 3, lambda reference: None
    )
    assert made == dataclasses.replace(sent, journal=None, threads=3, layout={})


@pytest.mark.parametrize(
    "error", [Stopped(15), Stopped(2), OSError(28, "No space left on device", "/disk/file"), OSError(5, "input")]
)
def test_a_stop_and_an_error_of_the_system_arrive_with_all_that_they_say(error: Any) -> None:
    made: Any = messages.error_from_json(json.loads(json.dumps(messages.error_to_json(error))), "there")
    if isinstance(error, Stopped):
        assert made.signal_number == error.signal_number
    else:
        assert (made.errno, made.strerror) == (error.errno, error.strerror)
        assert made.filename == f"there:{error.filename or ''}"


class Served:
    """The compute process that a host starts for a call; the test speaks for it."""

    def __init__(self, stage: str, log: Path, threads: int, rank: int, address: str) -> None:
        self.made, self.seen = (stage, log.name, threads, rank, address), None
        self.connection, self.far = Pipe()
        self.requests: list[Request] = []
        self.happened: list[Any] = []
        self.call = self.requests.append
        self.send_signal = self.happened.append
        self.said: list[str] = []

    def close(self) -> None:
        self.happened.append("closed")

    def kill(self) -> None:
        self.happened.append("killed")

    def lines(self) -> list[str]:
        lines, self.said = self.said, []
        return lines

    def death(self, work: str, name: str) -> Failed:
        return Lost(work, f"{name} was killed by signal 9", "it must answer", "run again")


class Host:
    """A host that serves calls in a thread, and what the chief sees of its process."""

    def __init__(self, channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
        self.number, self.looks, self.started, self.ended = 0, 0, list[Served](), list[Any]()
        near, far = channels
        cluster = ClusterConfig(hosts=("127.0.0.1", "127.0.0.2"))

        def start(*given: Any) -> Served:
            self.started.append(Served(*given))
            return self.started[-1]

        monkeypatch.setattr(member, "Process", start)
        made = member.Member(cluster, 1, {}, Path("logs"), 3, hosts.table(), self.find, self.stop, lambda line: None)
        made._port = SimpleNamespace(address="127.0.0.2:7")  # type: ignore[assignment]
        self.chief = RemoteProcess(Joined(1, "there", "127.0.0.2:7", near, 3, "cpu"), "train", 3)

        def attend() -> None:
            try:
                self.ended.append(made._attend(far))
            except Stopped as stopped:
                self.ended.append(stopped.signal_number)

        self.thread = threading.Thread(target=attend, daemon=True)
        self.thread.start()

    def stop(self) -> int:
        self.looks += 1
        return self.number

    def heard(self) -> tuple[Any, ...]:
        """What the chief receives next, but that the host is there."""
        while (message := self.chief.recv()) == ("alive",):
            pass
        return message

    def find(self, reference: dict[str, Any]) -> Any:
        raise Failed(reference["digest"], "not here", "it must be", "copy it")

    def call(self, *arguments: Any) -> Served:
        before = len(self.started)
        peers = ("chief", "w")
        self.chief.call(Request(Work(fit, arguments), None, None, 8, {}, role="worker", rank=1, peers=peers))
        until(lambda: len(self.started) > before and bool(self.started[-1].requests))
        return self.started[-1]

    def end(self) -> Any:
        self.thread.join(10)
        return self.ended[0]


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def host(channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(channels, monkeypatch)


def test_a_call_is_computed_on_the_other_host_and_its_messages_signals_and_end_are_passed_on(host: Host) -> None:
    process = host.call("a", 1)
    assert process.made == ("train", "train-1.log", 3, 1, "127.0.0.2:7")
    [request] = process.requests
    assert (request.threads, request.work.arguments, request.rank, request.peers) == (3, ("a", 1), 1, ("chief", "w"))
    assert host.chief.recv() == ("alive",), "of the host, while the process is starting"
    process.said.append("a line")
    process.far.send(("progress", 3, 7))
    assert [host.heard(), host.heard()] == [("log", 1, "a line"), ("progress", 3, 7)]
    assert process.seen is not None
    host.chief.send_signal(10)
    until(lambda: process.happened == [10])
    process.far.send(("done", object))  # only the chief's own result counts
    assert host.heard() == ("done", None)
    host.chief.close()
    until(lambda: process.happened == [10, "closed"])
    host.chief._channel.send("signal", 12)  # nobody is there
    host.chief._channel.send("end", 3, {"field": "a"})
    assert host.end() == member.End(3, {"field": "a"}) and process.happened == [10, "closed"]


def test_a_signal_to_the_other_host_is_passed_on_to_its_process_once_and_ends_it_afterwards(host: Host) -> None:
    process = host.call()
    host.number = 15
    until(lambda: process.happened == [15])
    looks = host.looks
    until(lambda: host.looks > looks + 1)
    process.far.send(("stopped", Stopped(15)))
    kind, stopped = host.heard()
    assert (kind, stopped.signal_number) == ("stopped", 15)
    host.chief.close()
    assert host.end() == 15 and process.happened == [15, "closed"]


def test_a_process_that_has_shown_itself_is_not_spoken_for_any_more(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or one that is frozen would count as alive."""
    monkeypatch.setattr(member, "BEAT", -1.0)
    process = host.call()
    assert [host.chief.recv() for _ in range(3)] == [("alive",)] * 3, "while it is starting, at each look"
    process.far.send(("progress", 1, 2))
    assert host.heard() == ("progress", 1, 2)
    looks = host.looks
    until(lambda: host.looks > looks + 2)
    assert not select.select([host.chief], [], [], 0)[0]
    host.chief.kill()
    host.end()


def test_a_signal_while_nothing_is_computed_ends_the_other_host(host: Host) -> None:
    host.number = 2
    assert host.end() == 2 and not host.started


def test_a_lost_process_and_a_lost_chief_are_noticed_by_the_other(host: Host) -> None:
    process = host.call()
    process.far.close()
    with pytest.raises(EOFError):
        host.heard()
    until(lambda: process.happened == ["killed"])
    assert "killed by signal 9" in host.chief.death("train", "rank 1").saw
    second = host.call()
    assert second is not process
    host.chief.kill()
    assert host.end() is None and second.happened == ["killed"]


def test_an_artifact_that_the_other_host_lacks_is_the_error_of_the_call(host: Host) -> None:
    artifact = Snapshot("d" * 64, Path("/store/snapshot/d"), "digits")
    host.chief.call(Request(Work(fit, (artifact,)), None, None, 8, {}))
    kind, error = host.chief.recv()
    assert (kind, error.field, error.saw) == ("error", "d" * 64, "not here") and not host.started
    host.chief._channel.send("end", 0, None)
    assert host.end() == member.End(0, None)


@pytest.fixture
def rendezvous() -> Iterator[Rendezvous]:
    cluster = ClusterConfig.model_validate({"hosts": ["127.0.0.1", "127.0.0.2"], "port": int(free_ports()[0])})
    made = Rendezvous(cluster, {})
    yield made
    made.close(0, None)


def test_a_host_can_join_after_one_could_not_be_taken_in(rendezvous: Rendezvous) -> None:
    """As one that gave up while it was connecting, or while there were too many open files."""
    real, failing = rendezvous._listener, threading.Event()

    def accept() -> Any:
        failing.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    rendezvous._listener = SimpleNamespace(accept=accept)  # type: ignore[assignment]
    with socket.create_connection(
        (rendezvous.cluster.chief, rendezvous.cluster.port)
    ):  # ends the wait that is under way
        assert failing.wait(10)
        rendezvous._listener = real
    with socket.create_connection((rendezvous.cluster.chief, rendezvous.cluster.port)) as connection:
        channel = Channel(connection)
        channel.send("join", {"rank": 1, "host": "other", "address": "a:1", "expects": {}, **MACHINE})
        assert channel.recv()[0] == "joined"


class Line:
    """A channel that is only closed."""

    closed = False

    def close(self) -> None:
        self.closed = True

    def open(self) -> bool:
        return not self.closed

    def send(self, *message: Any) -> None:
        pass


def test_a_host_that_came_back_is_not_forgotten_with_its_old_connection(rendezvous: Rendezvous) -> None:
    old, new = (Joined(1, "other", "a:1", Line(), 1, "cpu") for _ in range(2))  # type: ignore[arg-type]
    rendezvous._joined[1] = new
    rendezvous._forget(old)
    assert rendezvous.missing() == [] and old.channel.closed  # type: ignore[attr-defined]
    rendezvous._forget(new)
    assert rendezvous.missing() == [1]
    with pytest.raises(Lost, match="rank 1 on 127.0.0.2 has left"):
        rendezvous.process(1, "train", 1)


def test_a_host_that_joins_again_ends_its_first_connection(rendezvous: Rendezvous) -> None:
    first = Joined(1, "other", "a:1", Line(), 1, "cpu")  # type: ignore[arg-type]
    rendezvous._joined[1] = first
    near, far = socket.socketpair(socket.AF_UNIX)
    near.close()
    far.close()
    with socket.create_connection((rendezvous.cluster.chief, rendezvous.cluster.port)) as connection:
        channel = Channel(connection)
        channel.send("join", {"rank": 1, "host": "other", "address": "a:2", "expects": {}, **MACHINE})
        assert channel.recv()[0] == "joined"
        deadline = time.monotonic() + 5
        while rendezvous._joined[1] is first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert first.channel.closed and rendezvous._joined[1].address == "a:2"  # type: ignore[attr-defined]


def test_a_host_that_joins_while_the_run_ends_is_not_left_connected(rendezvous: Rendezvous) -> None:
    """Or it would wait for the next call of a run that is over."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as host:
        connection, _ = listener.accept()
        channel = Channel(host)
        channel.send("join", {"rank": 1, "host": "other", "address": "a:2", "expects": {}, **MACHINE})
        rendezvous._over.set()
        rendezvous._join(connection, "127.0.0.1")
        assert channel.recv()[0] == "joined" and rendezvous.missing() == [1]
        with pytest.raises(EOFError):
            channel.recv()


def test_a_host_is_shown_that_the_chief_is_there_and_one_that_cannot_be_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or it would take the chief for lost, in the middle of a long step."""

    class Broken(Line):
        def send(self, *message: Any) -> None:
            raise OSError

    monkeypatch.setattr("tasks.processes.rendezvous.BEAT", 0.01)
    cluster = ClusterConfig.model_validate(
        {"hosts": [f"127.0.0.{number}" for number in (1, 2, 3)], "port": int(free_ports()[0])}
    )
    made = Rendezvous(cluster, {})
    try:
        made._joined[2] = Joined(2, "other", "a:1", Broken(), 1, "cpu")  # type: ignore[arg-type]
        with socket.create_connection((cluster.chief, cluster.port)) as connection:
            channel = Channel(connection)
            channel.send("join", {"rank": 1, "host": "other", "address": "a:2", "expects": {}, **MACHINE})
            assert [channel.recv()[0] for _ in range(3)] == ["joined", "beat", "beat"]
            until(lambda: made.missing() == [2])
    finally:
        made.close(0, None)


def test_a_chief_that_says_nothing_for_long_is_lost_and_one_that_says_anything_is_not(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(member, "time", SimpleNamespace(monotonic=lambda: now[0]))
    host = Host(channels, monkeypatch)
    process = host.call()
    for _ in range(3):
        now[0] += member.SILENT_SECONDS - 1
        host.chief._channel.send("beat")
        until(lambda: not select.select([channels[1]], [], [], 0)[0])
        looks = host.looks
        until(lambda: host.looks > looks + 1)  # noqa: B023 - it is called at once
    assert host.thread.is_alive() and process.happened == []
    now[0] += member.SILENT_SECONDS + 1
    assert host.end() is None and process.happened == ["killed"]


def test_slurms_tasks_are_one_for_each_host() -> None:
    variables = {"SLURM_JOB_NODELIST": "gpu[08-10]", "SLURM_PROCID": "2", "SLURM_NTASKS": "3"}
    assert slurm(variables, None, 1) == (["gpu08", "gpu09", "gpu10"], 2, "Slurm")
    for tasks in ("2", "6"):
        with pytest.raises(Exception, match="a host has one process"):
            slurm({**variables, "SLURM_NTASKS": tasks}, None, 1)
    of_step = {**variables, "SLURM_STEP_NODELIST": "gpu08", "SLURM_NTASKS": "1"}
    assert slurm(of_step, None, 1) is None, "one task is a training on one host"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_left_to_the_processes_while_any_thread_computes(number: int) -> None:
    signals = Signals()
    with signals.working():
        with signals.working():
            signals._handle(number, None)
        signals._handle(number, None)
        assert signals.number == number
        with pytest.raises(Stopped):
            signals.raise_if_stopped()
    with pytest.raises(Stopped):
        signals._handle(number, None)
    with pytest.raises(Stopped), signals.translated():
        raise KeyError("what a library made of it")
    with pytest.raises(KeyError), Signals().translated():
        raise KeyError("of its own")


@pytest.mark.parametrize("order", ["Aa", "AaBb", "ABab", "ABba", "ABaCbc", "ABCacb", "ABCabcDd"])
def test_a_signal_interrupts_at_once_only_while_nothing_computes(order: str) -> None:
    """Work begins (A) and ends (a), some of it with an error; of each that is left the processes may save first."""
    signals = Signals()
    at_work: dict[str, Any] = {}
    for each in order:
        if each.isupper():
            at_work[each.lower()] = signals.working()
            at_work[each.lower()].__enter__()
        elif each == "a":
            error = KeyError("of that work")
            assert not at_work.pop(each).__exit__(KeyError, error, None)
        else:
            at_work.pop(each).__exit__(None, None, None)
        with contextlib.nullcontext() if at_work else pytest.raises(Stopped):
            signals._handle(signal.SIGTERM, None)
    assert not at_work and signals.number == signal.SIGTERM


def test_the_processes_of_a_gang_are_noted_together_and_one_alone_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.tracking import prefect_page

    measured: list[int] = []
    run: Any = SimpleNamespace(measure=lambda name, events: measured.append(len(events)))
    monkeypatch.setattr(prefect_page, "processes", lambda stage, events: None)
    presence = Presence("train", [CHIEF, WORKER], run)  # type: ignore[list-item]
    for rank in (0, 1):
        presence.note(rank, "here", "started")
    assert measured == [2], "once for all that start together"
    presence.note(1, "here", "was killed")
    presence.note(1, "here", "started")
    assert measured == [2, 3], "all of them end with one, and are not there until all have started"
    presence.note(0, "here", "started")
    assert measured == [2, 3, 5]
    Presence("train", [CHIEF], run).note(0, "here", "started")  # type: ignore[list-item]
    assert measured == [2, 3, 5]
