"""A registry that does not answer decides nothing: above all, it does not make a champion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.errors import Failed
from tasks.tracking import registry
from tasks.tracking.runs import connect

DEAD = "http://127.0.0.1:9"


def test_no_model_and_no_alias_are_answers(tmp_path: Path) -> None:
    client = connect(f"sqlite:///{tmp_path}/mlflow.db")
    assert registry.aliased(client, "digits", "champion") is None
    client.create_registered_model("digits")
    assert registry.aliased(client, "digits", "champion") is None


def test_a_dead_server_is_one_error_and_not_an_absent_champion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    client = connect(DEAD)
    with pytest.raises(Failed, match="a release needs the registry") as failed, registry.answering(DEAD):
        registry.aliased(client, "digits", "champion")
    assert failed.value.field == DEAD
