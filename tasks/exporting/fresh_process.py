"""Fresh processes that verify the variants of an export, one for each, so that none can fail for another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import getfile
from pathlib import Path
from typing import Any

from tasks.errors import Failed
from tasks.exporting import verify
from tasks.exporting.formats.format import Format

TIMEOUT, SECONDS_OF_BYTE = 600.0, 1e-6
"""Seconds after which a fresh process is ended, and what each byte of its variant adds: a gigabyte has 17 min more."""

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "KERAS_BACKEND": "tensorflow",
    "KERAS_HOME": f"{os.devnull}/keras",
}
"""Its environment variables, besides `HOME`."""

PASSED_ON = ("PATH", "LD_LIBRARY_PATH")
"""Without them the Python of a cluster's modules does not start."""

OF_THE_HOST = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that others send: the kernel where memory is short, or a user."""


@dataclass(frozen=True)
class Verified:
    """What a fresh process found."""

    figures: dict[str, Any] = field(default_factory=dict)
    """Interface of the variant, and its differences from Keras: the same for the same files."""

    measured: dict[str, Any] = field(default_factory=dict)
    """Seconds and bytes, which depend on the machine and its load."""

    fault: str | None = None
    """Why it does not load or run; None where it does."""


def timeout_of(variant: Path) -> float:
    """Return the seconds after which the process of a variant is ended."""
    return TIMEOUT + SECONDS_OF_BYTE * sum(file.stat().st_size for file in variant.rglob("*") if file.is_file())


def script(command: str, form: type[Format]) -> list[str]:
    """Return the beginning of a command of `verify.py` with a format."""
    return [sys.executable, "-I", "-S", str(Path(verify.__file__).resolve()), command, getfile(form), form.__name__]


def packages() -> list[str]:
    """Return the folders of installed packages."""
    return list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")))


@contextmanager
def fresh_process(variant: Path, form: type[Format], working_folder: Path) -> Iterator[Callable[[], Verified]]:
    """Start a fresh process in another folder, which imports the runtime while the export is written.

    Args:
        variant: the folder of the variant in the export; `golden.npz` is beside it.
        form: its format.

    Yields:
        A function that has the process verify the variant.

    Raises:
        Failed: by that function, where the process was killed or did not answer in time: another may succeed.
    """
    command = [*script("verify", form), str(variant.resolve()), "--", *packages()]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        cwd=working_folder,
        env={
            **ENVIRONMENT,
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "HOME": str(working_folder),
        },
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )

    def verify_variant() -> Verified:
        where, rule = f"variant {variant.name}", "every variant is run in a fresh process"
        try:
            output, errors = process.communicate(timeout=(seconds := timeout_of(variant)))
        except subprocess.TimeoutExpired:
            raise Failed(where, f"no answer in {seconds:,.0f} s", rule, "run again") from None
        if -process.returncode in OF_THE_HOST:
            saw = f"the process was ended by {signal.Signals(-process.returncode).name}"
            raise Failed(where, saw, rule, "see whether there is enough memory, and run again")
        if process.returncode:
            sys.stderr.write(errors)
            last = (errors.strip().splitlines() or ["no message"])[-1]
            return Verified(
                fault=f"it does not load or run in a fresh process: {last} (exit code {process.returncode})"
            )
        answer = json.loads(output.strip().splitlines()[-1])
        return Verified(answer["verified"], answer["measured"])

    with process:
        try:
            yield verify_variant
        finally:
            process.kill()
