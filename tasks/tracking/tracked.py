"""Which of a run's figures MLflow is told: those by which runs are compared. The page and `--json` have all.

A hundred figures a run hide the ten that matter, and MLflow opens a section of charts for each slash in a name. So it
gets each metric of each split, the interval of the one by which models are judged, and of a variant its size, that
metric, what it loses of it and its latency. Every name has one unit, and means the same in every run.
"""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Artifact
from tasks.evaluation import primary_metric
from tasks.exporting import LITERT


def of_stage(task: str, stage: str, artifact: Artifact, seconds: float, cached: bool) -> dict[str, float]:
    """Of what a stage handed on; the time it took only where it was made: finding it in the store took none."""
    metric = primary_metric(task)[0]
    metrics = {name: value for name, value in artifact.metrics.items() if _compares(name, artifact, metric)}
    what = stage if artifact.name == artifact.kind else f"{stage}.{artifact.name}"
    return metrics if cached else {**metrics, f"seconds/{what}": seconds}


def _compares(name: str, artifact: Artifact, metric: str) -> bool:
    if artifact.kind == "variant":
        figures = ("bytes", "size_ratio", f"test/{metric}", f"test/{metric}_loss")
        return name in {f"{artifact.name}/{figure}" for figure in figures}
    if artifact.kind == "export":  # that its files answer as they should is a check, and passed
        return False
    return not name.endswith(("/low", "/high")) or name.startswith(f"test/{metric}/")


def of_measurements(measured: dict[str, Any]) -> dict[str, float]:
    """Each variant's latency by batch size, as a share of the float LiteRT file's, where the timing says much.

    Milliseconds hang on the machine and its mood: they are on the page.
    """
    return {
        f"{name}/latency_ratio_{size}": ratio
        for size, row in measured.get("latency", {}).get("batches", {}).items()
        for name, ratio in row["ratios"].items()
        if row["conclusive"] and not name.startswith(LITERT)  # that file itself, and against itself
    }
