"""What is waited for is not waited for without end: every limit is reached where nothing answers, and it is its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from flows import asking, session
from infra import databases, embedded, health, orchestration, prefect_server, services, stack
from infra.services import Layout
from tasks.config.compose import load
from tasks.config.notify import NotifyConfig
from tasks.errors import Failed, Lost, Stopped
from tasks.exporting import latency
from tasks.exporting.formats import stablehlo
from tasks.processes import gang as gangs
from tasks.processes import local_process, member, messages
from tasks.processes.config import ClusterConfig
from tasks.processes.fork_server import Forked
from tasks.processes.member import Member
from tasks.processes.messages import Channel, Table
from tasks.processes.workbench import Limits, Work
from tasks.runner import attempt as attempts
from tasks.runner import tuning
from tasks.runner.attempt import Attempt
from tasks.runs.home import Home
from tasks.runs.runs import opened
from tasks.sources import files, tfds_prepare
from tasks.sources.kinds.catalogues import TfdsSource
from tasks.store.journal import JournalFile
from tasks.tracking import notifications, prefect_page
from tasks.tracking.shipping import Shipper
from tasks.training import strategies
from tasks.training.engines.tensorflow.strategies import horovod_rendezvous
from tasks.view import terminal
from tests.support.homes import DIGITS


def within(call: Callable[[], Any], seconds: float = 10) -> tuple[Any, float]:
    """What a call returns or raises, and the seconds that it took; a call that goes on for ever fails the test."""
    ended: queue.Queue[Any] = queue.Queue()

    def run() -> None:
        began = time.monotonic()
        try:
            made = call()
        except BaseException as error:
            made = error
        ended.put((made, time.monotonic() - began))

    threading.Thread(target=run, daemon=True).start()
    try:
        answer: tuple[Any, float] = ended.get(timeout=seconds)
    except queue.Empty:
        pytest.fail(f"it has not ended after {seconds} s")
    return answer


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield listener.getsockname()[:2]


@pytest.fixture
def deaf() -> Iterator[tuple[str, int]]:
    """An address at which a connection never comes about, as of a host that is switched off: its queue is full."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        time.sleep(0.05)
        yield listener.getsockname()[:2]


@pytest.fixture
def unused() -> tuple[str, int]:
    """An address that refuses connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[:2]


def text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def test_the_first_process_of_horovod_is_waited_for_so_long(unused: tuple[str, int]) -> None:
    lost, took = within(lambda: horovod_rendezvous.await_server(text(unused), patience=0.3))
    assert isinstance(lost, Lost) and f"rank 0 at {text(unused)} has not answered" in lost.saw and 0.3 <= took < 5
    listener = socket.socket()
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(unused)
        threading.Timer(0.2, listener.listen).start()
        made, took = within(lambda: horovod_rendezvous.await_server(text(unused), patience=30))
    assert made is None and 0.1 < took < 10


def test_a_tpu_that_does_not_answer_is_an_error(deaf: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "CONNECT_SECONDS", 0.2)
    error, took = within(lambda: strategies.check_address(f"grpc://{text(deaf)}"))
    assert isinstance(error, TimeoutError) and 0.2 <= took < 3
    asked: list[Any] = []

    def connect(*given: Any) -> socket.socket:
        asked.append(given)
        return socket.socket()

    monkeypatch.setattr(strategies.socket, "create_connection", connect)
    strategies.check_address("grpc://10.0.0.1")
    assert asked == [(("10.0.0.1", 8470), 0.2)]


def member_of(address: tuple[str, int], wait: int, say: Callable[[str], None] = print) -> Member:
    cluster = ClusterConfig(hosts=(address[0], "127.0.0.2"), port=address[1], wait=wait)
    return Member(cluster, 1, {}, Path(), 1, Table((), ()), lambda reference: None, lambda: 0, say)


@pytest.mark.parametrize("where", ["unused", "deaf"])
def test_a_host_waits_so_long_for_the_first(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "CONNECT_EVERY", 0.03)
    said: list[str] = []
    address = request.getfixturevalue(where)
    failed, took = within(member_of(address, 1, said.append)._connect)
    assert isinstance(failed, Failed) and failed.field == "train.cluster" and 1 <= took < 5
    assert "must answer within 1 s (train.cluster.wait)" in failed.rule
    assert said == [f"waiting for {text(address)}, which runs the flow"], "once"


def test_a_first_host_that_falls_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its network cable is pulled: no end of the connection comes. While it beats, it is not."""
    monkeypatch.setattr(member, "SILENT_SECONDS", 0.4)
    near, far = socket.socketpair()
    with near, far:
        chief, host = Channel.__new__(Channel), Channel.__new__(Channel)
        for channel, end in ((chief, far), (host, near)):
            channel._socket, channel._sending = end, threading.Lock()
        over = threading.Event()

        def beat() -> None:
            with contextlib.suppress(OSError):
                for _ in range(8):
                    over.wait(0.1)
                    chief.send("beat")

        threading.Thread(target=beat, daemon=True).start()
        lost, took = within(lambda: member_of(("127.0.0.1", 1), 1)._attend(host))
    assert lost is None and 0.8 + 0.3 < took < 5


