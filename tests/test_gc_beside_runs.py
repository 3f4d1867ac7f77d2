"""`millrace gc` beside runs: what a run has just begun to use stays, whatever gc knew before."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import Outcome, Records
from tasks.config.compose import load
from tasks.runs import collection, runs
from tasks.runs.collection import collect, drop_staging
from tasks.runs.home import Home
from tasks.runs.runs import Run, opened
from tasks.store.store import Store, digest_of
from tests.support.homes import DIGITS


def run_of(home: Home, seed: int, exit_code: int | None = 0, status: str = "completed") -> Run:
    with opened(home, "pipeline", load(DIGITS, [("seed", str(seed))]), new=True, prefect_id=None, waiting=print) as run:
        if exit_code is not None:
            run.end(exit_code, status, None)
    folder = run.folder.rename(home.runs / f"2026{seed:04d}-000000-digits-0000")  # runs of one second have no order
    return Run(home, folder)


def records(home: Home, number: int) -> str:
    """Publish an artifact; its name."""
    inputs = {"config": {"number": number}, "parents": {}}
    with Store(home.store).claim(Records, digest_of(inputs), "records") as claim:
        claim.staging.put("part", b"bytes")
        return str(claim.publish(inputs, Outcome(counts={}), {"run": "r"}))


def in_order(home: Home) -> list[str]:
    """Names of the artifacts as gc looks at them: by the second of their making, and then by digest."""
    return [f"{each.kind}/{each.digest}" for each in Store(home.store).artifacts()]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def just_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """`just_before_the_lock(happens)`: what another process does after gc has looked, and before it has a lock."""
    real = collection.try_lock

    def arrange(happens: Callable[[], None]) -> None:
        @contextmanager
        def late(lock: Path) -> Iterator[bool]:
            happens()
            with real(lock) as locked:
                yield locked

        monkeypatch.setattr(collection, "try_lock", late)

    return arrange


def test_what_a_run_has_just_recorded_stays(home: Home, just_before_the_lock: Callable) -> None:
    """An artifact, the staging of one, and a study."""
    for number in (1, 2):
        records(home, number)
    wanted, unwanted = in_order(home)  # it is looked at first
    run = run_of(home, 1, exit_code=None)
    home.studies.mkdir(exist_ok=True)
    for name in ("wanted", "unwanted"):
        (home.studies / f"{name}.db").touch()
        (home.store / ".staging/model" / name).mkdir(parents=True)

    def use() -> None:
        for name in (wanted, "study/wanted", "model/wanted"):
            run.use(*name.split("/"))

    just_before_the_lock(use)
    dropped = {row.what for row in collect(home, keep=1, dry_run=False)}
    assert dropped == {unwanted, "study/unwanted", "staging of model/unwanted"}
    assert (home.store / wanted / "part").exists() and not (home.store / unwanted).exists()
    assert (home.studies / "wanted.db").exists() and (home.store / ".staging/model/wanted").exists()


@pytest.mark.parametrize("goes_on", ["a new run", "a finished one, in a flow run that is retried"])
def test_what_a_run_has_recorded_that_began_after_the_others_were_read_stays(
    goes_on: str, home: Home, just_before_the_lock: Callable
) -> None:
    """The second artifact is wanted when the first was looked at already, by a run that was marked as running since."""
    for number in (1, 2):
        records(home, number)
    first, second = in_order(home)
    old, newest = run_of(home, 1), run_of(home, 2)
    old.note_attempt(prefect_flow_run_id="f")
    happened: list[str] = []

    def use() -> None:
        happened.append("")
        if len(happened) == 1:
            new = goes_on == "a new run"
            config = load(DIGITS, [("seed", "9" if new else "1")])
            opening = opened(home, "pipeline", config, new=new, prefect_id=None if new else "f", waiting=print)
            stays.append(opening)
            running.append(opening.__enter__())
        if len(happened) == 2:
            running[0].use(*second.split("/"))

    running: list[Run] = []
    stays: list[Any] = []  # or the generator ends, and with it the run
    just_before_the_lock(use)
    assert [row.what for row in collect(home, keep=1, dry_run=False)] == [first]
    assert (home.store / second / "part").exists()
    assert running[0].run_id == (old.run_id if goes_on != "a new run" else running[0].run_id) != newest.run_id
    running[0].end(0, "completed", None)
    stays[0].__exit__(None, None, None)


def test_what_another_process_works_on_stays(home: Home) -> None:
    """Also the staging of a run that nobody continues."""
    name, run = records(home, 1), run_of(home, 1)
    (home.store / ".staging/model/one").mkdir(parents=True)
    (home.store / ".locks/model").mkdir(parents=True)
    run.use("model", "none")
    run.use("model", "one")
    locks = [home.store / ".locks" / f"{each}.lock" for each in (name, "model/one")]
    with ExitStack() as held:
        for lock in locks:
            fcntl.flock(held.enter_context(open(lock, "a")), fcntl.LOCK_EX)
        drop_staging(run)
        run_of(home, 2)
        assert collect(home, keep=1, dry_run=False) == []
    assert (home.store / name).exists() and (home.store / ".staging/model/one").exists()
    drop_staging(run)
    assert not (home.store / ".staging/model/one").exists()
    assert [row.what for row in collect(home, keep=1, dry_run=False)] == [name]


def test_a_collection_lists_all_that_it_drops_with_its_bytes_and_a_dry_run_drops_nothing(home: Home) -> None:
    """Damaged goods, artifacts, studies and staging, each in one order."""
    for number in (1, 2):
        records(home, number)
    artifacts = in_order(home)
    for name in ("b", "a"):
        for folder in (f".damaged/{name}", f".staging/model/{name}", f".staging/export/{name}"):
            (home.store / folder / "in").mkdir(parents=True)
            (home.store / folder / "in/file").write_bytes(b"12345")
        home.studies.mkdir(exist_ok=True)
        (home.studies / f"{name}.db").write_bytes(b"123")
    (home.store / ".locks/model").mkdir(parents=True, exist_ok=True)
    sizes = [
        *((f"damaged {name}", 5) for name in ("a", "b")),
        *((name, sum(path.stat().st_size for path in (home.store / name).iterdir())) for name in artifacts),
        *((f"study/{name}", 3) for name in ("a", "b")),
        *((f"staging of {name}", 5) for name in ("export/a", "export/b", "model/a", "model/b")),
    ]
    for dry_run in (True, False):
        found = collect(home, keep=1, dry_run=dry_run)
        assert [(row.what, row.bytes) for row in found] == sizes
        left = [path for row in found for path in [row.path] if path.exists()]
        assert len(left) == (len(sizes) if dry_run else 0)
    assert collect(home, keep=1, dry_run=False) == []
    assert not [*(home.store / ".verified").rglob("*.json")] and not [*(home.store / ".damaged").iterdir()]


@pytest.mark.parametrize(("exit_code", "status"), [(None, "running"), (75, "stopped"), (3, "awaiting_approval")])
def test_an_older_run_that_can_go_on_keeps_what_it_uses(home: Home, exit_code: int | None, status: str) -> None:
    name, run = records(home, 1), run_of(home, 1, exit_code, status)
    run.use(*name.split("/"))
    run_of(home, 2)
    assert collect(home, keep=1, dry_run=False) == []
    run.end(0, "completed", None)
    assert [row.what for row in collect(home, keep=1, dry_run=False)] == [name]


def test_a_run_that_goes_on_is_seen_by_a_collection_that_read_it_as_finished(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the runs after the retried flow run has found its run, and before that is marked as running."""
    name, old = records(home, 1), run_of(home, 1)
    old.note_attempt(prefect_flow_run_id="f")
    run_of(home, 2)
    seen = list[collection.Needs]()
    monkeypatch.setattr(runs, "clear", lambda folder, names: seen.append(collection.Needs(home, keep=1)))
    with opened(home, "pipeline", old.config, new=False, prefect_id="f", waiting=print) as run:
        run.use(*name.split("/"))
        assert run.run_id == old.run_id and seen[0].by_now(name)
        run.end(0, "completed", None)
