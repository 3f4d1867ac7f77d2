"""What two processes or threads must not do at the same time is done under a lock, which is held while it is done."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from flows.commands import decisions
from flows.commands import stack as commands
from flows.references import registry_of
from infra import prefect_server, stack
from infra.services import Layout
from tasks.artifacts import Records, Release
from tasks.config.compose import load
from tasks.errors import Failed, Stopped
from tasks.processes import fork_server
from tasks.processes.child import Child
from tasks.processes.messages import Channel
from tasks.reader import function, own_modules
from tasks.runner import releasing, tuning
from tasks.runner.attempt import current
from tasks.runner.signals import Signals
from tasks.runs import runs
from tasks.runs.collection import drop_staging, try_lock
from tasks.runs.home import Home
from tasks.runs.runs import Run, opened
from tasks.search import study as studies
from tasks.store.store import Store
from tasks.tracking import runs as tracked
from tasks.tracking.shipping import Shipper
from tests.support.homes import DIGITS
from tests.support.registries import YES, RegistryHome
from tests.support.waiting import order_of


def held(path: Path) -> bool:
    """Whether somebody has the lock of this file."""
    with try_lock(path) as free:
        return not free


class Turns:
    """What is called by several threads: how many were in it at the same time."""

    def __init__(self, of: Callable[..., Any] = lambda *given: None, seconds: float = 0.03) -> None:
        self._of, self._seconds, self._inside, self.most, self.calls = of, seconds, 0, 0, 0

    def __call__(self, *given: Any, **more: Any) -> Any:
        self._inside += 1
        self.calls += 1
        self.most = max(self.most, self._inside)
        time.sleep(self._seconds)  # for another one to come in
        try:
            return self._of(*given, **more)
        finally:
            self._inside -= 1


def at_once(*calls: Callable[[], Any]) -> None:
    """Make calls in threads that begin together."""
    begin, errors = threading.Barrier(len(calls)), list[BaseException]()

    def run(call: Callable[[], Any]) -> None:
        begin.wait(10)
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not errors, errors


@contextlib.contextmanager
def as_attempt(attempt: Any) -> Iterator[None]:
    token = current.set(attempt)
    try:
        yield
    finally:
        current.reset(token)


def test_a_decision_has_the_locks_of_its_run_and_of_the_registry(
    registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is being continued, or another decision, would otherwise write the same files at the same time."""
    home, run = registry_home.home, registry_home.run(1)
    locks = [run.folder / "lock", home.root / ".registry.lock"]
    seen: dict[str, list[bool]] = {}

    class Read(Run):
        def __init__(self, *given: Any) -> None:
            seen["read"] = [held(lock) for lock in locks]
            super().__init__(*given)

    def settle(client: Any, run: Run, decision: Any) -> Release:
        seen["settled"] = [held(lock) for lock in locks]
        return Release("digits", "1", "champion", "e", "settled", changed=True)

    def publish(client: Any, run: Run) -> None:
        seen["published"] = [held(lock) for lock in locks]

    monkeypatch.setenv("MILLRACE_HOME", str(home.root))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr("tasks.registry.approval.settle", settle)
    monkeypatch.setattr(decisions, "Run", Read)
    monkeypatch.setattr(decisions, "publish", publish)
    reply: Any = SimpleNamespace(add=lambda **fields: None, say=lambda line: None)
    decisions.decide(reply, run.run_id, True, "looked at")
    assert seen == {"read": [True, True], "settled": [True, True], "published": [True, True]}
    assert [held(lock) for lock in locks] == [False, False]


