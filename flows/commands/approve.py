"""millrace approve: accept a version that awaits approval."""

from __future__ import annotations

from flows.decisions import Reason, RunId, checked, decide
from flows.reply import AsJson, replying


def approve(run: RunId, reason: Reason, as_json: AsJson = False) -> None:
    """Make the version of a run that awaits approval champion.

    If the champion has changed since the gate compared, their scores are compared again; exit code 3 if the gate fails.
    """
    with replying("approve", as_json) as reply:
        decide(reply, run, True, checked(reason), as_json)
