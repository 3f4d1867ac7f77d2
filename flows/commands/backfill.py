"""millrace backfill: run a deployment once for each past span of time."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from flows.launching import read_flags
from flows.reply import AsJson, replying
from infra import orchestration
from infra.schedules import STRATEGIES
from infra.stack import Stack
from tasks.errors import Failed, Refused
from tasks.runs.home import find_home

MOST = 1000
"""Spans of a backfill at most."""


def backfill(
    context: typer.Context,
    deployment: Annotated[str, typer.Argument(help="FLOW/PRESET, as `millrace status` lists it.")],
    since: Annotated[str, typer.Option(help="Start of the first span: 2026-11-01 or 2026-11-01T06:00.")],
    until: Annotated[str, typer.Option(help="End of the last span, not included.")],
    every: Annotated[str, typer.Option(help="Length of a span: 12h, 1d, 7d.")] = "1d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a deployment once for each past span of time.

    [bold]millrace backfill FLOW/PRESET --since DAY --until DAY --dotted.key VALUE ...[/]

    Values contain `{begin}` or `{end}`, the ends of a span, in any format of strftime:
    --source.glob '{begin:%Y/%m/%d}/*.jpg'. The runs are queued at once, oldest first. A span that was queued before
    with the same values is not queued again.
    """
    with replying("backfill", as_json) as reply:
        flags = read_flags(context.args)
        if not any("{begin" in value or "{end" in value for _, value in flags):
            rule = "a value must differ by span: use {begin} or {end}"
            raise Refused("millrace backfill", "no such value", rule, "--source.glob '{begin:%Y/%m/%d}/*'")
        stack = Stack(find_home().root)
        layout = stack.layout
        if layout is None or "prefect" not in stack.living():
            raise Failed("Prefect", "its server is down", "a backfill is queued there", "millrace up")
        deployed = orchestration.deployment(layout, deployment)
        if deployed is None:
            names = ", ".join(row["name"] for row in orchestration.deployments(layout))
            raise Refused(deployment, "no such deployment", f"there are {names}", "choose one of them")
        if "config" not in deployed["parameters"]:
            rule = "a backfill changes the config of a run, and this flow has none"
            raise Refused(deployment, "no parameter config", rule, "choose a deployment of a preset")
        if (deployed["concurrency_options"] or {}).get("collision_strategy") == STRATEGIES["skip"]:
            rule = "of its runs that wait, Prefect starts one and cancels the others"
            remedy = "choose another deployment, or make the schedule again without --missed skip"
            raise Refused(deployment, "scheduled with --missed skip", rule, remedy)
        configs = [(span, filled(deployed["parameters"], flags, span)) for span in spans(since, until, every)]
        rows = []
        for span, config in configs:
            name = f"{deployment.replace('/', '-')}-{span_name(span[0])}"
            if not dry_run:
                orchestration.queue(layout, deployed["id"], name, {"config": config}, tags=["backfill"])
            rows.append({"name": name, "begin": span[0].isoformat(), "end": span[1].isoformat()})
        reply.add(runs=rows, dry_run=dry_run)
        for row in rows:
            reply.say(f"{'would be queued' if dry_run else 'queued'}  {row['name']}  up to {row['end']}")


Span = tuple[datetime, datetime]


def spans(since: str, until: str, every: str) -> list[Span]:
    """Return the whole spans between two times, oldest first."""
    begin, end, length = moment("--since", since), moment("--until", until), length_of(every)
    if end > datetime.now(UTC):
        raise Refused("--until", until, "a backfill is of the past", "choose an earlier one")
    count = (end - begin) // length
    if not 1 <= count <= MOST or begin + count * length != end:
        rule = f"it must be 1 to {MOST} whole spans of {every} after {since}"
        raise Refused("--until", until, rule, "change one of --since, --until, --every")
    return [(begin + number * length, begin + (number + 1) * length) for number in range(count)]


def moment(field: str, given: str) -> datetime:
    """Return a time from ISO 8601 text, in UTC where it has no offset."""
    try:
        parsed = datetime.fromisoformat(given)
    except ValueError:
        raise Refused(field, given, "must be a date or a time in ISO 8601", "for example 2026-11-01") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def length_of(every: str) -> timedelta:
    """Return the length of a span from text (`12h`, `7d`)."""
    from tasks.records.config import UNITS

    number, unit = every[:-1], every[-1:]
    if unit not in UNITS or not number.isdecimal() or int(number) == 0:
        raise Refused("--every", every, "must be a number and m, h or d", "for example 1d")
    return timedelta(**{UNITS[unit]: int(number)})


def filled(parameters: dict[str, Any], flags: list[tuple[str, str]], span: Span) -> dict[str, Any]:
    """Return the deployment's config with the flags of a span applied, validated."""
    from tasks.config.compose import Config, validate
    from tasks.config.flags import apply_flags

    given: list[tuple[str, str]] = []
    for dotted, text in flags:
        try:
            template = text.replace("{begin}", "{begin:%Y-%m-%d}").replace("{end}", "{end:%Y-%m-%d}")
            given.append((dotted, template.format(begin=span[0], end=span[1])))
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            rule = "braces must contain begin or end, with a format of strftime"
            raise Refused(f"--{dotted}", text, rule, f"correct it ({error})") from None
    values = deepcopy(parameters["config"])
    apply_flags(values, given, Config, lambda line: None)
    config: dict[str, Any] = validate(values).model_dump(mode="json")
    return config


def span_name(begin: datetime) -> str:
    """Return the name of a span: its date, and its time unless that is midnight."""
    return f"{begin:%Y-%m-%d}" if begin.time() == datetime.min.time() else f"{begin:%Y-%m-%dT%H:%M}"