def test_a_message_that_stops_halfway_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
        channel = Channel(near)
        with far, contextlib.closing(channel):
            far.sendall(b"\0\0")
            error, took = within(channel.recv)
            assert isinstance(error, EOFError) and 0.2 <= took < 3
            error, took = within(lambda: channel.send("x" * (64 << 20)))  # which nobody takes
            assert isinstance(error, OSError) and took < 5


def test_a_process_that_does_not_end_after_its_call_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[Any] = []

    def closed(code: int | None) -> list[Any]:
        did.clear()
        process: Any = local_process.Process.__new__(local_process.Process)
        process.connection = SimpleNamespace(close=lambda: did.append("closed"))
        process.process = SimpleNamespace(wait=lambda seconds=None: did.append(seconds) or code)
        process._temporary = SimpleNamespace(cleanup=lambda: did.append("cleaned"))
        process.kill = lambda: did.append("killed")
        process.close()
        return list(did)

    assert closed(0) == ["closed", local_process.CLOSE_SECONDS, "cleaned"]
    assert closed(None) == ["closed", local_process.CLOSE_SECONDS, "killed", "cleaned"]


def test_the_end_of_a_process_is_waited_for_so_long() -> None:
    near, far = Pipe(duplex=False)
    with near, far:
        process = Forked(near)
        code, took = within(lambda: process.wait(0.2))
        assert code is None and 0.2 <= took < 3
        code, took = within(process.poll)
        assert code is None and took < 0.1
        far.send_bytes(b"pid 7")
        far.send_bytes(b"exit 3")
        assert within(process.wait)[0] == 3


@pytest.mark.parametrize("by_signal", [False, True])
def test_a_gang_that_does_not_leave_is_left_after_the_grace(by_signal: bool) -> None:
    near, far = Pipe()
    with near, far:
        process: Any = SimpleNamespace(
            rank=0, host="here", address="a:0", threads=1, log=Path("x.log"), seen=None, connection=near
        )
        sent: list[int] = []
        process.call, process.lines, process.send_signal = lambda request: None, lambda: (), sent.append
        chief: Any = SimpleNamespace(name="chief", serves=False, replaced=False)
        gang = gangs.Gang(lambda rank: process, [chief])
        limits = Limits("resources.timeouts.train", 60 if by_signal else 0.2, grace=0.4, reminders=60)
        error, took = within(
            lambda: gang.call(
                Work(print),
                None,
                Path(),
                limits=limits,
                on_report=lambda *report: None,
                stop=lambda: signal.SIGINT if by_signal else 0,
            )
        )
    if by_signal:
        assert isinstance(error, Stopped) and error.signal_number == signal.SIGINT and 0.4 <= took < 3
    else:
        assert isinstance(error, Failed) and error.field == "resources.timeouts.train" and 0.6 <= took < 3
    assert sent == [signal.SIGINT if by_signal else signal.SIGTERM]


STAGES = ("convert", "snapshot", "train", "evaluate", "compress", "export", "promote")


