"""Processes of a run: which variables they get, which signals, which hosts are taken in, and how many threads."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import Refused, Stopped
from tasks.processes.config import CHIEF, WORKER, ClusterConfig
from tasks.processes.fork_server import PASSED_ON, environment
from tasks.processes.gang import Gang
from tasks.processes.meeting import Meeting
from tasks.processes.threads import quota
from tests.support.stacks import free_ports


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("PATH", True),
        ("LANG", True),
        ("LC_ALL", True),
        ("TF_XLA_FLAGS", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("PYTHONFAULTHANDLER", True),
        ("https_proxy", True),
        ("PYTHONPATH", False),
        ("KERAS_HOME", False),
        ("KERAS_NNX_ENABLED", False),
        ("LANGCHAIN_API_KEY", False),
        ("USER_TOKEN", False),
        ("HOMEBREW_GITHUB_API_TOKEN", False),
        ("PATH_TO_SECRET", False),
        ("MY_TF_SECRET", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("MLFLOW_TRACKING_PASSWORD", False),
        ("MILLRACE_WEBHOOK", False),
    ],
)
def test_a_compute_process_gets_the_variables_that_are_named_whole(
    name: str, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (PASSED_ON.fullmatch(name) is not None) is passes
    monkeypatch.setenv(name, "of the shell")
    assert (environment(2).get(name) == "of the shell") is passes


class Told:
    """A compute process that keeps the signals that it is sent."""

    def __init__(self, rank: int) -> None:
        self.rank, self.signals = rank, list[int]()

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


@pytest.mark.parametrize(
    ("number", "sent"),
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM)],
)
def test_a_closed_terminal_is_a_sigterm_to_those_that_work(number: int, sent: int) -> None:
    """They ignore SIGHUP, which a terminal sends to all of them; those that serve are needed to the end."""
    serving = SimpleNamespace(name="server", serves=True, replaced=False)
    gang = Gang(lambda rank: Told(rank), [CHIEF, WORKER, serving])  # type: ignore[arg-type, return-value, list-item]
    gang._request_stop(number, Stopped(number), lambda *report: None)
    assert [process.signals for process in gang.processes] == [[sent], [sent], []]  # type: ignore[attr-defined]


@pytest.fixture
def meeting() -> Any:
    cluster = ClusterConfig.model_validate({"hosts": ["127.0.0.1", "127.0.0.2"], "port": int(free_ports()[0])})
    made = Meeting(cluster, {"version": "1", "train.steps": 60, "seed": None})
    yield made
    made.close(0, None)


@pytest.mark.parametrize(
    ("rank", "expects", "field"),
    [
        (1, {"version": "1", "train.steps": 60, "seed": None}, None),
        (1, {"version": "1", "train.steps": 60, "seed": None, "more": 1}, None),
        (1, {"version": "2", "train.steps": 60, "seed": None}, "version"),
        (1, {"version": "1", "train.steps": 61, "seed": None}, "train.steps"),
        (1, {"version": "1", "seed": None}, "train.steps"),  # of an older Millrace, which does not know it
        (1, {}, "version"),
        (0, {"version": "1", "train.steps": 60, "seed": None}, "train.cluster.hosts"),
        (2, {"version": "1", "train.steps": 60, "seed": None}, "train.cluster.hosts"),
    ],
)
def test_a_host_is_taken_in_where_all_that_decides_the_result_is_the_same(
    rank: int, expects: dict[str, Any], field: str | None, meeting: Meeting
) -> None:
    if field is None:
        meeting._check(rank, "other", {"expects": expects})
        return
    with pytest.raises(Refused) as refused:
        meeting._check(rank, "other", {"expects": expects})
    assert refused.value.field == field and "other" in refused.value.saw


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("150000", "400000", 1),
        ("400000", "250000", 2),
        ("max", "300000", 3),
        ("300000", "max", 3),
        ("max", "max", None),
    ],
)
def test_the_tightest_quota_on_the_way_up_decides(outer: str, inner: str, expected: int | None, tmp_path: Path) -> None:
    """As a pod's around a container's."""
    (tmp_path / "pod/container").mkdir(parents=True)
    (tmp_path / "pod/cpu.max").write_text(f"{outer} 100000\n")
    (tmp_path / "pod/container/cpu.max").write_text(f"{inner} 100000\n")
    (tmp_path / "membership").write_text("0::/pod/container\n")
    assert quota(tmp_path, tmp_path / "membership") == expected
