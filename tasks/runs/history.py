"""Commits and files between two commits of this repository."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

DIRTY = "-dirty"
HERE = Path(__file__).parent


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
    return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True).stdout
