"""Runs: millrace list, diff, why and board."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from flows import preflight
from flows.launching import flow_of, plan, read_flags
from flows.references import pinned
from flows.reply import AsJson, Reply, replying
from infra import orchestration
from infra.schedules import schedules
from infra.stack import Stack
from tasks.artifacts import KINDS
from tasks.artifacts import STAGES as ALL
from tasks.errors import Failed, Refused
from tasks.runs.differences import PlannedArtifact, nearest
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, find_runs, resolve_run
from tasks.store.files import write
from tasks.store.store import Store
from tasks.view import kilobytes, terminal, when

Row = dict[str, Any]


def list_(
    what: Annotated[
        str | None, typer.Argument(help=f"runs, models (registered), schedules, or a kind: {', '.join(KINDS)}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs, registered models, schedules, or the artifacts in the store, newest last."""
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
        for row in rows:
            reply.say(line(row))
        if not rows:
            reply.say(nothing(home, what))


def nothing(home: Home, what: str | None) -> str:
    """Return the line for an empty list: which home, and of an empty one the first command."""
    of_lists = {None: "artifact", "runs": "run", "models": "registered model", "schedules": "schedule"}
    named = f"no {of_lists.get(what, what)}"
    if any(home.runs.glob("*/run.json")):
        return f"{named} in {home.root}"
    presets = sorted({*Path().glob("*.yaml"), *Path("flows/presets").glob("digits.yaml")} - {Path("prefect.yaml")})
    first = f"millrace run {presets[0]}" if presets else "millrace new DIR, or millrace init YOURDATA"
    return f"{named} in {home.root}; next: {first}"


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
        facts = {name: run.record[name] for name in ("name", "flow", "status", "created")}
        yield {"run_id": run.run_id, **facts, **_result(run)}


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


def scheduled(home: Home) -> Iterator[Row]:
    """Yield the schedules of the home, with the time of the next run where the servers know one."""
    stack = Stack(home.root)
    deployed: list[Row] = []
    if stack.layout is not None and "prefect" in stack.living():
        deployed = orchestration.deployments(stack.layout)
    following = {row["name"]: row["next"] for row in deployed}
    for each in schedules(home.root):
        yield {**asdict(each), "name": each.deployment, "next": following.get(each.deployment)}


def schedule_line(row: Row) -> str:
    """Format a schedule."""
    following = f"next {when(row['next'], row['timezone'])}" if row["next"] else "no run planned"
    return f"{row['name']:<30} {row['cron']} {row['timezone']}  {following}  {row['preset']}"


LISTS: dict[str, tuple[Callable[[Home], Iterator[Row]], Callable[[Row], str]]] = {
    "runs": (runs, run_line),
    "models": (models, model_line),
    "schedules": (scheduled, schedule_line),
}
"""The lists besides those of artifacts: rows, and the line of a row."""


