"""The artifacts of a home by digest: look-up, claims, publication, verification of sizes and hashes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from tasks.artifacts import KINDS, Artifact, Model, Outcome
from tasks.errors import Damaged, Failed, Refused
from tasks.store.files import ABSENT, StatKey, canonical, checksums, pretty, retried, stat_of, sync, write
from tasks.store.lock import locked
from tasks.store.staging import Staging

FORMAT = 1

Kind = TypeVar("Kind", bound=Artifact)


def digest_of(inputs: dict[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of an artifact's inputs, or of its manifest."""
    return hashlib.sha256(canonical(inputs)).hexdigest()


@dataclass(frozen=True)
class Claim(Generic[Kind]):
    """The exclusive right to make an artifact."""

    store: Store
    kind: type[Kind]
    digest: str
    name: str
    staging: Staging

    def published(self) -> Kind | None:
        """Return the artifact, checked, if it is published already; else None."""
        return self.store.find(self.kind, self.digest, self.name)

    def publish(self, inputs: dict[str, Any], outcome: Outcome, produced_by: dict[str, Any]) -> Kind:
        """Publish the finished pieces; succeeds if they are published already.

        They are linked into a folder of their own, which gets the manifest last and is renamed once. Until then the
        staging stays whole, with what is not part of the artifact: an attempt that ends here loses nothing.
        """
        rows = self.staging.rows()
        added = {**outcome.layout, **({"spans": outcome.layouts} if outcome.layouts else {})}
        if added:
            produced_by = {**produced_by, "layout": {**produced_by["layout"], **added}}
        manifest = {
            **outcome.also,
            "format": FORMAT,
            "kind": self.kind.kind,
            "digest": self.digest,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "inputs": inputs,
            "parents": inputs["parents"],
            "files": rows,
            "counts": outcome.counts,
            "features": outcome.features,
            "statistics": outcome.statistics,
            "produced_by": produced_by,
        }
        folder = self.staging.linked(rows)
        write(folder / "manifest.json", pretty(manifest))
        return self._commit(folder, rows)

    def fault(self, folder: Path) -> tuple[str, str] | None:
        """Return the first damaged file of a fetched copy of this artifact, and its fault; None if all are correct."""
        return self.store.fault(self.kind.kind, self.digest, folder, rehash=True)

    def take(self, folder: Path) -> Kind:
        """Publish a complete copy that was fetched into the staging."""
        rows = read_manifest(folder)["files"]
        for path in (folder / name for name in (*(row["path"] for row in rows), "manifest.json")):
            sync(path)
            sync(path.parent)
        return self._commit(folder, rows)

    def _commit(self, folder: Path, rows: list[dict[str, Any]]) -> Kind:
        target = self.store.path(self.kind.kind, self.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.staging.check()
        if not (target / "manifest.json").exists():
            os.rename(folder, target)
            sync(target.parent)
            sync(target.parent.parent)  # the folder of the kind may be new
            shutil.rmtree(self.staging.root, ignore_errors=True)  # first: a link less changes the files' ctime
            self.store.save_verified(self.kind.kind, self.digest, rows)
        return self.kind(self.digest, target, self.name)


class Store:
    """The folder `store/`: artifacts `<kind>/<digest>/`, staging, locks, verification results, damaged artifacts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, kind: str, digest: str) -> Path:
        """Return the folder of a published artifact."""
        return self.root / kind / digest

    def find(self, kind: type[Kind], digest: str, name: str) -> Kind | None:
        """Return the published artifact, every file checked, or None; raises `Damaged` if it is damaged."""
        path = self.path(kind.kind, digest)
        if not (path / "manifest.json").exists():
            if path.exists():
                raise self._set_aside(kind.kind, digest, "manifest.json", "is missing")
            return None
        if (found := self.fault(kind.kind, digest, path)) is not None:
            raise self._set_aside(kind.kind, digest, *found)
        return kind(digest, path, name)

    @contextmanager
    def claim(
        self,
        kind: type[Kind],
        digest: str,
        name: str,
        waiting: Callable[[str], None] = lambda line: None,
        raise_if_stopped: Callable[[], None] = lambda: None,
    ) -> Iterator[Claim[Kind]]:
        """Lock a digest as its only writer; the staging has the finished pieces of earlier attempts."""
        with locked(self.root / ".locks" / kind.kind / f"{digest}.lock", waiting, raise_if_stopped) as lock:
            root = self.root / ".staging" / kind.kind / digest
            root.mkdir(parents=True, exist_ok=True)
            staging = Staging(root, lock.path, lock.token)
            staging.clear()
            yield Claim(self, kind, digest, name, staging)
            shutil.rmtree(root, ignore_errors=True)

    def published(self, kind: str | None = None) -> list[Path]:
        """Return the folders of all published artifacts; raises `OSError` where they cannot be listed."""
        folders = [self.root / name for name in ([kind] if kind else KINDS)]
        paths = [path for folder in folders if folder.exists() for path in sorted(folder.iterdir())]
        return [path for path in paths if (path / "manifest.json").exists()]

    def artifacts(self, kind: str | None = None) -> list[Artifact]:
        """Return all published artifacts, newest last."""
        artifacts = [handle(path) for path in self.published(kind)]
        return sorted(artifacts, key=lambda artifact: (artifact.manifest["created"], artifact.digest))

    def resolve(self, reference: str, kind: str | None = None) -> Artifact:
        """Return the artifact of `kind/digest` or a digest prefix; raises `Refused` for no or several matches."""
        given, _, prefix = reference.rpartition("/")
        if given and given not in KINDS:
            raise Refused(reference, given, f"a kind is one of {', '.join(KINDS)}", "see `millrace list`")
        matches = [path for path in self.published(given or kind) if prefix and path.name.startswith(prefix)]
        if len(matches) != 1:
            saw = "no such artifact" if not matches else ", ".join(f"{p.parent.name}/{p.name[:12]}" for p in matches)
            rule = "an artifact is kind/digest or an unambiguous digest prefix"
            raise Refused(reference, saw, rule, "see `millrace list`" if not matches else "give more of the digest")
        return handle(matches[0])

    def resolve_model(self, reference: str, field: str) -> Model:
        """Return the model that a setting names; raises `Refused` with that field."""
        try:
            return cast(Model, self.resolve(reference, Model.kind))
        except Refused as unknown:
            raise Refused(field, f"{reference}: {unknown.saw}", unknown.rule, unknown.remedy) from None

    def verify(self, path: Path) -> tuple[str, str] | None:
        """Hash every file of a published folder again; return the first damaged file and its fault, or None."""
        return self.fault(path.parent.name, path.name, path, rehash=True)

    def children_of(self, digest: str) -> list[Artifact]:
        """Return the artifacts made directly from this one."""
        return [artifact for artifact in self.artifacts() if digest in artifact.manifest["parents"].values()]

    def parents_of(self, artifact: Artifact) -> dict[str, Artifact]:
        """Return the artifacts that this one was made from, by role, as far as they are in the store."""
        parents = {}
        for name, digest in artifact.manifest["parents"].items():
            for kind in KINDS.values():
                path = self.path(kind.kind, digest)
                if (path / "manifest.json").exists():
                    parents[name] = kind(digest, path, name)
        return parents

    def fault(self, kind: str, digest: str, path: Path, rehash: bool = False) -> tuple[str, str] | None:
        """Return the first damaged file of an artifact in a folder, and its fault; None if all are correct.

        Args:
            rehash: without the cache of verified files.

        Raises:
            OSError: a file cannot be read now, which is no fault of the artifact.
        """
        try:
            manifest = read_manifest(path)
            rows = {row["path"]: row for row in manifest["files"]}
            if manifest["digest"] != digest or manifest["kind"] != kind:
                return ("manifest.json", f"belongs to {manifest['kind']}/{manifest['digest'][:12]}")
        except (ValueError, KeyError, TypeError, *ABSENT) as error:
            return "manifest.json", f"cannot be read ({type(error).__name__})"
        verified, mark = self._verified(kind, digest), digest_of(manifest)
        if digest_of(manifest["inputs"]) != digest or verified.get("manifest.json", mark) != mark:
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
            hashed = pool.map(lambda name: retried(path / name, checksums), unverified)
            for name, actual in zip(unverified, hashed, strict=True):
                if actual.sha256 != rows[name]["sha256"]:
                    return (name, f"has sha256 {actual.sha256[:12]}… instead of {rows[name]['sha256'][:12]}…")
        if unverified:
            self._save_verified(kind, digest, {**stat_keys, "manifest.json": mark})
        return None

    def save_verified(self, kind: str, digest: str, rows: list[dict[str, Any]]) -> None:
        """Cache that the files of an artifact, which has just been published, are verified."""
        path = self.path(kind, digest)
        stat_keys = {row["path"]: stat_of(path / row["path"]) for row in rows}
        manifest = json.loads((path / "manifest.json").read_bytes())
        self._save_verified(kind, digest, {**stat_keys, "manifest.json": digest_of(manifest)})

    def _save_verified(self, kind: str, digest: str, verified: dict[str, Any]) -> None:
        """Write the cache: what tells each file from a changed one. Where that fails, they are hashed again next time.

        A manifest, which has no row of its own, is known by its hash.
        """
        with suppress(OSError):
            write(self._cache_file(kind, digest), pretty(verified))

    def _verified(self, kind: str, digest: str) -> dict[str, Any]:
        try:
            return json.loads(self._cache_file(kind, digest).read_bytes())
        except (OSError, ValueError):
            return {}

    def _cache_file(self, kind: str, digest: str) -> Path:
        return self.root / ".verified" / kind / f"{digest}.json"

    def _set_aside(self, kind: str, digest: str, file: str, what: str) -> Damaged:
        """Move a damaged artifact to `.damaged`, where it stays for inspection, and return the error."""
        aside = self.root / ".damaged" / f"{kind}-{digest}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%f')}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.path(kind, digest), aside)
        rule = "a published file never changes"
        return Damaged(f"{kind}/{digest[:12]}/{file}", what, rule, f"moved to {aside}; run again to remake it")


def handle(path: Path) -> Artifact:
    """Return the handle of a published folder; a variant's name is that of its method, any other's its kind.

    Raises `Failed` for an unreadable manifest.
    """
    kind = path.parent.name
    try:
        manifest = read_manifest(path)
        name, _ = manifest["inputs"]["config"].get("variant", kind), manifest["created"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        saw, rule = f"cannot be read ({type(error).__name__})", "a published file never changes"
        raise Failed(f"{kind}/{path.name[:12]}/manifest.json", saw, rule, f"remove {path}") from None
    return KINDS[kind](path.name, path, name)


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a folder."""
    return json.loads(retried(path / "manifest.json", Path.read_bytes))
