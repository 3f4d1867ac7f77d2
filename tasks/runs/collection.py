"""What nobody needs any more: artifacts, studies, staging and damaged goods; safe beside running runs.

Needed is what the last runs, unfinished runs and releases use, and everything that was made from. A run writes what
it uses before it uses it; gc takes an artifact's lock, looks once more, and only then removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasks.artifacts import KINDS
from tasks.runs.home import Home
from tasks.runs.runs import FINISHED, LOCK, Run, find_runs, trials_of
from tasks.store.store import Store, read_manifest


@dataclass(frozen=True)
class Dropped:
    """Something that was, or with a dry run would be, removed."""

    what: str
    path: Path
    bytes: int


def collect(home: Home, keep: int, dry_run: bool) -> list[Dropped]:
    """Remove what no run of the last `keep`, no unfinished run and no release needs."""
    dropped = []
    for path in sorted((home.store / ".damaged").glob("*")):  # and what a collection that was killed left there
        dropped.append(Dropped(f"damaged {path.name[:40]}", path, size(path)))
        if not dry_run:
            shutil.rmtree(path)
    return [*dropped, *_drop(home, Needs(home, keep), lambda name: True, dry_run)]


def collect_of(home: Home, runs: Sequence[Run], dry_run: bool) -> list[Dropped]:
    """Remove what these runs use, and no other run."""
    without = frozenset(run.run_id for run in runs)
    theirs = used(home, with_trials(runs))
    return list(_drop(home, Needs(home, None, without), theirs.__contains__, dry_run))


def _drop(home: Home, needs: Needs, chosen: Callable[[str], bool], dry_run: bool) -> Iterator[Dropped]:
    """Remove the artifacts, studies and stagings that are chosen by their names, and that nothing needs."""
    for artifact in Store(home.store).artifacts():
        name = f"{artifact.kind}/{artifact.digest}"
        if name in needs.names or not chosen(name):
            continue
        with try_lock(home.store / ".locks" / artifact.kind / f"{artifact.digest}.lock") as locked:
            if not locked or needs.by_now(name):
                continue
            yield Dropped(name, artifact.path, size(artifact.path))
            if not dry_run:
                remove(home, artifact.path)
                (home.store / ".verified" / artifact.kind / f"{artifact.digest}.json").unlink(missing_ok=True)
    for path in sorted(home.studies.glob("*.db")):
        name = f"study/{path.stem}"
        with try_lock(path.with_suffix(".lock")) as locked:
            if locked and chosen(name) and not needs.by_now(name):
                yield Dropped(name, path, path.stat().st_size)
                if not dry_run:
                    path.unlink()
    for path in sorted((home.store / ".staging").glob("*/*")):
        name = f"{path.parent.name}/{path.name}"
        with try_lock(home.store / ".locks" / path.parent.name / f"{path.name}.lock") as locked:
            if locked and chosen(name) and not needs.by_now(name):
                yield Dropped(f"staging of {name[:40]}", path, size(path))
                if not dry_run:
                    remove(home, path)


class Needs:
    """What must stay: read once, and then only what has been added.

    A run records what it uses before it uses it, and is unfinished then. One that begins, or goes on, takes the lock of
    all runs as it is marked as running (`tasks.runs.runs.opened`), whose token grows by that. So what is added comes
    from the runs that were unfinished when the others were read, or the token has grown since.
    """

    def __init__(self, home: Home, keep: int | None, without: frozenset[str] = frozenset()) -> None:
        """Read what the last `keep` runs need, or all of them, apart from those that are named."""
        self.home, self._keep, self._without = home, keep, without
        self._parents: dict[str, set[str]] = {}
        self._look()

    def by_now(self, name: str) -> bool:
        """Return whether a name of an artifact or a study is needed by now; its lock is held."""
        if _opened(self.home) != self._last_opened:
            self._look()
        else:
            self.names |= used(self.home, with_trials(self._unfinished), self._parents)
        return name in self.names

    def _look(self) -> None:
        self._last_opened = _opened(self.home)  # first: a run that is opened now is read again
        runs = [run for run in find_runs(self.home) if run.run_id not in self._without]
        self._unfinished = [run for run in runs if unfinished(run)]
        first = max(len(runs) - self._keep, 0) if self._keep is not None else 0
        older = runs[:first]
        whole = [*runs[first:], *filter(unfinished, older)]
        self.names = used(self.home, [*with_trials(whole), *filter(released, older)], self._parents)
        """`kind/digest` of the artifacts that must stay, with their ancestors, and `study/digest` of studies. The
        run of a tuning keeps the models of its trials; a release alone needs the best one."""


def with_trials(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs, each followed by its trials."""
    for run in runs:
        yield run
        yield from trials_of(run)


def _opened(home: Home) -> bytes:
    """Return what changes whenever a run begins or goes on."""
    lock = home.runs / LOCK
    return lock.read_bytes() if lock.exists() else b""


def needed_by_releases(home: Home) -> set[str]:
    """Return `kind/digest` of the released artifacts in the store and their ancestors."""
    names = used(home, [run for run in find_runs(home) if released(run)])
    return {name for name in names if (home.store / name / "manifest.json").exists()}


def used(home: Home, runs: Iterable[Run], parents: dict[str, set[str]] | None = None) -> set[str]:
    """Return `kind/digest` of the artifacts that runs use, with their ancestors.

    `parents` remembers those of artifacts that were read before, whose manifests never change.
    """
    known: dict[str, set[str]] = {} if parents is None else parents
    pending: set[str] = set()
    for run in runs:
        uses = run.folder / "uses"
        pending |= set(uses.read_text().split()) if uses.exists() else set()
    names: set[str] = set()
    while pending:
        name = pending.pop()
        names.add(name)
        if name not in known and (home.store / name / "manifest.json").exists():
            digests = read_manifest(home.store / name)["parents"].values()
            known[name] = {
                f"{kind}/{digest}" for digest in digests for kind in KINDS if (home.store / kind / digest).exists()
            }
        pending |= known.get(name, set()) - names
    return names


def unfinished(run: Run) -> bool:
    """Return whether a run can be continued or awaits approval."""
    return run.exit_code not in FINISHED or run.record["status"] == "awaiting_approval"


def released(run: Run) -> bool:
    """Return whether a run has a champion."""
    return (run.folder / "release.json").exists() and run.exit_code == 0


def drop_staging(run: Run) -> None:
    """Remove the staging of a run that nobody continues, except what another process works on."""
    for name in (run.folder / "uses").read_text().split():
        path, lock = run.home.store / ".staging" / name, run.home.store / ".locks" / f"{name}.lock"
        with try_lock(lock) as free:
            if free and path.exists():
                remove(run.home, path)


@contextmanager
def try_lock(lock: Path) -> Iterator[bool]:
    """Take the lock of an artifact if it is free; yield whether."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def remove(home: Home, path: Path) -> None:
    """Delete a folder after a rename, so that no reader sees a part of it."""
    away = home.store / ".damaged" / f"gone-{path.parent.name}-{path.name}"
    away.parent.mkdir(exist_ok=True)
    os.rename(path, away)
    shutil.rmtree(away)


def size(path: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
