"""The runs of a home: found by an index of their records, opened, and their trials."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.artifacts import Artifact, Release
from tasks.errors import Failed, Refused, Stopped
from tasks.runs.home import Home
from tasks.runs.provenance import git_commit, packages
from tasks.store.files import ABSENT, StatKey, canonical, clear, pretty, stat_of, write
from tasks.store.lock import Lock, locked
from tasks.store.store import Store, digest_of

if TYPE_CHECKING:
    from tasks.config.compose import Config


FILE = ".index.json"
"""In the folder of the runs; without it, or where it is damaged, all records are read."""


class Row(NamedTuple):
    """What is remembered of a run."""

    run_id: str
    identity: str
    """Digest of flow and config."""
    exit_code: int | None
    prefect_id: str | None
    """The flow run of the last attempt."""


def rows(home: Home) -> Iterator[Row]:
    """Yield all runs, newest first; they are remembered for the next search when this one comes to the last.

    Raises:
        Failed: the record of a run is damaged.
    """
    known, found = _load(home), dict[str, tuple[StatKey, Row]]()
    folder = str(home.runs)
    names = os.listdir(folder) if home.runs.is_dir() else []  # noqa: PTH208 - names, of which there are thousands
    for name in sorted(names, reverse=True):
        path = f"{folder}/{name}/run.json"
        try:
            key = stat_of(path)
        except ABSENT:
            continue
        row = known.get(name)
        found[name] = row if row is not None and row[0] == key else (key, _row(name, read(Path(path))))
        yield found[name][1]
    if found != known:
        with suppress(OSError):  # they are read again then
            write(home.runs / FILE, canonical(found))


def read(path: Path) -> dict[str, Any]:
    """Return the record of a run; raises `Failed` where it is damaged."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record
    except ValueError:
        raise Failed(str(path), "not JSON", "the record of a run is JSON", f"remove {path.parent}") from None


def _row(name: str, record: dict[str, Any]) -> Row:
    attempts = record["attempts"]
    flow_run = attempts[-1]["prefect_flow_run_id"] if attempts else None
    return Row(name, record["identity"], record["exit_code"], flow_run)


