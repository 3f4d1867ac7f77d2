"""What is sent to trackers and receivers: all of it, once, in its units, and of whose faults a machine is guilty."""

from __future__ import annotations

import contextlib
import json
import smtplib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.config.notify import NotifyConfig
from tasks.errors import Failed
from tasks.store.journal import JournalFile, Point, read
from tasks.tracking import notifications, runs, shipping
from tasks.tracking import runs as tracked_runs
from tasks.tracking.notifications import event_of, mail, notify, post
from tasks.tracking.shipping import Shipper, machine_error, reason


def run_of(status: str, cached: bool | None = None, **config: Any) -> Any:
    promote = {} if cached is None else {"promote": [{"cached": cached}]}
    settings = NotifyConfig.model_validate(config)
    return SimpleNamespace(record={"status": status, "stages": promote}, config=SimpleNamespace(notify=settings))


def test_only_a_champion_that_is_new_is_news() -> None:
    assert event_of(run_of("completed", cached=False)) == "champion"
    assert event_of(run_of("completed", cached=True)) == "completed" == event_of(run_of("completed"))
    assert event_of(run_of("rejected", cached=False)) == "rejected"


def test_an_error_of_a_receiver_does_not_say_its_address_and_not_stop_the_next(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOK", "http://secret.example/T0PS3CRET")
    monkeypatch.setenv("SERVER", "smtp://me:T0PS3CRET@mail.example")
    sent: list[str] = []

    def fails(config: Any, address: str, *message: str) -> None:
        raise ConnectionError(f"cannot reach {address}")

    monkeypatch.setattr(notifications, "post", fails)
    monkeypatch.setattr(notifications, "mail", lambda config, address, *message: sent.append(address))
    monkeypatch.setattr(notifications, "message_of", lambda run: ("subject", "text"))
    receivers: dict[str, Any] = {"webhook": "env:HOOK", "mail_server": "env:SERVER", "mail_to": ["a@example.org"]}
    notify(run_of("failed", events=["failed"], **receivers))
    assert sent == ["smtp://me:T0PS3CRET@mail.example"]
    said = capfd.readouterr().err
    assert "notify.webhook (env:HOOK) failed: ConnectionError" in said and "T0PS3CRET" not in said
    notify(run_of("completed", events=["failed"], **receivers))
    assert len(sent) == 1


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://host/x", "host"])
def test_a_webhook_is_an_address_of_http(address: str) -> None:
    with pytest.raises(ValueError, match="not an HTTP address"):
        post(NotifyConfig(), address, "subject", "text")


@pytest.mark.parametrize("address", ["http://host/hook?a=b", "https://host/hook"])
def test_a_webhook_is_posted_the_text_as_json(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def opened(request: Any, timeout: float) -> Any:
        sent.append((request.full_url, request.get_method(), json.loads(request.data), timeout))
        assert request.get_header("Content-type") == "application/json"
        return contextlib.nullcontext()

    monkeypatch.setattr("urllib.request.urlopen", opened)
    post(NotifyConfig(), address, "subject", "line\nline")
    assert sent == [(address, "POST", {"text": "*subject*\nline\nline"}, 10.0)]


class Smtp:
    """A mail server that keeps what it is asked; `offers` TLS. To one that begins with TLS it has another name."""

    def __init__(self, name: str, offers: bool, told: list[Any]) -> None:
        self.name, self.offers, self.told = name, offers, told

    def __call__(self, host: str, port: int, **more: Any) -> Any:
        self.told.append((self.name, host, port, more["timeout"], "context" in more))
        return contextlib.nullcontext(self)

    def ehlo(self) -> None:
        pass

    def has_extn(self, name: str) -> bool:
        return self.offers

    def starttls(self, context: Any) -> None:
        self.told.append("tls")

    def login(self, *words: str) -> None:
        self.told.append(words)

    def send_message(self, message: Any) -> None:
        self.told.append(message["To"])


@pytest.mark.parametrize(
    ("address", "offers", "told"),
    [
        ("smtp://host", True, [("SMTP", "host", 25, 10.0, False), "tls", "a@x.org, b@x.org"]),
        ("smtp://host:26", False, [("SMTP", "host", 26, 10.0, False), "a@x.org, b@x.org"]),
        ("smtp://me:a%2Fb@host", False, [("SMTP", "host", 25, 10.0, False), "tls", ("me", "a/b"), "a@x.org, b@x.org"]),
        ("smtp://m%40e@host", True, [("SMTP", "host", 25, 10.0, False), "tls", ("m@e", ""), "a@x.org, b@x.org"]),
        ("smtps://me:p@host", True, [("SMTP_SSL", "host", 465, 10.0, True), ("me", "p"), "a@x.org, b@x.org"]),
        ("smtps://host:466", False, [("SMTP_SSL", "host", 466, 10.0, True), "a@x.org, b@x.org"]),
    ],
)
def test_mail_is_encrypted_where_the_server_can_and_always_with_a_password(
    address: str, offers: bool, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    for name in ("SMTP", "SMTP_SSL"):
        monkeypatch.setattr(smtplib, name, Smtp(name, offers, seen))
    config = NotifyConfig.model_validate({"mail_server": "env:SERVER", "mail_to": ["a@x.org", "b@x.org"]})
    mail(config, address, "subject", "text")
    assert seen == told


@pytest.mark.parametrize("address", ["http://host", "host", "smtp:", "smtp://", "smtps:///path"])
def test_mail_goes_by_the_address_of_a_mail_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMTP", "SMTP_SSL"):
        monkeypatch.setattr(smtplib, name, lambda *given, **more: pytest.fail("it is no mail server"))
    config = NotifyConfig.model_validate({"mail_server": "env:SERVER", "mail_to": ["a@x.org"]})
    with pytest.raises(ValueError, match="not an address of a mail server"):
        mail(config, address, "subject", "text")


def test_an_error_of_this_machine_is_told_from_one_that_a_server_reports() -> None:
    full, reported = OSError(28, "No space left on device"), RuntimeError("[Errno 28] No space left on device")
    assert machine_error("http://host", full) is not None, "it is ours, whoever is asked"
    assert machine_error("sqlite:///x", full) is full
    wrapped = RuntimeError("database or disk is full")
    assert machine_error("http://host", wrapped) is None and machine_error("sqlite:///x", wrapped) is not None
    assert reason(RuntimeError("HTTPConnectionPool: Read timed out. (read timeout=10)")) == "no answer in time"
    assert reason(RuntimeError("x [Errno 111] Connection refused")) == "connection refused"
    assert len(reason(RuntimeError("y" * 999))) == 160 and reason(reported)


class Client:
    """A tracking store that keeps what it is sent."""

    def __init__(self) -> None:
        self.metrics: list[Any] = []
        self.sizes: list[int] = []

    def log_batch(self, run: str, metrics: list[Any], synchronous: bool) -> None:
        self.sizes.append(len(metrics))
        self.metrics += metrics


def test_points_are_sent_in_parts_with_milliseconds_and_steps() -> None:
    client: Any = Client()
    points = [Point(step, 1.5, {"a": float(step), "b": 0.0}, step) for step in range(1200)]
    tracked_runs.ship(client, "id", points)
    assert client.sizes == [1000, 1000, 400] and len(client.metrics) == 2400
    last = client.metrics[-2]
    assert (last.key, last.value, last.timestamp, last.step) == ("a", 1199.0, 1500, 1199)


def shipper_of(folder: Path) -> Any:
    shipper: Any = Shipper.__new__(Shipper)
    shipper.journal, shipper._acknowledged = folder / "metrics.jsonl", folder / "shipped.json"
    shipper.client, shipper.mlflow_id, shipper._late = Client(), "id", shipping.LATE
    return shipper


def test_each_point_is_shipped_once_and_those_that_waited_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipper = shipper_of(tmp_path)
    journal = JournalFile(shipper.journal)
    journal.append(1, {"a": 1.0, "b": 1.0})
    shipper._ship()
    assert json.loads(shipper._acknowledged.read_bytes()) | {"offset": 0} == {"offset": 0, "points": 2, "late": 0}
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - shipping.LATE - 5)
    journal.append(2, {"a": 2.0})
    monkeypatch.undo()
    for _ in range(2):
        shipper._ship()
    assert [metric.value for metric in shipper.client.metrics] == [1.0, 1.0, 2.0]
    state = shipper._state()
    assert (state["points"], state["late"]) == (3, 1) and list(read(shipper.journal, state["offset"])) == []


def test_a_summary_does_not_stand_in_a_curve(tmp_path: Path) -> None:
    shipper = shipper_of(tmp_path)
    JournalFile(shipper.journal).append(10, {"validation/accuracy": 0.8})
    for value in (0.9, 0.95):
        shipper.metrics({"validation/accuracy": value, "test/accuracy": value})
    points = [(point.step, point.metrics) for point in read(shipper.journal)]
    assert points == [(10, {"validation/accuracy": 0.8}), (0, {"test/accuracy": 0.9})]


def test_a_fault_that_no_waiting_mends_is_raised_at_once(tmp_path: Path) -> None:
    import threading

    shipper = shipper_of(tmp_path)
    shipper._ready, shipper.run = threading.Event(), SimpleNamespace(home=SimpleNamespace(mlflow_uri="http://host"))
    waited: list[float] = []
    shipper.fault = Failed("experiment x", "elsewhere", "here", "go there")
    with pytest.raises(Failed, match="experiment x"):
        shipper.connected(60, waited.append)
    assert waited == []
    shipper.fault = ConnectionError("refused")
    with pytest.raises(ConnectionError):
        shipper.connected(0.3, waited.append)
    assert waited
    shipper.fault = None
    with pytest.raises(TimeoutError):
        shipper.connected(0.2, waited.append)


def test_what_failed_is_said_after_the_second_time_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import threading

    shipper = shipper_of(tmp_path)
    shipper.run = SimpleNamespace(home=SimpleNamespace(mlflow_uri="http://host"))
    shipper.fault, shipper._faults, shipper._warned, shipper._ending = None, 0, False, threading.Event()
    turns = iter([True, True, True, False, True, True, True, None, None])  # once more after the end

    def connect() -> None:
        fails = next(turns)
        if fails is None:
            shipper._ending.set()
        if fails:
            raise ConnectionError("refused")

    shipper._connect, shipper._ship, shipper._send_queued = connect, lambda: None, lambda: None
    monkeypatch.setattr(shipping, "EVERY", 0.0)
    shipper._go()
    assert capfd.readouterr().err.count("metrics wait") == 2, "once for each outage"


def test_only_files_of_old_runs_of_ours_that_no_version_has_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []

    def run(name: str, **tags: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=name, artifact_uri=name), data=SimpleNamespace(tags=tags))

    pages = {
        None: ([run("old", **{"millrace.run": "a"}), run("registered", **{"millrace.run": "b"})], "next"),
        "next": (
            [
                run("foreign"),
                run("gone", **{"millrace.run": "c", "millrace.artifacts": "x"}),
                run("late", **{"millrace.run": "d"}),
            ],
            "",
        ),
    }

    class Page(list[Any]):
        token: str = ""

    class Tracking:
        def search_model_versions(self, max_results: int) -> list[Any]:
            return [SimpleNamespace(run_id="registered")]

        def search_experiments(self) -> list[Any]:
            return [SimpleNamespace(experiment_id="0")]

        def search_runs(self, experiments: Any, query: str, view: Any, max_results: int, page_token: Any) -> Page:
            assert f"end_time < {int(before.timestamp() * 1000)}" in query and "!= 'RUNNING'" in query
            page = Page(pages[page_token][0])
            page.token = pages[page_token][1]
            return page

        def set_tag(self, run: str, name: str, value: str) -> None:
            deleted.append(f"tag {run}")

    def repository(uri: str, tracking_uri: str) -> Any:
        files = {None: [("folder", True, 0), ("one", False, 3)], "folder": [("two", False, 4)]}

        def listed(path: str | None = None) -> list[Any]:
            return [SimpleNamespace(path=name, is_dir=folder, file_size=size) for name, folder, size in files[path]]

        return SimpleNamespace(list_artifacts=listed, delete_artifacts=lambda: deleted.append(uri))

    before = datetime.now(UTC) - timedelta(days=90)
    monkeypatch.setattr(runs, "connect", lambda uri: Tracking())
    monkeypatch.setattr(runs, "get_artifact_repository", repository)
    found = [(each.run_id, each.bytes) for each in runs.prune("uri", before, dry_run=True)]
    assert found == [("old", 7), ("late", 7)] and deleted == []
    runs.prune("uri", before, dry_run=False)
    assert deleted == ["old", "tag old", "late", "tag late"]


def test_the_status_of_a_run_is_that_of_its_end() -> None:
    statuses = {name: tracked_runs.STATUS.get(name, "FAILED") for name in ("completed", "stopped", "failed", "pruned")}
    assert statuses == {"completed": "FINISHED", "stopped": "KILLED", "failed": "FAILED", "pruned": "KILLED"}
    assert dict(tracked_runs.flat({"a": {"b": 1, "c": {}}, "d": [1]})) == {"a.b": 1, "a.c": {}, "d": [1]}
