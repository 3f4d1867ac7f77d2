"""A run in a line of a list of MLflow or Prefect: what differs from the run before it, its outcome and its score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.runs.differences import Difference, between
from tasks.runs.home import Home
from tasks.runs.runs import Run
from tasks.view import in_words
from tasks.view.facts import Facts
from tasks.view.words import score

NAMED, CHARACTERS = 2, 24
"""Keys that a name has, at most, and characters of the value of each."""

FIRST, AGAIN = "first run", "again"

ASIDE = ("resources.", "notify.", "name", "train.tensorboard")
"""Beginnings of the keys that people do not compare runs by."""

OUTCOMES = ("failed", "stopped", "rejected", "awaiting_approval")
"""Statuses that are the outcome; that of a completed run is the alias of its version."""


@dataclass(frozen=True)
class Headline:
    """What a list has room for."""

    title: str
    """What differs, the outcome, and the score without its interval."""
    score: str
    """The primary metric on the test split with its interval; empty without one."""


def headline(run: Run) -> Headline:
    """Return the headline of a run that has ended."""
    facts = Facts(run)
    status, name = facts.record["status"], f"test/{facts.metric}"
    outcome = in_words(status) if status in OUTCOMES else facts.verdict[0]
    known = facts.metrics.get(name)
    value = "" if known is None else f"{in_words(facts.metric)} {known:.4f}"
    parts = [differing(run.home, run.record, before=run.run_id), outcome, value]
    return Headline(" · ".join(filter(None, parts)), score(facts.metrics, name) if known is not None else "")


def differing(home: Home, record: Mapping[str, Any], before: str | None = None) -> str:
    """Return what differs from the run of the same flow and name before this one (`learning_rate 0.01, steps 300`).

    Args:
        record: `flow`, `name` and `config` of the run, and `attempts` where it has begun.
        before: its id; None for one that has not begun.
    """
    earlier = _earlier(home, str(record["flow"]), str(record["name"]), before)
    if earlier is None:
        return FIRST
    found = [each for each in between(earlier["config"], record["config"]) if not each.where.startswith(ASIDE)]
    if not found:
        commits = [each["attempts"][-1].get("git_commit") for each in (earlier, record) if each.get("attempts")]
        return f"code {commits[1][:7]}" if len(commits) == 2 and commits[1] and commits[0] != commits[1] else AGAIN
    named = ", ".join(map(said, found[:NAMED]))
    return named + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")


def said(difference: Difference) -> str:
    """Return a key without the section that it is in, and its value; of a kind what it is of is the key."""
    section, *path = difference.where.split(".")
    key = ".".join(path[:-1] if path[-1:] == ["kind"] else path) or section
    value = difference.after
    text = value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)
    return f"{key} {text if len(text) <= CHARACTERS else '…' + text[-CHARACTERS:]}"


def _earlier(home: Home, flow: str, name: str, before: str | None) -> dict[str, Any] | None:
    """Return the record of the newest run of a flow and a name that is older than a run, or the newest of all."""
    for path in sorted(home.runs.glob(f"*-{name}-*/run.json"), reverse=True):
        if before is None or path.parent.name < before:
            record: dict[str, Any] = json.loads(path.read_bytes())
            if (record["flow"], record["name"]) == (flow, name):
                return record
    return None
