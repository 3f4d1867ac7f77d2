"""Rollback of the alias `champion` to a version that had it before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import Refused
from tasks.runs.audit import Audit, Decision, Entry
from tasks.runs.home import Home

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.registry.registry import Registered


class Rollback(NamedTuple):
    """The champion before and after a rollback, and the comparison of their scores."""

    before: str
    after: str
    scores: str


RULE = "rollback needs a version that was champion"


def roll_back(client: MlflowClient, home: Home, name: str, to: str | None, decision: Decision) -> Rollback:
    """Move `champion` to the previous champion, or to version `to`.

    The version that loses the alias gets a tag, so that no gate makes it champion again; if `to` has that tag, it is
    removed instead. The caller holds the lock of the registry.

    Raises:
        Refused: there is no champion, no previous one, or `to` was never champion.
    """
    from tasks.registry import registry

    audit = Audit(home)
    registry.finish(client, audit)
    present = registry.aliased(client, name, registry.CHAMPION)
    if present is None:
        raise Refused(name, "no version is champion", "rollback moves the alias champion back", "see MLflow's registry")
    known = {each.version: each for each in registry.versions(client, name)}
    wanted = _chosen(name, to, audit, known, present) if to is not None else _before(name, audit, known, present)
    restores = "millrace.rolled_back" in wanted.tags
    entry = Entry(
        action="restore" if restores else "rollback",
        model=name,
        version=wanted.version,
        export=wanted.export,
        alias=registry.CHAMPION,
        before=present.version,
        after=wanted.version,
        run=wanted.tags.get("millrace.run"),
        who=decision.who,
        known=decision.known,
        reason=decision.reason,
    )
    tags: dict[str, dict[str, str | None]] = {wanted.version: {"millrace.champion_by": decision.by}}
    scores = compared(wanted, present)
    back = f"Champion again, in place of version {present.version} ({scores}), by {decision.by}."
    notes = {wanted.version: f"{back}\n\n{wanted.description}"}
    if restores:
        tags[wanted.version]["millrace.rolled_back"] = None
    else:
        tags[present.version] = {"millrace.rolled_back": decision.by}
        away = f"Rolled back to version {wanted.version} by {decision.by}."
        notes[present.version] = f"{away}\n\n{present.description}"
    change = registry.Change(name, tags, notes, {registry.CHAMPION: wanted.version})
    registry.decide(client, audit, change, entry)
    return Rollback(present.version, wanted.version, scores)


def compared(wanted: Registered, present: Registered) -> str:
    """Compare the scores of two versions, or return why they are not comparable."""
    if wanted.metric != present.metric:
        other = present.metric or "an unknown metric"
        return f"not comparable: {wanted.metric or 'an unknown metric'} in place of {other}"
    if wanted.scored_on != present.scored_on:
        return "not comparable: evaluated on other records or up to another rank"
    return f"{wanted.metric} {wanted.score:.4f} in place of {present.score:.4f}"


def _before(name: str, audit: Audit, known: dict[str, Registered], present: Registered) -> Registered:
    """Return the last version that was champion before, was not rolled back, and still exists."""
    champions = audit.champions(name)
    if champions[-1:] == [present.version]:
        champions.pop()
    for version in reversed(champions):
        if version in known and version != present.version:
            return known[version]
    for each in reversed(known.values()):  # promoted before there was an audit log
        earlier = int(each.version) < int(present.version)
        if earlier and _was_champion(each) and "millrace.rolled_back" not in each.tags:
            return each
    saw = f"version {present.version} is the first known champion"
    raise Refused(name, saw, RULE, "add --to VERSION, if another one was")


def _chosen(name: str, to: str, audit: Audit, known: dict[str, Registered], present: Registered) -> Registered:
    """Return version `to`, if it ever was champion: by the audit log, if it is intact, or by its tags."""
    if to == present.version:
        raise Refused("--to", f"version {to} is the champion", RULE, "see MLflow's registry for the others")
    logged = audit.ever_champion(name) if audit.fault() is None else set()
    past = {version for version, each in known.items() if version in logged or _was_champion(each)}
    if to not in past:
        others = ", ".join(sorted(past - {present.version}, key=int))
        raise Refused("--to", f"{name} version {to}", RULE, f"choose one of {others}" if others else "there is none")
    return known[to]


def _was_champion(version: Registered) -> bool:
    """Return whether its gate's verdict was champion."""
    return version.gate.startswith("champion")
