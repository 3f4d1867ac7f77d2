"""Is a published artifact what its manifest says? Sizes always; bytes once per file as the disk knows it."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tasks.store.files import canonical, pretty, sums, write

Mark = list[int]
"""(size, mtime_ns, ctime_ns, inode): while these stay, the bytes are taken to stay."""


def fault(root: Path, kind: str, digest: str, path: Path, afresh: bool = False) -> tuple[str, str] | None:
    """The first file that is not as the manifest says, and what is wrong with it; None when all are whole."""
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        rows = {row["path"]: row for row in manifest["files"]}
        if manifest["digest"] != digest or manifest["kind"] != kind:
            return ("manifest.json", f"belongs to {manifest['kind']}/{manifest['digest'][:12]}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        return "manifest.json", f"cannot be read ({type(error).__name__})"
    known = _recall(root, kind, digest)
    mark = _manifest_mark(manifest)
    if hashlib.sha256(canonical(manifest["inputs"])).hexdigest() != digest or known.get("manifest.json", mark) != mark:
        return "manifest.json", "has been changed"
    known = {} if afresh else known
    marks: dict[str, Mark] = {}
    for name, row in rows.items():
        try:
            marks[name] = _mark(path / name)
        except OSError:
            return name, "is missing"
        if marks[name][0] != row["bytes"]:
            return name, f"has {marks[name][0]} bytes instead of {row['bytes']}"
    unsure = [name for name in rows if known.get(name) != marks[name]]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for name, found in zip(unsure, pool.map(lambda name: sums(path / name), unsure), strict=True):
            if found.sha256 != rows[name]["sha256"]:
                return (name, f"has sha256 {found.sha256[:12]}… instead of {rows[name]['sha256'][:12]}…")
    if unsure:
        remember(root, kind, digest, path, list(rows.values()))
    return None


def remember(root: Path, kind: str, digest: str, path: Path, rows: list[dict[str, Any]]) -> None:
    """Keep the verdict that these files are whole; where it cannot be kept they are hashed again."""
    marks: dict[str, Any] = {row["path"]: _mark(path / row["path"]) for row in rows}
    marks["manifest.json"] = _manifest_mark(json.loads((path / "manifest.json").read_bytes()))
    with suppress(OSError):
        write(_verdict(root, kind, digest), pretty(marks))


def _manifest_mark(manifest: dict[str, Any]) -> str:
    """A manifest has no row of its own: its whole content stands for it."""
    return hashlib.sha256(canonical(manifest)).hexdigest()


def _mark(path: Path) -> Mark:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _recall(root: Path, kind: str, digest: str) -> dict[str, Any]:
    try:
        return json.loads(_verdict(root, kind, digest).read_bytes())
    except (OSError, ValueError):
        return {}


def _verdict(root: Path, kind: str, digest: str) -> Path:
    return root / ".verified" / kind / f"{digest}.json"
