"""Real servers for tests: MLflow's, which can be hurt, and receivers of messages."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.services import Layout, mlflow_server, surroundings
from tests.support.homes import ROOT


class Server:
    """A real MLflow server, as `millrace up` starts it, that can be hurt."""

    def __init__(self, home: Path, port: int) -> None:
        layout = Layout(home=home, project=ROOT, mlflow_port=port)
        self.service, self.url = mlflow_server(layout), layout.mlflow_url
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.service.command,
            env=surroundings(self.service.environment()),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 120
        while not self.service.works():
            assert self.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait()


class Webhook(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted."""

    got: list[tuple[str, str]]

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        self.got.append((self.path, text))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
