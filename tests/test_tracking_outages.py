"""MLflow's server stopped, hanging, answering 500, out of disk: nothing is lost, and only a release waits."""

from __future__ import annotations

import http.client
import http.server
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tasks.store.journal import Point, read
from tasks.tracking.shipping import ENVIRONMENT, WARN_AFTER
from tests.support.disks import fill
from tests.support.homes import DIGITS, SMALL, CommandHome, compute_processes
from tests.support.servers import Server
from tests.support.stacks import free_ports, wait

pytestmark = pytest.mark.slow

POINTS = 200
FLAGS = ["--train.steps", str(10 * POINTS), "--train.log_every", "10", "--train.evaluate_every", "1000"]
FLAGS += ["--train.checkpoint.every", "1000"]

LATE = 3.0
"""Seconds after which a point counts as late, in these tests."""


REQUESTS = 1 + int(ENVIRONMENT["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
"""Requests that MLflow's client sends until an answer 500 counts as a fault."""


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the server, or answers 500."""

    port: int
    broken = False
    refused = 0
    protocol_version = "HTTP/1.1"

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if type(self).broken:
            type(self).refused += 1
            self._answer(500, b"broken")
            return
        onward = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        try:
            onward.request(self.command, self.path, body, headers)
            response = onward.getresponse()
            self._answer(response.status, response.read())
        except OSError:
            self.close_connection = True
        finally:
            onward.close()

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """Where `Between` stands before the server that is at its port."""
    Between.port, Between.broken, Between.refused = int(free_ports()[0]), False, 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_training_continues_without_the_server_and_every_point_arrives(
    prepared: Callable[[str], CommandHome], disk: Path, address: str
) -> None:
    server = Server(disk, Between.port)
    home = replace(prepared("home"), given={"MLFLOW_TRACKING_URI": address, "MILLRACE_TRACKING_LATE": str(LATE)})
    process = home.start("run", "training", DIGITS, *FLAGS, "--json")

    def points() -> list[Point]:
        return [point for path in home.root.glob("runs/*/metrics.jsonl") for point in read(path) if point.step > 0]

    def grows(by: int) -> None:
        """Wait until the training has written so many points more."""
        wanted, since = len(points()) + by, time.monotonic()
        while len(points()) < wanted:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() - since < 200
            time.sleep(0.02)

    @contextmanager
    def paused() -> Iterator[None]:
        """The training waits, so that it does not end before the server is hurt in every way."""
        [training] = [child for child in compute_processes(home.root) if child.name() == "millrace train"]
        training.suspend()
        yield
        training.resume()

    try:
        grows(5)
        server.signal(signal.SIGSTOP)
        grows(5)
        with paused():
            time.sleep(LATE + 1)
            server.signal(signal.SIGCONT)
        grows(5)
        server.stop()
        grows(10)
        with paused():
            server.start()
        grows(5)
        Between.broken = True
        grows(10)
        with paused():
            wait(lambda: Between.refused > WARN_AFTER * REQUESTS)
        Between.broken = False
        grows(5)
        fill(disk / "filler")
        grows(10)
        (disk / "filler").unlink()
        stdout, stderr = process.communicate(timeout=400)
        assert process.returncode == 0, stderr
        assert "; metrics wait" in stderr and "  tracking: MLflow has all " in stderr
        client = MlflowClient(address)
        run = client.get_run(json.loads(stdout.splitlines()[-1])["mlflow_run_id"])
        assert int(run.data.tags["millrace.late_points"]) > 0
        written: dict[str, list[tuple[int, int, float]]] = {}
        journal = home.root / "runs" / home.newest_run("training")["run_id"] / "metrics.jsonl"
        for point in read(journal):
            for name, value in point.metrics.items():
                written.setdefault(name, []).append((point.step, int(point.time * 1000), value))
        assert len(written["train/loss"]) == POINTS
        for name, expected in written.items():
            history = client.get_metric_history(run.info.run_id, name)
            assert [(point.step, point.timestamp, point.value) for point in history] == expected, name
    finally:
        process.kill()
        process.communicate()
        server.stop()


def test_a_registry_that_dies_as_a_version_is_promoted_is_waited_for(
    finished: CommandHome, tmp_path: Path, address: str
) -> None:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", Between.port)
    home = replace(finished.copied_to(tmp_path / "home"), given={"MLFLOW_TRACKING_URI": address})
    before = home.newest_run()["run_id"]
    process = home.start("run", "pipeline", DIGITS, *SMALL, "--export.golden", "8", "--json")  # connected by its end
    try:
        while (run := home.newest_run())["run_id"] == before or "export" not in run["stages"]:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        Between.broken = True
        assert process.stderr is not None
        output = ""
        while "waiting for it until" not in output:
            line = process.stderr.readline()
            assert line, output
            output += line
        Between.broken = False
        _, rest = process.communicate(timeout=900)
        assert process.returncode == 0, output + rest
        assert f"promote   {address}" in output and "trying again soon" in output
        assert f"the registry at {address}" in output
        assert len(MlflowClient(address).search_model_versions("name = 'digits'")) == 1
    finally:
        process.kill()
        process.communicate()
        server.stop()
