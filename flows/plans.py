"""What a flow would make of a config, without making it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tasks.runs.differences import PlannedArtifact
from tasks.store.store import Store

if TYPE_CHECKING:
    from tasks.config.compose import Config


def flow_of(config: Config) -> str:
    """Return the flow that makes a release of a config from raw data."""
    return "pipeline" if config.tune is None else "tuning"


def plan(store: Store, config: Config, name: str = "pipeline") -> dict[str, list[PlannedArtifact]]:
    """Return the artifacts of each stage of a flow: runs it as a preview, which computes no stage."""
    from tasks.runner.modes import previewing

    flow = getattr(importlib.import_module(f"flows.{name}"), name)
    with previewing(store, config) as preview:
        flow.fn.__wrapped__(config)
    return preview.planned
