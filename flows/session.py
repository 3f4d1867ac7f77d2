"""The servers that a command uses: those of the stack, or its own until it exits."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from infra.services import QUIET
from tasks.environment import process
from tasks.environment.secrets import address_in
from tasks.errors import Failed, Refused, UserError
from tasks.runs.home import Home

if TYPE_CHECKING:
    from infra.embedded import EmbeddedServer

TRACKERS = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
"""Schemes of MLflow's tracking address; MLflow itself refuses folders."""

ENVIRONMENT = {
    # the default of 20 s is too short for the first start
    **QUIET,
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}

has_form: ContextVar[bool] = ContextVar("has_form", default=True)
"""Whether flows that are imported describe their parameters, for the form of a deployment.

Prefect (3.8) describes them whenever a flow is imported, which takes half a second. A command that runs a flow has a
config that is validated, and shows no form.
"""


def check_addresses(home: Home) -> None:
    """Check the server addresses in the environment, which MLflow itself would check late."""
    address_in("PREFECT_API_URL")
    scheme = urlsplit(home.mlflow_uri).scheme
    if scheme.partition("+")[0] not in TRACKERS:
        rule = f"an MLflow address begins with {', '.join(f'{known}://' for known in TRACKERS)}"
        raise Refused("MLFLOW_TRACKING_URI", f"{scheme}://…" if scheme else "a path", rule, "correct it, or unset it")


def use_stack(home: Home) -> None:
    """Use the servers of `millrace up` if they run and the environment names no others."""
    if not home.stack_file.exists():
        return
    from infra.services import client_environment
    from infra.stack import Stack

    stack = Stack(home.root)
    living, layout = stack.living(), stack.layout
    if layout is None:
        return
    if layout.database is not None and not {"prefect", "mlflow"} <= living.keys():
        rule = "the history of this home is in this database"
        raise Failed(str(layout.database), "its servers are down", rule, "run millrace up")
    used = {"prefect": ("PREFECT_API_URL", "PREFECT_API_"), "mlflow": ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_")}
    for name, (variable, prefix) in used.items():
        if name in living and variable not in os.environ:
            of_stack = client_environment(layout).items()
            os.environ.update({key: value for key, value in of_stack if key.startswith(prefix)})
    process.bypass(layout.local_host)


def choose_servers(home: Home) -> None:
    """Check the servers' addresses in the environment, use the stack if it runs, and set Prefect's environment."""
    check_addresses(home)
    use_stack(home)
    prepare(home)


def prepare(home: Home) -> None:
    """Set Prefect's environment, which it reads when it is imported."""
    os.environ.setdefault("PREFECT_HOME", str(home.prefect))
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.raiseExceptions = False  # do not print tracebacks of log lines that Prefect's server does not accept


def start_server(home: Home) -> EmbeddedServer:
    """Start a Prefect server that runs until this process exits."""
    from infra.embedded import EmbeddedServer

    server = EmbeddedServer(home.prefect, home.root / "logs" / "prefect-embedded.log")
    atexit.register(server.stop)  # before Prefect is imported, so that it runs after Prefect has sent its last logs
    return server


def start_server_early(home: Home) -> EmbeddedServer | None:
    """Start a Prefect server before all is checked, unless the environment names one or the database is new."""
    return start_server(home) if "PREFECT_API_URL" not in os.environ and home.prefect_file.exists() else None


@contextmanager
def prefect_server(home: Home, started: EmbeddedServer | None, imports: Callable[[], None]) -> Iterator[None]:
    """Use within the block the server that the environment names, or one that was or is started by this process.

    `imports` is called while the server starts; it imports what the run needs.
    """
    if given := address_in("PREFECT_API_URL"):
        imports()
        check_server(given)
        yield
        return
    with ExitStack() as settings:
        server = started or start_server(home)
        os.environ["PREFECT_API_URL"] = server.url
        imports()
        settings.enter_context(settings_for_embedded())
        try:
            server.wait()
        except TimeoutError as late:
            home.probe()  # raises the error of a full disk, on which the server cannot write why it ended
            rule, remedy = "Prefect's server must start", "fix the cause, and run again"
            raise Failed(str(server.log.path), late, rule, remedy) from None
        yield


def settings_for_embedded() -> AbstractContextManager[Any]:
    """Return Prefect's settings for a server of this process."""
    from prefect.settings import (
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
        PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    return temporary_settings(
        {
            PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,  # no browser uses that server
            PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED: False,  # it is of the same environment
            # it does not check them, and a flow waits up to a second at its end for the thread that sends them
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
        }
    )


def import_prefect(flow: str) -> None:
    """Import a flow, and Prefect with its engines, which the first call of a flow imports otherwise."""
    import prefect.flow_engine
    import prefect.task_engine  # noqa: F401

    importlib.import_module(f"flows.{flow}")
    process.resume()


ANSWERS_SECONDS = 60.0
"""Seconds in which a server answers that is there: one on a machine that computes has taken more than ten."""


def check_server(url: str) -> None:
    """Check that a Prefect server answers; one that requires a login does."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=ANSWERS_SECONDS):
            return
    except urllib.error.HTTPError as answer:
        if answer.code in (401, 403):
            return
        saw = f"{answer.code} {answer.reason}"
    except (OSError, ValueError, HTTPException) as error:
        saw = str(getattr(error, "reason", None) or error)
    rule = "the server must answer"
    remedy = "start it (millrace up starts that of this home), or unset PREFECT_API_URL"
    raise Failed("PREFECT_API_URL", f"{url}: {saw}", rule, remedy)


def user_error(error: Exception, home: Home) -> Exception:
    """Return the error that the user can fix behind one of Prefect's: of the run, a full disk, or of the server."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            return cause
        cause = cause.__cause__ or cause.__context__
    if type(error).__module__.partition(".")[0] not in ("prefect", "httpx"):
        return error
    try:
        home.probe()
    except OSError as full:
        return full
    saw, rule = " ".join(str(error).split())[:160], "Prefect's server must accept requests"
    return Failed(os.environ.get("PREFECT_API_URL", "prefect"), saw, rule, "see its log, and run again")
