"""millrace show: show an artifact or a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from flows.references import resolved
from flows.reply import AsJson, Reply, replying
from tasks.artifacts import Artifact, Model, Report, Snapshot
from tasks.errors import Refused
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, find_runs, resolve_run
from tasks.store.store import Store
from tasks.view import kilobytes, when

MOST_NAMES = 40
"""Columns or classes of a feature that are printed; `--json` has all."""


def show(
    what: Annotated[
        str, typer.Argument(metavar="ARTIFACT|RUN|MODEL", help="kind/digest, a digest prefix, a run id, or NAME@ALIAS.")
    ],
    rows: Annotated[int | None, typer.Option(min=1, help="Show this many examples of records or a snapshot.")] = None,
    split: Annotated[str, typer.Option(help="The split that --rows shows.")] = "train",
    as_json: AsJson = False,
) -> None:
    """Show an artifact with its lineage, from source to releases, or its examples; a run with its ledger; or a
    registered version."""
    with replying("show", as_json) as reply:
        home = find_home().readable()
        lines = _shown(reply, home, what) if rows is None else _examples(reply, home, what, split, rows)
        for line in lines:
            reply.say(line)


def _shown(reply: Reply, home: Home, what: str) -> Iterator[str]:
    """Fill the reply, and yield the lines."""
    store = Store(home.store)
    if "@" in what:
        version = _version(home, what)
        reply.add(version=version)
        yield from _version_lines(version)
        if not (store.path("export", version["export"]) / "manifest.json").exists():
            yield f"  export    {version['export'][:12]}, not in the store: `millrace predict` downloads it"
            return
        what = f"export/{version['export']}"
    try:
        artifact = store.resolve(what)
    except Refused as unknown:
        try:
            run = resolve_run(home, what)
        except Refused:
            raise unknown from None
        yield from _run(reply, run)
        return
    up, down = (_up(store, artifact), [str(child) for child in store.children_of(artifact.digest)])
    releases = [run.run_id for run in find_runs(home) if artifact.digest in _used(run) and _released(run)]
    reply.add(manifest=artifact.manifest, parents=up, children=down, releases=releases)
    yield from _artifact_lines(artifact, up, down, releases)
    yield from _content_lines(reply, artifact)


def _content_lines(reply: Reply, artifact: Artifact) -> Iterator[str]:
    """Yield a snapshot's features, what a report says besides its metrics, and what was chosen among several seeds."""
    from tasks.training.seeds import choice_of
    from tasks.view import report, summary

    if artifact.kind == Snapshot.kind:
        yield from _feature_lines(artifact.manifest["features"])
    if artifact.kind == Report.kind:
        content = report.report_of(artifact)
        reply.add(report=content)
        yield from summary.report_lines(report.read(content))
    if (choice := choice_of(artifact)) is not None:
        reply.add(seeds=asdict(choice))
        yield from summary.seed_lines(choice)


def _feature_lines(features: dict[str, Any]) -> Iterator[str]:
    """Yield each feature as a model gets it, with the columns of an array in their order."""
    for name, feature in sorted(features.items()):
        values = feature.get("names") or feature.get("classes") or []
        listed = ", ".join(map(str, values[:MOST_NAMES])) + (f", … of {len(values):,}" if values[MOST_NAMES:] else "")
        yield f"  feature   {name} {feature['dtype']} {feature['shape']}{f': {listed}' if listed else ''}"


def _run(reply: Reply, run: Run) -> Iterator[str]:
    from tasks.compression import judgement
    from tasks.view.facts import Facts
    from tasks.view.summary import run_lines

    facts, ledgers = Facts(run), _ledgers(run)
    reply.add(run=run.record, ledger=next(iter(ledgers.values()), None))
    if facts.trials is not None:
        reply.add(tuning=asdict(facts.trials))
    if (path := run.folder / judgement.FILE).exists():
        reply.add(judgement=json.loads(path.read_bytes()))
    if len(ledgers) > 1:
        reply.add(ledgers=ledgers)
    if facts.choice is not None:
        reply.add(seeds=asdict(facts.choice))
    yield from run_lines(facts, {name: ledger["text"] for name, ledger in ledgers.items()})


