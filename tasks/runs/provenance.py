"""Provenance of an artifact: run, host, layout, packages and commit, which are not part of its digest."""

from __future__ import annotations

import functools
import platform
import re
import socket
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tasks.runs.home import find_project

PACKAGES = (
    "ai-edge-litert",
    "ai-edge-quantizer",
    "keras",
    "millrace",
    "mlflow",
    "numpy",
    "prefect",
    "scikit-learn",
    "tensorflow",
    "tensorflow-datasets",
)


def produced_by(run_id: str, attempt: int, layout: dict[str, Any]) -> dict[str, Any]:
    """Return `produced_by` of a manifest."""
    return {
        "run": run_id,
        "attempt": attempt,
        "host": socket.gethostname(),
        "layout": layout,
        "packages": packages(),
        "git_commit": git_commit(),
    }


@functools.cache
def packages() -> dict[str, str]:
    """Return the versions of Python and of `PACKAGES`, sorted by name."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))


@functools.cache
def git_commit() -> str | None:
    """Return the commit of the project, with `-dirty` after uncommitted changes; None outside a repository."""
    try:
        commit = _git("rev-parse", "HEAD").strip()
        return f"{commit}-dirty" if _git("status", "--porcelain", "--untracked-files=no").strip() else commit
    except (OSError, subprocess.CalledProcessError):
        return None


DIRTY = "-dirty"


@dataclass(frozen=True)
class History:
    """The history between two commits."""

    commits: list[str]
    """`b 3fcdbd5 Message`, newest first: commits that only a or b has."""

    files: list[str]
    """`M tasks/stage.py`: files that were added, modified or deleted between the first and the second."""


def between_commits(before: str, after: str) -> History | None:
    """Return the history between two commits; None without git or one of the commits."""
    commits = [commit.removesuffix(DIRTY) for commit in (before, after)]
    if not all(re.fullmatch(r"[0-9a-f]{7,64}", commit) for commit in commits):
        return None
    span = "...".join(commits)
    try:
        log = _git("log", "--left-right", "--format=%m %h %s", span)
        files = _git("diff", "--name-status", "--no-renames", *commits)
    except (OSError, subprocess.CalledProcessError):
        return None
    sides = {"<": "a", ">": "b"}
    return History(
        [f"{sides[line[0]]}{line[1:]}" for line in log.splitlines()],
        [" ".join(line.split("\t")) for line in files.splitlines()],
    )


def short(commit: str) -> str:
    """Return an abbreviated commit, with its mark for uncommitted changes."""
    return commit.removesuffix(DIRTY)[:12] + (DIRTY if commit.endswith(DIRTY) else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=find_project(), capture_output=True, text=True, check=True).stdout