def test_the_time_of_a_stage_is_its_own_or_that_of_all(tmp_path: Path) -> None:
    """And of a stage that has none of its own not that of another."""
    own = [f"resources.timeouts.{stage}" for stage in STAGES]
    limits: dict[str, Limits] = {}

    class Launcher:
        @contextlib.contextmanager
        def gang(self, stage: str, *given: Any) -> Iterator[Any]:
            yield SimpleNamespace(call=lambda *given, **more: limits.update({stage: more["limits"]}))

    def asked(*flags: tuple[str, str]) -> dict[str, Limits]:
        limits.clear()
        with opened(Home(tmp_path), "pipeline", load(DIGITS, flags), new=True, prefect_id=None, waiting=print) as run:
            made: Any = Attempt.__new__(Attempt)
            made.run, made.config, made.launcher, made.rendezvous, made.threads = run, run.config, Launcher(), None, 1
            made.signals = attempts.Signals()
            for stage in STAGES:
                made.work(stage, Work(print), None)
        return dict(limits)

    of_all = asked(("resources.timeout", "100"), ("resources.grace", "7"))
    assert {(each.field, each.seconds, each.grace) for each in of_all.values()} == {("resources.timeout", 100, 7)}
    flags = [(name, str(number)) for number, name in enumerate(own, 11)]
    each = asked(("resources.timeout", "100"), ("resources.grace", "200"), *flags)
    found = {stage: (limit.field, limit.seconds, limit.grace) for stage, limit in each.items()}
    assert found == {stage: (own[n], 11 + n, 200) for n, stage in enumerate(STAGES)}
    one = asked(("resources.timeouts.train", "11"))
    assert (one["train"].seconds, one["evaluate"].seconds) == (11, float("inf"))


def test_a_pause_before_a_restart_ends_in_time_or_by_a_signal() -> None:
    attempt: Any = Attempt.__new__(Attempt)
    attempt.signals = SimpleNamespace(number=0)
    _, took = within(lambda: attempt._pause(0.3))
    assert 0.3 <= took < 3
    attempt.signals.number = signal.SIGTERM
    _, took = within(lambda: attempt._pause(60))
    assert took < 1


@pytest.mark.parametrize("number", [0, signal.SIGTERM])
def test_the_tracker_is_waited_for_a_minute_at_the_end_and_moments_after_a_signal(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Any] = []
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))

    class Sender:
        def __init__(self, run: Any) -> None: ...

        def end(self, *given: Any) -> None: ...

        def close(self, patience: float) -> None:
            waited.append(patience)

    monkeypatch.setattr(attempts, "Shipper", Sender)
    monkeypatch.setattr(attempts, "start_fork_server", lambda *given: None)
    monkeypatch.setattr(attempts, "_publish_page", lambda attempt: None)

    def body() -> None:
        if number:
            signal.raise_signal(number)

    call = lambda: attempts.attempt_run("dataset", load(DIGITS), body, attempts.RunRequest(), None)  # noqa: E731
    with pytest.raises(Stopped) if number else contextlib.nullcontext():
        call()
    assert waited == [attempts.FLUSH_SECONDS_AFTER_SIGNAL if number else attempts.FLUSH_SECONDS]
    assert attempts.FLUSH_SECONDS_AFTER_SIGNAL < attempts.FLUSH_SECONDS


def test_what_hangs_in_sending_is_left_and_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shipper: Any = Shipper.__new__(Shipper)
    shipper.journal, shipper._acknowledged = tmp_path / "metrics.jsonl", tmp_path / "shipped.json"
    JournalFile(shipper.journal).append(1, {"a": 1.0})
    over = threading.Event()
    shipper._ending, shipper._ready, shipper.fault, shipper._warned = threading.Event(), threading.Event(), None, False
    shipper._thread = threading.Thread(target=over.wait, daemon=True)
    shipper._thread.start()
    _, took = within(lambda: shipper.close(0.2))
    over.set()
    assert 0.2 <= took < 3 and shipper._ending.is_set()
    assert "1 points were not sent to MLflow, and are kept" in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize("number", [0, signal.SIGTERM])
def test_trials_are_sent_so_long_after_a_search(
    number: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "FLUSH_SECONDS_AFTER_SIGNAL" if number else "FLUSH_SECONDS", 0.2)
    monkeypatch.setattr(tuning, "FLUSH_SECONDS" if number else "FLUSH_SECONDS_AFTER_SIGNAL", 60.0)
    search: Any = tuning.Search.__new__(tuning.Search)
    search.attempt = SimpleNamespace(signals=SimpleNamespace(number=number))
    search.senders, over = tuning.ThreadPoolExecutor(1), threading.Event()
    search.sending = [search.senders.submit(over.wait), search.senders.submit(print)]
    _, took = within(search.finish_sending)
    over.set()
    assert 0.2 <= took < 3 and "2 trials were not sent to MLflow" in capfd.readouterr().err


