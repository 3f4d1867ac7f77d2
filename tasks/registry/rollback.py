"""The alias `champion` back on a version that had it before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import Refused
from tasks.runs.audit import Audit, Decision, Entry
from tasks.runs.home import Home

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.registry.registry import Registered


class Rollback(NamedTuple):
    """Which version was champion, which is now, and how their scores compare."""

    before: str
    after: str
    scores: str


RULE = "rollback goes to a version that was champion"


def roll_back(client: MlflowClient, home: Home, name: str, to: str | None, given: Decision) -> Rollback:
    """Move `champion` to the one before the present, or to version `to`.

    The version left behind is marked, so that no gate makes it champion again; unless `to` is one so marked, which is
    thereby restored. The caller holds the registry's lock.

    Raises:
        Refused: there is no champion, none was before it, or `to` never was champion.
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
        who=given.who,
        known=given.known,
        reason=given.reason,
    )
    tags: dict[str, dict[str, str | None]] = {wanted.version: {"millrace.champion_by": given.by}}
    scores = compared(wanted, present)
    back = f"Champion again, in place of version {present.version} ({scores}), by {given.by}."
    notes = {wanted.version: f"{back}\n\n{wanted.description}"}
    if restores:
        tags[wanted.version]["millrace.rolled_back"] = None
    else:
        tags[present.version] = {"millrace.rolled_back": given.by}
        away = f"Rolled back to version {wanted.version} by {given.by}."
        notes[present.version] = f"{away}\n\n{present.description}"
    change = registry.Change(name, tags, notes, {registry.CHAMPION: wanted.version})
    registry.decide(client, audit, change, entry)
    return Rollback(present.version, wanted.version, scores)


def compared(wanted: Registered, present: Registered) -> str:
    """The scores of two versions beside each other, or why they are not comparable."""
    if wanted.metric != present.metric:
        other = present.metric or "an unknown metric"
        return f"not comparable: {wanted.metric or 'an unknown metric'} in place of {other}"
    if wanted.records != present.records:
        return "not comparable: judged on other records"
    return f"{wanted.metric} {wanted.score:.4f} in place of {present.score:.4f}"


def _before(name: str, audit: Audit, known: dict[str, Registered], present: Registered) -> Registered:
    """The last version that was champion before the present one, was not rolled back, and still exists."""
    line = audit.champions(name)
    if line[-1:] == [present.version]:
        line.pop()
    for version in reversed(line):
        if version in known and version != present.version:
            return known[version]
    for each in reversed(known.values()):  # promoted before there was a log: the registry remembers by its tags
        earlier = int(each.version) < int(present.version)
        if earlier and _said_champion(each) and "millrace.rolled_back" not in each.tags:
            return each
    saw = f"version {present.version} is the first champion that is known"
    raise Refused(name, saw, RULE, "give one by --to, if another was")


def _chosen(name: str, to: str, audit: Audit, known: dict[str, Registered], present: Registered) -> Registered:
    """The version that was asked for, if it ever was champion: by the log, where that is whole, or by its tags."""
    if to == present.version:
        raise Refused("--to", f"version {to} is the champion", RULE, "see MLflow's registry for the others")
    logged = audit.ever_champion(name) if audit.fault() is None else set()
    were = {version for version, each in known.items() if version in logged or _said_champion(each)}
    if to not in were:
        others = ", ".join(sorted(were - {present.version}, key=int))
        raise Refused("--to", f"{name} version {to}", RULE, f"choose among {others}" if others else "there is none")
    return known[to]


def _said_champion(found: Registered) -> bool:
    """Whether that was the last word about it."""
    return found.gate.startswith("champion")
