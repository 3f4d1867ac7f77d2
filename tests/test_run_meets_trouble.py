"""Two at once, damage, a frozen run, a full disk: what happens to real runs."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.homes import DIGITS, SMALL, CommandHome


def test_two_runs_of_one_preset_and_one_of_another_in_an_empty_home_all_end_well(tmp_path: Path) -> None:
    """Of the two that are alike one works and one waits; the third shares their databases and nothing else."""
    home = CommandHome(tmp_path)
    alike = ["run", "dataset", DIGITS, "--json"]
    processes = [home.start(*alike), home.start(*alike), home.start(*alike, "--name", "other", "--records.shards", "3")]
    answers = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], answers
    assert len(list(tmp_path.glob("runs/*/run.json"))) == 3
    assert sorted("from the store" in stderr for _, stderr in answers[:2]) == [False, True]
    assert "from the store" not in answers[2][1]
    assert len(list(tmp_path.glob("store/snapshot/*"))) == 2
    assert not any("Traceback" in stderr for _, stderr in answers)


def test_a_second_damage_in_one_run_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow starts once more from the top, and only once: a disk that goes on losing bytes is not worked on."""
    from tasks.artifacts import Outcome, Records
    from tasks.attempt import Ticket, attempt_run, current
    from tasks.config.load import load
    from tasks.errors import Damaged
    from tasks.store.store import digest_of

    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    inputs = {"kind": "records", "config": {}, "parents": {}, "sources": []}
    begun = []

    def body() -> None:
        begun.append(1)
        store = current.get().store
        with store.claim(Records, digest_of(inputs), "records") as claim:
            claim.staging.put("file", b"whole")
            made = claim.publish(inputs, Outcome(counts={}), {"run": "r"})
        (made.path / "file").write_bytes(b"whale")
        store.find(Records, made.digest, "records")

    ticket = Ticket()
    with pytest.raises(Damaged, match="never changes"):
        attempt_run("dataset", load(DIGITS), body, ticket, None)
    assert len(begun) == 2
    assert ticket.run is not None and ticket.run.exit_code == 1


@pytest.fixture(scope="module")
def copied(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    home = CommandHome(tmp_path_factory.mktemp("damage") / "home")
    shutil.copytree(finished.root, home.root)
    return home


KINDS = ["records", "snapshot", "model", "report", "variant", "export"]


@pytest.mark.parametrize(
    ("kind", "harm"),
    [
        pytest.param(kind, harm, marks=() if (kind, harm) == ("report", "flip") else pytest.mark.slow)
        for kind in KINDS
        for harm in ("flip", "truncate", "remove", "manifest")
    ],
)
def test_damage_is_named_moved_away_and_remade(
    copied: CommandHome, finished: CommandHome, kind: str, harm: str
) -> None:
    [artifact, *_] = sorted((copied.root / "store" / kind).iterdir())
    files = sorted(path for path in artifact.rglob("*") if path.is_file() and path.name != "manifest.json")
    victim = artifact / "manifest.json" if harm == "manifest" else files[len(files) // 2]
    content = victim.read_bytes()
    if harm == "remove":
        victim.unlink()
    elif harm == "truncate":
        victim.write_bytes(content[:-1])
    elif harm == "flip":
        victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        victim.write_bytes(content.replace(b'"counts"', b'"count5"'))
    answer = copied("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.stderr.count("warning: ") == 1
    assert f"{kind}/{artifact.name[:12]}/{victim.relative_to(artifact)}" in answer.stderr
    assert any((copied.root / "store/.damaged").glob(f"{kind}-*"))
    assert copied.artifacts() == finished.artifacts()


@pytest.mark.slow
def test_a_frozen_run_is_ended_and_taken_over(finished: CommandHome, tmp_path: Path) -> None:
    """SIGSTOP to the whole group; the next run waits a minute without a heartbeat, then goes on."""
    home = CommandHome(tmp_path)
    process = home.start("run", "pipeline", DIGITS, *SMALL)
    deadline = time.monotonic() + 120
    while not any(tmp_path.glob("store/.staging/model/*/checkpoints/*.npz")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        answer = home("run", "pipeline", DIGITS, *SMALL, "--json", timeout=300)
    finally:
        os.killpg(process.pid, signal.SIGCONT)
        process.communicate(timeout=60)
    assert answer.code == 0, answer.stderr
    assert "taking over" in answer.stderr
    assert answer.json["attempt"] == 2
    assert process.returncode != 0
    assert home.artifacts() == finished.artifacts()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.slow
def test_a_full_disk_is_one_error_and_goes_on_when_there_is_room(finished: CommandHome, tmp_path: Path) -> None:
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        home = CommandHome(tmp_path / "home")
        home.root.mkdir()
        (home.root / "store").symlink_to(small)
        answer = home("run", "pipeline", DIGITS, *SMALL, "--json")
        assert answer.code == 1, answer.stderr
        assert "No space left on device" in answer.stderr
        assert "Traceback" not in answer.stderr
        subprocess.run(["mount", "-o", "remount,size=300m", str(small)], check=True)
        answer = home("run", "pipeline", DIGITS, *SMALL, "--json")
        assert answer.code == 0, answer.stderr
        assert answer.json["attempt"] == 2
        assert home.artifacts() == finished.artifacts()
    finally:
        subprocess.run(["umount", str(small)], check=False)
