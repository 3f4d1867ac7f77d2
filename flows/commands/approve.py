"""millrace approve: a person's yes to a run that awaits it."""

from __future__ import annotations

from flows.decisions import Reason, RunId, checked, decide
from flows.reply import AsJson, replying


def approve(run: RunId, reason: Reason, as_json: AsJson = False) -> None:
    """Make the version that a run has waiting champion.

    If the champion has changed since the gate compared, their scores are compared anew; exit code 3 if the gate then
    says no.
    """
    with replying("approve", as_json) as reply:
        decide(reply, run, True, checked(reason), as_json)
