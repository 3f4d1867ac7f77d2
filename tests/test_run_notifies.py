"""Messages about the end of a run, sent to real receivers; their addresses, which are secrets, appear nowhere."""

from __future__ import annotations

import email
import email.policy
import socketserver
from pathlib import Path

import pytest

from tasks.config.compose import load
from tasks.errors import Refused
from tasks.runs.home import Home
from tasks.runs.runs import find_runs
from tasks.tracking import notifications
from tests.support.homes import DIGITS, SMALL, CommandHome
from tests.support.servers import Webhook, serving


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as taking a message needs."""

    got: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper().strip()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.got.append(b"".join(lines).decode())
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
            if word == b"QUIT":
                return


def test_a_failed_run_is_reported_by_webhook_and_mail_and_the_addresses_appear_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("no split can be left with nothing")
    home = CommandHome(tmp_path / "home")
    Webhook.got, Mail.got = [], []
    with serving(Webhook) as web, serving(Mail) as smtp:
        monkeypatch.setenv("HOOK", f"http://127.0.0.1:{web}/T0PS3CRET")
        (tmp_path / "server").write_text(f"smtp://127.0.0.1:{smtp}/\n")
        flags = ["--notify.webhook", "env:HOOK", "--notify.mail_server", f"file:{tmp_path / 'server'}"]
        flags += ["--notify.mail_to", "[team@example.org]"]
        preset = tmp_path / "texts.yaml"
        source = f"{{kind: text_files, name: texts, path: {tmp_path / 'texts'}}}"
        preset.write_text(f"name: texts\nsource: {source}\nsnapshot: {{kind: tokens}}\ntrain: {{steps: 1}}\n")
        answer = home.here("run", "dataset", preset, *flags, "--json")
    assert answer.code == 1 and (rule := answer.json["error"]["rule"])
    [(path, text)] = Webhook.got
    assert path == "/T0PS3CRET"
    assert text.startswith("*texts: dataset failed*") and rule in text
    [mail] = Mail.got
    message = email.message_from_string(mail, policy=email.policy.default)
    assert (message["Subject"], message["To"]) == ("texts: dataset failed", "team@example.org")
    assert rule in message.get_body().get_content()
    assert not [path for path in home.root.rglob("*") if path.is_file() and b"T0PS3CRET" in path.read_bytes()]
    assert "T0PS3CRET" not in answer.stdout + answer.stderr


def test_a_receiver_that_is_not_there_is_a_warning_that_does_not_name_it(
    finished: CommandHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [run] = find_runs(Home(finished.root))
    monkeypatch.setenv("HOOK", "http://user:T0PS3CRET@127.0.0.1:9/")
    config = run.record["config"]
    for reference, saw in (("env:HOOK", "URLError"), ("env:NO_SUCH", "empty or not set")):
        run.record["config"] = {**config, "notify": {"webhook": reference}}
        notifications.notify(run)
        output = capfd.readouterr().err
        assert f"notify.webhook ({reference}) failed: {saw}" in output and "T0PS3CRET" not in output


def test_a_receiver_that_is_not_set_is_named_when_the_run_begins(tmp_path: Path) -> None:
    answer = CommandHome(tmp_path / "home").here("run", "dataset", DIGITS, "--notify.webhook", "env:NO_SUCH")
    assert answer.code == 0, answer.stderr
    assert answer.stderr.index("warning: notify.webhook (env:NO_SUCH): empty or not set") < answer.stderr.index(
        "+ convert"
    )


class Banner(socketserver.StreamRequestHandler):
    """Another program's port: it answers, and not as the web does."""

    def handle(self) -> None:
        self.wfile.write(b"SSH-2.0-T0PS3CRET\r\n")


NO_RECEIVERS = [
    "http://127.0.0.1:9/T0PS3CRET\nT0PS3CRET",
    "http://127.0.0.1:T0PS3CRET/",
    "http://[T0PS3CRET",
    "http://127.0.0.1:{banner}/T0PS3CRET",
]


@pytest.mark.parametrize("address", NO_RECEIVERS)
def test_what_no_library_takes_for_an_address_is_a_warning_too(
    address: str, finished: CommandHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [run] = find_runs(Home(finished.root))
    run.record["config"] = {**run.record["config"], "notify": {"webhook": "env:HOOK"}}
    with serving(Banner) as port:
        monkeypatch.setenv("HOOK", address.format(banner=port))
        notifications.notify(run)
    output = capfd.readouterr().err
    assert "notify.webhook (env:HOOK) failed" in output and "T0PS3CRET" not in output


def test_a_run_whose_receiver_is_none_ends_well(finished: CommandHome, tmp_path: Path) -> None:
    home, secret = finished.copied_to(tmp_path / "home"), tmp_path / "secret"
    (home.root / "mlflow.db").unlink()  # so that there is no champion yet, and the message has one
    secret.write_text(NO_RECEIVERS[0])
    answer = home.here("run", "pipeline", DIGITS, *SMALL, "--notify.webhook", f"file:{secret}", "--json")
    assert answer.code == 0, answer.stderr
    assert f"warning: notify.webhook (file:{secret}) failed: InvalidURL" in answer.stderr
    assert "T0PS3CRET" not in answer.stdout + answer.stderr
    assert not [path for path in home.root.rglob("*") if path.is_file() and b"T0PS3CRET" in path.read_bytes()]


def test_only_the_configured_events_are_sent(finished: CommandHome) -> None:
    [run] = find_runs(Home(finished.root))
    assert notifications.event_of(run) == "champion"
    run.record["stages"]["promote"][0]["cached"] = True
    assert notifications.event_of(run) == "completed"
    run.record["status"] = "failed"
    assert notifications.event_of(run) == "failed"


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ([("notify.webhook", "https://hooks.example.org/T0PS3CRET")], "notify.webhook"),
        ([("notify.mail_to", "[a@b.c]")], "notify.mail_server"),
        ([("notify.mail_server", "env:MAIL")], "notify.mail_to"),
    ],
)
def test_an_address_is_a_reference_and_a_mail_needs_both_ends(flags: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(Refused) as refused:
        load(DIGITS, flags)
    assert refused.value.field == field
    assert "T0PS3CRET" not in str(refused.value)