def test_the_rest_of_a_trial_is_sent_for_a_minute_and_noted_where_it_has_come() -> None:
    def closed(fault: Exception | None) -> list[Any]:
        did: list[Any] = []
        run = SimpleNamespace(title="trial 1", exit_code=0, note=lambda **fields: did.append(fields))
        search: Any = tuning.Search.__new__(tuning.Search)
        search.attempt = SimpleNamespace(run=SimpleNamespace(run_id="r"))
        search.senders, search.sending = tuning.ThreadPoolExecutor(1), []
        search.send(SimpleNamespace(run=run, end=lambda *given: None, close=did.append, fault=fault))
        search.senders.shutdown()
        return did

    assert closed(None) == [tuning.CLOSE_SECONDS, {"sent": True}]
    assert closed(ConnectionError()) == [tuning.CLOSE_SECONDS], "the next attempt sends it"


def service_of(works: Callable[[], bool]) -> Any:
    return SimpleNamespace(name="prefect", works=works)


def test_a_service_that_does_not_start_is_named_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "PATIENCE", 0.3)
    of_home: Any = stack.Stack(tmp_path)
    (tmp_path / "logs").mkdir()
    of_home.log("prefect").write_text("it hangs\n")
    of_home.started["prefect"] = SimpleNamespace(process="alive")
    failed, took = within(lambda: of_home._await(service_of(lambda: False), print))
    assert isinstance(failed, Failed) and "no answer in 0 s" in failed.saw and 0.3 <= took < 3
    monkeypatch.setattr(stack, "PATIENCE", 60.0)
    of_home.started["prefect"] = SimpleNamespace(process=None)
    failed, took = within(lambda: of_home._await(service_of(lambda: False), print))
    assert isinstance(failed, Failed) and "its process ended" in failed.saw and took < 2
    answers = iter([False, False, True])
    of_home.started["prefect"] = SimpleNamespace(process="alive")
    assert within(lambda: of_home._await(service_of(lambda: next(answers)), print))[0] is None


def test_a_service_that_hangs_is_stopped_and_one_that_is_slow_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_home: Any = stack.Stack(tmp_path)
    stopped: list[Any] = []
    monkeypatch.setattr(of_home, "_stop", stopped.extend)
    living = {"prefect": SimpleNamespace(process="the process")}
    monkeypatch.setattr(stack, "HANGING", 0.3)
    working, took = within(lambda: of_home._is_working(service_of(lambda: False), living))
    assert working is False and stopped == ["the process"] and 0.3 <= took < 3
    monkeypatch.setattr(stack, "HANGING", 30.0)
    answers = iter([False, True])
    assert within(lambda: of_home._is_working(service_of(lambda: next(answers)), living))[0] is True
    assert within(lambda: of_home._is_working(service_of(lambda: True), {}))[0] is False
    assert stopped == ["the process"]


def test_processes_are_waited_for_so_long() -> None:
    import psutil

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        running = psutil.Process(process.pid)
        left, took = within(lambda: stack.wait_for_exit([running], 0.2))
        assert left == [running] and 0.2 <= took < 3
        process.kill()
        left, took = within(lambda: stack.wait_for_exit([running], 60))
        assert left == [] and took < 5


@pytest.mark.parametrize(
    ("polls", "planned", "field"), [(False, True, "worker"), (True, False, "schedules"), (True, True, None)]
)
def test_a_stack_whose_worker_or_schedules_do_not_come_is_named_in_time(
    polls: bool, planned: bool, field: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path, tmp_path)
    rows = [
        {"name": "nightly", "schedule": "0 3 * * *", "next": "2027-01-01T03:00:00" if planned else None},
        {"name": "by hand", "schedule": None, "next": None},
    ]
    monkeypatch.setattr(orchestration, "PATIENCE", 0.2)
    monkeypatch.setattr(orchestration, "call", lambda *given: {"api_url": layout.pages_api})
    monkeypatch.setattr(orchestration, "_write_to_mlflow", lambda layout: None)
    monkeypatch.setattr(orchestration, "_worker_polls", lambda layout: polls)
    monkeypatch.setattr(orchestration, "deployments", lambda layout: rows)
    made, took = within(lambda: orchestration.verify(layout))
    if field is None:
        assert made == rows and took < 0.2
        return
    assert isinstance(made, Failed) and made.field == field and 0.2 <= took < 3
    assert field == "worker" or "no run is planned for nightly" in made.saw


