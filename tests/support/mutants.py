"""Run tests on a copy of the code that has a fault in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SECONDS = 900
"""After so long a run of tests is ended: a fault that makes a test hang is found."""

FORKS = """
import json, os, sys
import keras, mlflow, pandas, pytest, tensorflow

for line in sys.stdin:
    words, log = json.loads(line)
    if (process := os.fork()) == 0:
        os.setsid()
        files = [os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)]
        for number, file in enumerate((*files, files[-1])):
            os.dup2(file, number)
        sys.path.insert(0, os.getcwd())
        sys.exit(pytest.main(words))
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
"""Imports libraries, nothing of ours, and forks a process for each run of tests: imports take most of a short one."""


@dataclass(frozen=True)
class Mutation:
    """A small fault: a text that occurs once in a file, what stands there instead, and the tests that must find it."""

    path: str
    old: str
    new: str
    tests: str
    """Files of `tests/`, or single tests of them, as pytest takes them, without the folder; separated by spaces."""
    user: str
    """What a user gets."""

    @property
    def package(self) -> str:
        return Path(self.path).parent.as_posix()


class Copy:
    """The files of the checkout in a folder of their own, with an environment whose `millrace` runs them."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root.with_suffix(".log")
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        self._make_environment(root / ".venv")
        given = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self._forks = subprocess.Popen(
            [str(root / ".venv/bin/python"), "-c", FORKS],
            cwd=root,
            env={**given, "PATH": f"{root / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _make_environment(self, venv: Path) -> None:
        """Libraries are those of this process's environment, the product is that of the copy."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        site = next((venv / "lib").glob("*/site-packages"))
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if entry.suffix != ".pth":
                (site / entry.name).symlink_to(entry)
        (site / "copy.pth").write_text(f"{self.root}\n")
        for script in Path(sys.executable).parent.iterdir():
            own = venv / "bin" / script.name
            if own.exists() or not script.is_file():
                continue
            content = script.read_bytes()
            own.write_bytes(content.replace(sys.executable.encode(), str(venv / "bin/python").encode(), 1))
            own.chmod(0o755)

    def first_failure(self, tests: Sequence[str], quick: bool = False) -> str | None:
        """The first of these tests that fails, or that they were ended after `SECONDS`; None where all pass.

        Raises RuntimeError where pytest cannot run them.
        """
        marks = "not slow" if quick else "slow or not slow"
        preloaded = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        words = ["-xq", "--no-header", *preloaded, "-m", marks, *(f"tests/{name}" for name in tests)]
        print(json.dumps([words, str(self.log)]), file=self._forks.stdin, flush=True)
        process = int(self._answer())
        late = threading.Timer(SECONDS, os.killpg, [process, signal.SIGKILL])
        late.start()
        code = int(self._answer())
        late.cancel()
        said = self.log.read_text(errors="replace")
        named = re.findall(r"^(?:FAILED|ERROR) tests/(\S+)", said, re.M)
        if code not in (0, 5, -signal.SIGKILL) and not named:
            raise RuntimeError(f"{' '.join(tests)}: pytest ended with {code}\n{said[-2000:]}")
        return None if code in (0, 5) else next(iter(named), f"ran past {SECONDS} s")

    def _answer(self) -> str:
        assert self._forks.stdout is not None
        return self._forks.stdout.readline()

    def close(self) -> None:
        """End the process that the runs were forked from."""
        self._forks.communicate()

    def first_failure_with(self, mutation: Mutation, quick: bool = False) -> str | None:
        """The first failure of a mutation's tests with it in the copy; None where it survives."""
        path = self.root / mutation.path
        content = path.read_text()
        path.write_text(mutated(content, mutation))
        try:
            return self.first_failure(mutation.tests.split(), quick)
        finally:
            path.write_text(content)


def mutated(content: str, mutation: Mutation) -> str:
    """The text of a file with the fault; raises ValueError unless the text to be replaced occurs just once."""
    if content.count(mutation.old) != 1 or mutation.old == mutation.new:
        raise ValueError(f"{mutation.path}: has {mutation.old!r} {content.count(mutation.old)} times; must be once")
    return content.replace(mutation.old, mutation.new)
