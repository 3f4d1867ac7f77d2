"""Messages about the end of a run: Slack-compatible webhook and e-mail."""

from __future__ import annotations

import json
import smtplib
import ssl
import urllib.request
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from tasks.config.notify import NotifyConfig
from tasks.environment.secrets import Missing, resolve
from tasks.runs.runs import Run
from tasks.view import in_words, terminal
from tasks.view.facts import Facts
from tasks.view.summary import links

TIMEOUT = 10.0
"""Time-out of a receiver in seconds."""


RECEIVERS = ("webhook", "mail_server")
"""The fields of `notify` that have a reference to an address."""


def check(config: NotifyConfig) -> None:
    """Print a warning for each receiver whose reference cannot be resolved, while there is time to correct it."""
    for name in RECEIVERS:
        reference = getattr(config, name)
        try:
            if reference is not None:
                resolve(reference)
        except Missing as missing:
            saw = f"notify.{name} ({reference}): {missing.saw}; no message can be sent at the end of the run"
            terminal.say(f"warning: {saw}; {missing.remedy}", style="yellow")


def notify(run: Run) -> None:
    """Send the messages of `notify`, if its events include this end; an error is a warning."""
    config, event = run.config.notify, event_of(run)
    if event not in config.events:
        return
    for name, send in zip(RECEIVERS, (post, mail), strict=True):
        reference = getattr(config, name)
        if reference is None:
            continue
        try:
            send(config, resolve(reference), *message_of(run))
        except Exception as error:
            # the address may have a password, and the message of the error may contain it
            saw = error.saw if isinstance(error, Missing) else type(error).__name__
            terminal.say(f"warning: notify.{name} ({reference}) failed: {saw}", style="yellow")


def event_of(run: Run) -> str:
    """Return the event of `notify.events`, or another status such as stopped."""
    status = str(run.record["status"])
    moved = [row for row in run.record["stages"].get("promote", []) if not row["cached"]]
    return "champion" if status == "completed" and moved else status


def message_of(run: Run) -> tuple[str, str]:
    """Return subject and text of a message: status, summary, error and links."""
    facts = Facts(run)
    lines = [facts.summary]
    if (problem := facts.problem) is not None:
        lines.append(f"error: {problem.field}: {problem}")
    if facts.release is not None:
        lines.append(facts.release.verdict)
    status = in_words(facts.record["status"])
    return f"{facts.record['name']}: {facts.record['flow']} {status}", "\n".join([*lines, *links(facts)])


def post(config: NotifyConfig, address: str, subject: str, text: str) -> None:
    """Post to a webhook in Slack's format."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise ValueError("not an HTTP address")
    body = json.dumps({"text": f"*{subject}*\n{text}"}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT):
        pass


def mail(config: NotifyConfig, address: str, subject: str, text: str) -> None:
    """Send by SMTP, with TLS if the server offers it, and always if a password is sent."""
    server = urlsplit(address)
    if server.scheme not in ("smtp", "smtps") or server.hostname is None:
        raise ValueError("not an address of a mail server")
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = subject, config.mail_from, ", ".join(config.mail_to)
    message.set_content(text)
    trusted = ssl.create_default_context()
    secure = server.scheme == "smtps"
    port = server.port or (465 if secure else 25)
    with (
        smtplib.SMTP_SSL(server.hostname, port, timeout=TIMEOUT, context=trusted)
        if secure
        else smtplib.SMTP(server.hostname, port, timeout=TIMEOUT)
    ) as connection:
        connection.ehlo()
        if not secure and (connection.has_extn("starttls") or server.password):
            connection.starttls(context=trusted)
        if server.username:
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(message)
