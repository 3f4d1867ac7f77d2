"""millrace list: list artifacts, runs or registered models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from flows.reply import AsJson, replying
from tasks.artifacts import KINDS
from tasks.errors import Failed, Refused
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, find_runs
from tasks.store.store import Store
from tasks.view import kilobytes, when

Row = dict[str, Any]


def list_(
    what: Annotated[
        str | None, typer.Argument(help=f"runs, models (registered), or a kind: {', '.join(KINDS)}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs, registered models, or the artifacts in the store, newest last."""
    with replying("list", as_json) as reply:
        if what is not None and what not in (*LISTS, *KINDS):
            rule = f"it is one of {', '.join((*LISTS, *KINDS))}"
            raise Refused("WHAT", what, rule, "choose one of them")
        home = find_home().readable()
        if what in LISTS:
            rows_of, line = LISTS[what]
            rows = list(rows_of(home))
            reply.add(**{what: rows})
        else:
            rows, line = list(artifacts(home, what)), artifact_line
            reply.add(artifacts=rows)
        if not as_json:
            for row in rows:
                typer.echo(line(row))
            if not rows:
                typer.echo(nothing(home, what))


def nothing(home: Home, what: str | None) -> str:
    """Return the line for an empty list: which home, and of an empty one the first command."""
    named = {None: "no artifact", "runs": "no run", "models": "no registered model"}.get(what, f"no {what}")
    used = any(home.runs.glob("*/run.json"))
    return f"{named} in {home.root}" + ("" if used else "; next: millrace run pipeline flows/presets/digits.yaml")


def artifacts(home: Home, kind: str | None) -> Iterator[Row]:
    """Yield the artifacts of a kind, or of all kinds."""
    from tasks.view.words import describe

    for artifact in Store(home.store).artifacts(kind):
        manifest = artifact.manifest
        yield {
            "kind": artifact.kind,
            "digest": artifact.digest,
            "bytes": sum(file["bytes"] for file in manifest["files"]),
            "path": artifact.path,
            "created": manifest["created"],
            "run": manifest["produced_by"]["run"],
            "what": describe(artifact),
        }


def artifact_line(row: Row) -> str:
    """Format an artifact."""
    size = kilobytes(row["bytes"])
    return f"{row['kind']:<9}{row['digest'][:12]}  {size:>9}  {when(row['created'])}  {row['what']}"


def runs(home: Home) -> Iterator[Row]:
    """Yield the runs: with the score of the report, and the alias that its version got."""
    for run in find_runs(home):
        record = run.record
        yield {
            "run_id": run.run_id,
            "name": record["name"],
            "flow": record["flow"],
            "status": record["status"],
            "created": record["created"],
            **_result(run),
        }


def _result(run: Run) -> Row:
    """Return the score and the alias of a run; of a failed one the error."""
    from tasks.view.words import describe

    result: Row = {"score": None, "alias": None, "error": run.record["error"]}
    for row in run.record["stages"].get("evaluate", []):
        path = run.store.path(row["kind"], row["digest"])
        if (path / "manifest.json").exists():
            result["score"] = describe(KINDS[row["kind"]](row["digest"], path, row["name"]))
    release = run.folder / "release.json"
    if run.record["stages"].get("promote") and release.exists():
        result["alias"] = json.loads(release.read_bytes())["alias"]
    return result


def run_line(row: Row) -> str:
    """Format a run."""
    alias = f"became {row['alias']}" if row["alias"] else None
    result = [alias, row["score"], str(Failed(**row["error"])) if row["error"] else None]
    status = row["status"].replace("_", " ")
    return f"{row['run_id']}  {row['flow']:<8} {status:<17} {when(row['created'])}  {', '.join(filter(None, result))}"


def models(home: Home) -> Iterator[Row]:
    """Yield the versions of the registered models, with aliases and scores."""
    from flows.references import connected
    from flows.session import use_stack

    use_stack(home)  # it may have the registry
    if not home.has_registry():
        return

    with connected(home) as client:
        from tasks.registry import registry

        for name in registry.models(client):
            aliases = registry.aliases(client, name)
            for version in registry.versions(client, name):
                yield {
                    "name": name,
                    "version": version.version,
                    "aliases": sorted(aliases.get(version.version, [])),
                    "metric": version.metric,
                    "score": version.score if version.score == version.score else None,
                    "approval": version.approval,
                    "export": version.export,
                    "run": version.tags.get("millrace.run"),
                }


def model_line(row: Row) -> str:
    """Format a version of a registered model."""
    metric = row["metric"].replace("/", " ").replace("_", " ")
    score = "no score" if row["score"] is None else f"{metric} {row['score']:.4f}"
    approval = f", approval {row['approval']}" if row["approval"] else ""
    named, aliases = f"{row['name']}@{row['version']}", ", ".join(row["aliases"]) or "-"
    return f"{named:<16} {aliases:<10} {score}{approval}  export/{row['export'][:12]}  {row['run']}"


LISTS: dict[str, tuple[Callable[[Home], Iterator[Row]], Callable[[Row], str]]] = {
    "runs": (runs, run_line),
    "models": (models, model_line),
}
"""The lists besides those of artifacts: rows, and the line of a row."""
