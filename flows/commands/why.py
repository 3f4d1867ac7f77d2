"""millrace why: would a stage run, or is its artifact in the store?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows import preflight
from flows.champions import pinned
from flows.flags import read_flags
from flows.plans import flow_of, plan
from flows.reply import AsJson, replying
from tasks.artifacts import STAGES as ALL
from tasks.errors import Refused
from tasks.runs.differences import PlannedArtifact, nearest
from tasks.runs.home import find_home
from tasks.store.store import Store

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
            if not as_json:
                print_answer(stage, wanted, made, near, differences)
        reply.add(stage=stage, answers=answers)


def print_answer(stage: str, wanted: PlannedArtifact, made: bool, near: str | None, differences: list[str]) -> None:
    """Print the answer for an artifact."""
    name = f"{stage} ({wanted.name})" if wanted.name != wanted.kind else stage
    if made:
        typer.echo(f"{name} comes from the store: {wanted.kind}/{wanted.digest[:12]}")
        return
    if near is None:
        typer.echo(f"{name} would run: the store has no {wanted.kind} yet")
        return
    typer.echo(f"{name} would run; the nearest {near[: near.index('/') + 13]} differs in")
    for difference in differences[:MOST]:
        typer.echo(f"  {difference}")
    if len(differences) > MOST:
        typer.echo(f"  and {len(differences) - MOST} more (--json lists all)")