def diff(
    run_a: Annotated[str, typer.Argument(help="A run's id or an unambiguous part of it.")],
    run_b: Annotated[str, typer.Argument(help="Another run.")],
    html: Annotated[Path | None, typer.Option(help="Also write the comparison as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare data, code, config, environment and results of two runs: is the difference more than noise?"""
    with replying("diff", as_json) as reply:
        if html is not None and html.is_dir():
            raise Refused("--html", html, "a folder is there", "name a file, as in --html comparison.html")
        home = find_home().readable()
        with terminal.waiting("comparing the runs"):
            # these import SciPy
            from tasks.view import comparison as comparison_page
            from tasks.view.comparison import Comparison

            comparison = Comparison(resolve_run(home, run_a), resolve_run(home, run_b))
            compared = comparison.as_json()
        reply.add(run_a=comparison.before.run.run_id, run_b=comparison.after.run.run_id, **compared)
        if html is not None:
            write(html, comparison_page.render(comparison).encode())
        for line in comparison.lines():
            reply.say(line)


STAGES = tuple(stage for stage in ALL if stage != "promote")
OF_DATASET = ("convert", "snapshot")
"""Stages that the flow `dataset` runs as well, which does not need a model's task."""
MOST = 20
"""Differences that are printed, at most; `--json` has all."""


def why(
    context: typer.Context,
    stage: Annotated[str, typer.Argument(help=f"One of {', '.join(STAGES)}.")],
    preset: Annotated[Path, typer.Argument(metavar="PRESET.yaml", help="Flags may follow: --dotted.key VALUE.")],
    as_json: AsJson = False,
) -> None:
    """Show whether a stage would run or comes from the store, and which inputs differ from the nearest artifact."""
    with replying("why", as_json) as reply:
        if stage not in STAGES:
            raise Refused(
                "STAGE", stage, f"must be one of {', '.join(STAGES)}", "choose one of them; promote always runs"
            )
        from tasks.config.compose import load
        from tasks.view import terminal

        config = load(preset, read_flags(context.args), terminal.say)
        home = find_home().readable()
        flow = "dataset" if stage in OF_DATASET else flow_of(config)
        preflight.check(flow if config.tune is None else flow_of(config), config, home)
        store = Store(home.store)
        config = pinned(flow, home, config)
        answers = []
        for wanted in plan(store, config, flow)[stage]:
            made = (store.path(wanted.kind, wanted.digest) / "manifest.json").exists()
            match = None if made else nearest(store, wanted)
            differences = [str(difference) for difference in match[1]] if match else []
            near = f"{match[0].kind}/{match[0].digest}" if match else None
            artifact = f"{wanted.kind}/{wanted.digest}"
            row = {"name": wanted.name, "artifact": artifact, "in_store": made, "nearest": near}
            answers.append({**row, "differences": differences})
            say_answer(reply, stage, wanted, made, near, differences)
        reply.add(stage=stage, answers=answers)


def say_answer(
    reply: Reply, stage: str, wanted: PlannedArtifact, made: bool, near: str | None, differences: list[str]
) -> None:
    """Say the answer for an artifact."""
    name = f"{stage} ({wanted.name})" if wanted.name != wanted.kind else stage
    if made:
        reply.say(f"{name} comes from the store: {wanted.kind}/{wanted.digest[:12]}")
        return
    if near is None:
        reply.say(f"{name} would run: the store has no {wanted.kind} yet")
        return
    reply.say(f"{name} would run; the nearest {near[: near.index('/') + 13]} differs in")
    for difference in differences[:MOST]:
        reply.say(f"  {difference}")
    if len(differences) > MOST:
        reply.say(f"  and {len(differences) - MOST} more (--json lists all)")


def board(
    run: Annotated[str, typer.Argument(help="A run's id or an unambiguous part of it.")],
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 6006,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Show the curves, histograms and trace of a run that was trained with train.tensorboard, until Ctrl-C.

    With --json, print the folder with these files, and start nothing.
    """
    with replying("board", as_json) as reply:
        from tasks.training.board import written_in

        found = resolve_run(find_home().readable(), run)
        folder = written_in(found.folder)
        if folder is None:
            rule = "has written nothing for TensorBoard"
            raise Refused("RUN", found.run_id, rule, "train it with --train.tensorboard true")
        if as_json:  # what a program needs to start it in its own way
            reply.add(run=found.run_id, folder=str(folder))
            return
        typer.echo(f"TensorBoard of {found.run_id}: http://{host}:{port}/  (Ctrl-C ends it)")
        if find_spec("xprof") is None:
            typer.echo("  The trace of its steps needs one more package: pip install 'millrace[trace]'")
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port)]
        process = subprocess.Popen([*command, "--host", host], stderr=subprocess.PIPE, text=True)
        try:
            _, said = process.communicate()
        finally:
            process.terminate()
        last = (said.strip().splitlines() or ["no message"])[-1]
        raise Failed("board", last, "TensorBoard must run", "choose another --port, or see its message")
