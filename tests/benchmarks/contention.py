"""Prefect's server under several clients at a time on SQLite: our serving of it against Prefect's own.

    python -m tests.benchmarks.contention

Counted is what was granted in a second; a refused request is asked again by Prefect's clients, after a wait.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from infra.embedded import ENVIRONMENT
from infra.services import answers
from tests.support.load import Answer, load
from tests.support.stacks import free_ports, wait

ROUNDS, CLIENTS, SECONDS = 5, (1, 6), 8
WAYS = {
    "ours": "infra.prefect_server:application",
    "ours again": "infra.prefect_server:application",
    "Prefect's": "prefect.server.api.server:create_app",
}


def main() -> None:
    """Each number of clients, a few times."""
    for clients in CLIENTS:
        rates: dict[str, list[float]] = {name: [] for name in WAYS}
        for number in range(ROUNDS):
            for name in WAYS if number % 2 == 0 else reversed(WAYS):
                asked, took = served(WAYS[name], clients)
                granted = [each for each in asked if each.status < 300]
                rates[name].append(len(granted) / took)
                refused, longest = 1 - len(granted) / len(asked), max(each.seconds for each in asked)
                print(f"  {name:<12}{rates[name][-1]:7.1f} a second, {refused:4.0%} refused, longest {longest:5.1f} s")
        print(f"{clients} at a time: granted in a second, median of {ROUNDS}; our ratio to it [lowest, highest]")
        for name, values in rates.items():
            ratios = [one / other for one, other in zip(rates["ours"], values, strict=True)]
            ratio_text = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]"
            print(f"  {name:<12}{statistics.median(values):7.1f}  {ratio_text}")


def served(application: str, clients: int) -> tuple[list[Answer], float]:
    """What a new server answered, and the seconds in which it did."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_ports()[0]
        command = [sys.executable, "-m", "uvicorn", "--factory", application, "--port", port, "--log-level", "error"]
        environment = {**os.environ, **ENVIRONMENT, "PREFECT_HOME": folder}
        with open(Path(folder) / "log", "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            url = f"http://127.0.0.1:{port}/api"
            wait(lambda: answers(f"{url}/health"))
            started = time.monotonic()
            return load(url, clients, SECONDS), time.monotonic() - started
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
