"""millrace drill: does this pipeline lose nothing on this machine?"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows import preflight
from flows.launching import parse
from flows.reply import AsJson, replying
from tasks.errors import Refused
from tasks.runs.home import find_home
from tasks.store.files import pretty, write
from tasks.view import terminal

if TYPE_CHECKING:
    from tasks.config.compose import Config

PAGE, JSON = "page.html", "verdict.json"


def drill(
    context: typer.Context,
    kills: Annotated[int, typer.Option("--kills", min=1, max=1000, help="Number of faults.")] = 20,
    minutes: Annotated[float, typer.Option("--minutes", min=1, help="Minutes after which no new fault begins.")] = 30,
    draw: Annotated[int, typer.Option("--draw", min=0, help="Seed of the faults and of their moments.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show that faults lose nothing: [bold]millrace drill [FLOW] PRESET.yaml [--dotted.key VALUE ...][/]

    The preset is run once without interruption, then with faults. Processes are killed, frozen and stopped, the disk is
    full, a byte is flipped, and MLflow and Prefect are gone for a while. Each time the same command continues the run.
    In the end every file is compared with that of the uninterrupted run, the ledger is checked, and the points in
    MLflow are counted. Only processes and files of the drill's own home are struck. Exit code 1 if something was lost.
    """
    with replying("drill", as_json) as reply:
        flow, preset, flags = parse(context.args)
        if preset is None:
            raise Refused("PRESET", "nothing", "a drill is of a preset", "run millrace drill PRESET.yaml")
        from tasks.config.compose import load

        config = load(preset, flags, terminal.say)
        home = find_home().make()
        check(config)
        preflight.check(flow, config, home)
        from flows.drill.drill import Drill
        from tasks.view import run_page

        folder = home.root / "drills" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        terminal.say(f"millrace drill · {preset}", style="bold")
        strategy = config.train.strategy
        made = Drill(
            folder, ["run", *context.args], kills, minutes, draw, config.train.checkpoint.every, strategy.processes, say
        ).run()
        shown = {**made.as_json(), "preset": str(preset), "draw": draw}
        write(folder / JSON, pretty(shown))
        write(folder / PAGE, run_page.page("drill.html.j2", **shown).encode())
        if made.holds:  # else they are evidence
            shutil.rmtree(folder / "unbroken", ignore_errors=True)
        reply.add(folder=str(folder), page=str(folder / PAGE), **made.as_json())
        reply.exit_code = 0 if made.holds else 1
        reply.say(made.line())
        reply.say(f"page     {folder / PAGE}")


def check(config: Config) -> None:
    """Raise `Refused` where a drill would reach beyond its own home."""
    if config.train.cluster is not None:
        rule, remedy = "a drill strikes the processes of one machine", "leave it out"
        raise Refused("train.cluster", "given", rule, remedy)
    if not config.train.strategy.as_tested.exact:
        rule, remedy = "a drill compares bytes, and its result is not repeatable", "choose another strategy"
        raise Refused("train.strategy.kind", config.train.strategy.kind, rule, remedy)


def say(line: str) -> None:
    """Print a line of the drill."""
    terminal.say(f"  … {line}")
