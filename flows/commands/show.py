"""millrace show: show an artifact or a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.references import resolved
from flows.reply import AsJson, Reply, replying, when
from tasks.artifacts import STAGES, Artifact, Model, Report, Variant
from tasks.errors import Refused
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, find_runs, resolve_run
from tasks.store.store import Store
from tasks.view.numbers import kilobytes, seconds

if TYPE_CHECKING:
    from tasks.training.seeds import Choice


def show(
    what: Annotated[
        str, typer.Argument(metavar="ARTIFACT|RUN|MODEL", help="kind/digest, a digest prefix, a run id, or NAME@ALIAS.")
    ],
    rows: Annotated[int | None, typer.Option(min=1, help="Show so many examples of records or a snapshot.")] = None,
    split: Annotated[str, typer.Option(help="The split that --rows shows.")] = "train",
    as_json: AsJson = False,
) -> None:
    """Show an artifact with its lineage, from source to releases, or its examples; a run with its ledger; or a
    registered version."""
    with replying("show", as_json) as reply:
        home = find_home().readable()
        lines = _shown(reply, home, what) if rows is None else _examples(reply, home, what, split, rows)
        for line in lines:
            if not as_json:
                typer.echo(line)


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
        ledgers, seeds = _ledgers(run), _choice_in(run)
        reply.add(run=run.record, ledger=next(iter(ledgers.values()), None), **_trials(run), **_judged(run))
        if len(ledgers) > 1:
            reply.add(ledgers=ledgers)
        if seeds is not None:
            reply.add(seeds=asdict(seeds))
        yield from _run_lines(run, ledgers, seeds)
        return
    up, down = (_up(store, artifact), [str(child) for child in store.children_of(artifact.digest)])
    releases = [run.run_id for run in find_runs(home) if artifact.digest in _used(run) and _released(run)]
    reply.add(manifest=artifact.manifest, parents=up, children=down, releases=releases)
    if artifact.kind == Report.kind:
        reply.add(report=json.loads((artifact.path / "report.json").read_bytes()))
    yield from _artifact_lines(artifact, up, down, releases)
    yield from _report_lines(artifact)
    if (seeds := _choice_of(artifact)) is not None:
        reply.add(seeds=asdict(seeds))
        yield from _seed_lines(seeds)


def _examples(reply: Reply, home: Home, what: str, split: str, rows: int) -> Iterator[str]:
    from tasks.view.examples import examples

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


def _run_lines(run: Run, ledgers: dict[str, dict[str, Any]], seeds: Choice | None) -> Iterator[str]:
    record = run.record
    yield f"{run.run_id}: {record['flow']}, {record['status']}, exit code {record['exit_code']}"
    for attempt in record["attempts"]:
        ended = f"to {when(attempt['ended'])}, {attempt['status']}" if "ended" in attempt else "and has not ended"
        yield f"  attempt {attempt['attempt']} from {when(attempt['started'])} {ended}"
    for stage in (stage for stage in STAGES if stage in record["stages"]):
        for row in record["stages"][stage]:
            where = "from the store" if row["cached"] else "made"
            made = f"{row['kind']}/{row['digest'][:12]}"
            yield f"  {stage:<10}{made}  {row['name']}  {where} in {seconds(row['seconds'])}"
    yield from _trial_lines(run)
    if record["error"]:
        yield "  error     " + "; ".join(record["error"].values())
    yield f"  mlflow    {record['mlflow_run_id']}"
    if seeds is not None:
        yield from _seed_lines(seeds)
    for row in record["stages"].get("evaluate", []):
        path = Store(run.home.store).path(row["kind"], row["digest"])
        if (path / "manifest.json").exists():
            yield from _report_lines(Report(row["digest"], path, row["name"]))
    yield from _variant_lines(run)
    for name, ledger in ledgers.items():
        yield f"  ledger    {f'{name}: ' if len(ledgers) > 1 else ''}{ledger['text']}"


def _trials(run: Run) -> dict[str, Any]:
    """Return the table of a tuning's trials; empty for another run."""
    from tasks.search.table import read

    table = read(run.folder)
    return {} if table is None else {"tuning": asdict(table)}


