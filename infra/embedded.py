"""Prefect's API for one command, if no server runs: a process on loopback that ends with the command.

Prefect's own temporary server is in the process group of the command, where Ctrl-C ends it before the flow can report
its final state. This one has a group of its own, blocks SIGTERM, and starts while Prefect is being imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tasks.environment import process
from tasks.environment.database_templates import is_current
from tasks.environment.process import PYTHON, LogPart, environment, exit_with_parent
from tasks.errors import Failed

PATIENCE = 120.0
"""Seconds to wait for the server; the first start may migrate the database."""

ENVIRONMENT = {
    "PREFECT__SERVER_EPHEMERAL": "1",  # what Prefect sets for its own temporary server: no scheduler, no UI
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT_UI_ENABLED": "0",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "0",  # our flows use none; the stack's server registers them
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


class EmbeddedServer:
    """Prefect's API on a free port, over the database of `PREFECT_HOME`."""

    def __init__(self, prefect_home: Path, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = LogPart(log)
        with contextlib.closing(socket.socket()) as listening, open(log, "ab") as output:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            check_loopback(listening.getsockname())
            self.port = listening.getsockname()[1]
            self.process = subprocess.Popen(
                [*PYTHON, "-m", "infra.embedded", str(os.getpid()), str(listening.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment({**os.environ, **ENVIRONMENT, "PREFECT_HOME": str(prefect_home)}),
                process_group=0,
                pass_fds=[listening.fileno()],  # a free port that is only named may be another program's by then
            )
        self.url = f"http://127.0.0.1:{self.port}/api"

    def wait(self) -> None:
        """Wait until it answers; raise `TimeoutError` with the cause in its log if it does not."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return
            time.sleep(0.02)
        saw = "its process ended" if self.process.poll() is not None else f"no answer in {PATIENCE:.0f} s"
        raise TimeoutError(f"{saw}; it wrote: {self.log.cause()}")

    def stop(self) -> None:
        """Stop the server."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def check_loopback(address: tuple[str, int]) -> None:
    """Raise `Failed` if this machine cannot connect to a listening address of its own."""
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError as error:
        saw, rule = error.strerror or str(error), "Prefect's server needs the loopback interface"
        raise Failed(address[0], saw, rule, "enable it: ip link set lo up") from None


def main() -> None:
    """Run the server until the parent process, whose id is the first argument, ends.

    The second is the descriptor of the socket on which it listens.
    """
    exit_with_parent(int(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # which Slurm and systemd send to every process
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a command in the background of a script ignores it
    process.pause()
    process.skip_at_exit()
    database = Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    if current := is_current("prefect", database):
        os.environ["PREFECT_API_DATABASE_MIGRATE_ON_START"] = "false"  # looking for migrations takes 0.4 s
    import uvicorn

    from infra.prefect_server import make_database

    process.resume()

    make_database(database if current else None)
    config = uvicorn.Config("infra.prefect_server:application", factory=True, log_level="error", lifespan="on")
    with contextlib.suppress(KeyboardInterrupt):  # how `stop` ends it
        uvicorn.Server(config).run([socket.socket(fileno=int(sys.argv[2]))])


if __name__ == "__main__":
    main()
