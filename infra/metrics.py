"""Prometheus metrics of the stack and of running trainings, served at `/metrics` by Prefect's server.

All values are read from the home at each request.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from infra.stack import Stack
from tasks.store.journal import FILE as JOURNAL
from tasks.store.journal import last_of_training

FRESH = 600.0
"""Seconds after its last point for which a running training is shown."""


class Figures:
    """Collector of a home's metrics."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def collect(self) -> Iterator[Metric]:
        """Yield services, disk, runs by status, and the last point of each running training."""
        yield from self._services()
        free = shutil.disk_usage(self.home).free
        yield GaugeMetricFamily("millrace_disk_free_bytes", "Free space on the disk of the home.", free)
        records = [record for path in sorted(self.home.glob("runs/*/run.json")) if (record := _json(path))]
        ended = GaugeMetricFamily("millrace_runs", "Runs in the home.", labels=("flow", "preset", "status"))
        for labels, count in Counter((row["flow"], row["name"], row["status"]) for row in records).items():
            ended.add_metric(labels, count)
        yield ended
        yield from self._trainings([record for record in records if record["status"] == "running"])

    def _services(self) -> Iterator[Metric]:
        stack = Stack(self.home)
        living = stack.living()
        up = GaugeMetricFamily("millrace_service_up", "1 if the process of a service runs.", labels=("service",))
        memory = GaugeMetricFamily("millrace_service_memory_bytes", "Memory of a service.", labels=("service",))
        for name in stack.started:
            up.add_metric((name,), name in living)
            memory.add_metric((name,), stack.started[name].memory)
        yield from (up, memory)

    def _trainings(self, records: list[dict[str, Any]]) -> Iterator[Metric]:
        step = GaugeMetricFamily("millrace_training_step", "Last logged step.", labels=("run", "preset"))
        by = ("run", "preset", "curve")
        value = GaugeMetricFamily("millrace_training_value", "Last value of a curve.", labels=by)
        for record in records:
            last = last_of_training(self.home / "runs" / record["run_id"] / JOURNAL)
            if last is None or time.time() - last.time > FRESH:
                continue
            step.add_metric((record["run_id"], record["name"]), last.step)
            for name, number in last.metrics.items():
                value.add_metric((record["run_id"], record["name"], name), number)
        yield from (step, value)


def text(home: Path) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(home))
    return generate_latest(registry)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content
    except (OSError, ValueError):
        return None