def test_a_decision_waits_for_a_run_that_is_at_work(
    registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, decided = registry_home.run(1), list[Run]()
    registry_home.promote(run, 1, 0.8)
    monkeypatch.setenv("MILLRACE_HOME", str(registry_home.home.root))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(decisions, "publish", lambda client, run: decided.append(run))
    reply: Any = SimpleNamespace(add=lambda **fields: None, say=lambda line: None)
    decide = partial(decisions.decide, reply, run.run_id, True, YES.reason)
    assert order_of(runs.locked(run.folder / "lock"), decide, capfd) == "held"
    assert len(decided) == 1 and registry_home.at("champion") == "1"


def test_promote_has_the_registrys_lock_while_it_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path).make()
    lock, seen = home.root / ".registry.lock", list[bool]()
    with opened(home, "pipeline", load(DIGITS), new=True, prefect_id=None, waiting=print) as run:
        attempt: Any = SimpleNamespace(run=run, config=run.config, raise_if_stopped=lambda: None, outcome="completed")

        def decide(*given: Any) -> Release:
            seen.append(held(lock))
            return Release("digits", "1", "champion", "e", "decided", changed=True)

        monkeypatch.setattr(releasing, "_connect", lambda attempt, line: (None, "id"))
        monkeypatch.setattr(releasing, "_decide", decide)
        with as_attempt(attempt):
            releasing.release(*(None,) * 4)  # type: ignore[arg-type]
    assert seen == [True] and not held(lock)


def test_a_release_whose_run_another_process_has_taken_over_changes_nothing(registry_home: RegistryHome) -> None:
    """As after a suspension of the machine, in which its lock was taken from it."""
    from tasks.errors import Superseded

    config = [("promote.approval", "none"), ("promote.baseline", "none")]
    with opened(registry_home.home, "pipeline", load(DIGITS, config), new=True, prefect_id=None, waiting=print) as run:
        assert run.lock is not None
        run.lock.path.write_text(f'{{"token": {run.lock.token + 1}}}')
        with pytest.raises(Superseded):
            registry_home.promote(run, 1, 0.9)
    assert registry_home.champion() is None and registry_home.audit_lines() == []


def test_a_search_has_the_lock_of_its_study_from_before_it_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of the same study would both run its trials, and more of them than it has."""
    seen: dict[str, bool] = {}
    home = Home(tmp_path).make()
    flags = [("tune", "{space: {train.batch_size: {kind: int, low: 8, high: 16}}, trials: 2}")]
    monkeypatch.setattr(tuning.identities, "study", lambda *given: {"a": "study"})
    lock = home.studies / f"{tuning.digest_of({'a': 'study'})}.lock"

    @contextlib.contextmanager
    def study(*given: Any, **more: Any) -> Iterator[Any]:
        seen["opened"] = held(lock)
        yield None
        seen["closed"] = held(lock)

    class Search:
        def __init__(self, *given: Any) -> None: ...

        def run(self) -> None:
            seen["run"] = held(lock)

    monkeypatch.setattr(tuning.studies, "opened", study)
    monkeypatch.setattr(tuning, "Search", Search)
    line: Any = SimpleNamespace(say=print)
    with opened(home, "tuning", load(DIGITS, flags), new=True, prefect_id=None, waiting=print) as run:
        attempt: Any = SimpleNamespace(
            run=run, config=run.config, shown=lambda *named: contextlib.nullcontext(line), raise_if_stopped=lambda: None
        )
        with as_attempt(attempt):
            tuning.search(None, run.config, None)  # type: ignore[arg-type]
    assert seen == {"opened": True, "run": True, "closed": True} and not held(lock)


def test_the_end_of_a_trial_is_recorded_by_one_thread_at_a_time(tmp_path: Path) -> None:
    """A table that was made before the last trial ended would otherwise be written over the newer one."""
    search: Any = tuning.Search.__new__(tuning.Search)
    made: Any = SimpleNamespace(trials=(), best=None, count=lambda state: 0, save=lambda folder: None)
    turns = Turns(lambda: made)
    search.recording, search.table, search.higher = threading.Lock(), turns, True
    search.attempt = SimpleNamespace(run=SimpleNamespace(folder=tmp_path))
    at_once(search.record, search.record, search.record)
    assert (turns.calls, turns.most) == (3, 1)


class Engine:
    """A database of a study: whether this connection gets the study's lock."""

    def __init__(self, dialect: str, free: bool) -> None:
        self.dialect, self.free = SimpleNamespace(name=dialect), free
        self.asked: list[Any] = []

    @contextlib.contextmanager
    def connect(self) -> Iterator[Engine]:
        yield self

    def scalar(self, statement: Any, values: dict[str, int]) -> bool:
        self.asked.append((str(statement), values["key"]))
        return self.free

    def commit(self) -> None:
        self.asked.append("committed")


