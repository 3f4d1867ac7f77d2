"""millrace run: a flow over a preset, here and now."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import shutil
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from flows.commands.reply import AsJson, Reply, replying
from infra.services import QUIET
from tasks.config.secrets import address_in
from tasks.errors import Failed, Refused, UserError
from tasks.store.home import Home, find_home

FLOWS = ("pipeline", "dataset", "training", "release")
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}

TRACKERS = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
"""By what MLflow's store may be reached; a folder, its old store, it refuses itself."""

ENVIRONMENT = {
    # quiet, offline, and patient with the embedded server's first start (facts: the default of 20 s is too short)
    **QUIET,
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}


def run(
    context: typer.Context, new: bool = typer.Option(False, "--new", help="Begin a new run."), as_json: AsJson = False
) -> None:
    """Run a flow: [bold]millrace run [FLOW] [PRESET.yaml] [--dotted.key VALUE ...] [--new] [--json][/]

    FLOW is pipeline (default), dataset, training or release. Every key of the config is a flag:
    --train.steps 200 --records.splits '{train: 0.8, validation: 0.1, test: 0.1}'. An unfinished run of the same
    flow and config is continued.
    """
    with replying("run", as_json) as reply:
        name, preset, flags = parse(context.args)
        from tasks import console
        from tasks.config.load import load, validate

        config = load(preset, flags, console.say) if preset else validate(from_flags(flags))
        home = find_home().readable()
        check_release(name, config.release.model, home)
        check_source(name, config)
        check_addresses(home)
        home.make()
        use_stack(home)
        prepare(home)
        console.say(f"millrace {name}{f' · {preset}' if preset else ''}", style="bold")
        server = os.environ.get("PREFECT_API_URL")
        console.wait(f"asking Prefect at {server}" if server else "starting Prefect, about 10 seconds")
        reach_prefect(home)
        from flows.running import Ticket, ticket

        flow = getattr(importlib.import_module(f"flows.{name}"), name)
        mine = Ticket(new)
        token = ticket.set(mine)
        try:
            flow(config)
        except Exception as error:
            if (found := behind(error, home)) is error:
                raise
            raise found from error
        finally:
            console.settle()
            ticket.reset(token)
            if mine.run is not None:
                summarise(reply, mine.run, as_json)


def parse(words: list[str]) -> tuple[str, Path | None, list[tuple[str, str]]]:
    """FLOW, PRESET and the flags."""
    name, preset, rest = "pipeline", None, list(words)
    if rest and rest[0] in FLOWS:
        name = rest.pop(0)
    if rest and not rest[0].startswith("--"):
        preset = Path(rest.pop(0))
        if preset.suffix not in (".yaml", ".yml"):
            raise Refused(
                str(preset) if preset.name else '""',
                "neither a flow nor a preset",
                f"FLOW is one of {', '.join(FLOWS)}",
                "PRESET ends in .yaml",
            )
    return name, preset, read_flags(rest)


def read_flags(words: list[str]) -> list[tuple[str, str]]:
    """The dotted flags: `--a.b VALUE` or `--a.b=VALUE`."""
    rest = list(words)
    flags: list[tuple[str, str]] = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise Refused(
                word,
                "a loose word",
                "after FLOW and PRESET come flags: --dotted.key VALUE",
                "quote a value with spaces",
            )
        dotted, equals, value = word[2:].partition("=")
        if not equals:
            if not rest or (rest[0].startswith("--") and not rest[0][2:3].isdigit()):
                raise Refused(word, "no value", "a flag is --dotted.key VALUE", f"{word} VALUE")
            value = rest.pop(0)
        if dotted in dict(flags):
            rule = "a flag stands once: of two the first would be ignored"
            raise Refused(f"--{dotted}", f"{dict(flags)[dotted]} and {value}", rule, "leave one out")
        flags.append((dotted, value))
    return flags


def check_release(name: str, model: str | None, home: Home) -> None:
    """Only the flow `release` takes a model, and it needs one that is in the store."""
    from tasks.store.store import Store

    if name != "release" and model is not None:
        raise Refused("release.model", model, f"is ignored by the flow {name}", "leave it out")
    if name == "release":
        if model is None:
            rule = "the flow release works on a model in the store"
            raise Refused("release.model", "nothing", rule, "give it by --release.model; see `millrace list model`")
        Store(home.store).resolve(model, "model")


