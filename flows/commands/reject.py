"""millrace reject: reject a version that awaits approval."""

from __future__ import annotations

from flows.decisions import Reason, RunId, checked, decide
from flows.reply import AsJson, replying


def reject(run: RunId, reason: Reason, as_json: AsJson = False) -> None:
    """Keep the champion, and end a run that awaits approval as rejected."""
    with replying("reject", as_json) as reply:
        decide(reply, run, False, checked(reason), as_json)
