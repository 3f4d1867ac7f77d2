"""Homes in which the command is run for real, and how their artifacts are compared."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import io
import json
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from flows.drill.home import DrillHome, artifacts
from tasks.processes.fork_server import SHARED
from tasks.runs.home import Home
from tests.support.shared import MILLRACE, shared_fork_servers, shared_server, warm_millrace

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "flows/presets/digits.yaml"
STDLIB_LM = ROOT / "flows/presets/stdlib_lm.yaml"

PLAIN = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Before a command: root as one whom permissions hold."""

SMALL = ["--train.steps", "60", "--train.schedule.warmup", "5", "--train.checkpoint.every", "10"]
"""Flags that make the digits preset a matter of seconds; the score then is what it is."""

ONE_FORM = ["--compress.methods", "[]", "--export.formats", "[saved_model]"]
"""Flags that make the export a single variant, where it is not what a test is about."""

SMALL_LM = [
    *("--source.glob", "email/*.py", "--records.splits", "{train: 0.5, validation: 0.2, test: 0.3}"),
    *("--snapshot.vocabulary", "400", "--snapshot.block", "64"),
    *("--model.width", "32", "--model.layers", "2", "--model.heads", "2", "--model.hidden", "64"),
    *("--train.steps", "60", "--train.batch_size", "32", "--train.schedule.warmup", "5"),
    *("--train.checkpoint.every", "10", "--evaluate.sample_tokens", "20"),
]
"""Flags that make a small language model of the standard library's package email, fed a little more than once."""


@dataclass(frozen=True)
class Answer:
    """The output of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.stdout.strip().splitlines()[-1])

    @property
    def messages(self) -> list[str]:
        """The lines of standard error, without those that name a wait, which a busy machine adds."""
        return [line for line in self.stderr.splitlines() if not line.startswith("  … ")]


def surroundings() -> dict[str, str]:
    """The environment without servers: MLflow's client, used in a test's own process, leaves its address there."""
    servers = ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", SHARED)
    return {name: value for name, value in os.environ.items() if name not in servers}


@contextlib.contextmanager
def in_this_process(variables: Mapping[str, str], folder: Path) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Let this process look like one of a command: variables, folder, output; afterwards it is as it was."""
    before, raising = dict(os.environ), logging.raiseExceptions
    stdout, stderr = io.StringIO(), io.StringIO()
    os.environ.clear()
    os.environ.update(variables)
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
            warnings.catch_warnings(action="ignore"),
        ):
            yield stdout, stderr
            gc.collect(1)  # what a command leaves open, its process would have closed
    finally:
        for thread in threading.enumerate():
            if thread.name in ("shipping", "imports"):
                thread.join(60)
        os.environ.clear()
        os.environ.update(before)
        logging.raiseExceptions = raising
        gc.enable()


def run_app(words: list[str], home: Home) -> int:
    """What `main` of `flows/__main__.py` does after it has prepared its process; the exit code."""
    import typer

    from flows.commands import app
    from flows.reply import usage_error

    with contextlib.ExitStack() as stack:
        if words[:1] == ["run"]:
            from prefect.context import use_profile
            from prefect.settings import Profile

            from flows.session import prepare

            prepare(home)
            stack.enter_context(use_profile(Profile(name="test", settings={}), include_current_context=False))
        try:
            return app(words, prog_name="millrace", standalone_mode=False) or 0
        except typer.TyperException as error:
            return usage_error(error, words)