def _judged(run: Run) -> dict[str, Any]:
    """Return the judgement of the run's variants; empty without one."""
    from tasks.compression.judgement import read

    judgement = read(run.folder)
    return {"judgement": judgement} if judgement else {}


def _trial_lines(run: Run) -> Iterator[str]:
    from tasks.search.table import read
    from tasks.view.words import describe_search, describe_trial

    if (table := read(run.folder)) is None:
        return
    yield f"  {'tune':<10}{describe_search(table)}"
    for number, trial in enumerate(table.trials):
        yield f"  {'' if number else 'trials':<10}{trial.number}: {describe_trial(trial, table)}"
    if table.importances:
        shares = ", ".join(f"{key} {share:.0%}" for key, share in table.shares)
        yield f"  variance  of {table.metric} by key: {shares}"


def _variant_lines(run: Run) -> Iterator[str]:
    """Yield the table of the variants, and the verdicts of their gates."""
    from tasks.compression.judgement import read
    from tasks.view.variants import lines, verdicts

    store, rows = Store(run.home.store), run.record["stages"].get("compress", [])
    variants = [Variant(row["digest"], store.path(row["kind"], row["digest"]), row["name"]) for row in rows]
    variants = [each for each, row in zip(variants, rows, strict=True) if row["kind"] == "variant"]
    there = [variant for variant in variants if (variant.path / "manifest.json").exists()]
    judgement = read(run.folder) if rows else {}
    for number, line in enumerate(lines(there, judgement, run.config.evaluate.primary_of(run.config.model.task)[0])):
        yield f"  {'' if number else 'variants':<10}{line}"
    for number, line in enumerate(verdicts(judgement)):
        yield f"  {'' if number else 'gates':<10}{line}"
    if judgement.get("chosen"):
        yield f"  chosen    {judgement['chosen']}, by compress.want"


def _seed_lines(choice: Choice) -> Iterator[str]:
    from tasks.view.seeds import lines

    for number, line in enumerate(lines(choice)):
        yield f"  {'' if number else 'seeds':<9} {line}"


def _report_lines(artifact: Artifact) -> Iterator[str]:
    """Yield what a report says besides its metrics; nothing of another artifact."""
    from tasks.view.evaluation import lines, report_of

    if artifact.kind == "report":
        for word, text in lines(report_of(artifact)):
            yield f"  {word:<10}{text}"


def _choice_in(run: Run) -> Choice | None:
    """Return what was chosen among several seeds of the run; None with one seed, or before the choice."""
    models = _models(run, "train")
    return next((choice for model in models if (choice := _choice_of(model)) is not None), None)


def _choice_of(artifact: Artifact) -> Choice | None:
    from tasks.training.seeds import choice_of

    return choice_of(artifact)


def _ledgers(run: Run) -> dict[str, dict[str, Any]]:
    """Check the ledgers of the run's trainings, also of those of methods of compression, by their names."""
    from tasks.training.ledger import LEDGER, prove

    proofs, store = {}, Store(run.home.store)
    for model in _models(run, "train", "compress"):
        snapshot = store.parents_of(model).get("snapshot")
        if snapshot is not None and (model.path / LEDGER).exists():  # others were not trained
            proofs[model.name] = prove(model.path, snapshot.path)
    return proofs


def _models(run: Run, *stages: str) -> list[Model]:
    """Return the models of these stages of a run that are in the store: `gc` may have dropped others."""
    store = Store(run.home.store)
    rows = [row for stage in stages for row in run.record["stages"].get(stage, []) if row["kind"] == Model.kind]
    models = [Model(row["digest"], store.path(Model.kind, row["digest"]), row["name"]) for row in rows]
    return [model for model in models if (model.path / "manifest.json").exists()]


def _used(run: Run) -> str:
    uses = run.folder / "uses"
    return uses.read_text() if uses.exists() else ""


def _released(run: Run) -> bool:
    return (run.folder / "release.json").exists()
