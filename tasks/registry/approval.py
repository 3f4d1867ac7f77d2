"""What becomes of a version that its gate has judged: by the gate alone, or by a person whom the run asks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tasks.artifacts import Release
from tasks.errors import Refused
from tasks.evaluation import primary_metric
from tasks.evaluation.gates import Champion, Promotion, judged_by, promotion
from tasks.pages.description import describe_version
from tasks.pages.facts import Facts
from tasks.runs.audit import Audit, Decision, Entry
from tasks.runs.runs import Run
from tasks.store.files import pretty, write

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.registry.registry import Registered

CHAMPION, CANDIDATE = "champion", "candidate"

WORD = {True: "approved", False: "rejected"}


@dataclass(frozen=True)
class Ruling:
    """The alias that a version earns, why, and by whom."""

    action: str
    alias: str
    verdict: str
    who: str = "gate"
    known: str = "by the gate"
    reason: str | None = None
    """A person's own; the gate's is its verdict."""
    tags: dict[str, str] = field(default_factory=dict)

    def release(self, name: str, found: Registered, changed: bool, awaits: str | None = None) -> Release:
        """What `promote` hands on."""
        verdict = f"{name} version {found.version}: {self.verdict}"
        if awaits is not None:
            verdict += f"; type: millrace approve {awaits} --reason TEXT"
        return Release(name, found.version, self.alias, found.export, verdict, changed, awaits)


def promoted(gate: Promotion) -> Ruling:
    """The gate let it pass, and nobody else is asked."""
    return Ruling("promote", CHAMPION, f"champion, with {gate.text}")


def hold(why: str) -> Ruling:
    """Something keeps it from being champion."""
    return Ruling("hold", CANDIDATE, why)


def held_by(gate: Promotion) -> Ruling:
    """The gate keeps it from being champion."""
    return hold(gate.text if not gate.comparable else f"candidate only: {gate.text}")


def awaiting(gate: Promotion, run: str) -> Ruling:
    """The gate let it pass, and a person is asked; the tags tell what the gate compared with."""
    tags = {
        "millrace.approval": "pending",
        "millrace.approval_run": run,
        "millrace.against": gate.against or "none",
        "millrace.against_score": repr(gate.before),
    }
    return Ruling("await", CANDIDATE, f"awaits approval, with {gate.text}", tags=tags)


def ruling_of(gate: Promotion, decision: Decision, run: str) -> Ruling:
    """The gate let it pass, and a person has answered."""
    word = WORD[decision.accepted]
    tags = {
        "millrace.approval": word,
        "millrace.approval_run": run,
        "millrace.approval_reason": decision.reason,
        "millrace.approval_known": decision.known,
        "millrace.approval_time": datetime.now(UTC).isoformat(timespec="seconds"),
        f"millrace.{word}_by": decision.who,
    }
    by = (decision.who, decision.known, decision.reason, tags)
    if decision.accepted:
        return Ruling("approve", CHAMPION, f"champion, with {gate.text}; approved by {decision.by}", *by)
    return Ruling("reject", CANDIDATE, f"rejected by {decision.by}; {gate.text}", *by)


def rule(gate: Promotion, found: Registered, run: Run, required: bool, decision: Decision | None) -> Ruling:
    """What becomes of a version: people are heard only where the gate let it pass."""
    if not gate.passed:
        return held_by(gate)
    if by := found.tags.get("millrace.rolled_back"):
        return hold(f"candidate only: rolled back by {by}")
    if not required:
        return promoted(gate)
    if found.approval == "rejected":
        return hold(found.gate)
    if decision is not None:
        return ruling_of(gate, decision, run.run_id)
    return awaiting(gate, awaited_run(found, run))


def awaited_run(found: Registered, run: Run) -> str:
    """The run whose approval a version awaits: the one that asked first, while it waits."""
    first = found.tags.get("millrace.approval_run", "")
    path = run.home.runs / first / "run.json"
    waits = found.approval == "pending" and first and path.exists()
    return first if waits and json.loads(path.read_bytes())["status"] == "awaiting_approval" else run.run_id


def carry_out(client: MlflowClient, run: Run, found: Registered, ruling: Ruling) -> bool:
    """Write a ruling into the registry and, if it changes an alias or an approval, into the audit log; says if it did.

    The caller holds the registry's lock.
    """
    from tasks.registry import registry

    name, version = run.record["name"], found.version
    now = {alias: registry.aliased(client, name, alias) for alias in (CHAMPION, CANDIDATE)}
    pointed = {alias: there.version if there else None for alias, there in now.items()}
    alias = CHAMPION if ruling.action == "reject" else ruling.alias
    waits = ruling.action == "await" and found.approval == "pending"
    after = pointed[alias] if ruling.action == "reject" or waits else version  # neither moves anything
    aliases: dict[str, str | None] = {alias: after} if after is not None else {}
    if ruling.alias == CHAMPION and pointed[CANDIDATE] == version:
        aliases[CANDIDATE] = None
    facts = Facts(run)
    facts.stages.pop("promote", None)  # its last word is what changes now
    change = registry.Change(
        model=name,
        tags={version: {**_approval(found, ruling), **ruling.tags, "millrace.gate": ruling.verdict}},
        notes={version: describe_version(facts, ruling.alias, ruling.verdict, found.export)},
        aliases=aliases,
    )
    approval = change.tags[version].get("millrace.approval", found.approval)
    if pointed[alias] == after and approval == found.approval:
        registry.apply(client, change)
        return False
    by = (ruling.who, ruling.known, ruling.reason or ruling.verdict)
    entry = Entry(ruling.action, name, version, found.export, alias, pointed[alias], after, run.run_id, *by)
    registry.decide(client, Audit(run.home), change, entry)
    return True


def _approval(found: Registered, ruling: Ruling) -> dict[str, str | None]:
    """What becomes of an approval that was asked for once and is not what decides now."""
    if ruling.action == "hold" and found.approval == "pending":
        return {"millrace.approval": "lapsed"}
    if ruling.action == "promote" and found.approval is not None:
        return {"millrace.approval": None}
    return {}


def settle(client: MlflowClient, run: Run, decision: Decision) -> Release:
    """Give a run that awaits it a person's answer, and end the run by it: registry, audit log, folder.

    The champion that the gate compared with may have been replaced meanwhile: then the scores that the registry has
    are compared anew, and the gate may say no after all. The caller holds the run's lock and the registry's.

    Raises:
        Refused: the run awaits nothing, its version is gone, or its score and the new champion's are of other records
            or by another metric.
    """
    from tasks.registry import registry

    registry.finish(client, Audit(run.home))
    found = _waiting(client, run, decision)
    if found.approval == "pending":
        gate = _compare(client, run, found, decision)
        ruling = ruling_of(gate, decision, run.run_id) if gate.passed or not decision.accepted else held_by(gate)
        carry_out(client, run, found, ruling)
    else:  # by a command that was killed before it ended the run, or by a later run's gate
        ruling = Ruling("", CHAMPION if found.approval == "approved" else CANDIDATE, found.gate)
    made = ruling.release(run.record["name"], found, changed=True)
    release_json = json.loads((run.folder / "release.json").read_bytes())
    write(run.folder / "release.json", pretty({**release_json, **asdict(made)}))
    approved = made.alias == CHAMPION
    run.note(exit_code=0 if approved else 3, status="completed" if approved else "rejected")
    return made


def _waiting(client: MlflowClient, run: Run, decision: Decision) -> Registered:
    """The version that awaits this run's approval, or whose approval was decided without the run being told."""
    from tasks.registry import registry

    verb, name, status = "approve" if decision.accepted else "reject", run.record["name"], run.record["status"]
    rule, path = f"{verb} answers a run that awaits approval", run.folder / "release.json"
    if not path.exists():
        raise Refused(run.run_id, f"{status}, without a release", rule, "see `millrace show RUN`")
    release_json = json.loads(path.read_bytes())
    found = registry.version(client, name, release_json["version"])
    which = f"{name} version {release_json['version']}"
    if found is None or found.export != release_json["export"]:
        again = f"millrace run {run.record['flow']} {run.folder / 'config.yaml'}"
        raise Refused(run.run_id, f"{which} is not in the registry", rule, f"{again} registers it anew")
    asked, state = found.tags.get("millrace.approval_run"), found.approval
    if state == "pending" and asked != run.run_id:
        rule = "the run that asked first is answered"
        raise Refused(run.run_id, f"{which} awaits the approval of {asked}", rule, f"millrace {verb} {asked}")
    waits = status == "awaiting_approval" and asked == run.run_id
    if waits and state in ("pending", "lapsed", WORD[decision.accepted]):
        return found
    if asked == run.run_id and state in WORD.values():
        saw = f"{which} was {state} by {found.tags.get(f'millrace.{state}_by')} already"
        remedy = f"millrace rollback {name}" if state == "approved" else "run it with --promote.approval none"
        raise Refused(run.run_id, saw, "a run is answered once", f"to change that: {remedy}")
    raise Refused(run.run_id, f"{status}, {which}: {found.gate}", rule, "see `millrace show RUN`")


