"""Promotion, approval or rejection of a model version, by its gate alone or by a person after the gate."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tasks.artifacts import Release, Report
from tasks.errors import Refused
from tasks.evaluation.gates import Promotion, promotion, tags_of, with_gates
from tasks.runs.audit import Audit, Decision, Entry
from tasks.runs.runs import Run
from tasks.store.files import pretty, write
from tasks.view.facts import Facts
from tasks.view.summary import describe_version

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.registry.registry import Registered

CHAMPION, CANDIDATE = "champion", "candidate"

WORD = {True: "approved", False: "rejected"}


@dataclass(frozen=True)
class Ruling:
    """The alias of a version, with the reason and who decided."""

    action: str
    alias: str
    verdict: str
    who: str = "gate"
    known: str = "by the gate"
    reason: str | None = None
    """The reason that a person gave; None for the gate."""
    tags: dict[str, str] = field(default_factory=dict)

    approvable: bool = False
    """Whether a person may release the version although it could not be compared."""

    def release(self, name: str, registered: Registered, changed: bool, run: str, awaits: str | None = None) -> Release:
        """Return the result of `promote` in a run."""
        verdict = f"{name} version {registered.version}: {self.verdict}"
        if awaits is not None:
            verdict += f"; to approve: millrace approve {awaits} --reason TEXT"
        if self.approvable:
            verdict += f"; to release it all the same: millrace approve {run} --reason TEXT"
        made = Release(name, registered.version, self.alias, registered.export, verdict, changed, awaits)
        return replace(made, approvable=self.approvable)


def promoted(gate: Promotion) -> Ruling:
    """Return the ruling on a version that passed its gate, without approval."""
    return Ruling("promote", CHAMPION, f"champion, with {gate.text}", tags=_behind(gate))


def hold(why: str) -> Ruling:
    """Return the ruling on a version that stays a candidate."""
    return Ruling("hold", CANDIDATE, why)


def failed(gate: Promotion) -> Ruling:
    """Return the ruling on a version that failed its gate."""
    if not gate.approvable:
        return hold(gate.text if not gate.comparable else f"candidate only: {gate.text}")
    return replace(hold(gate.text), tags=_compared(gate), approvable=True)


def awaiting(gate: Promotion, run: str) -> Ruling:
    """Return the ruling on a version that awaits approval."""
    tags = {"millrace.approval": "pending", "millrace.approval_run": run, **_compared(gate)}
    return Ruling("await", CANDIDATE, f"awaits approval, with {gate.text}", tags=tags)


def _compared(gate: Promotion) -> dict[str, str]:
    """Return the champion of a comparison and its result, for the tags of a version that a person may decide on."""
    return {"millrace.against": gate.against or "none", "millrace.compared": gate.text, **_behind(gate)}


def _behind(gate: Promotion) -> dict[str, str]:
    """Return how far a version is behind the best of the champions before it, for its tags; nothing without a
    comparison."""
    return {} if gate.before is None else {"millrace.behind": repr(gate.behind)}


def ruling_of(gate: Promotion, decision: Decision, run: str) -> Ruling:
    """Return the ruling of a person on a version that passed its gate, or could not be compared."""
    word = WORD[decision.accepted]
    tags = {
        "millrace.approval": word,
        "millrace.approval_run": run,
        "millrace.approval_reason": decision.reason,
        "millrace.approval_known": decision.known,
        "millrace.approval_time": datetime.now(UTC).isoformat(timespec="seconds"),
        f"millrace.{word}_by": decision.who,
        **_behind(gate),
    }
    by = (decision.who, decision.known, decision.reason, tags)
    if decision.accepted:
        word = "with" if gate.comparable else "though"
        return Ruling("approve", CHAMPION, f"champion, {word} {gate.text}; approved by {decision.by}", *by)
    return Ruling("reject", CANDIDATE, f"rejected by {decision.by}; {gate.text}", *by)


def rule(gate: Promotion, registered: Registered, run: Run, required: bool, decision: Decision | None) -> Ruling:
    """Return the ruling on a version: a person decides only if it passed its gate."""
    if not gate.passed:
        return failed(gate)
    if by := registered.tags.get("millrace.rolled_back"):
        return hold(f"candidate only: rolled back by {by}")
    if not required:
        return promoted(gate)
    if registered.approval == "rejected":
        return hold(registered.gate)
    if decision is not None:
        return ruling_of(gate, decision, run.run_id)
    return awaiting(gate, awaited_run(registered, run))


def awaited_run(registered: Registered, run: Run) -> str:
    """Return the id of the run that asked for approval first and still awaits it; otherwise of this run."""
    first = registered.tags.get("millrace.approval_run", "")
    path = run.home.runs / first / "run.json"
    waits = registered.approval == "pending" and first and path.exists()
    return first if waits and json.loads(path.read_bytes())["status"] == "awaiting_approval" else run.run_id


def carry_out(client: MlflowClient, run: Run, registered: Registered, ruling: Ruling) -> bool:
    """Write a ruling into the registry and, if it changes an alias or an approval, into the audit log; return whether.

    The caller holds the registry's lock.
    """
    from tasks.registry import registry

    name, version = run.record["name"], registered.version
    now = {alias: registry.aliased(client, name, alias) for alias in (CHAMPION, CANDIDATE)}
    pointed = {alias: there.version if there else None for alias, there in now.items()}
    alias = CHAMPION if ruling.action == "reject" else ruling.alias
    waits = ruling.action == "await" and registered.approval == "pending"
    after = pointed[alias] if ruling.action == "reject" or waits else version  # no alias moves
    aliases: dict[str, str | None] = {alias: after} if after is not None else {}
    if ruling.alias == CHAMPION and pointed[CANDIDATE] == version:
        aliases[CANDIDATE] = None
    facts = Facts(run)
    facts.stages.pop("promote", None)  # the stage that is being decided
    change = registry.Change(
        model=name,
        tags={version: {**_approval(registered, ruling), **ruling.tags, "millrace.gate": ruling.verdict}},
        notes={version: describe_version(facts, version, ruling.verdict, registered.export)},
        aliases=aliases,
    )
    approval = change.tags[version].get("millrace.approval", registered.approval)
    if pointed[alias] == after and approval == registered.approval:
        registry.apply(client, change)
        return False
    by = (ruling.who, ruling.known, ruling.reason or ruling.verdict)
    entry = Entry(ruling.action, name, version, registered.export, alias, pointed[alias], after, run.run_id, *by)
    registry.decide(client, Audit(run.home), change, entry)
    return True


def _approval(registered: Registered, ruling: Ruling) -> dict[str, str | None]:
    """Return the tag of an earlier approval that does not apply any more."""
    if ruling.action == "hold" and registered.approval == "pending":
        return {"millrace.approval": "lapsed"}
    if ruling.action == "promote" and registered.approval is not None:
        return {"millrace.approval": None}
    return {}


def settle(client: MlflowClient, run: Run, decision: Decision) -> Release:
    """Apply a person's decision to a run that awaits approval, and end the run: registry, audit log, folder.

    If the champion of the comparison was replaced since, the version is compared with the present one, also by
    `promote.gates`, and the gate may fail. Where it cannot be compared with that one, this is shown first, and
    a second approval releases it. The caller holds the locks of the run and of the registry.

    Raises:
        Refused: the run awaits no approval, its version was deleted, or the scores are of other records or another
            metric than those of the new champion.
    """
    from tasks.registry import registry

    registry.finish(client, Audit(run.home))
    registered = _waiting(client, run, decision)
    release_json = json.loads((run.folder / "release.json").read_bytes())
    judged: dict[str, Any] = {name: release_json[name] for name in ("gates",) if name in release_json}
    if registered.approval == "pending" or (release_json.get("approvable") and _is_open(registered)):
        gate = _compare(client, run, registered, decision)
        shown = registered.tags["millrace.against"] == (gate.against or "none")
        decides = gate.passed or (gate.approvable and shown) or not decision.accepted
        ruling = ruling_of(gate, decision, run.run_id) if decides else failed(gate)
        carry_out(client, run, registered, ruling)
        if gate.gates:
            judged["gates"] = [verdict.as_json() for verdict in gate.gates]
            for tag, value in tags_of({"promote": gate.gates}).items():
                client.set_tag(run.record["mlflow_run_id"], tag, value)
    else:  # decided by a command that was killed, or by the gate of a later run
        ruling = Ruling("", CHAMPION if registered.approval == "approved" else CANDIDATE, registered.gate)
    made = ruling.release(run.record["name"], registered, changed=True, run=run.run_id)
    write(run.folder / "release.json", pretty({**release_json, **asdict(made), **judged}))
    approved = made.alias == CHAMPION
    run.note(exit_code=0 if approved else 3, status="completed" if approved else "rejected")
    return made


def _is_open(registered: Registered) -> bool:
    """Return whether nobody was asked about a version, or the question has lapsed."""
    return registered.approval in (None, "lapsed")


def _waiting(client: MlflowClient, run: Run, decision: Decision) -> Registered:
    """Return the version that awaits the approval of this run, or could not be compared in it, or was decided without
    an update of the run."""
    from tasks.registry import registry

    verb, name, status = "approve" if decision.accepted else "reject", run.record["name"], run.record["status"]
    rule = f"{verb} needs a run that awaits approval, or whose verdict is not comparable"
    path = run.folder / "release.json"
    if not path.exists():
        raise Refused(run.run_id, f"{status}, without a release", rule, "see `millrace show RUN`")
    release_json = json.loads(path.read_bytes())
    registered = registry.version(client, name, release_json["version"])
    which = f"{name} version {release_json['version']}"
    if registered is None or registered.export != release_json["export"]:
        again = f"millrace run {run.record['flow']} {run.folder / 'config.yaml'}"
        raise Refused(run.run_id, f"{which} is not in the registry", rule, f"register it again with {again}")
    asked, state = registered.tags.get("millrace.approval_run"), registered.approval
    decided = asked == run.run_id and state == WORD[decision.accepted]  # by a command that was killed
    if release_json.get("approvable") and status == "rejected" and (_is_open(registered) or decided):
        return registered
    if state == "pending" and asked != run.run_id:
        rule = "the decision is made on the run that asked first"
        raise Refused(run.run_id, f"{which} awaits the approval of {asked}", rule, f"use millrace {verb} {asked}")
    waits = status == "awaiting_approval" and asked == run.run_id
    if waits and state in ("pending", "lapsed", WORD[decision.accepted]):
        return registered
    if asked == run.run_id and state in WORD.values():
        saw = f"{which} was {state} by {registered.tags.get(f'millrace.{state}_by')} already"
        remedy = f"millrace rollback {name}" if state == "approved" else "a run with --promote.approval none"
        raise Refused(run.run_id, saw, "a run is decided once", f"to change that, use {remedy}")
    raise Refused(run.run_id, f"{status}, {which}: {registered.gate}", rule, "see `millrace show RUN`")


def _compare(client: MlflowClient, run: Run, registered: Registered, decision: Decision) -> Promotion:
    """Return the result of the gate, for an approval against the present champion."""
    from tasks.registry import comparison, registry

    name, tags = run.record["name"], registered.tags
    champion = registry.aliased(client, name, CHAMPION)
    now, asked = (champion.version if champion else "none"), tags["millrace.against"]
    if now == asked or not decision.accepted:  # a rejection needs no comparison
        passed = registered.approval == "pending"
        return Promotion(passed, tags["millrace.compared"], None if asked == "none" else asked, None, passed)
    again = f"millrace run {run.record['flow']} {run.folder / 'config.yaml'}"
    promote, judged, beside, present = run.config.promote, run.config.evaluate, None, None
    if champion is not None:
        why = ""
        if champion.scored_on != registered.scored_on:
            saw = f"the champion is version {now} now, evaluated on other records or up to another rank"
            raise Refused(
                run.run_id, saw, "scores are comparable on the same records only", f"compare them with {again}"
            )
        users = comparison.users(client, run.store, name, registered, champion)
        if isinstance(users, str):
            why = users
        else:
            try:
                judged = comparison.as_the_champion(champion, run.config)
                if (found := comparison.by_report(champion, run, judged)) is not None:
                    beside = comparison.compared(*found, users, now, Facts(run).judged)
            except Refused as unfit:
                why = f"{unfit.saw}, and {unfit.rule}"
        present = comparison.champion_of(champion, run, beside, why)
    primary = judged.primary_of(run.config.model.task)
    gate = promotion(registered.metric, registered.score, present, promote.margin, primary[1], require=promote.require)
    if not promote.gates:
        return gate
    report = Facts(run).one(Report.kind)
    if not isinstance(report, Report):
        saw = f"the champion is version {now} now, and the report of this version is not in the store"
        raise Refused(run.run_id, saw, "promote.gates judge it again by its report", f"make it with {again}")
    against = None if champion is None else now
    return with_gates(gate, comparison.judge(run, report, promote.gates, against, beside, primary))
