"""The stack: seconds to ready, memory, and what a deployed run takes beyond `millrace run`.

    python -m tests.benchmarks.servers

All stages of the flow come from the store, so the seconds are those of the platform.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path

from tests.support.homes import DIGITS, SMALL
from tests.support.stacks import Up, free_ports

ROUNDS = 5
SAME = {"train": {"steps": 60, "schedule": {"warmup": 5}, "checkpoint": {"every": 10}}}


def main() -> None:
    """Both questions, each a few times."""
    os.environ.update(zip(("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"), free_ports(), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        home = Up(Path(folder) / "home")
        ready, memory = [], []
        try:
            for _ in range(ROUNDS):
                home("down")
                started = time.monotonic()
                home.up()
                ready.append(time.monotonic() - started)
                memory.append(sum(home("status", "--json").json["memory"].values()) / 2**30)
            print(f"up to ready: {in_seconds(ready)} s; the first, which makes the databases, {ready[0]:.1f} s")
            print(f"memory of the three services: {in_seconds(memory)} GiB")
            command, deployed = [], []
            assert home("run", "pipeline", DIGITS, *SMALL, timeout=600).code == 0
            for number in range(ROUNDS + 1):
                started = time.monotonic()
                answer = home("run", "pipeline", DIGITS, *SMALL, "--json")
                took = time.monotonic() - started
                assert all(row["cached"] for rows in answer.json["artifacts"].values() for row in rows)
                asked = time.monotonic()
                run = home.wait_for(home.start_deployment("pipeline/digits", SAME))
                assert run["state"]["type"] == "COMPLETED", run["state"]
                if number:  # the first warms up
                    command.append(took)
                    deployed.append(time.monotonic() - asked)
                    ended = datetime.fromisoformat(run["end_time"]) - datetime.fromisoformat(run["start_time"])
                    flow = ended.total_seconds()
                    print(f"  millrace run {took:.1f} s, deployed {deployed[-1]:.1f} s, of it the flow {flow:.1f} s")
            ratios = [one / other for one, other in zip(deployed, command, strict=True)]
            print(
                f"millrace run: {in_seconds(command)} s; deployed: {in_seconds(deployed)} s; ratio {in_seconds(ratios)}"
            )
        finally:
            home("down")


def in_seconds(values: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


if __name__ == "__main__":
    main()
