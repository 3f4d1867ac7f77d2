"""Who is notified of the end of a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, Conflict, Section
from tasks.environment.secrets import PATTERN, REMEDY, RULE, unreferenced

Secret = Annotated[str, Field(json_schema_extra={"pattern": PATTERN})]
"""A reference. Prefect's form checks the pattern; in Python `unreferenced` does, so that errors contain no secret."""

Event = Literal["failed", "champion", "rejected", "awaiting_approval"]


class NotifyConfig(Section):
    """Messages at a run's end; one that cannot be delivered is a warning of the run, never its failure."""

    events: Annotated[tuple[Event, ...], LISTED] = ("failed", "champion", "awaiting_approval")
    """The events: the run failed; it made a champion; a gate rejected it; it awaits approval."""

    webhook: Secret | None = None
    """Reference to the address of a Slack-compatible webhook, which gets `{"text": ...}`."""

    mail_to: Annotated[tuple[str, ...], LISTED] = ()
    """Addresses that get an e-mail."""

    mail_server: Secret | None = None
    """Reference to the mail server's address: `smtp://[user:password@]host[:port]`, or `smtps://` for TLS."""

    mail_from: str = "millrace@localhost"
    """The sender's address."""

    @model_validator(mode="after")
    def secrets_are_references(self) -> NotifyConfig:
        for name in ("webhook", "mail_server"):
            if unreferenced(getattr(self, name)):
                raise Conflict(name, "an address written out", RULE, REMEDY)
        return self

    @model_validator(mode="after")
    def mail_is_whole(self) -> NotifyConfig:
        if bool(self.mail_to) != (self.mail_server is not None):
            here, missing = ("mail_to", "mail_server") if self.mail_to else ("mail_server", "mail_to")
            raise Conflict(missing, "nothing", f"is needed beside notify.{here}", f"give notify.{missing}")
        return self
