"""The staging of an artifact: finished pieces, each with a sidecar, which the next attempt can adopt.

A piece is a completely written file. Its sidecar (size, checksums, a note of the writer) is written afterwards, so that
a file without one is left from a killed attempt. Before every write the attempt's token is compared with the lock's: a
superseded attempt can write nothing.
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
from tasks.store.files import ABSENT, checksums, clear, link, pretty, replacing, retried, sync, write
from tasks.store.lock import Lock

SIDECARS = ".pieces"
MARGIN = 8 << 20
"""Bytes to keep free for manifests, logs and the run's own files."""
TEMPORARY = "checkpoints/"
"""Prefix of pieces that are not part of the artifact."""
PUBLICATION = ".publication"
"""The folder in which the artifact is put together."""


@dataclass
class Piece:
    """A file to be written to `path`; `note` is returned when the piece is adopted."""

    path: Path
    note: dict[str, Any]


@dataclass(frozen=True)
class Staging:
    """The staging folder of a digest; small and picklable, for child processes."""

    root: Path
    lock: Path
    token: int

    def check(self) -> None:
        """Raise `Superseded` if a newer attempt has the lock of this digest."""
        Lock(self.lock, self.token).check(self.root.name[:12])

    def clear(self) -> None:
        """Remove what a killed attempt had not finished: a library that reads a folder would find it."""
        shutil.rmtree(self.root / PUBLICATION, ignore_errors=True)
        clear(self.root)

    def reserve(self, size: int) -> None:
        """Raise `Failed` where the disk has not enough space for `size` bytes, including the files already written.

        An estimate is enough: a disk that fills up later raises an error then.
        """
        present = sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())
        free = shutil.disk_usage(self.root).free
        needed = max(0, size - present) + MARGIN
        if free < needed:
            saw = f"{os.strerror(errno.ENOSPC)}, {mebibytes(free)} free"
            rule = f"what is made here needs about {mebibytes(needed)}"
            raise Failed(str(self.root), saw, rule, "make room (millrace gc), and run again")

    @contextmanager
    def piece(self, name: str, **note: Any) -> Iterator[Piece]:
        """Write the file `name`; it is committed with its sidecar when the block ends without an error."""
        target = self.root / name
        piece = Piece(target, dict(note))
        with replacing(target) as partial:
            piece.path = partial
            yield piece
            sums_of_file = checksums(partial)
            self.check()
            self._sidecar(name).unlink(missing_ok=True)
        write(self._sidecar(name), pretty({**sums_of_file.as_json(), "note": piece.note}))

    def put(self, name: str, content: bytes, **note: Any) -> None:
        """Write a small file as a piece."""
        with self.piece(name, **note) as piece:
            piece.path.write_bytes(content)

    def take(self, folder: Path) -> None:
        """Move the files that a library wrote into a scratch folder, each as a piece of the same relative path."""
        for path in sorted(file for file in folder.rglob("*") if file.is_file()):
            with self.piece(path.relative_to(folder).as_posix()) as piece:
                os.replace(path, piece.path)
        shutil.rmtree(folder)

    def adopt(self, name: str) -> dict[str, Any] | None:
        """Return the note of a finished piece, its checksums verified; None if it must be written.

        Raises `OSError` where it cannot be read now, which is no reason to write it again.
        """
        try:
            sidecar = json.loads(retried(self._sidecar(name), Path.read_bytes))
            made = retried(self.root / name, checksums).as_json()
            return sidecar["note"] if made == {key: sidecar[key] for key in made} else None
        except (*ABSENT, ValueError, KeyError):
            return None

    def drop(self, name: str) -> None:
        """Remove a piece, its sidecar first."""
        self._sidecar(name).unlink(missing_ok=True)
        (self.root / name).unlink(missing_ok=True)

    def scratch(self, name: str) -> Path:
        """Create an empty folder for a library to write to; it is not published."""
        path = self.root / ".scratch" / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def pieces(self, under: str = "") -> dict[str, dict[str, Any]]:
        """Return sidecars by piece name, in order of name."""
        root = self.root / SIDECARS
        names = sorted(path.relative_to(root).as_posix()[: -len(".json")] for path in root.rglob("*.json"))
        return {
            name: json.loads(retried(self._sidecar(name), Path.read_bytes)) for name in names if name.startswith(under)
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the manifest rows of the artifact's pieces."""
        return [
            {"path": name, **{key: sidecar[key] for key in ("bytes", "crc32c", "sha256")}}
            for name, sidecar in self.pieces().items()
            if not name.startswith(TEMPORARY)
        ]

    def linked(self, rows: list[dict[str, Any]]) -> Path:
        """Return a folder with the files of manifest rows, synced; the pieces stay for the next attempt."""
        folder = self.root / PUBLICATION
        folder.mkdir()
        for row in rows:
            target = folder / row["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            link(self.root / row["path"], target)
        for inner in folder.glob("**/"):
            sync(inner)
        return folder

    def _sidecar(self, name: str) -> Path:
        return self.root / SIDECARS / f"{name}.json"


def mebibytes(size: int) -> str:
    """Format a size in MiB."""
    return f"{size / 2**20:,.0f} MiB"
