"""The audit log names a line that was changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.errors import Failed
from tasks.runs.audit import Audit, Decision, Entry
from tasks.runs.home import Home


@pytest.fixture
def log(tmp_path: Path) -> Audit:
    """Four lines."""
    audit = Audit(Home(tmp_path))
    for number in range(1, 5):
        add(audit, str(number))
    assert audit.fault() is None
    return audit


def add(audit: Audit, version: str, reason: str = "späte \n Einsicht") -> None:
    before = str(int(version) - 1) if version != "1" else None
    entry = Entry("promote", "digits", version, "e", "champion", before, version, "run", "gate", "by the gate", reason)
    audit.begin(entry, {})
    audit.close()


def lines(log: Audit) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_changed_line_is_named(log: Audit, number: int) -> None:
    audit_lines = lines(log)
    audit_lines[number - 1] = audit_lines[number - 1].replace(b'"gate"', b'"eve"')
    log.path.write_bytes(b"".join(audit_lines))
    assert log.fault() == (number, "was changed")
    with pytest.raises(Failed, match=f"audit.jsonl line {number}: was changed"):
        log.rows()


@pytest.mark.parametrize(
    ("order", "named"), [([1, 2, 3], 1), ([0, 2, 3], 2), ([0, 2, 1, 3], 2), ([0, 1, 1, 2, 3], 3), ([0, 1, 3], 3)]
)
def test_lines_that_were_removed_moved_or_repeated_are_named(log: Audit, order: list[int], named: int) -> None:
    audit_lines = lines(log)
    log.path.write_bytes(b"".join(audit_lines[each] for each in order))
    fault = log.fault()
    assert fault is not None and fault[0] == named and "does not follow" in fault[1]


def test_a_line_forged_with_its_sum_breaks_the_chain_after_it(log: Audit, tmp_path: Path) -> None:
    audit_lines = lines(log)
    other = Audit(Home(tmp_path / "other").make())
    for version in ("1", "2"):
        add(other, version, reason="forged")
    audit_lines[0] = lines(other)[0]
    log.path.write_bytes(b"".join(audit_lines))
    fault = log.fault()
    assert fault is not None and fault[0] == 2


@pytest.mark.parametrize("rest", [b"{", b"no json\n", b"[]\n", b'{"sum": 1}\n', b"\xff\n"])
def test_what_is_no_line_is_named(log: Audit, rest: bytes) -> None:
    log.path.write_bytes(log.path.read_bytes() + rest)
    fault = log.fault()
    assert fault is not None and fault[0] == 5


def test_a_line_that_a_crash_cut_off_makes_way_for_the_next(log: Audit) -> None:
    log.path.write_bytes(log.path.read_bytes()[:-10])
    assert log.fault() == (4, "is cut off")
    add(log, "4")
    assert log.fault() is None and [row["version"] for row in log.rows()] == ["1", "2", "3", "4"]


def test_no_log_is_whole_and_empty(tmp_path: Path) -> None:
    log = Audit(Home(tmp_path))
    assert log.fault() is None and log.rows() == [] and log.champions("digits") == []


def test_the_account_stands_behind_how_somebody_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import asking
    from flows.commands import decisions

    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "millrace:T0PS3CRET")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    assert Decision.stated(True, "Bob", "fine", asking.account()).known == "as stated, account millrace"
    assert Decision.of_user(True, "fine", decisions.account()).known == "system user, account ada"
    monkeypatch.delenv("PREFECT_API_AUTH_STRING")
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME")
    assert Decision.stated(True, "Bob", "fine", asking.account()).known == "as stated"
    assert Decision.of_user(True, "fine", decisions.account()).known == "system user"
