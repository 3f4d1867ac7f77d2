"""Whether Prefect has the deployments of prefect.yaml already: `prefect deploy --all` takes 20 seconds.

After a deployment, `prefect/deployed.json` in the home stores a hash of what it was made from, and what Prefect's
server then had. Both must be the same for it to be left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from infra import records
from infra.services import Layout, ask

FILE = "prefect/deployed.json"

READ_PRESET = "flows.deploying.read_preset"
"""The build step whose result is known by its file; another one may give another result at any time."""

CODE = ("flows", "tasks")
"""The packages that decide a deployment's description and the schema of its parameters."""

CHANGING = ("updated", "last_polled", "status", "active_slots", "denied_slots", "active", "paused")
"""What a server changes in a deployment by itself, and what somebody switches on its pages."""


def is_deployed(layout: Layout, commit: str | None) -> bool:
    """Return whether the server has what `prefect deploy --all` would give it."""
    stored = layout.home / FILE
    if not stored.exists():
        return False
    sources = sources_sha256(layout, commit)
    return sources is not None and json.loads(stored.read_bytes()) == [sources, served_sha256(layout)]


def store(layout: Layout, commit: str | None) -> None:
    """Store what was deployed just now."""
    records.write(layout.home / FILE, [sources_sha256(layout, commit), served_sha256(layout)])


def sources_sha256(layout: Layout, commit: str | None) -> str | None:
    """Return the hash of prefect.yaml, its presets and `CODE`; None if it has a build step of the user's."""
    written = (layout.project / "prefect.yaml").read_bytes()
    presets = []
    for step in build_steps(yaml.safe_load(written)):
        if READ_PRESET not in step:
            return None
        presets.append(layout.project / step[READ_PRESET]["path"])
    code = [path for package in CODE for path in folder_of(package).rglob("*.py")]
    content = hashlib.sha256(f"{version('prefect')} {commit} {layout.project}".encode() + written)
    for path in [*presets, *sorted(code)]:
        content.update(hashlib.sha256(path.read_bytes() if path.exists() else b"").digest())
    return content.hexdigest()


def folder_of(package: str) -> Path:
    """Return the folder of an installed package."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def build_steps(written: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the build steps of all deployments."""
    for deployment in written.get("deployments") or []:
        yield from deployment.get("build", written.get("build")) or []


def served_sha256(layout: Layout) -> str:
    """Return the hash of the server's deployments."""
    rows = ask(layout, "POST", "/deployments/filter", {"sort": "NAME_ASC"})
    return hashlib.sha256(json.dumps(lasting(rows), sort_keys=True).encode()).hexdigest()


def lasting(value: Any) -> Any:
    """Return a value from the server without what changes without an installation."""
    if isinstance(value, dict):
        return {key: lasting(each) for key, each in value.items() if key not in CHANGING}
    return [lasting(each) for each in value] if isinstance(value, list) else value