def test_a_study_in_postgresql_is_one_homes_at_a_time() -> None:
    def asked(name: str, free: bool = True, dialect: str = "postgresql") -> list[Any]:
        engine = Engine(dialect, free)
        entered = False
        stored: Any = SimpleNamespace(engine=engine)
        if free:
            with studies.held(stored, "env:STUDY", name):
                entered = True
            assert entered
        else:
            with (
                pytest.raises(Failed, match="env:STUDY: the study taken is in use"),
                studies.held(stored, "env:STUDY", name),
            ):
                pytest.fail("it is another home's")
        return engine.asked

    statement, key = asked("one")[0]
    assert "pg_try_advisory_lock" in statement and -(2**63) <= key < 2**63
    assert asked("one") == [(statement, key), "committed"], "the same in every home"
    assert asked("another")[0][1] != key
    asked("taken", free=False)
    assert asked("one", dialect="sqlite") == []


@pytest.mark.parametrize("reference", ["env:STUDY", None])
def test_a_study_in_a_database_is_held_while_it_is_open(
    reference: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    @contextlib.contextmanager
    def hold(*given: Any) -> Iterator[None]:
        order.append("held")
        yield
        order.append("released")

    monkeypatch.setattr(studies, "held", hold)
    monkeypatch.setattr(studies, "_close", lambda opened: order.append("closed"))
    for opens in ("open_file", "open_database"):
        monkeypatch.setattr(studies, opens, lambda *given: None)
    with studies.opened_storage(tmp_path / "s.db", reference, "study", "minimize"):
        order.append("used")
    assert order == (["held", "used", "released", "closed"] if reference else ["used", "closed"])


@pytest.mark.parametrize("call", ["report", "prunes", "ask", "complete"])
def test_threads_use_a_study_one_at_a_time(call: str, tmp_path: Path) -> None:
    """An evaluation could be stored twice, two trials have the same values, or one be pruned by half of the scores."""
    from tasks.search.config import TuneConfig
    from tasks.search.space import FloatRange
    from tasks.search.study import opened as study_of

    config = TuneConfig(space={"rate": FloatRange(low=0.0, high=1.0)}, trials=9)
    with study_of(tmp_path / "s.db", "study", config, higher_is_better=True, seed=1) as study:
        for _ in range(2):
            study.ask()
        turns = Turns(study._study.get_trials)
        study._study.get_trials = turns  # type: ignore[method-assign]
        if call == "complete":
            tell = Turns()
            study._study.tell = tell  # type: ignore[method-assign, assignment]
            at_once(lambda: study.complete(0, 0.5, model="a"), lambda: study.complete(1, 0.5, model="b"))
            assert (tell.calls, tell.most) == (2, 1)
            return
        if call == "ask":
            at_once(study.ask, study.ask)
            numbers = [trial.number for trial in study.trials()]
            assert numbers == [0, 1, 2, 3] and len({str(trial.values) for trial in study.trials()}) == 4
            return
        if call == "report":
            write = Turns(study._storage.set_trial_intermediate_value)
            study._storage.set_trial_intermediate_value = write  # type: ignore[method-assign]
            at_once(lambda: study.report(0, 10, 0.1), lambda: study.report(0, 10, 0.2))
            assert write.calls == 1, "one that is stored stays as it is"
        if call == "prunes":
            judged = Turns(lambda *given: False, 0.1)
            study._study.pruner.prune = judged  # type: ignore[method-assign]
            study._storage.set_trial_intermediate_value(study._trial_id(0), 10, 0.5)
            at_once(lambda: study.prunes(0, 10), lambda: study.prunes(0, 10))
            assert (judged.calls, judged.most) == (2, 1)
        assert turns.most == 1


def test_runs_begin_one_at_a_time_and_an_attempt_has_the_lock_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands of the same config, begun together, would otherwise both begin a run."""
    home, config = Home(tmp_path).make(), load(DIGITS)
    begin, seen = runs._begin, list[bool]()

    def begin_slowly(*given: Any) -> Path:
        seen.append(held(home.runs / ".lock"))
        return begin(*given)

    monkeypatch.setattr(runs, "_begin", begin_slowly)
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as run:
        assert held(run.folder / "lock") and not held(home.runs / ".lock"), "others may begin theirs"
        assert run.lock is not None and run.lock.path == run.folder / "lock"
        run.lock.check("it is ours")
    assert seen == [True] and not held(run.folder / "lock")


def test_a_second_command_of_the_same_run_waits_for_the_first(tmp_path: Path) -> None:
    home, config, order, waits = Home(tmp_path).make(), load(DIGITS), list[str](), threading.Event()

    def second() -> None:
        with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=lambda line: waits.set()) as run:
            order.append(f"attempt {run.attempt}")

    other = threading.Thread(target=second)
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as run:
        other.start()
        assert waits.wait(10)
        order.append(f"attempt {run.attempt}")
    other.join(10)
    assert order == ["attempt 1", "attempt 2"] and len(list(home.runs.glob("*/run.json"))) == 1


def test_threads_of_a_run_lose_none_of_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials at the same time, and the thread that sends metrics, write the files that the stages write."""
    with opened(Home(tmp_path), "pipeline", load(DIGITS), new=True, prefect_id=None, waiting=print) as run:
        turns = Turns(runs.write)
        monkeypatch.setattr(runs, "write", turns)
        at_once(*(lambda name=name: run.measure(name, 1) for name in "abc"))  # type: ignore[misc]
        assert set(run.measurements()) == {"a", "b", "c"} and turns.most == 1
        at_once(*(lambda name=name: run.note(**{name: 1}) for name in "abc"))  # type: ignore[misc]
        assert (turns.calls, turns.most) == (6, 1)
        assert {"a", "b", "c"} <= set(Run(run.home, run.folder).record)


def test_one_run_at_a_time_makes_the_tracking_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    lock = tmp_path / ".mlflow.lock"

    def connect(uri: str) -> str:
        seen.append(("connects", held(lock)))
        return "client"

    def begin(client: Any, run: Any) -> str:
        seen.append(("begins", held(lock)))
        return "id"

    monkeypatch.setattr(tracked, "connect", connect)
    monkeypatch.setattr(tracked, "find_or_begin", begin)
    shipper: Any = Shipper.__new__(Shipper)
    shipper.client = shipper.mlflow_id = None
    shipper._ready = threading.Event()
    shipper.run = SimpleNamespace(home=Home(tmp_path), note=lambda **fields: seen.append(("notes", held(lock))))
    shipper._connect()
    commands.make_database(Home(tmp_path), Layout(tmp_path, tmp_path))
    assert seen == [("connects", True), ("begins", True), ("notes", False), ("connects", True)]


def test_a_stack_is_started_and_stopped_by_one_command_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, seen = tmp_path / ".stack.lock", list[tuple[str, bool]]()

    class Stack:
        def __init__(self, home: Path) -> None:
            self.layout: Layout | None = Layout(home, home)
            self.started = {"prefect": None} if len(seen) < 2 else {}
            seen.append(("read", held(lock)))

        def living(self) -> dict[str, Any]:
            return {}

        def up(self, *given: Any) -> list[str]:
            seen.append(("up", held(lock)))
            return []

        def down(self, *given: Any) -> list[str]:
            seen.append(("down", held(lock)))
            return []

        def facts(self) -> dict[str, Any]:
            return {}

    def note(what: str, result: Any = None) -> Callable[..., Any]:
        return lambda *given: seen.append((what, held(lock))) or result

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.setattr(commands, "Stack", Stack)
    monkeypatch.setattr(commands, "WATCH", 0.0)
    monkeypatch.setattr(signal, "signal", lambda *given: None)
    commands.stay(tmp_path)
    assert seen == [("read", True), ("up", True), ("read", True)], "what another process has changed is read again"
    seen.clear()

    def signalled(seconds: float) -> None:
        raise Stopped(signal.SIGTERM)

    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=signalled))
    commands.stay(tmp_path)
    assert seen == [("read", True), ("down", True)], "a signal ends what stays in the foreground"
    seen.clear()
    with pytest.raises(Stopped), commands.stopped(tmp_path):
        raise Stopped(signal.SIGTERM)
    assert seen == [("read", True), ("down", True)]
    seen.clear()
    with pytest.raises(typer.Exit):
        commands.down(as_json=True)
    assert seen == [("read", True), ("down", True)]
    seen.clear()
    monkeypatch.setattr(commands, "make_database", note("makes the database"))
    monkeypatch.setattr(commands.orchestration, "install", note("installs"))
    monkeypatch.setattr(commands.orchestration, "verify", note("verifies", []))
    monkeypatch.setattr(commands, "wanted", lambda stack, home, *given: Layout(home, home))
    with pytest.raises(typer.Exit):
        commands.up(as_json=True)
    steps = ["makes the database", "read", "up", "installs", "verifies"]
    assert seen == [("read", False), *((step, True) for step in steps)]
    assert not held(lock)


