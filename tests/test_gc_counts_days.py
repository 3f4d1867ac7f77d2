"""`gc --days N` and the nightly flow: history is old after N days, not after another time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flows.maintenance import collect_garbage
from tests.support.registries import RegistryHome


@pytest.mark.parametrize(("age", "days", "dropped"), [(91, 90, 1), (89, 90, 0), (5, 4, 1), (3, 4, 0)])
def test_files_in_mlflow_go_after_so_many_days(
    age: int, days: int, dropped: int, registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    client, ended = registry_home.client, datetime.now(UTC) - timedelta(days=age)
    run = client.create_run("0", tags={"millrace.run": "old"}).info.run_id
    client.log_text(run, "12345", "page.html")
    client.set_terminated(run, end_time=int(ended.timestamp() * 1000))
    found = collect_garbage(registry_home.home, keep=1, days=days, dry_run=True)
    assert [(row.what, row.bytes) for row in found] == [("files in MLflow of old", 5)] * dropped
    assert collect_garbage(registry_home.home, keep=1, days=None, dry_run=True) == []
