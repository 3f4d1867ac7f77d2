"""What a flow would make of a config, without making it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.runs.differences import PlannedArtifact
from tasks.store.store import Store

if TYPE_CHECKING:
    from tasks.config import Config


def plan(store: Store, config: Config) -> dict[str, list[PlannedArtifact]]:
    """Return the artifacts of each stage of the pipeline: runs the flow with a planner, which computes no stage."""
    from flows.pipeline import pipeline
    from tasks.stage.planner import planning

    with planning(store, config) as planner:
        pipeline.fn.__wrapped__(config)  # type: ignore[attr-defined]
    return planner.planned
