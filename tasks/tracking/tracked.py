"""The metrics that are sent to MLflow: those by which runs are compared. The page and `--json` have all.

MLflow has a section of charts for each prefix of a name. It gets each metric of each split, the interval of the primary
metric, of several seeds the scores of each and their means with intervals, and size, primary metric, its loss and
latency of each variant. A name has the same unit in every run.
"""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Artifact
from tasks.exporting import LITERT
from tasks.training.seeds import OVER_SEEDS

LEARNED = "evaluate/learned_baseline_seconds"
"""The measurement of the learned baseline."""


def of_stage(primary: str, stage: str, artifact: Artifact, seconds: float, cached: bool) -> dict[str, float]:
    """Return the metrics of an artifact, and if it was made in this attempt the seconds.

    `primary` is the name of the metric that decides.
    """
    metrics = {name: value for name, value in artifact.metrics.items() if _compares(name, artifact, primary)}
    what = stage if artifact.name == artifact.kind else f"{stage}.{artifact.name}"
    return metrics if cached else {**metrics, f"seconds/{what}": seconds}


def _compares(name: str, artifact: Artifact, metric: str) -> bool:
    if artifact.kind == "variant":
        figures = ("bytes", "size_ratio", f"test/{metric}", f"test/{metric}_loss")
        return name in {f"{artifact.name}/{figure}" for figure in figures}
    if artifact.kind == "export":  # its verification is a check, not a metric
        return False
    return not name.endswith(("/low", "/high")) or name.startswith((f"test/{metric}/", f"{OVER_SEEDS}/"))


def of_measurements(measured: dict[str, Any]) -> dict[str, float]:
    """Return the latency of each variant by batch size and threads relative to the float LiteRT file, where it is
    conclusive, the memory that it takes, and what its fresh process measured: median and 99th percentile of a call with
    one example, and the peak memory; and the seconds of the learned baseline.

    Other milliseconds are on the page.
    """
    latency = measured.get("latency", {})
    fresh = {
        f"{name}/fresh/{figure}": value
        for name, figures in measured.get("fresh_process", {}).items()
        for figure, value in figures.items()
        if figure in ("p50_seconds", "p99_seconds", "peak_bytes")
    }
    memory = {f"{name}/model_peak_bytes": float(value) for name, value in latency.get("peak_bytes", {}).items()}
    simple = {"seconds/learned_baseline": measured[LEARNED]} if LEARNED in measured else {}
    return {**fresh, **memory, **simple} | {
        f"{name}/latency_ratio_{_setting(row)}": figures["ratio"]
        for row in latency.get("settings", ())
        for name, figures in row["variants"].items()
        if row["conclusive"] and name != LITERT  # that file itself
    }


def _setting(row: dict[str, Any]) -> str:
    """Return the name of a setting of latency: the batch size, and the threads where they are several."""
    return str(row["batch"]) if row["threads"] == 1 else f"{row['batch']}_threads_{row['threads']}"
