"""The number of threads follows the CPU affinity and the quotas of the control groups, of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks.processes.threads import available_threads, quota


def test_affinity_limits_the_threads() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert available_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [("max 100000", "max 100000", None), ("250000 100000", "max 100000", 2), ("800000 100000", "50000 100000", 1)],
)
def test_the_lowest_quota_of_the_groups_above_limits_the_threads(
    outer: str, inner: str, expected: int | None, tmp_path: Path
) -> None:
    (tmp_path / "jobs" / "one").mkdir(parents=True)
    (tmp_path / "jobs" / "cpu.max").write_text(f"{outer}\n")
    (tmp_path / "jobs" / "one" / "cpu.max").write_text(f"{inner}\n")
    (tmp_path / "membership").write_text("0::/jobs/one\n")
    assert quota(tmp_path, tmp_path / "membership") == expected


@pytest.mark.parametrize(("given", "expected"), [("-1", None), ("350000", 3)])
def test_quotas_of_version_1_are_read(given: str, expected: int | None, tmp_path: Path) -> None:
    (tmp_path / "cpu,cpuacct" / "job").mkdir(parents=True)
    (tmp_path / "cpu,cpuacct" / "job" / "cpu.cfs_quota_us").write_text(given)
    (tmp_path / "cpu,cpuacct" / "job" / "cpu.cfs_period_us").write_text("100000")
    (tmp_path / "membership").write_text("4:memory:/job\n3:cpu,cpuacct:/job\n")
    assert quota(tmp_path, tmp_path / "membership") == expected