def _compare(client: MlflowClient, run: Run, found: Registered, decision: Decision) -> Promotion:
    """What the gate said, or, to an approval, says now that another version is champion."""
    from tasks.registry import registry

    champion = registry.aliased(client, run.record["name"], CHAMPION)
    now, asked = (champion.version if champion else "none"), found.tags["millrace.against"]
    present: Champion | None = None
    if now == asked or not decision.accepted:  # to say no, nothing needs to be compared
        if asked != "none":
            present = Champion(asked, found.metric, float(found.tags["millrace.against_score"]))
    elif champion is not None:
        if champion.metric != found.metric:
            saw = f"{judged_by(now, champion.metric)}, this one by {found.metric}: not comparable"
            remedy = f"`millrace rollback {run.record['name']}` first, or reject this one"
            raise Refused(run.run_id, saw, "scores compare by the same metric", remedy)
        if champion.records != found.records:
            saw = f"the champion is version {now} now, judged on other records"
            again = f"millrace run {run.record['flow']} {run.folder / 'config.yaml'}"
            raise Refused(run.run_id, saw, "scores compare on the same records", f"{again} compares them anew")
        present = Champion(now, champion.metric, champion.score)
    _, higher_is_better = primary_metric(run.config.model.task)
    return promotion(found.metric, found.score, present, run.config.promote.margin, higher_is_better)