@dataclass(frozen=True)
class CommandHome:
    """A home, and the `millrace` command on it."""

    root: Path
    before: Sequence[str] = ()
    """What starts the command."""

    given: Mapping[str, str] = field(default_factory=dict)
    """Further variables of its environment."""

    own_processes: bool = False
    """Whether it starts as a user's does, with Prefect's server and a fork server of its own; else all runs of a test
    process share them, and the command is forked as well (`warm`), except what `before` starts, whose limits and
    permissions a shared process does not have."""

    @property
    def program(self) -> Path:
        """The command: one that begins with its imports, or the warm one."""
        return MILLRACE if self.before or self.own_processes else warm_millrace()

    def variables(self, command: str | Path) -> dict[str, str]:
        """The environment of a command."""
        shared = {}
        if command in ("run", "worker") and not self.own_processes:
            shared["PREFECT_API_URL"] = shared_server()
            if not self.before:
                shared[SHARED] = shared_fork_servers()
        return {**surroundings(), "MILLRACE_HOME": str(self.root), "COLUMNS": "200", **shared, **self.given}

    def here(self, *words: str | Path, folder: Path = ROOT) -> Answer:
        """The command in this process, which has imported already what it needs; stages still have their own.

        For what a command answers; how its process begins, is signalled and ends, only a process can tell.
        """
        assert not self.before, "a process would begin otherwise"
        import prefect.main  # noqa: F401 - it ends the handlers of logging, with the streams that are not standard then

        with in_this_process(self.variables(words[0] if words else ""), folder) as (stdout, stderr):
            code = run_app([str(word) for word in words], Home(self.root))
        return Answer(code, stdout.getvalue(), stderr.getvalue())

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """The command in a process group of its own, which is not that of what `program` forks."""
        return subprocess.Popen(
            [*self.before, str(self.program), *map(str, words)],
            cwd=ROOT,
            env=self.variables(words[0] if words else ""),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *words: str | Path, timeout: float = 900) -> Answer:
        """The command to its end."""
        process = self.start(*words)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            raise AssertionError(f"millrace {words} ran past {timeout} s\n{stdout}\n{stderr}") from None
        return Answer(process.returncode, stdout, stderr)

    def kill_when(self, due: Callable[[], bool], *words: str | Path, timeout: float = 400) -> bool:
        """Run the command and SIGKILL its process group as soon as `due`; False if it ended well before."""
        process = self.start(*words)
        deadline = time.monotonic() + timeout
        while process.poll() is None and not due() and time.monotonic() < deadline:
            time.sleep(0.02)
        ended = process.poll() is not None
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
        _, stderr = process.communicate()
        assert time.monotonic() < deadline, f"{words}: never due in {timeout} s\n{stderr}"
        assert not ended or process.returncode == 0, f"{words}: ended by itself, {process.returncode}\n{stderr}"
        return not ended

    def copied_to(self, root: Path) -> CommandHome:
        """A copy of this home, to be changed. The store is linked: published files never change."""

        def copy(source: str, target: str) -> str:
            published = Path(source).is_relative_to(self.root / "store") and "/." not in source
            return os.link(source, target) or target if published else shutil.copy2(source, target)

        shutil.copytree(self.root, root, copy_function=copy, ignore=shutil.ignore_patterns("lock", ".lock"))
        move_registry(self.root, root)
        return CommandHome(root)

    def newest_run(self, flow: str | None = None) -> dict[str, Any]:
        """The run.json of the last run (of a flow); an empty one where there is none yet."""
        records = (json.loads(path.read_bytes()) for path in sorted(self.root.glob("runs/*/run.json"), reverse=True))
        return next((record for record in records if flow in (None, record["flow"])), {"stages": {}})

    def artifacts(self) -> dict[str, str]:
        """SHA-256 of every published file by kind/digest/path; of manifests, without what the clock and host decide."""
        return artifacts(self.root)


def move_registry(old: Path, new: Path) -> None:
    """Let the copy of a home keep its MLflow artifacts in itself: MLflow stores the absolute path of every one."""
    columns = {
        "runs": "artifact_uri",
        "logged_models": "artifact_location",
        "experiments": "artifact_location",
        "model_versions": "storage_location",
    }
    with contextlib.closing(sqlite3.connect(new / "mlflow.db")) as database, database:
        for table, column in columns.items():
            database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (str(old), str(new)))


def kept_home(name: str, fill: Callable[[CommandHome], None]) -> CommandHome:
    """A home filled once for this state of the code, by whichever process comes first, and kept for both suites."""
    code = hashlib.sha256()
    for path in sorted([*ROOT.glob("flows/**/*"), *ROOT.glob("tasks/**/*"), *ROOT.glob("infra/**/*")]):
        if path.suffix in (".py", ".yaml", ".j2"):
            code.update(path.read_bytes())
    kept = ROOT / ".pytest_cache" / "homes" / name
    kept.mkdir(parents=True, exist_ok=True)
    home = CommandHome(kept / code.hexdigest()[:16])
    with open(kept / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home.root / "whole").exists():
            for old in kept.glob("*/"):
                shutil.rmtree(old)
            fill(home)
            (home.root / "whole").touch()
    return home


def finished_home() -> CommandHome:
    """A home in which the digits preset, made small, has run once from end to end."""

    def fill(home: CommandHome) -> None:
        own_history = replace(home, own_processes=True, given={SHARED: shared_fork_servers()})
        answer = own_history.here("run", "pipeline", DIGITS, *SMALL, "--json")
        assert answer.code == 0, answer.stderr

    return kept_home("finished", fill)


ASKING = [
    *("--export.golden", "16", "--promote.approval", "required"),
    *("--compress.methods", "[[{kind: prune, fine_tune: {steps: 4}}, int8_dynamic]]"),
    *("--promote.gates", "[{kind: champion, max_loss: 0.1}]"),
]
"""Flags with which the run of the finished home makes another export of the same model, and awaits approval."""


def asked_home() -> CommandHome:
    """The finished home with a second run, which awaits approval; what it answered is in `asked.json`."""

    def fill(home: CommandHome) -> None:
        copy = finished_home().copied_to(home.root)
        (home.root / "whole").unlink()
        answer = copy.here("run", "pipeline", DIGITS, *SMALL, *ASKING, "--json")
        assert answer.code == 3, answer.stderr
        (home.root / "asked.json").write_text(json.dumps({"stdout": answer.stdout, "stderr": answer.stderr}))

    return kept_home("asked", fill)


def prepared_home() -> CommandHome:
    """A home with the records and the snapshot of the digits preset; MLflow's database takes seconds to make, too."""

    def fill(home: CommandHome) -> None:
        answer = home.here("run", "dataset", DIGITS, "--json")
        assert answer.code == 0, answer.stderr

    return kept_home("prepared", fill)


def compute_processes(home: Path) -> list[psutil.Process]:
    """Return the compute processes that write a log of this home; their names are `millrace STAGE`."""
    return DrillHome(home, ()).computing


def init(path: Path, folder: Path, *flags: str) -> Answer:
    """`millrace init`, in a folder."""
    return CommandHome(folder / "home").here("init", path, *flags, folder=folder)
