"""The processes that do the work: start, log, time out, signal, kill."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from tasks.errors import Failed, Lost, Stopped
from tasks.store.staging import Staging

GRACE = 10.0
"""Seconds between a signal and the end of a child that has not left by itself."""

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_FLAG_SAVED_MODEL_FINGERPRINTING": "0",  # a random uuid in every SavedModel
    "KERAS_BACKEND": "tensorflow",
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "Agg",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}

NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|PYTHON\w*|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|(?:CUDA|NVIDIA|NCCL|TF|TFDS|XLA|OMP|MKL|KMP|ONEDNN|KERAS|MALLOC|GLIBC|MLFLOW)_\w+|MILLRACE_HOME"
    r"|(?:SSL_CERT|REQUESTS_CA)_\w+|(?:https?|no|HTTPS?|NO)_(?:proxy|PROXY)"
)
"""What of our environment a compute process gets: where things are and how to compute; nobody's secrets."""

CHATTER = re.compile(r"[IW]\d{4} |WARNING: All log messages before absl")
"""How TensorFlow's C++ begins what nobody needs to read; it stays in the file."""


class Process:
    """A compute process and the line to it."""

    def __init__(self, log: Path, threads: int, rank: int = 0) -> None:
        ours, theirs = Pipe()
        self.connection: Connection = ours
        self.log, self.threads, self.rank = log, threads, rank
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            self._heard = output.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tasks.child", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env={**inherited(), **ENVIRONMENT, "OMP_NUM_THREADS": str(threads)},
            )
        theirs.close()

    def call(
        self,
        work: str,
        staging: Staging | None,
        journal: Path,
        arguments: tuple[Any, ...],
        *,
        limit: tuple[str, float],
        heard: Callable[..., None],
        stop: Callable[[], int],
    ) -> Any:
        """Have `module:function` done; what it says on the way goes to `heard`, the lines of its log too.

        `limit` is a field of the config and its seconds. Raises what the work raised; `Lost` when it was killed;
        `Failed` when it crashed or ran past the limit; `Stopped` after a signal (`stop()` gives its number), once the
        child has saved and left.
        """
        self.connection.send((work, staging, journal, self.threads, arguments))
        started = time.monotonic()
        asked: float | None = None
        reason: BaseException | None = None
        while True:
            spoken = self.connection.poll(0.1)
            for line in self._lines():
                heard("log", self.rank, line)
            if spoken:
                try:
                    kind, *values = self.connection.recv()
                except (EOFError, ConnectionResetError):
                    raise reason or self._died(work) from None
                if kind == "done":
                    return values[0]
                if kind == "stopped":
                    raise reason or Stopped(values[0])
                if kind == "error":
                    raise values[0]
                if kind == "crash":
                    raise Failed(work, values[0], "this is a bug of ours", f"report it with {self.log}")
                heard(kind, *values)
            if asked is None and (number := stop()):
                reason, asked = Stopped(number), time.monotonic()
                self.signal(number)
            if asked is None and time.monotonic() - started > limit[1]:
                reason, asked = self._late(work, *limit), time.monotonic()
                self.signal(signal.SIGTERM)
            if asked is not None and time.monotonic() - asked > GRACE:
                self.kill()
                assert reason is not None
                raise reason

    def signal(self, number: int) -> None:
        """Ask the child to save and leave."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        """End the child and whatever it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Hang up; an idle child leaves by itself."""
        self.connection.close()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.kill()

    def _died(self, work: str) -> Failed:
        code = self.process.wait()
        saw = f"its process was killed by signal {-code}" if code < 0 else f"its process left with code {code}"
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        kind = Lost if code < 0 else Failed
        return kind(work, f"{saw}; last words: {last[0]}", "a compute process must answer", f"see {self.log}")

    def _late(self, work: str, field: str, seconds: float) -> Failed:
        return Failed(field, f"{work} ran past {seconds:.0f} s", "a stage ends in time", "raise it, and run again")

    def _lines(self) -> Iterator[str]:
        """What the process has written to its log since we looked last; a line at a time, without chatter."""
        if self.log.stat().st_size == self._heard:
            return
        with open(self.log, "rb") as file:
            file.seek(self._heard)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._heard += len(line)
                text = line.decode(errors="replace").rstrip()
                if text and not CHATTER.match(text):
                    yield text


def inherited() -> dict[str, str]:
    """What a compute process gets of our environment."""
    return {name: value for name, value in os.environ.items() if NEEDED.fullmatch(name)}


class Crew:
    """The compute processes of one run: one that serves stage after stage, and fresh ones for those that need it."""

    def __init__(self, logs: Path, threads: int) -> None:
        self.logs, self.threads = logs, threads
        self._standing: Process | None = None

    @contextlib.contextmanager
    def process(self, stage: str, fresh: bool) -> Iterator[Process]:
        """A process for one call: the standing one, or one that nothing has been computed in before."""
        if fresh:
            process = Process(self.logs / f"{stage}.log", self.threads)
            try:
                yield process
            except BaseException:
                process.kill()
                raise
            process.close()
            return
        if self._standing is None or self._standing.process.poll() is not None:
            self._standing = Process(self.logs / "compute.log", self.threads)
        try:
            yield self._standing
        except BaseException:  # what it was doing is in doubt: the next call gets a new one
            self._standing.kill()
            self._standing = None
            raise

    def close(self) -> None:
        """Send everybody home."""
        if self._standing is not None:
            self._standing.close()
            self._standing = None