def _examples(reply: Reply, home: Home, what: str, split: str, rows: int) -> Iterator[str]:
    from tasks.view.rows import examples

    artifact = Store(home.store).resolve(what)
    lines = list(examples(artifact, split, rows, colours=sys.stdout.isatty()))
    reply.add(artifact=str(artifact), split=split, rows=lines)
    yield from lines


def _version(home: Home, reference: str) -> dict[str, Any]:
    with resolved(home, reference) as match:
        registered = match.registered
        return {
            "name": match.name,
            "version": registered.version,
            "aliases": sorted(match.aliases),
            "gate": registered.gate,
            "approval": registered.approval,
            "export": registered.export,
            "run": registered.tags.get("millrace.run"),
        }


def _version_lines(version: dict[str, Any]) -> Iterator[str]:
    yield f"{version['name']} version {version['version']}: {', '.join(version['aliases']) or 'no alias'}"
    yield f"  gate      {version['gate']}"
    if version["approval"]:
        yield f"  approval  {version['approval']}"
    yield f"  run       {version['run']}"


def _artifact_lines(artifact: Artifact, up: dict[str, Any], down: list[str], releases: list[str]) -> Iterator[str]:
    from tasks.view.words import describe

    manifest = artifact.manifest
    yield f"{artifact}"
    yield f"  what      {describe(artifact)}"
    yield f"  path      {artifact.path}"
    yield f"  made      {when(manifest['created'])} by {manifest['produced_by']['run']}"
    yield f"  config    {json.dumps(manifest['inputs']['config'], sort_keys=True)}"
    yield f"  counts    {', '.join(f'{name} {count:,}' for name, count in manifest['counts'].items())}"
    yield f"  files     {len(manifest['files'])}, {kilobytes(sum(file['bytes'] for file in manifest['files']))}"
    for file in manifest["files"][:12]:
        yield f"            {file['path']}  {kilobytes(file['bytes'])}  sha256 {file['sha256'][:12]}…"
    if len(manifest["files"]) > 12:
        yield f"            and {len(manifest['files']) - 12} more (--json lists all)"
    yield from _tree("from", up)
    for child in down:
        kind, _, digest = child.partition("/")
        yield f"  into      {kind}/{digest[:12]}"
    for run in releases:
        yield f"  released  by {run}"


def _tree(word: str, up: dict[str, Any], depth: int = 0, seen: set[str] | None = None) -> Iterator[str]:
    """Yield all ancestors, each once, below its first child."""
    seen = set() if seen is None else seen
    for name, parent in up.items():
        kind, _, digest = parent["artifact"].partition("/")
        if digest in seen:
            continue
        role = "" if name == kind else f" ({name})"
        yield f"  {word if depth == 0 else '':<9} {'  ' * depth}{kind}/{digest[:12]}{role}"
        seen.add(digest)
        if parent["sources"]:
            yield f"            {'  ' * (depth + 1)}{parent['sources']:,} raw examples or files"
        yield from _tree(word, parent["parents"], depth + 1, seen)


def _up(store: Store, artifact: Artifact) -> dict[str, Any]:
    return {
        name: {
            "artifact": f"{parent.kind}/{parent.digest}",
            "sources": len(parent.manifest["inputs"]["sources"]),
            "parents": _up(store, parent),
        }
        for name, parent in store.parents_of(artifact).items()
    }


def _ledgers(run: Run) -> dict[str, dict[str, Any]]:
    """Check the ledgers of the run's trainings, also of those of methods of compression, by their names.

    Models that `gc` has dropped have none.
    """
    from tasks.training.ledger import LEDGER, prove

    proofs, store = {}, Store(run.home.store)
    rows = [row for stage in ("train", "compress") for row in run.record["stages"].get(stage, [])]
    for row in (row for row in rows if row["kind"] == Model.kind):
        model = Model(row["digest"], store.path(Model.kind, row["digest"]), row["name"])
        if (model.path / LEDGER).exists() and (snapshot := store.parents_of(model).get("snapshot")) is not None:
            proofs[model.name] = prove(model.path, snapshot.path)
    return proofs


def _used(run: Run) -> str:
    uses = run.folder / "uses"
    return uses.read_text() if uses.exists() else ""


def _released(run: Run) -> bool:
    return (run.folder / "release.json").exists()
