"""millrace run and worker: run a flow, or take part in a training on several hosts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from flows.launching import connect, launch, parse, title
from flows.reply import AsJson, Reply, replying
from tasks.environment import process
from tasks.errors import Failed
from tasks.runs.home import Home, find_home

if TYPE_CHECKING:
    from tasks.config.compose import Config
    from tasks.processes.config import Place


def run(
    context: typer.Context,
    new: bool = typer.Option(False, "--new", help="Start a new run, even if one of the same config is unfinished."),
    as_json: AsJson = False,
) -> None:
    """Run a flow: [bold]millrace run [FLOW] [PRESET.yaml] [--dotted.key VALUE ...] [--new] [--json][/]

    FLOW is pipeline (default), dataset, training, release or tuning. Every key of the config is a flag:
    --train.steps 200 --records.splits '{train: 0.8, validation: 0.1, test: 0.1}'. An unfinished run of the same
    flow and config is continued.
    """
    with replying("run", as_json) as reply:
        name, preset, flags = parse(context.args)
        process.pause()
        home = find_home().readable()
        server = connect(home, context.obj)
        from tasks.config.compose import load
        from tasks.view import terminal

        config = load(preset, flags, terminal.say)
        launch(reply, name, config, home, server, new=new, title=title(name, preset))


def worker(
    context: typer.Context,
    new: bool = typer.Option(False, "--new", help="Start a new run, even if one of the same config is unfinished."),
    as_json: AsJson = False,
) -> None:
    """Take part in a training on several hosts: [bold]millrace worker [FLOW] PRESET.yaml [--dotted.key VALUE ...][/]

    Run it on every host, with the same preset. The hosts are those of train.cluster.hosts, or of the environment:
    TF_CONFIG, Slurm, or a Kubernetes Indexed Job. The first host runs the flow, and its home has the store. The others
    compute for it, and read the snapshot from a shared path or from a store of their own.
    """
    with replying("worker", as_json) as reply:
        name, preset, flags = parse(context.args)
        process.pause()
        home = find_home().readable()
        from tasks.config.compose import load
        from tasks.processes.config import find_place
        from tasks.view import terminal

        config = load(preset, flags, terminal.say)
        train, strategy = config.train, config.train.strategy
        place = find_place(train.cluster, strategy.kind, strategy.processes, os.environ)
        train = train.model_copy(update={"cluster": place.cluster})
        config = config.model_copy(update={"train": train})
        if place.rank == 0:
            server = connect(home, context.obj)
            launch(reply, name, config, home, server, new=new, title=f"{title(name, preset)} · rank 0 by {place.by}")
            return
        terminal.say(f"millrace worker · {preset} · rank {place.rank} by {place.by}", style="bold")
        serve(reply, place, config, home)


def serve(reply: Reply, place: Place, config: Config, home: Home) -> None:
    """Serve the host that runs the flow until its run has ended; fail or stop as the run does."""
    from tasks.runner import hosts
    from tasks.runner.signals import Signals
    from tasks.view import terminal

    home.make()
    signals = Signals()
    with signals.working(), signals.handled():  # a compute process saves first
        end = hosts.serve(place, config, home, lambda: signals.number, lambda line: terminal.say(f"  … {line}"))
    terminal.say(f"  … the run on {place.cluster.chief} has ended with exit code {end.exit_code}")
    reply.add(rank=place.rank, chief=place.cluster.chief)
    if end.exit_code in (1, 2) and end.error is not None:
        raise Failed(**end.error)
    if end.exit_code in (75, 130):
        reply.exit_code, reply.status = end.exit_code, "stopped"
