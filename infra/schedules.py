"""The schedules of a home: `millrace schedule` writes them, and `millrace up` makes a deployment of each.

They are in `schedules.json`, and for Prefect in a file of its own format, so that `prefect deploy --all`, which reads
the project's prefect.yaml, leaves them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from infra.services import POOL, Layout, write_json

Missed = Literal["run", "skip"]

STRATEGIES: dict[Missed, str] = {"run": "ENQUEUE", "skip": "CANCEL_NEW"}
"""What Prefect does with a run that a worker takes up while another one of its deployment is at work."""

SCHEDULES = "schedules.yaml"
"""The file in Prefect's format, in the home's folder of Prefect."""

TAG = "millrace-schedule"
"""In Prefect, the tag of the deployments of schedules: one that is no longer in the home is deleted."""


@dataclass(frozen=True)
class Schedule:
    """When a flow runs with a preset."""

    flow: str
    name: str
    """Of the deployment; together with the flow it is the schedule's name."""
    preset: str
    """Absolute path, from which each installation reads the config."""
    flags: dict[str, str]
    cron: str
    timezone: str
    missed: Missed
    pool: str = POOL
    """The work pool; that of `millrace up` by default."""

    @property
    def deployment(self) -> str:
        """The deployment's name, `flow/name`."""
        return f"{self.flow}/{self.name}"

    @property
    def text(self) -> str:
        """The schedule in a line."""
        return f"{self.cron} {self.timezone}"

    def as_deployment(self) -> dict[str, Any]:
        """Return the entry under `deployments` of a file in Prefect's format."""
        step = {"id": "preset", "path": self.preset, "flags": self.flags}
        return {
            "name": self.name,
            "entrypoint": f"flows.{self.flow}.{self.flow}",
            "description": f"{self.preset}, scheduled by `millrace schedule`.",
            "tags": [TAG],
            "version": "{{ preset.commit }}",
            "build": [{"flows.deploying.read_preset": step}],
            "parameters": {"config": "{{ preset.config }}"},
            "schedules": [{"cron": self.cron, "timezone": self.timezone, "active": True}],
            "concurrency_limit": {"limit": 1, "collision_strategy": STRATEGIES[self.missed]},
            "work_pool": {"name": self.pool},
        }


def path_in(home: Path) -> Path:
    """Return the path of the schedules of a home."""
    return home / "schedules.json"


def schedules(home: Path) -> list[Schedule]:
    """Return the schedules of a home, by name."""
    path = path_in(home)
    rows = json.loads(path.read_bytes()) if path.exists() else []
    return [Schedule(**row) for row in rows]


def write(home: Path, wanted: Iterable[Schedule]) -> None:
    """Replace the schedules of a home."""
    write_json(path_in(home), [asdict(each) for each in sorted(wanted, key=lambda each: each.deployment)])


def write_deployments(layout: Layout) -> None:
    """Write the schedules in Prefect's format, as this version of Millrace has it; without any there is no file."""
    path, wanted = _deployments_in(layout.home), schedules(layout.home)
    if not wanted:
        path.unlink(missing_ok=True)
        return
    import yaml

    content = {"name": "millrace", "pull": [], "deployments": [each.as_deployment() for each in wanted]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def deployment_files(layout: Layout) -> list[Path]:
    """Return the files whose deployments are installed: prefect.yaml, and that of the schedules if there are any."""
    path = _deployments_in(layout.home)
    return [layout.project / "prefect.yaml", *([path] if path.exists() else [])]


def _deployments_in(home: Path) -> Path:
    return home / "prefect" / SCHEDULES
