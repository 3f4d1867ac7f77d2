"""millrace schedule: a preset at given times, kept in the home instead of in prefect.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

import typer

from flows import preflight
from flows.launching import FLOWS, flow_of, read_flags
from flows.reply import AsJson, Reply, replying
from infra import orchestration
from infra.schedules import Missed, Schedule, schedules, write
from infra.services import POOL, Layout
from infra.stack import Stack, exclusive
from tasks.errors import Refused
from tasks.runs.home import Home, find_home
from tasks.runs.provenance import git_commit
from tasks.view import terminal, when

YEAR = timedelta(days=366)
STEP = timedelta(minutes=15)
"""Clocks are changed at the multiples of this."""


def schedule(
    context: typer.Context,
    preset: Annotated[
        Path,
        typer.Argument(
            metavar="PRESET.yaml", help="Flags may follow: --dotted.key VALUE. With --remove, also FLOW/NAME."
        ),
    ],
    cron: Annotated[
        str | None, typer.Option(help='Minute, hour, day of the month, month, day of the week: "0 4 * * *".')
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of these times: Europe/Zurich.")] = "UTC",
    flow: Annotated[
        str | None, typer.Option(help=f"{', '.join(FLOWS)}; default: pipeline, or tuning if the preset has tune.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", help="Name of the deployment; default: the name in the config and -scheduled.")
    ] = None,
    missed: Annotated[
        Missed | None,
        typer.Option(
            help="Times that come while an earlier run works or no worker is running: run each of them later (run,"
            " default), or only one (skip)."
        ),
    ] = None,
    pool: Annotated[str, typer.Option(help="Work pool; default: the pool of millrace up.")] = POOL,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the schedule instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a preset at given times, with the servers and the worker of [bold]millrace up[/].

    The schedule is kept in the home: `up` installs it, `prefect deploy --all` leaves it as it is, and
    [bold]millrace list schedules[/] shows it. A second call with the same flow and name replaces it.
    """
    with replying("schedule", as_json) as reply:
        flags, home = dict(read_flags(context.args)), find_home().readable()
        known = schedules(home.root)
        if remove:
            given = {"--cron": cron, "--missed": missed, "--as": name, **{f"--{key}": key for key in flags}}
            if unused := next((option for option, value in given.items() if value is not None), None):
                raise Refused(unused, "given", "--remove needs the preset or FLOW/NAME alone", "leave it out")
            changed = removed(known, preset, flow)
            with exclusive(home.make().root):
                write(home.root, [each for each in known if each not in changed])
                _install(_running(home))
            reply.add(removed=[each.deployment for each in changed])
            for each in changed:
                reply.say(f"removed  {each.deployment} ({each.text})")
            return
        wanted = _wanted(preset, flags, home, cron, timezone, flow, name, missed, pool)
        replaced = next((each for each in known if each.deployment == wanted.deployment), None)
        with exclusive(home.make().root):
            if (layout := _running(home)) is not None:
                orchestration.check_pools(layout, [wanted])
            write(home.root, [*(each for each in known if each != replaced), wanted])
            _install(layout)
        row = None if layout is None else orchestration.with_plans(layout, wanted.deployment)[0]
        _report(reply, wanted, replaced, row)


def removed(known: list[Schedule], which: Path, flow: str | None) -> list[Schedule]:
    """Return the schedules of a preset, which need not be there any more, or the one of a name; raises `Refused`."""
    found = [each for each in known if each.deployment == str(which) or each.preset == str(which.resolve())]
    if not (chosen := [each for each in found if flow in (None, each.flow)]):
        there = ", ".join(each.deployment for each in known) or "none"
        raise Refused(str(which), "no schedule of it", f"there are: {there}", "see millrace list schedules")
    return chosen


def _wanted(
    preset: Path,
    flags: dict[str, str],
    home: Home,
    cron: str | None,
    timezone: str,
    flow: str | None,
    name: str | None,
    missed: Missed | None,
    pool: str = POOL,
) -> Schedule:
    """Return the schedule of a command line; raises `Refused` for one that could not run."""
    from tasks.config.compose import load

    config = load(preset, list(flags.items()), lambda line: None)
    flow = flow or flow_of(config)
    if flow not in FLOWS:
        raise Refused("--flow", flow, f"it is one of {', '.join(FLOWS)}", "choose one of them")
    if cron is None:
        raise Refused("--cron", "not given", "a schedule has times", 'add --cron "0 4 * * *": daily at 4')
    _check_times(cron, timezone)
    preflight.check(flow, config, home)
    name = name or f"{config.name.replace('_', '-')}-scheduled"
    return Schedule(flow, name, str(preset.resolve()), flags, cron, timezone, missed or "run", pool)


def _check_times(cron: str, timezone: str) -> None:
    """Raise `Refused` for times that Prefect does not take."""
    if timezone not in available_timezones():
        raise Refused("--timezone", timezone, "it is the name of a zone", "for example Europe/Zurich, or UTC")
    from prefect.client.schemas.schedules import CronSchedule

    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValueError:
        rule = "it has five fields: minute, hour, day of the month, month, day of the week"
        raise Refused("--cron", cron, rule, 'for example "0 4 * * *": daily at 4') from None


def _running(home: Home) -> Layout | None:
    """Return the layout of the home's stack; None where its server does not run."""
    stack = Stack(home.root)
    return stack.layout if "prefect" in stack.living() else None


def _install(layout: Layout | None) -> None:
    """Install the schedules of the home where its server runs."""
    if layout is not None:
        orchestration.install(layout, git_commit(), terminal.say)


def _report(reply: Reply, wanted: Schedule, replaced: Schedule | None, row: dict[str, Any] | None) -> None:
    """Say what was done, when it runs next, and on which day it runs at another hour."""
    reply.add(name=wanted.deployment, schedule=wanted.text, next=row["next"] if row else None)
    reply.say(f"schedule {wanted.deployment} at {wanted.text}" + (f", was {replaced.text}" if replaced else ""))
    for skipped in skipped_times(wanted.cron, wanted.timezone, datetime.now(UTC)):
        reply.say(
            f"note     on {skipped:%Y-%m-%d} the clocks of {wanted.timezone} skip {skipped:%H:%M}, and it runs earlier"
            " that day; choose another hour where that matters"
        )
    if row is None:
        reply.say("next     no server is running; millrace up starts one, and installs the schedule")
    elif row["next"]:
        reply.say(f"next     {when(row['next'], row['timezone'])}")
    else:
        reply.say("next     not planned: it was switched off in Prefect; turn it on on the deployment's page")


def skipped_times(cron: str, timezone: str, now: datetime) -> Iterator[datetime]:
    """Yield the times of a schedule in the next year that the clocks of its zone skip, without a zone.

    A schedule of every hour loses nothing.
    """
    from cronsim import CronSim, CronSimError

    if cron.split()[1:2] == ["*"]:
        return
    zone = ZoneInfo(timezone)
    begin = now.replace(minute=0, second=0, microsecond=0)
    for number in range(YEAR // STEP):
        first, end = ((begin + (number + step) * STEP).astimezone(zone).replace(tzinfo=None) for step in (0, 1))
        if (first := first + STEP) < end:  # on the clock there is no time from `first` to `end`
            try:
                due = next(CronSim(cron, first - timedelta(minutes=1)))
            except CronSimError:  # Prefect takes a few expressions more
                return
            if due < end:
                yield due
