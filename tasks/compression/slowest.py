"""The latency of a variant as one number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.evaluation.gates import Ratio


def slowest_of(name: str, latency: Mapping[str, Any]) -> Ratio | None:
    """Return a variant's largest latency ratio of all batch sizes on one thread, with the error that the float file
    against itself shows, where that measurement was not conclusive; None where it was not measured."""
    rows = [row for row in latency.get("settings", ()) if row["threads"] == 1 and name in row["variants"]]
    if not rows:
        return None
    row = max(rows, key=lambda row: row["variants"][name]["ratio"])
    return Ratio(row["variants"][name]["ratio"], 1.0 if row["conclusive"] else max(row["again"], 1 / row["again"]))
