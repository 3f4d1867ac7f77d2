"""Prefect's server under several clients at a time, on SQLite: nobody is refused and nobody waits for long."""

from __future__ import annotations

from pathlib import Path

from infra.embedded import EmbeddedServer
from tests.load import load


def test_several_clients_at_a_time_are_all_answered(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "prefect", tmp_path / "log")
    try:
        server.wait()
        answers = load(server.url, clients=6, seconds=8)
    finally:
        server.stop()
    assert len(answers) > 20
    assert [each for each in answers if not 200 <= each.status < 300] == []
    assert max(each.seconds for each in answers) < 20  # where the loop stands still it is 60
    assert "database is locked" not in (tmp_path / "log").read_text()