def _load(home: Home) -> dict[str, tuple[StatKey, Row]]:
    try:
        known = json.loads((home.runs / FILE).read_bytes())
        return {name: (key, Row(*row)) for name, (key, row) in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


LOCK = ".lock"
"""In the folder of the runs: the lock under which a run is chosen and marked as running."""

OLD = 600.0
"""Seconds after which a file that is being written is taken to be that of a killed process."""

FINISHED = {0, 3}
"""Exit codes of finished runs; after any other the same command continues the run."""


class Run:
    """The folder of a run."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.store = Store(home.store)
        self.record: dict[str, Any] = read(folder / "run.json")
        self.lock: Lock | None = None
        self.parent: Run | None = None
        """The run of the tuning of which this is a trial."""
        self.started = time.monotonic()
        self._mutex = threading.Lock()

    @property
    def run_id(self) -> str:
        """The name of the run's folder."""
        return self.folder.name

    @property
    def title(self) -> str:
        """The name of its MLflow run."""
        return self.run_id

    @property
    def config(self) -> Config:
        """The full config of the run."""
        from tasks.config.compose import Config

        return Config.model_validate(self.record["config"])

    @property
    def attempt(self) -> int:
        """Number of the attempt, from 1."""
        return len(self.record["attempts"])

    @property
    def exit_code(self) -> int | None:
        """Exit code of the run; None while it is running."""
        return self.record["exit_code"]

    def note(self, **fields: Any) -> None:
        """Change fields of run.json."""
        with self._mutex:
            self.record.update(fields)
            write(self.folder / "run.json", pretty(self.record))

    def note_attempt(self, **fields: Any) -> None:
        """Change fields of the last attempt."""
        self.record["attempts"][-1].update(fields)
        self.note()

    def use(self, kind: str, digest: str) -> None:
        """Record that this run needs an artifact, before it is used, for garbage collection."""
        with open(self.folder / "uses", "a+") as uses:
            uses.seek(0)
            if f"{kind}/{digest}\n" not in uses.readlines():
                uses.write(f"{kind}/{digest}\n")
                uses.flush()
                os.fsync(uses.fileno())

    def made(self, stage: str, artifact: Artifact | Release, seconds: float, *, cached: bool = False) -> None:
        """Record the result of a stage in this attempt."""
        row: dict[str, Any] = {"name": artifact.name, "seconds": round(seconds, 3)}
        if isinstance(artifact, Release):
            made = {"kind": "release", "digest": artifact.export, "path": str(self.folder / "release.json")}
            row |= {**made, "cached": not artifact.changed}
        else:
            made = {"kind": artifact.kind, "digest": artifact.digest, "path": str(artifact.path)}
            row |= {**made, "cached": cached}
        stages = self.record["stages"]
        rows = [old for old in stages.get(stage, []) if old["name"] != artifact.name]
        if not row["cached"]:
            spent = self.record["attempts"][-1].setdefault("seconds", {})
            spent[part_of(stage, row)] = row["seconds"]
        self.note(stages={**stages, stage: [*rows, row]})

    def measure(self, name: str, value: Any) -> None:
        """Store a measurement of the run; artifacts have none."""
        with self._mutex:
            measurements = self.measurements()
            measurements[name] = value
            write(self.folder / "measurements.json", pretty(measurements))

    def measurements(self) -> dict[str, Any]:
        """Return all measurements."""
        try:
            return json.loads((self.folder / "measurements.json").read_bytes())
        except FileNotFoundError:
            return {}

    def end(self, exit_code: int, status: str, error: dict[str, str] | None) -> None:
        """Close the attempt."""
        ended = _now()
        self.note_attempt(ended=ended, exit_code=exit_code, status=status)
        self.note(exit_code=exit_code, status=status, error=error)


def part_of(stage: str, row: Mapping[str, Any]) -> str:
    """Return the name of what a stage spent its time on: `train`, or of one with several results `compress litert`."""
    several = row["kind"] in ("model", "variant") and row["name"] != row["kind"]
    return f"{stage} {row['name']}" if several else stage


@contextmanager
def opened(
    home: Home, flow: str, config: Config, *, new: bool, prefect_id: str | None, waiting: Callable[[str], None]
) -> Iterator[Run]:
    """Continue the unfinished run of this flow and config, or begin a new one, with its lock.

    A resumed or retried flow run of Prefect continues its run, finished or not. If another process has the lock, it is
    waited for.
    """
    home.make()
    identity = identity_of(flow, config)
    while True:
        with locked(home.runs / LOCK):
            runs = list(rows(home))
            unfinished = None if new else _unfinished(runs, identity)
            goes_on = _of_flow_run(runs, prefect_id) or unfinished
            folder = _begin(home, flow, config, identity) if goes_on is None else home.runs / goes_on
        with locked(folder / "lock", waiting) as lock:
            clear(folder, OLD)
            run = Run(home, folder)
            if run.exit_code in FINISHED and not _is_of(run.record, prefect_id):
                continue  # it ended meanwhile: begin a new one
            run.lock = lock
            attempt = {
                "attempt": run.attempt + 1,
                "started": _now(),
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "git_commit": git_commit(),
                "packages": packages(),
                "prefect_flow_run_id": prefect_id,
            }
            try:
                with locked(home.runs / LOCK):  # whose token tells gc that this run uses things from now on
                    run.note(
                        attempts=[*run.record["attempts"], attempt],
                        stages={},
                        exit_code=None,
                        status="running",
                        stops_by=None,
                    )
                yield run
            except Stopped as stop:
                if run.exit_code is None:  # before the run recorded its end
                    run.end(stop.exit_code, stop.status, None)
                raise
            return


def identity_of(flow: str, config: Config) -> str:
    """Return the digest of flow and config, which identifies a run."""
    return digest_of({"flow": flow, "config": config.model_dump(mode="json")})


def finished_before(home: Home, flow: str, config: Config) -> bool:
    """Return whether the last run of this flow and config has finished."""
    last = _last_of(rows(home), identity_of(flow, config))
    return last is not None and last.exit_code in FINISHED


def find_runs(home: Home) -> list[Run]:
    """Return all runs, oldest first."""
    return [Run(home, path.parent) for path in sorted(home.runs.glob("*/run.json"))]


def resolve_run(home: Home, reference: str) -> Run:
    """Return the run of an id or an unambiguous part of it."""
    names = sorted(path.parent.name for path in home.runs.glob("*/run.json"))
    matches = [name for name in names if reference and reference in name]
    exact = [name for name in matches if name == reference]
    if len(exact or matches) != 1:
        saw = ", ".join(matches) or "no such run"
        raise Refused(reference, saw, "RUN is the id of a run or an unambiguous part of it", "see the folder runs")
    return Run(home, home.runs / (exact or matches)[0])


def _of_flow_run(runs: Iterable[Row], prefect_id: str | None) -> str | None:
    """Return the run whose last attempt was a flow run."""
    return next((row.run_id for row in runs if prefect_id is not None and row.prefect_id == prefect_id), None)


def _is_of(record: dict[str, Any], prefect_id: str | None) -> bool:
    attempts = record["attempts"]
    return bool(attempts) and prefect_id is not None and attempts[-1]["prefect_flow_run_id"] == prefect_id


def _unfinished(runs: Iterable[Row], identity: str) -> str | None:
    last = _last_of(runs, identity)
    return None if last is None or last.exit_code in FINISHED else last.run_id


def _last_of(runs: Iterable[Row], identity: str) -> Row | None:
    return next((row for row in runs if row.identity == identity), None)


def _begin(home: Home, flow: str, config: Config, identity: str) -> Path:
    now = datetime.now(UTC)  # in order of time by name, also within a second
    folder = home.runs / f"{now:%Y%m%d-%H%M%S}-{config.name}-{now.microsecond // 16:04x}"
    folder.mkdir()
    try:
        write(folder / "run.json", pretty(new_record(folder.name, flow, config, identity)))
    except OSError:
        folder.rmdir()
        raise
    return folder


def new_record(run_id: str, flow: str, config: Config, identity: str) -> dict[str, Any]:
    """Return the record of a run that begins."""
    return {
        "run_id": run_id,
        "flow": flow,
        "name": config.name,
        "identity": identity,
        "config": config.model_dump(mode="json"),
        "created": _now(),
        "attempts": [],
        "stages": {},
        "status": "running",
        "stops_by": None,
        "exit_code": None,
        "error": None,
        "mlflow_run_id": None,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


FLOW = "trial"


class TrialRun(Run):
    """The folder `runs/<run_id>/trials/<number>/`; its journal, logs, measurements and MLflow run are its own."""

    def __init__(self, parent: Run, folder: Path) -> None:
        super().__init__(parent.home, folder)
        self.parent = parent

    @property
    def run_id(self) -> str:
        """The path of its folder below that of all runs."""
        return self.folder.relative_to(self.home.runs).as_posix()

    @property
    def number(self) -> int:
        """The number of the trial."""
        return int(self.folder.name)

    @property
    def title(self) -> str:
        """The name of its MLflow run, which is shown below that of the tuning."""
        return f"trial {self.number}"


def folder_of(run: Run, number: int) -> Path:
    """Return the folder of a trial."""
    return run.folder / "trials" / f"{number:04d}"


def open_trial(parent: Run, number: int, config: Config) -> TrialRun:
    """Return the run of a trial with a new attempt, which is the parent's; it is created if needed."""
    folder = folder_of(parent, number)
    if not (folder / "run.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        record = new_record(f"{parent.run_id}/trials/{folder.name}", FLOW, config, identity_of(FLOW, config))
        write(folder / "run.json", pretty(record))
    run = TrialRun(parent, folder)
    attempt = {**parent.record["attempts"][-1], "attempt": run.attempt + 1, "seconds": {}}
    run.note(attempts=[*run.record["attempts"], attempt], stages={}, exit_code=None, status="running", sent=False)
    return run


def trials_of(run: Run) -> list[TrialRun]:
    """Return the trials of a run, in order; of one that is no tuning none."""
    return [TrialRun(run, path.parent) for path in sorted((run.folder / "trials").glob("*/run.json"))]
