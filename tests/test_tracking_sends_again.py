"""What is sent elsewhere: again where it failed, encrypted where it has a password."""

from __future__ import annotations

import queue
import smtplib
import socketserver
from typing import Any

import pytest

from tasks.config.notify import NotifyConfig
from tasks.registry.rollback import roll_back
from tasks.tracking.notifications import mail
from tasks.tracking.shipping import Shipper
from tests.support.registries import YES, RegistryHome
from tests.support.servers import serving


def test_what_was_being_sent_when_the_server_failed_is_sent_again() -> None:
    shipper: Any = Shipper.__new__(Shipper)
    shipper.client, shipper.mlflow_id, shipper._queue, shipper._unsent = "client", "id", queue.SimpleQueue(), None
    sent: list[str] = []

    def send(name: str, failures: int = 0) -> Any:
        left = iter([True] * failures)

        def sending(client: str, mlflow_id: str) -> None:
            assert (client, mlflow_id) == ("client", "id")
            if next(left, False):
                raise ConnectionError(name)
            sent.append(name)

        return sending

    for each in (send("lineage"), send("tags", 2), send("page")):
        shipper._queue.put(each)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="tags"):
            shipper._send_queued()
        assert sent == ["lineage"]
    shipper._send_queued()
    shipper._send_queued()
    assert sent == ["lineage", "tags", "page"]


class Plain(socketserver.StreamRequestHandler):
    """A mail server that offers no TLS, and keeps what it is told."""

    told: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        for line in iter(self.rfile.readline, b""):
            self.told.append(line.decode().strip())
            word = line[:4].upper()
            if word == b"EHLO":
                self.wfile.write(b"250-here\r\n250 AUTH PLAIN LOGIN\r\n")
            elif word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                while self.rfile.readline().strip() != b".":
                    pass
                self.wfile.write(b"250 taken\r\n")
            elif word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"502 no\r\n" if word == b"STAR" else b"250 yes\r\n")


@pytest.mark.parametrize(("login", "taken"), [("", True), ("me:T0PS3CRET@", False)])
def test_a_password_is_not_sent_to_a_server_without_tls(login: str, taken: bool) -> None:
    Plain.told = []
    config = NotifyConfig.model_validate({"mail_server": "env:SERVER", "mail_to": ["team@example.org"]})
    with serving(Plain) as port:
        if taken:
            mail(config, f"smtp://127.0.0.1:{port}", "subject", "text")
        else:
            with pytest.raises(smtplib.SMTPException):
                mail(config, f"smtp://{login}127.0.0.1:{port}", "subject", "text")
    assert any(line.upper() == "DATA" for line in Plain.told) is taken
    assert not any(line.upper().startswith("AUTH") for line in Plain.told)


@pytest.mark.parametrize(("versions", "present", "before"), [(10, 10, "9"), (11, 10, "9"), (10, 9, "8"), (2, 2, "1")])
def test_without_a_log_the_version_before_is_that_of_the_number_before(
    versions: int, present: int, before: str, registry_home: RegistryHome
) -> None:
    """As numbers and not as texts: `10` is before `9` there."""
    client = registry_home.client
    client.create_registered_model("digits")
    for number in range(1, versions + 1):
        tags = {"millrace.gate": "champion, better", "millrace.export": f"{number:064d}", "millrace.score": "0.9"}
        client.create_model_version("digits", f"file:///nowhere/{number}", tags=tags)
    client.set_registered_model_alias("digits", "champion", str(present))
    moved = roll_back(client, registry_home.home, "digits", None, YES)
    assert (moved.before, moved.after) == (str(present), before)
    assert registry_home.at("champion") == before