def test_a_second_command_for_a_stack_waits(tmp_path: Path) -> None:
    order, begun = list[str](), threading.Event()

    def second() -> None:
        begun.set()
        with stack.exclusive(tmp_path):
            order.append("second")

    other = threading.Thread(target=second)
    with stack.exclusive(tmp_path):
        other.start()
        assert begun.wait(10)
        other.join(0.1)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def test_the_database_of_a_single_commands_server_is_copied_by_one_process_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    database = tmp_path / "prefect.db"

    def copy(package: str, path: Path) -> bool:
        seen.append(held(path.with_name(f".{path.name}.lock")))
        return True

    monkeypatch.setattr(prefect_server, "copy_template", copy)
    address: Any = SimpleNamespace(value=lambda: f"sqlite+aiosqlite:///{database}")
    monkeypatch.setattr(prefect_server, "PREFECT_API_DATABASE_CONNECTION_URL", address)
    monkeypatch.setattr(prefect_server, "MODELS_DEPENDENCIES", {})
    server: Any = SimpleNamespace(API_ROUTERS=(), create_app=lambda: "app")
    monkeypatch.setattr(prefect_server, "server", server)
    assert prefect_server.application() == "app" and seen == [True]


def test_transactions_of_the_server_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that write at a time would fail with "database is locked"; what is nested in one does not wait for it."""
    inside, most, order = 0, 0, list[str]()

    @contextlib.asynccontextmanager
    async def begin(self: Any, session: Any, with_for_update: bool = False) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        order.append(f"{session} {with_for_update}")
        await asyncio.sleep(0.01)
        yield session
        inside -= 1

    monkeypatch.setattr(prefect_server.AioSqliteConfiguration, "begin_transaction", begin)
    turns: Any = prefect_server.InTurn(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")

    async def one(name: str) -> None:
        async with turns.begin_transaction(name):
            pass

    async def nested() -> None:
        async with turns.begin_transaction("outer"), turns.begin_transaction("inner"):
            pass

    async def all_of_them() -> None:
        await asyncio.gather(*(one(name) for name in "abc"))

    asyncio.run(all_of_them())
    assert most == 1 and order == ["a True", "b True", "c True"]
    order.clear()
    asyncio.run(nested())
    assert order == ["outer True", "inner False"]


def test_an_artifact_has_one_writer_and_another_run_finds_it_afterwards(tmp_path: Path) -> None:
    store, waits, order = Store(tmp_path), threading.Event(), list[str]()

    def second() -> None:
        with store.claim(Records, "d" * 64, "records", lambda line: waits.set()):
            order.append("second")

    other = threading.Thread(target=second)
    with store.claim(Records, "d" * 64, "records"):
        assert held(tmp_path / ".locks/records" / f"{'d' * 64}.lock")
        other.start()
        assert waits.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def test_the_staging_of_a_pruned_trial_goes_unless_somebody_works_on_it(tmp_path: Path) -> None:
    home, store = Home(tmp_path).make(), Store(tmp_path / "store")
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    (folder / "uses").write_text("model/a\nmodel/b\n")
    staging = [home.store / ".staging/model" / name for name in "ab"]
    for path in staging:
        path.mkdir(parents=True)
    run: Any = SimpleNamespace(home=home, folder=folder)
    (store.root / ".locks/model").mkdir(parents=True)
    with runs.locked(store.root / ".locks/model/a.lock"):
        drop_staging(run)
    assert [path.exists() for path in staging] == [True, False]


def test_one_fork_server_is_started_for_threads_that_ask_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Turns(lambda threads, log: SimpleNamespace(ended=lambda: False, close=lambda: None))
    monkeypatch.setattr(fork_server, "ForkServer", made)
    monkeypatch.setattr(fork_server, "_servers", {})
    found: list[Any] = []
    at_once(*[lambda: found.append(fork_server.fork_server(2, tmp_path / "log"))] * 3)
    assert made.calls == 1 and len({id(server) for server in found}) == 1


def test_messages_of_several_threads_do_not_mix() -> None:
    """A compute process says that it is alive while its work reports; a host beats while it sends a call."""
    near, far = socket.socketpair()
    with contextlib.closing(near), contextlib.closing(far):
        channel: Any = Channel.__new__(Channel)
        send = Turns(near.sendall)
        channel._socket, channel._sending = SimpleNamespace(sendall=send), threading.Lock()
        at_once(*[lambda: channel.send("beat")] * 3)
        assert (send.calls, send.most) == (3, 1)
    one, other = Pipe()
    with one, other:
        child = Child(one)
        said = Turns()
        child.connection = SimpleNamespace(send=said)  # type: ignore[assignment]
        at_once(*[lambda: child._send("alive")] * 3)
        assert (said.calls, said.most) == (3, 1)


def test_the_users_own_function_is_imported_and_called_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Turns(lambda values: [1.0 for _ in values])
    state = {"function": "own:f", "shape": [], "dtype": "float32"}
    monkeypatch.setattr(function, "imported", lambda name, folder: calls)
    apply = function.function(state, tmp_path)
    at_once(*[lambda: apply(["a", "b"])] * 3)  # type: ignore[list-item]
    assert (calls.calls, calls.most) == (3, 1)
    monkeypatch.undo()
    folder = tmp_path / "functions"
    folder.mkdir()
    (folder / "own_for_locks.py").write_text("def f(values):\n    return values\n")
    imports = Turns(own_modules.import_module)
    monkeypatch.setattr(own_modules, "import_module", imports)
    monkeypatch.setattr(own_modules, "LOADED", {})
    at_once(*[lambda: own_modules.imported("own_for_locks:f", folder)] * 3)
    assert (imports.calls, imports.most) == (3, 1)
    monkeypatch.delitem(sys.modules, "own_for_locks")


def test_threads_that_compute_are_counted_each() -> None:
    """With one that is lost, a signal to a tuning with several trials interrupts them instead of letting them save."""

    class Slow(Signals):
        """Between reading the count and writing it another thread comes."""

        @property
        def _working(self) -> int:
            count = self.__dict__.get("working_now", 0)
            time.sleep(0.02)
            return count

        @_working.setter
        def _working(self, count: int) -> None:
            self.__dict__["working_now"] = count

    signals = Slow()
    both = threading.Barrier(3)

    def work() -> None:
        with signals.working():
            both.wait(10)
            both.wait(10)

    def look() -> None:
        both.wait(10)
        assert signals._working == 2
        both.wait(10)

    at_once(work, work, look)
    assert signals._working == 0


def test_a_registry_without_a_database_is_no_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the question leaves no lock behind."""
    from tasks.errors import Refused

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    with pytest.raises(Refused), registry_of(Home(tmp_path)):
        pass
    assert not (tmp_path / ".registry.lock").exists()