def test_the_server_of_a_single_command_must_answer_in_time(
    unused: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = embedded.EmbeddedServer.__new__(embedded.EmbeddedServer)
    server.url, server.log = f"http://{text(unused)}/api", SimpleNamespace(cause=lambda: "nothing")
    server.process = SimpleNamespace(poll=lambda: None)
    monkeypatch.setattr(embedded, "PATIENCE", 0.2)
    error, took = within(server.wait)
    assert isinstance(error, TimeoutError) and "no answer in 0 s; it wrote: nothing" in str(error) and took >= 0.2
    monkeypatch.setattr(embedded, "PATIENCE", 60.0)
    server.process = SimpleNamespace(poll=lambda: 1)
    error, took = within(server.wait)
    assert isinstance(error, TimeoutError) and "its process ended" in str(error) and took < 2


@pytest.mark.parametrize("ends", [True, False])
def test_the_server_of_a_single_command_is_killed_where_it_does_not_stop(ends: bool) -> None:
    did: list[Any] = []

    def wait(seconds: float | None = None) -> None:
        did.append(seconds)
        if seconds is not None and not ends:
            raise subprocess.TimeoutExpired("server", seconds)

    server: Any = embedded.EmbeddedServer.__new__(embedded.EmbeddedServer)
    server.process = SimpleNamespace(send_signal=did.append, wait=wait, kill=lambda: did.append("killed"))
    server.stop()
    assert did == ([signal.SIGINT, 10] if ends else [signal.SIGINT, 10, "killed", None])


def test_a_transaction_waits_so_long_for_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_server, "WAIT", 0.1)

    @contextlib.asynccontextmanager
    async def begin(self: Any, session: Any, with_for_update: bool = False) -> Any:
        yield session

    monkeypatch.setattr(prefect_server.AioSqliteConfiguration, "begin_transaction", begin)
    turns: Any = prefect_server.InTurn(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")

    async def one(name: str, seconds: float) -> str:
        async with turns.begin_transaction(name):
            await asyncio.sleep(seconds)
        return name

    async def two() -> list[Any]:
        first = asyncio.create_task(one("long", 0.5))
        await asyncio.sleep(0.02)
        late: list[Any] = list(await asyncio.gather(one("late", 0), return_exceptions=True))
        return [*late, await first, await one("after it", 0)]

    late, *others = asyncio.run(two())
    assert isinstance(late, TimeoutError) and others == ["long", "after it"]


def test_servers_that_say_nothing_are_not_waited_for(silent: tuple[str, int]) -> None:
    url = f"http://{text(silent)}"
    answered, took = within(lambda: services.answers(url, 0.2))
    assert answered is False and 0.2 <= took < 3
    failed, took = within(lambda: services.call("GET", url, timeout=0.2))
    assert isinstance(failed, Failed) and failed.field == url and 0.2 <= took < 3


def test_every_request_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """`urlopen` and a database's driver have none of themselves."""
    asked: list[tuple[str, float]] = []

    def open_url(url: str, timeout: float | None = None) -> Any:
        assert timeout is not None
        asked.append((url, timeout))
        raise urllib.error.URLError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", open_url)
    with pytest.raises(Failed, match="timed out"):
        session.check_server("http://host/api")
    monkeypatch.setenv("PREFECT_API_URL", "http://host/api")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://other")
    assert [finding.verdict for finding in health.servers()] == ["fault", "fault"]
    assert asked == [("http://host/api/health", 60), ("http://host/api/health", 5), ("http://other/health", 5)]
    psycopg2 = pytest.importorskip("psycopg2")
    given: dict[str, Any] = {}

    def connect(address: str, **more: Any) -> Any:
        given.update(more)
        raise psycopg2.OperationalError("timeout expired")

    monkeypatch.setattr(psycopg2, "connect", connect)
    with pytest.raises(Failed, match="no connection: timeout expired"), databases._connected("postgresql://host/name"):
        pass
    assert given == {"connect_timeout": 10}


@pytest.mark.parametrize("scheme", ["http", "smtp", "smtps"])
def test_a_receiver_of_notifications_that_says_nothing_does_not_keep_the_run(
    scheme: str, silent: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "TIMEOUT", 0.2)
    config = NotifyConfig.model_construct(mail_from="a@example.org", mail_to=("b@example.org",))
    send = notifications.post if scheme == "http" else notifications.mail
    error, took = within(lambda: send(config, f"{scheme}://{text(silent)}", "subject", "text"))
    assert isinstance(error, OSError) and 0.2 <= took < 5


def test_a_download_of_a_data_set_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from requests.adapters import HTTPAdapter

    sent: list[Any] = []
    monkeypatch.setattr(HTTPAdapter, "send", lambda *given, **more: sent.append(more["timeout"]))
    names = ["", ".core", ".core.download", ".core.download.downloader"]
    modules = {name: ModuleType(f"tensorflow_datasets{name}") for name in names}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"tensorflow_datasets{name}", module)
    library: Any = modules[""]
    modules[".core.download"].downloader = modules[names[-1]]  # type: ignore[attr-defined]
    library.disable_progress_bar = lambda: None
    library.download = SimpleNamespace(DownloadConfig=lambda **settings: settings)

    def prepare(download_config: Any) -> None:
        adapter = HTTPAdapter()
        adapter.send("request")  # type: ignore[arg-type]
        adapter.send("request", timeout=None)  # type: ignore[arg-type]
        adapter.send("request", timeout=3)  # type: ignore[arg-type]

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    library.builder = lambda *given, **more: SimpleNamespace(download_and_prepare=prepare)
    tfds_prepare.prepare(TfdsSource.model_construct(dataset="d", data_dir=None, module=None))
    assert sent == [(10, 60), (10, 60), 3] and modules[names[-1]].MAX_RETRIES == 1  # type: ignore[attr-defined]


