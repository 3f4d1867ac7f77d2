"""Differences between the inputs of two artifacts, two configs or two listings of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tasks.artifacts import KINDS, Artifact
from tasks.store.store import Store, digest_of


@dataclass(frozen=True)
class Difference:
    """A value that differs."""

    where: str
    """A config field, a library, a file."""
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.where}: added" if self.after is True else f"{self.where}: none → {self.after}"
        if self.after is None:
            return f"{self.where}: removed" if self.before is True else f"{self.where}: {self.before} → none"
        return f"{self.where}: {self.before} → {self.after}"


@dataclass(frozen=True)
class Keys:
    """Differences between the files or examples of two sources, by key."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    """Keys whose content differs."""
    same: int


@dataclass(frozen=True)
class PlannedArtifact:
    """An artifact of a config, whether it exists or not, by the inputs of its digest."""

    name: str
    inputs: dict[str, Any]
    parents: dict[str, PlannedArtifact]
    """Parents by role, without the base of a continued training, which no stage of the flow makes."""

    @property
    def kind(self) -> str:
        """The artifact's kind."""
        return self.inputs["kind"]

    @property
    def digest(self) -> str:
        """The digest of the artifact."""
        return digest_of(self.inputs)

    def handle(self, store: Store) -> Artifact:
        """Return a handle, with the manifest from the store or, if the artifact does not exist, with its inputs."""
        path = store.path(self.kind, self.digest)
        planned = None
        if not (path / "manifest.json").exists():
            unknown: dict[str, Any] = {"files": [], "counts": {}, "features": {}, "statistics": {}}
            planned = {"inputs": self.inputs, "parents": self.inputs["parents"], **unknown}
        return KINDS[self.kind](self.digest, path, self.name, planned)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested mappings by dotted path."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from leaves(value[key], f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def between(before: Any, after: Any) -> list[Difference]:
    """Return the leaves that differ between two nested mappings."""
    old, new = dict(leaves(before)), dict(leaves(after))
    return [
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def keys(before: list[list[str]], after: list[list[str]]) -> Keys:
    """Compare two listings of keys and content hashes."""
    old, new = {row[0]: row[1] for row in before}, {row[0]: row[1] for row in after}
    both = old.keys() & new.keys()
    changed = sorted(key for key in both if old[key] != new[key])
    return Keys(sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys()), changed, len(both) - len(changed))


def between_sources(before: list[list[str]], after: list[list[str]]) -> list[Difference]:
    """Return each file or example that was added, removed or changed."""
    differences, old, new = keys(before, after), dict(before), dict(after)
    removed = [Difference(key, True, None) for key in differences.removed]
    changed = [Difference(key, f"content {old[key][:12]}", f"{new[key][:12]}") for key in differences.changed]
    return [Difference(key, None, True) for key in differences.added] + removed + changed


def explain(store: Store, before: Artifact, after: PlannedArtifact) -> list[Difference]:
    """Return the differences between the inputs of two artifacts and, recursively, of parents that differ."""
    old, new = before.manifest["inputs"], after.inputs
    differences = between(old["config"], new["config"]) + between_sources(old["sources"], new["sources"])
    differences += [
        Difference(f"{after.name}: code {d.where}", d.before, d.after) for d in between(old["code"], new["code"])
    ]
    parents = store.parents_of(before)
    for name, parent in after.parents.items():
        old_digest = old["parents"].get(name)
        if old_digest == parent.digest:
            continue
        if name in parents:
            differences += explain(store, parents[name], parent)
        else:
            differences.append(
                Difference(f"{after.name}: parent {name}", old_digest and old_digest[:12], parent.digest[:12])
            )
    removed = sorted(set(old["parents"]) - set(new["parents"]))
    differences += [Difference(f"{after.name}: parent {name}", old["parents"][name][:12], None) for name in removed]
    return list({str(difference): difference for difference in differences}.values())


def nearest(store: Store, planned: PlannedArtifact) -> tuple[Artifact, list[Difference]] | None:
    """Return the artifact of the same kind and variant with the fewest differences, and these; None without any."""
    same = [
        artifact
        for artifact in store.artifacts(planned.kind)
        if artifact.manifest["inputs"]["config"].get("variant") == planned.inputs["config"].get("variant")
    ]
    compared = [(explain(store, artifact, planned), artifact) for artifact in reversed(same)]
    if not compared:
        return None
    differences, artifact = min(compared, key=lambda pair: len(pair[0]))
    return artifact, differences
