"""A command line that runs a flow: its flow, preset and flags, the run, and its summary; and a flow's preview."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from flows import preflight
from flows.references import pinned
from flows.reply import Reply
from flows.session import choose_servers, has_form, import_prefect, prefect_server, start_server_early, user_error
from tasks.errors import Refused
from tasks.runs.differences import PlannedArtifact
from tasks.runs.home import Home
from tasks.store.store import Store

if TYPE_CHECKING:
    from infra.embedded import EmbeddedServer
    from tasks.config.compose import Config
    from tasks.processes.workbench import Work

Made = TypeVar("Made")

FLOWS = ("pipeline", "dataset", "training", "release", "tuning")


def launch(
    reply: Reply, name: str, config: Config, home: Home, server: EmbeddedServer | None, *, new: bool, title: str
) -> None:
    """Run a flow; fill the reply from its run, and print its summary."""
    from tasks.runner.attempt import import_tracking, start_fork_server
    from tasks.view import terminal

    preflight.check(name, config, home)
    config = pinned(name, home, config)
    home.make()
    terminal.say(title, style="bold")
    address = os.environ.get("PREFECT_API_URL")
    terminal.wait(f"connecting to Prefect at {address}" if address else "starting Prefect")

    def imports() -> None:
        computes = start_fork_server(home, name, config)
        before = has_form.set(False)
        import_prefect(name)
        has_form.reset(before)
        if not computes:
            Thread(target=import_tracking, args=(home,), name="imports").start()

    with prefect_server(home, server, imports):
        from flows.running import RunRequest, run_request

        flow = flow_named(name)
        request = RunRequest(new)
        token = run_request.set(request)
        try:
            flow(config)
        except Exception as error:
            if (cause := user_error(error, home)) is error:
                raise
            raise cause from error
        finally:
            terminal.settle()
            run_request.reset(token)
            if request.run is not None:
                summarise(reply, request.run)


def connect(home: Home, server: EmbeddedServer | None) -> EmbeddedServer | None:
    """Choose the servers, and return the Prefect server that is started early, if one is."""
    choose_servers(home)
    return server or start_server_early(home)


def title(name: str, preset: Path | None) -> str:
    """Return the first line of a run."""
    return f"millrace {name}{f' · {preset}' if preset else ''}"


def computed(home: Home, stage: str, threads: int, call: Work[Made], limited_by: str) -> Made:
    """Return the result of a call in a compute process, which has ten minutes.

    Its log is in a temporary folder where the home cannot be written.

    Args:
        limited_by: what the user has given it for, which the error of a late one names.
    """
    from tasks.processes.gang import ProcessLauncher
    from tasks.processes.workbench import Limits

    with TemporaryDirectory(prefix=f"millrace-{stage}-") as temporary:
        logs = home.root / "logs" if os.access(home.root, os.W_OK) else Path(temporary)
        with ProcessLauncher(logs, threads).gang(stage) as gang:
            journal, limits = Path(temporary) / f"{stage}.jsonl", Limits(limited_by, 600)
            return gang.call(call, None, journal, limits=limits, on_report=lambda *report: None)


def parse(words: list[str]) -> tuple[str, Path | None, list[tuple[str, str]]]:
    """Return flow, preset and flags of a command line."""
    name, preset, rest = "pipeline", None, list(words)
    if rest and rest[0] in FLOWS:
        name = rest.pop(0)
    if rest and not rest[0].startswith("--"):
        word = rest.pop(0)
        preset = Path(word)
        if preset.suffix not in (".yaml", ".yml"):
            raise Refused(
                word or '""',
                "neither a flow nor a preset",
                f"FLOW is one of {', '.join(FLOWS)}",
                "PRESET ends in .yaml",
            )
    if preset is None and not rest:
        remedy = "name a PRESET.yaml; millrace init YOURDATA writes one, millrace new DIR a project with one"
        raise Refused("PRESET", "none given", "a run has a preset, or all of its config as flags", remedy)
    return name, preset, read_flags(rest)


def summarise(reply: Reply, run: Any) -> None:
    """Fill the reply from a run, and print its summary."""
    from tasks.compression.judgement import read
    from tasks.view.summary import lines, metrics_of

    record = run.record
    reply.exit_code, reply.status = record["exit_code"] or 0, record["status"]
    reply.add(
        run_id=run.run_id,
        attempt=run.attempt,
        mlflow_run_id=record["mlflow_run_id"],
        prefect_flow_run_id=record["attempts"][-1]["prefect_flow_run_id"],
        artifacts=record["stages"],
        metrics=metrics_of(run),
    )
    if chosen := read(run.folder).chosen:
        reply.add(chosen=chosen)
    if not reply.as_json and record["status"] in ("completed", "rejected", "awaiting_approval"):
        for line in lines(run, reply.seconds, shutil.get_terminal_size((200, 24)).columns):
            typer.echo(line)


def flow_named(name: str) -> Any:
    """Return one of `FLOWS`; it is imported with Prefect."""
    return getattr(importlib.import_module(f"flows.{name}"), name)


def flow_of(config: Config) -> str:
    """Return the flow that makes a release of a config from raw data."""
    return "pipeline" if config.tune is None else "tuning"


def plan(store: Store, config: Config, name: str = "pipeline") -> dict[str, list[PlannedArtifact]]:
    """Return the artifacts of each stage of a flow: runs it as a preview, which computes no stage."""
    from tasks.runner.stages import previewing

    with previewing(store, config) as preview:
        flow_named(name).fn.__wrapped__(config)
    return preview.planned


SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Typer's settings for a command with dotted flags."""


def read_flags(words: list[str]) -> list[tuple[str, str]]:
    """Return key and value of each dotted flag: `--a.b VALUE` or `--a.b=VALUE`."""
    rest = list(words)
    flags: list[tuple[str, str]] = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise Refused(
                word,
                "unexpected argument",
                "FLOW and PRESET are followed by flags: --dotted.key VALUE",
                "quote a value with spaces",
            )
        dotted, equals, value = word[2:].partition("=")
        if not equals:
            if not rest or (rest[0].startswith("--") and not rest[0][2:3].isdigit()):
                raise Refused(word, "no value", "a flag has a value", f"use {word} VALUE")
            value = rest.pop(0)
        if dotted in dict(flags):
            rule = "a flag may be used once"
            raise Refused(f"--{dotted}", f"{dict(flags)[dotted]} and {value}", rule, "remove one")
        flags.append((dotted, value))
    return flags
