"""Where unpublished work lies: finished pieces with a sidecar each, adopted by the next attempt.

A piece is a file that was written whole. Its sidecar (size, checksums, a note of the writer's) is written after
it, so a file without one is debris of a killed attempt. Before anything is written the attempt's token is
compared with the lock's: who has been superseded can write nothing.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import Failed
from tasks.store.files import pretty, replacing, sums, sync, write
from tasks.store.lock import Lock

SIDECARS = ".pieces"
MARGIN = 8 << 20
"""Bytes for manifests, logs and the run's own files."""
PASSING = "checkpoints/"
"""Pieces under this name help the work along and are not part of the artifact."""


@dataclass
class Piece:
    """A file to be written: fill `path`; what stands in `note` is given back when the piece is adopted."""

    path: Path
    note: dict[str, Any]


@dataclass(frozen=True)
class Staging:
    """One digest's workplace; small and picklable, so that a child process can write to it."""

    root: Path
    lock: Path
    token: int

    def check(self) -> None:
        """Raise `Superseded` if a newer attempt owns this digest."""
        Lock(self.lock, self.token).check(self.root.name[:12])

    def reserve(self, size: int) -> None:
        """Refuse to begin what cannot end: `Failed` where the disk has no room for `size` bytes beside what lies here.

        An estimate is enough; a disk that others fill meanwhile is found when it is full.
        """
        lying = sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())
        free = shutil.disk_usage(self.root).free
        wanted = max(0, size - lying) + MARGIN
        if free < wanted:
            saw = f"{os.strerror(errno.ENOSPC)}, {mebibytes(free)} free"
            rule = f"what is made here needs about {mebibytes(wanted)}"
            raise Failed(str(self.root), saw, rule, "make room (millrace gc), and run again")

    @contextmanager
    def piece(self, name: str, **note: Any) -> Iterator[Piece]:
        """Write the file `name`: it appears with its sidecar when the block ends, and not at all if it raises."""
        target = self.root / name
        piece = Piece(target, dict(note))
        with replacing(target) as partial:
            piece.path = partial
            yield piece
            found = sums(partial)
            self.check()
            self._sidecar(name).unlink(missing_ok=True)
        write(self._sidecar(name), pretty({**found.as_json(), "note": piece.note}))

    def put(self, name: str, content: bytes, **note: Any) -> None:
        """Write a small file whole."""
        with self.piece(name, **note) as piece:
            piece.path.write_bytes(content)

    def take(self, folder: Path, name: str) -> None:
        """Move a folder that a library wrote (a SavedModel) to `name`, each of its files a piece."""
        for path in sorted(file for file in folder.rglob("*") if file.is_file()):
            with self.piece(f"{name}/{path.relative_to(folder).as_posix()}") as piece:
                os.replace(path, piece.path)
        shutil.rmtree(folder)

    def adopt(self, name: str) -> dict[str, Any] | None:
        """The note of a whole piece of an earlier attempt, its bytes checked; None if it must be written."""
        try:
            sidecar = json.loads(self._sidecar(name).read_bytes())
            if sums(self.root / name).as_json() == {key: sidecar[key] for key in ("bytes", "crc32c", "sha256")}:
                return sidecar["note"]
        except (OSError, ValueError, KeyError):
            pass
        return None

    def drop(self, name: str) -> None:
        """Remove a piece, its sidecar first, so that no half of it is taken for whole."""
        self._sidecar(name).unlink(missing_ok=True)
        (self.root / name).unlink(missing_ok=True)

    def scratch(self, name: str) -> Path:
        """An empty folder for a library to write into; never published."""
        path = self.root / ".scratch" / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def pieces(self, under: str = "") -> dict[str, dict[str, Any]]:
        """Sidecars by piece name, in order of name."""
        root = self.root / SIDECARS
        names = sorted(path.relative_to(root).as_posix()[: -len(".json")] for path in root.rglob("*.json"))
        return {name: json.loads(self._sidecar(name).read_bytes()) for name in names if name.startswith(under)}

    def seal(self) -> list[dict[str, Any]]:
        """Leave nothing but the artifact's pieces; return their manifest rows."""
        rows = [
            {"path": name, **{key: sidecar[key] for key in ("bytes", "crc32c", "sha256")}}
            for name, sidecar in self.pieces().items()
            if not name.startswith(PASSING)
        ]
        kept = {self.root / row["path"] for row in rows}
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path not in kept:
                path.unlink()
        for folder in {path.parent for path in kept}:
            sync(folder)
        return rows

    def _sidecar(self, name: str) -> Path:
        return self.root / SIDECARS / f"{name}.json"


def mebibytes(size: int) -> str:
    """A size as people read it."""
    return f"{size / 2**20:,.0f} MiB"