def test_a_fresh_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the measurement of memory, and of the conversion to StableHLO."""
    limits: list[Any] = []

    def hang(command: Any, *, timeout: float | None = None, **more: Any) -> Any:
        limits.append(timeout)
        raise subprocess.TimeoutExpired("it", timeout or 0)

    monkeypatch.setattr(subprocess, "run", hang)
    variant: Any = SimpleNamespace(name="saved_model", path=tmp_path)
    with pytest.raises(Failed, match="variant saved_model: .*timed out after 300.0 seconds"):
        list(latency.memory([variant], {"saved_model": "saved_model"}, {}))
    with pytest.raises(subprocess.TimeoutExpired):
        stablehlo.StableHlo.write(None, None, tmp_path, tmp_path)
    assert limits == [latency.TIMEOUT, stablehlo.TIMEOUT]


def test_what_is_waited_for_is_said_soon_and_then_seldom(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pauses: list[float] = []

    class Over:
        def wait(self, pause: float) -> bool:
            pauses.append(pause)
            return len(pauses) == 4

    terminal._wait("waiting", Over())  # type: ignore[arg-type]
    assert pauses == [terminal.SILENCE, 60, 120, 240]
    assert capfd.readouterr().err.count("waiting") == 3


def test_progress_that_cannot_be_sent_does_not_keep_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_page, "LAST", 0.2)
    monkeypatch.setattr(prefect_page, "EVERY", 0.0)
    monkeypatch.setattr(prefect_page, "FlowRunContext", SimpleNamespace(get=lambda: "a flow"))
    over = threading.Event()
    monkeypatch.setattr(prefect_page.Progress, "_show", lambda self, latest: over.wait(20))
    ended: list[str] = []

    def stage() -> None:
        with prefect_page.progress("train", lambda *given: None) as report:
            report(1, 2, "step", {})
            time.sleep(0.05)
        ended.append("ended")

    _, took = within(stage)
    over.set()
    assert ended and 0.2 <= took < 5


@pytest.mark.parametrize("every", [-1.0, 60.0])
def test_hashes_of_a_large_folder_are_stored_as_they_are_made(
    every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a command that is killed does not read all files again; not after each of them."""
    monkeypatch.setattr(files, "SAVE_EVERY", every)
    monkeypatch.setattr(files, "SETTLED_NS", 0)
    (tmp_path / "data").mkdir()
    for name in "abc":
        (tmp_path / "data" / name).write_text(name)
    time.sleep(0.01)
    hashes = files.Folder(tmp_path / "data", tmp_path / "memory")
    saved: list[int] = []
    monkeypatch.setattr(hashes._cache, "save", lambda updated: saved.append(len(updated)))
    hashes.of(["a", "b", "c"])
    assert saved == ([1, 2, 3, 3] if every < 0 else [3])


def test_a_person_is_asked_for_thirty_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(asking, "suspend_flow_run", lambda **given: asked.append(given))
    monkeypatch.setattr(asking.atexit, "register", lambda *given: None)
    run: Any = SimpleNamespace(folder=tmp_path, attempt=2, record={"attempts": [{"prefect_flow_run_id": "f"}]})
    (tmp_path / "description.md").write_text("# what it is")
    asking.suspend(run, "e" * 64)
    run.attempt = 3
    asking.suspend(run, "e" * 64)
    assert [each["timeout"] for each in asked] == [30 * 24 * 3600] * 2
    assert asked[0]["key"] != asked[1]["key"], "each attempt asks anew"
    assert json.dumps("# what it is") in json.dumps(asked[0]["wait_for_input"]._description)
