"""What a training's step takes with MLflow's server up, hanging and gone, against tracking into a local file.

    python -m tests.benchmarks.tracking

Each figure is `train/step_ms` of a whole run, in turns; the local file is measured twice, and its ratio is the noise.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from tests.support.homes import DIGITS, CommandHome
from tests.support.servers import Server
from tests.support.stacks import free_ports

ROUNDS = 5
STEPS = 2_000
FLAGS = ["--train.steps", str(STEPS), "--train.log_every", "10", "--train.evaluate_every", str(STEPS)]
CASES = ("local file", "server up", "server hanging", "server gone", "local file again")


def step_ms(root: Path, address: str | None, number: int, server: Server | None) -> float:
    """Milliseconds a step of one training; a `server` hangs from its first checkpoint to its end."""
    home = CommandHome(root, given={} if address is None else {"MLFLOW_TRACKING_URI": address})
    process = home.start("run", "training", DIGITS, *FLAGS, "--seed", str(number), "--json")
    try:
        if server is not None:
            while process.poll() is None and not any(
                '"mlflow_run_id": "' in path.read_text() for path in root.glob("runs/*/run.json")
            ):
                time.sleep(0.05)
            server.signal(signal.SIGSTOP)
        stdout, stderr = process.communicate(timeout=600)
    finally:
        if server is not None:
            server.signal(signal.SIGCONT)
    assert process.returncode == 0, stderr
    folder = root / "runs" / json.loads(stdout.splitlines()[-1])["run_id"]
    return float(json.loads((folder / "measurements.json").read_bytes())["train/step_ms"])


def main() -> None:
    """All cases, in turns."""
    taken: dict[str, list[float]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as folder:
        port = int(free_ports()[0])
        (Path(folder) / "server").mkdir()
        server = Server(Path(folder) / "server", port)
        up, gone = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_ports()[0]}"
        addresses = {"server up": up, "server hanging": up, "server gone": gone}
        try:
            for number in range(ROUNDS):
                for case in CASES if number % 2 == 0 else reversed(CASES):
                    root = Path(folder) / f"{case} {number}".replace(" ", "_")
                    hanging = server if case == "server hanging" else None
                    taken[case].append(step_ms(root, addresses.get(case), number, hanging))
        finally:
            server.stop()
    base = taken[CASES[0]]
    print(f"ms a step of {STEPS}, 200 points of 7 metrics; median of {ROUNDS} runs in turns, {os.cpu_count()} cores")
    for case in CASES:
        ratios = [one / other for one, other in zip(taken[case], base, strict=True)]
        print(
            f"  {case:<18} {statistics.median(taken[case]):6.2f} ms, {statistics.median(ratios):.3f} of the local file "
            f"[{min(ratios):.3f}, {max(ratios):.3f}]"
        )


if __name__ == "__main__":
    main()
