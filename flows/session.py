"""The servers that one command talks to: the stack's, or its own for as long as it lives."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.services import QUIET
from tasks.config.secrets import address_in
from tasks.errors import Failed, Refused, UserError
from tasks.runs.home import Home
from tasks.store.lock import locked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

TRACKERS = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
"""By what MLflow's store may be reached; a folder, its old store, it refuses itself."""

ENVIRONMENT = {
    # quiet, offline, and patient with the embedded server's first start (facts: the default of 20 s is too short)
    **QUIET,
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}


def check_addresses(home: Home) -> None:
    """What the environment says of servers; MLflow itself would notice late."""
    address_in("PREFECT_API_URL")
    scheme = urlsplit(home.mlflow_uri).scheme
    if scheme.partition("+")[0] not in TRACKERS:
        rule = f"MLflow's address begins with one of {', '.join(f'{known}://' for known in TRACKERS)}"
        raise Refused("MLFLOW_TRACKING_URI", f"{scheme}://…" if scheme else "a path", rule, "correct it, or unset it")


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


def prepare(home: Home) -> None:
    """Prefect reads its environment when it is imported: say where it lives before that."""
    os.environ.setdefault("PREFECT_HOME", str(home.prefect))
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.raiseExceptions = False  # a log line that Prefect's server does not take is no news for the person


def reach_prefect(home: Home, meanwhile: Callable[[], None]) -> None:
    """Use the server that the environment names, or one of our own until this process ends.

    `meanwhile` is called once the server is on its way: what else takes seconds to start.
    """
    if given := address_in("PREFECT_API_URL"):
        meanwhile()
        check_server(given)
        import_what_a_run_needs()
        return
    from infra.embedded import EmbeddedServer

    with locked(home.root / ".prefect.lock"):  # two first runs must not both make the database
        # nobody looks for missing heartbeats there, and a flow's end waits a second for the thread that sends them
        os.environ.pop("PREFECT_FLOWS_HEARTBEAT_FREQUENCY")
        server = EmbeddedServer(home.prefect, home.root / "logs" / "prefect-embedded.log")
        atexit.register(server.stop)  # before Prefect is imported: so it comes after Prefect has sent its last logs
        os.environ["PREFECT_API_URL"] = server.url
        meanwhile()
        import_what_a_run_needs()

        try:
            server.wait()
        except TimeoutError as late:
            rule, remedy = "Prefect's own server must start", "mend what it says, and run again"
            raise Failed(str(server.log), late, rule, remedy) from None


def import_what_a_run_needs() -> None:
    """Import Prefect and MLflow while the server starts, in the seconds in which there is nothing else to do."""
    import flows.running  # noqa: F401
    from tasks.tracking import shipping

    shipping.set_environment()
    import tasks.registry.registry  # noqa: F401

    gc.freeze()
    gc.enable()


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


@contextmanager
def registry_of(home: Home) -> Iterator[MlflowClient]:
    """The registry that this home uses, held against everybody else who decides."""
    use_stack(home)
    if not home.has_registry():
        rule = "a decision is written into MLflow's registry"
        raise Refused(home.mlflow_uri, "no such database", rule, "set MLFLOW_TRACKING_URI, or mend MILLRACE_HOME")
    from tasks.display import terminal
    from tasks.tracking import shipping

    shipping.set_environment()
    from tasks.registry import registry
    from tasks.tracking.runs import connect

    with locked(home.root / ".registry.lock", terminal.say), registry.user_errors(home.mlflow_uri):
        yield connect(home.mlflow_uri)