def check_source(name: str, config: Any) -> None:
    """What stat and listing alone can tell of the source and of what is to be learnt, before anything is written."""
    from tasks.data import needs
    from tasks.data.sources import check, check_age

    if name == "release" or (found := check(config.source)) is None:
        return
    check_age(config.source, config.records.oldest())
    features = {name: feature.as_json() for name, feature in found.items()}
    needs.check_snapshot(features, config.snapshot.kind)
    if name != "dataset":
        needs.check_task(features, config.model.task, config.train)


def check_addresses(home: Home) -> None:
    """What the environment says of servers; MLflow itself would notice late."""
    address_in("PREFECT_API_URL")
    scheme = urlsplit(home.mlflow_uri).scheme
    if scheme.partition("+")[0] not in TRACKERS:
        rule = f"MLflow's address begins with one of {', '.join(f'{known}://' for known in TRACKERS)}"
        raise Refused("MLFLOW_TRACKING_URI", f"{scheme}://…" if scheme else "a path", rule, "correct it, or unset it")


def from_flags(flags: list[tuple[str, str]]) -> dict[str, Any]:
    """A config without a preset."""
    from tasks.config.flags import apply_flags

    values: dict[str, Any] = {}
    apply_flags(values, flags, lambda line: None)
    return values


def prepare(home: Home) -> None:
    """Prefect reads its environment when it is imported: say where it lives before that."""
    os.environ.setdefault("PREFECT_HOME", str(home.prefect))
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.raiseExceptions = False  # a log line that Prefect's server does not take is no news for the person


def use_stack(home: Home) -> None:
    """The servers of `millrace up`, where they are up and the environment names no others."""
    from infra.services import client_environment
    from infra.stack import Stack

    stack = Stack(home.root)
    living, layout = stack.living(), stack.layout
    if layout is None:
        return
    if layout.database is not None and not {"prefect", "mlflow"} <= living.keys():
        rule = "a run is kept where the others are"
        raise Failed(str(layout.database), "its servers are down", rule, "millrace up")
    used = {"prefect": ("PREFECT_API_URL", "PREFECT_API_"), "mlflow": ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_")}
    for name, (variable, prefix) in used.items():
        if name in living and variable not in os.environ:
            of_stack = client_environment(layout).items()
            os.environ.update({key: value for key, value in of_stack if key.startswith(prefix)})


def reach_prefect(home: Home) -> None:
    """Use the server that the environment names, or one of our own until this process ends."""
    if given := address_in("PREFECT_API_URL"):
        check_server(given)
        return
    from infra.embedded import EmbeddedServer
    from tasks.store.lock import locked

    with locked(home.root / ".prefect.lock"):  # two first runs must not both make the database
        server = EmbeddedServer(home.prefect, home.root / "logs" / "prefect-embedded.log")
        atexit.register(server.stop)  # before Prefect is imported: so it comes after Prefect has sent its last logs
        os.environ["PREFECT_API_URL"] = server.url
        import flows.running  # noqa: F401  the seconds of this import are those of the server's start

        try:
            server.wait()
        except TimeoutError as late:
            rule, remedy = "Prefect's own server must start", "mend what it says, and run again"
            raise Failed(str(server.log), late, rule, remedy) from None


def check_server(url: str) -> None:
    """A server that is down is one line, not Prefect's traceback; one that wants a login is up."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=10):
            return
    except urllib.error.HTTPError as answer:
        if answer.code in (401, 403):
            return
        saw = f"{answer.code} {answer.reason}"
    except (OSError, ValueError, HTTPException) as error:
        saw = str(getattr(error, "reason", None) or error)
    rule = "the server that it names must answer"
    remedy = "start it (millrace up starts this home's own), or unset PREFECT_API_URL"
    raise Failed("PREFECT_API_URL", f"{url}: {saw}", rule, remedy)


def behind(error: Exception, home: Home) -> Exception:
    """What of an error of Prefect's is the user's to mend: the run's own error before it, a full disk, its server."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, UserError):
            return below
        below = below.__cause__ or below.__context__
    if type(error).__module__.partition(".")[0] not in ("prefect", "httpx"):
        return error
    try:
        home.probe()
    except OSError as full:
        return full
    saw, rule = " ".join(str(error).split())[:160], "Prefect's server must take what a run tells it"
    return Failed(os.environ.get("PREFECT_API_URL", "prefect"), saw, rule, "see its log, mend it and run again")


def summarise(reply: Reply, run: Any, as_json: bool) -> None:
    """What was made, how good it is, where it is, what to type next."""
    from tasks.pages.summary import lines, metrics_of

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
    if not as_json and record["status"] in ("completed", "rejected", "awaiting_approval"):
        for line in lines(run, shutil.get_terminal_size((200, 24)).columns):
            typer.echo(line)
