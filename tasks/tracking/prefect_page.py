"""Artifacts of a flow run in Prefect: tables, progress and description.

Threads send them, so that the server does not delay the stages. Its errors do not fail the run.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from tasks.artifacts import Artifact
from tasks.runs.runs import Run
from tasks.search.table import Table
from tasks.training.seeds import Choice, choice_of
from tasks.view import terminal, trainings
from tasks.view.words import describe

Report = Callable[[int, int, str, dict[str, Any]], None]

EVERY = 10.0
"""Seconds between two updates; a stage that ends sooner has no progress artifact."""

LAST = 5.0
"""Seconds that the last update may take."""

_sender = ThreadPoolExecutor(1, "artifacts")


class Progress:
    """Progress of a stage, which a thread sends to Prefect at intervals."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._latest: tuple[float, str] | None = None
        self._shown: tuple[float, str] | None = None
        self._artifact: UUID | None = None
        self._attempted = False
        self._over = threading.Event()

    def report(self, done: int, total: int, unit: str, figures: dict[str, Any]) -> None:
        """Set the progress to `done` of `total` units."""
        words = terminal.progress_in_words(done, total, unit, figures)
        self._latest = (100.0 * done / max(total, 1), " · ".join(words))

    def renew(self) -> None:
        """Send the latest progress at intervals until `end`."""
        while not self._over.wait(EVERY):
            with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):  # the next update tries again
                self._show(self._latest)
        if self._artifact is not None and self._shown is not None:
            self._show((100.0, self._shown[1]))

    def end(self) -> None:
        """Stop the updates."""
        self._over.set()

    def _show(self, latest: tuple[float, str] | None) -> None:
        if latest is None or latest == self._shown:
            return
        percent, words = latest
        try:
            key = f"{self.stage}-progress"
            if self._attempted and self._artifact is None:
                self._artifact = _find(key)
            if self._artifact is None:
                self._attempted = True
                made: Any = create_progress_artifact(progress=percent, key=key, description=f"{self.stage}: {words}")
                self._artifact = made
            else:
                update_progress_artifact(self._artifact, progress=percent, description=f"{self.stage}: {words}")
            self._shown = latest
        except Exception:
            return
        terminal.log.info("%s: %s", self.stage, words)


def _find(key: str) -> UUID | None:
    """Return the artifact of this flow run that was created by a request whose answer was lost; None without one."""
    context = FlowRunContext.get()
    assert context is not None and context.flow_run is not None
    with get_client(sync_client=True) as client:
        rows = client.read_artifacts(
            artifact_filter=ArtifactFilter(
                key=ArtifactFilterKey(any_=[key]), flow_run_id=ArtifactFilterFlowRunId(any_=[context.flow_run.id])
            )
        )
    return rows[0].id if rows else None


@contextmanager
def progress(stage: str, also: Report) -> Iterator[Report]:
    """Return a function that reports progress to Prefect and to `also`."""
    page = Progress(stage)

    def report(done: int, total: int, unit: str, figures: dict[str, Any]) -> None:
        page.report(done, total, unit, figures)
        also(done, total, unit, figures)

    if FlowRunContext.get() is None:
        yield report
        return
    thread = threading.Thread(target=contextvars.copy_context().run, args=(page.renew,), daemon=True)
    thread.start()
    try:
        yield report
    finally:
        page.end()
        thread.join(LAST)


def table(stage: str, artifact: Artifact, cached: bool, seconds: float) -> None:
    """Create the table of a stage's artifact."""
    row = {
        "what": describe(artifact),
        "artifact": f"{artifact.kind}/{artifact.digest}",
        "from the store": "yes" if cached else "no",
        "seconds": f"{seconds:.1f}",
        "bytes": f"{artifact.bytes:,}",
        "files": len(artifact.manifest["files"]),
    }
    key = f"{stage}-{artifact.name}".replace("_", "-")
    _table(f"the table of {stage}", key, [row], describe(artifact))
    if (choice := choice_of(artifact)) is not None:
        _table("the table of seeds", f"{stage}-seeds", seeds(choice), ". ".join(trainings.summary(choice)))


def seeds(choice: Choice) -> list[dict[str, Any]]:
    """Return a row for each model that there was to choose from."""
    return [
        {
            "model": row.model,
            "chosen": "yes" if row.chosen else "",
            "seed": "" if row.seed is None else str(row.seed),  # JavaScript rounds large integers
            "steps": "" if row.steps is None else row.steps,
            **dict(zip(choice.columns, row.scores, strict=True)),
        }
        for row in trainings.models(choice)
    ]


def processes(stage: str, events: list[dict[str, Any]]) -> None:
    """Create a version of the table of a stage's processes: when each was started, and what became of it."""
    what = f"{stage}: its processes as they come and go"
    _table(what, f"{stage}-processes", [dict(event) for event in events], what)


def trials(made: Table) -> None:
    """Create the table of a tuning's trials."""
    rows = [
        {"trial": each.number, "state": each.state, made.metric: each.value, "steps": each.steps, **each.values}
        for each in made.trials
    ]
    what = f"the trials of the tuning, by {made.metric} on the validation split"
    _table(what, "trials", rows, what)


def description(run: Run) -> None:
    """Create an artifact with the description of the run, and wait until all artifacts of the run are sent."""
    path = run.folder / "description.md"
    if path.exists():
        text = path.read_text()
        _create("the run's description", lambda: create_markdown_artifact(text, key="run", description=run.run_id))
    _sender.submit(lambda: None).result()


def _table(what: str, key: str, rows: list[dict[str, Any]], description: str) -> None:
    _create(what, lambda: create_table_artifact(rows, key=key, description=description))


def _create(what: str, create: Callable[[], Any]) -> None:
    """Create an artifact after those before it, in the context of the caller."""

    def send() -> None:
        try:
            create()
        except Exception as error:
            terminal.say(f"warning: Prefect did not accept {what}: {error}", style="yellow")

    if FlowRunContext.get() is not None:
        _sender.submit(contextvars.copy_context().run, send)
