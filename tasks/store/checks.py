"""Verification of published artifacts: sizes always, hashes once for each unchanged file."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tasks.store.files import ABSENT, StatKey, canonical, checksums, pretty, retried, stat_of, write


def fault(root: Path, kind: str, digest: str, path: Path, rehash: bool = False) -> tuple[str, str] | None:
    """Return the first damaged file and its fault, or None. `rehash`: without the cache of verified files.

    Raises `OSError` where a file cannot be read now, which is no fault of the artifact.
    """
    try:
        manifest = json.loads(retried(path / "manifest.json", Path.read_bytes))
        rows = {row["path"]: row for row in manifest["files"]}
        if manifest["digest"] != digest or manifest["kind"] != kind:
            return ("manifest.json", f"belongs to {manifest['kind']}/{manifest['digest'][:12]}")
    except (ValueError, KeyError, TypeError, *ABSENT) as error:
        return "manifest.json", f"cannot be read ({type(error).__name__})"
    verified = _load(root, kind, digest)
    digest_of_manifest = _manifest_mark(manifest)
    if (
        hashlib.sha256(canonical(manifest["inputs"])).hexdigest() != digest
        or verified.get("manifest.json", digest_of_manifest) != digest_of_manifest
    ):
        return "manifest.json", "has been changed"
    verified = {} if rehash else verified
    stat_keys: dict[str, StatKey] = {}
    for name, row in rows.items():
        try:
            stat_keys[name] = retried(path / name, stat_of)
        except ABSENT:
            return name, "is missing"
        if stat_keys[name][0] != row["bytes"]:
            return name, f"has {stat_keys[name][0]} bytes instead of {row['bytes']}"
    unverified = [name for name in rows if verified.get(name) != stat_keys[name]]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for name, actual in zip(
            unverified, pool.map(lambda name: retried(path / name, checksums), unverified), strict=True
        ):
            if actual.sha256 != rows[name]["sha256"]:
                return (name, f"has sha256 {actual.sha256[:12]}… instead of {rows[name]['sha256'][:12]}…")
    if unverified:
        _save(root, kind, digest, {**stat_keys, "manifest.json": digest_of_manifest})
    return None


def save_verified(root: Path, kind: str, digest: str, path: Path, rows: list[dict[str, Any]]) -> None:
    """Cache that the files of an artifact, which has just been published, are verified."""
    stat_keys = {row["path"]: stat_of(path / row["path"]) for row in rows}
    mark = _manifest_mark(json.loads((path / "manifest.json").read_bytes()))
    _save(root, kind, digest, {**stat_keys, "manifest.json": mark})


def _save(root: Path, kind: str, digest: str, verified: dict[str, Any]) -> None:
    """Write the cache; where that fails, the files are hashed again next time."""
    with suppress(OSError):
        write(_cache_file(root, kind, digest), pretty(verified))


def _manifest_mark(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest, which has no row of its own."""
    return hashlib.sha256(canonical(manifest)).hexdigest()


def _load(root: Path, kind: str, digest: str) -> dict[str, Any]:
    try:
        return json.loads(_cache_file(root, kind, digest).read_bytes())
    except (OSError, ValueError):
        return {}


def _cache_file(root: Path, kind: str, digest: str) -> Path:
    return root / ".verified" / kind / f"{digest}.json"
