"""The store: artifacts under the digest of what went into them, published whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from tasks.artifacts import KINDS, Artifact, Outcome
from tasks.errors import Damaged, Failed, Refused
from tasks.store import checks
from tasks.store.files import canonical, pretty, sync, write
from tasks.store.lock import locked
from tasks.store.staging import Staging

FORMAT = 1

Kind = TypeVar("Kind", bound=Artifact)


def digest_of(inputs: dict[str, Any]) -> str:
    """SHA-256 over the canonical JSON of what decides an artifact's bytes."""
    return hashlib.sha256(canonical(inputs)).hexdigest()


@dataclass(frozen=True)
class Claim(Generic[Kind]):
    """The right to make one artifact."""

    store: Store
    kind: type[Kind]
    digest: str
    name: str
    staging: Staging

    def published(self) -> Kind | None:
        """The artifact, if it was made before or by whom we waited for; checked."""
        return self.store.find(self.kind, self.digest, self.name)

    def publish(self, inputs: dict[str, Any], outcome: Outcome, produced_by: dict[str, Any]) -> Kind:
        """Commit: everything durable, the manifest last, one rename. Already published is a success."""
        rows = self.staging.seal()
        if outcome.layouts:
            produced_by = {**produced_by, "layout": {**produced_by["layout"], "spans": outcome.layouts}}
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
        write(self.staging.root / "manifest.json", pretty(manifest))
        return self._commit(self.staging.root, rows)

    def fault(self, folder: Path) -> tuple[str, str] | None:
        """What is wrong with a copy of this artifact that was fetched from elsewhere: a file and its fault."""
        return checks.fault(self.store.root, self.kind.kind, self.digest, folder, afresh=True)

    def take(self, folder: Path) -> Kind:
        """Commit a whole copy that was fetched into the staging."""
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
            checks.remember(self.store.root, self.kind.kind, self.digest, target, rows)
        return self.kind(self.digest, target, self.name)


class Store:
    """`store/<kind>/<digest>/`, its staging, locks, verdicts and damaged goods."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, kind: str, digest: str) -> Path:
        """Where a published artifact lies."""
        return self.root / kind / digest

    def find(self, kind: type[Kind], digest: str, name: str) -> Kind | None:
        """The published artifact, every file checked; None if there is none; `Damaged` if it is not whole."""
        path = self.path(kind.kind, digest)
        if not (path / "manifest.json").exists():
            if path.exists():
                raise self._set_aside(kind.kind, digest, "manifest.json", "is missing")
            return None
        fault = checks.fault(self.root, kind.kind, digest, path)
        if fault is not None:
            raise self._set_aside(kind.kind, digest, *fault)
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
        """Be the one writer of this digest, with the finished pieces of earlier attempts in the staging."""
        with locked(self.root / ".locks" / kind.kind / f"{digest}.lock", waiting, raise_if_stopped) as lock:
            root = self.root / ".staging" / kind.kind / digest
            root.mkdir(parents=True, exist_ok=True)
            yield Claim(self, kind, digest, name, Staging(root, lock.path, lock.token))
            shutil.rmtree(root, ignore_errors=True)

    def published(self, kind: str | None = None) -> list[Path]:
        """The folders of what is published; raises `OSError` where they cannot be listed."""
        folders = [self.root / name for name in ([kind] if kind else KINDS)]
        found = [path for folder in folders if folder.exists() for path in sorted(folder.iterdir())]
        return [path for path in found if (path / "manifest.json").exists()]

    def artifacts(self, kind: str | None = None) -> list[Artifact]:
        """What is published, newest last."""
        found = [handle(path) for path in self.published(kind)]
        return sorted(found, key=lambda artifact: (artifact.manifest["created"], artifact.digest))

    def resolve(self, reference: str, kind: str | None = None) -> Artifact:
        """The artifact that `kind/digest` or an unambiguous digest prefix means."""
        given, _, prefix = reference.rpartition("/")
        if given and given not in KINDS:
            raise Refused(reference, given, f"a kind is one of {', '.join(KINDS)}", "see `millrace list`")
        found = [path for path in self.published(given or kind) if prefix and path.name.startswith(prefix)]
        if len(found) != 1:
            saw = "no such artifact" if not found else ", ".join(f"{p.parent.name}/{p.name[:12]}" for p in found)
            rule = "an artifact is kind/digest or an unambiguous digest prefix"
            raise Refused(reference, saw, rule, "see `millrace list`" if not found else "give more of the digest")
        return handle(found[0])

    def verify(self, path: Path) -> tuple[str, str] | None:
        """Re-hash every file of a published folder, whatever was found before; its first fault, or None."""
        return checks.fault(self.root, path.parent.name, path.name, path, afresh=True)

    def children_of(self, digest: str) -> list[Artifact]:
        """The artifacts made directly from this one."""
        return [found for found in self.artifacts() if digest in found.manifest["parents"].values()]

    def parents_of(self, artifact: Artifact) -> dict[str, Artifact]:
        """The artifacts this one was made from, by kind or name, as far as they still lie here."""
        found = {}
        for name, digest in artifact.manifest["parents"].items():
            for kind in KINDS.values():
                path = self.path(kind.kind, digest)
                if (path / "manifest.json").exists():
                    found[name] = kind(digest, path, name)
        return found

    def _set_aside(self, kind: str, digest: str, file: str, what: str) -> Damaged:
        """Move a damaged artifact out of the readers' way; it stays for whoever wants to look."""
        aside = self.root / ".damaged" / f"{kind}-{digest}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%f')}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.path(kind, digest), aside)
        rule = "a published file never changes"
        return Damaged(f"{kind}/{digest[:12]}/{file}", what, rule, f"moved to {aside}; run again to remake it")


def handle(path: Path) -> Artifact:
    """The handle of a published folder; a variant's name is that of its method, any other's its kind.

    Raises `Failed` for a manifest that tells nothing.
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
    """A manifest as it lies on the disk."""
    return json.loads((path / "manifest.json").read_bytes())
