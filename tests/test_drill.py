"""The drill: its faults strike what they say and nothing else, its moments come, and what is wrong it calls wrong."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.drill import drill, faults, home
from flows.drill.drill import Drill, Struck, Verdict, counted
from flows.drill.faults import Fault, Target
from flows.drill.home import DrillHome, artifacts
from tasks.runs.home import Home
from tasks.store.journal import JournalFile
from tests.support.documents import blocks, run_script
from tests.support.homes import ROOT, CommandHome

SLEEPS = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: exit(75))
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def broken(tmp_path: Path) -> DrillHome:
    return DrillHome(tmp_path / "broken", ["run"])


@pytest.fixture
def flow() -> Iterator[subprocess.Popen[bytes]]:
    """A command that is running, in a process group of its own."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def artifact(
    root: Path, kind: str = "records", digest: str = "d1", content: bytes = b"bytes", created: str = "1", **more: Any
) -> Path:
    folder = root / "store" / kind / digest
    folder.mkdir(parents=True)
    (folder / "part").write_bytes(content)
    manifest = {"created": created, "produced_by": created, "digest": digest, **more}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_faults_are_drawn_each_in_its_turn_and_a_freeze_once() -> None:
    names = [fault.name for fault in faults.drawn(random.Random(1), 30, workers=2)]
    assert names == [fault.name for fault in faults.drawn(random.Random(1), 30, workers=2)]
    assert names != [fault.name for fault in faults.drawn(random.Random(2), 30, workers=2)]
    every = {kind.name for kind in faults.kinds()}
    assert (
        len(every) == len(faults.kinds()) == 11 and set(names[:11]) == every and names.count("freeze of the flow") == 1
    )
    assert "kill of a worker" not in {fault.name for fault in faults.drawn(random.Random(1), 30, workers=1)}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (faults.KillFlow, -signal.SIGKILL),
        (faults.KillGroup, -signal.SIGKILL),
        (faults.Terminate, 75),
        (faults.Interrupt, -signal.SIGINT),
        (faults.FlipByte, -signal.SIGKILL),
    ],
)
def test_a_fault_strikes_the_command(
    kind: type[Fault], code: int, broken: DrillHome, flow: subprocess.Popen[bytes]
) -> None:
    made = artifact(broken.root)
    hit = kind().strike(Target(broken, flow, random.Random(1)))
    assert hit is not None and flow.wait(10) == code
    changed = (made / "part").read_bytes() != b"bytes"
    assert changed is (kind is faults.FlipByte) and len((made / "part").read_bytes()) == 5
    assert json.loads((made / "manifest.json").read_bytes())["digest"] == "d1"
    if code != -signal.SIGINT:
        assert code in kind.ends


def test_what_is_not_there_is_not_struck(broken: DrillHome, flow: subprocess.Popen[bytes]) -> None:
    for kind in (faults.KillComputing, faults.KillWorker, faults.FullDisk, faults.FlipByte, faults.TrackingGone):
        assert kind().strike(Target(broken, flow, random.Random(1))) is None, kind.name
    assert faults.PrefectGone().strike(Target(broken, flow, random.Random(1))) is None
    assert flow.poll() is None


def test_moments_come_when_their_files_are_there(broken: DrillHome, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(home, "time", SimpleNamespace(monotonic=lambda: now[0]))
    staging = broken.root / "store/.staging"
    inside, start = home.InStage("train", 2.0), home.AtStart(1.0)
    publishing, writing = home.Publishing(), home.Writing()
    every = [inside, start, publishing, writing]
    assert [moment.due(broken) for moment in every] == [False, False, False, False]
    (staging / "model/d/.pieces/checkpoints").mkdir(parents=True)
    (staging / "model/d/.pieces/checkpoints/step-000000000020.npz.json").touch()
    (staging / "model/d/checkpoints").mkdir()
    now[0] = 1.5
    assert [moment.due(broken) for moment in every] == [False, True, False, False]
    assert broken.saved == 20
    artifact(broken.root, "model", steps=600)
    assert broken.saved == 20, "of the training under way"
    (staging / "model/d/checkpoints/step-000000000040.npz.abc.partial").touch()
    now[0] = 3.6
    assert [moment.due(broken) for moment in every] == [True, True, False, True]
    (staging / "report/e/.publication").mkdir(parents=True)
    assert publishing.due(broken)
    shutil.rmtree(staging / "model")
    assert broken.saved == 600, "a stop waits for the publication of a model: nothing is computed again"
    drawn = [
        home.drawn_moment(random.Random(number), {"train": 9.0, "convert": 0.1, "export": 1.0}) for number in range(99)
    ]
    assert {type(moment) for moment in drawn} == {type(moment) for moment in every}
    stages = {moment.stage for moment in drawn if isinstance(moment, home.InStage)}
    assert stages == {"train", "convert", "export"}


def test_the_stage_at_work_is_the_last_that_has_left_a_piece(broken: DrillHome) -> None:
    at = Drill(broken.root.parent, ["run"], 1, 1.0, 1, 20, 1, print)
    assert at._stage(broken) == "between stages"
    for kind, stage in (("model", "train"), ("report", "evaluate")):
        piece = broken.root / "store/.staging" / kind / "d/.pieces/part.json"
        piece.parent.mkdir(parents=True)
        piece.touch()
        assert at._stage(broken) == stage


def test_a_home_is_compared_without_what_the_clock_decides(tmp_path: Path) -> None:
    for name, created in (("a", "1"), ("b", "2")):
        artifact(tmp_path / name, created=created)
        (tmp_path / name / "store/.staging/model/x").mkdir(parents=True)
    assert artifacts(tmp_path / "a") == artifacts(tmp_path / "b") and len(artifacts(tmp_path / "a")) == 2
    (tmp_path / "b/store/records/d1/part").write_bytes(b"bytez")
    assert artifacts(tmp_path / "a") != artifacts(tmp_path / "b")


def made(folder: Path, **more: Any) -> Drill:
    given = {"kills": 4, "minutes": 9, "seed": 1, "every": 10, "workers": 1, "say": lambda line: None, **more}
    return Drill(folder, ["run"], **given)


def struck(stage: str = "train", step: int = 100) -> Struck:
    return Struck("SIGTERM", "in train", "process 1", stage, 0, time.monotonic(), step, None)


@pytest.mark.parametrize(
    ("fault", "code", "saved", "wrong"),
    [
        (faults.Terminate(), 75, 100, ""),
        (faults.Terminate(), 75, 90, "SIGTERM in train: step 90 was saved, and 100 computed"),
        (faults.Terminate(), 1, 100, "SIGTERM in train ended with exit code 1"),
        (faults.KillGroup(), -9, 90, ""),
        (faults.KillGroup(), -9, 81, ""),
        (faults.KillGroup(), -9, 80, "kill of all processes in train: step 80 was saved of 100"),
        (faults.KillGroup(), -9, None, "kill of all processes in train: step 0 was saved of 100"),
        (faults.KillComputing(), 0, None, ""),
        (faults.KillComputing(), 75, 100, "kill of a compute process in train ended with exit code 75"),
        (faults.FullDisk(), 1, 95, ""),
    ],
)
def test_a_fault_that_costs_more_than_it_may_is_wrong(
    fault: Fault, code: int, saved: int | None, wrong: str, tmp_path: Path
) -> None:
    found, verdict = struck(), Verdict()
    found.fault = fault.name
    at: Any = SimpleNamespace(step=100, saved=saved)
    made(tmp_path)._note(found, fault, code, at, verdict)
    assert verdict.wrong == ([wrong] if wrong else []) and verdict.holds is not bool(wrong)
    assert found.again == (0 if code == 0 else 100 - (saved or 0)) and verdict.struck == [found]


def test_a_verdict_is_a_line() -> None:
    verdict = Verdict([struck()], pipelines=1, compared=7)
    verdict.struck[0].again = 12
    assert verdict.line().startswith("holds: 1 fault in 1 pipeline, 12 steps computed once more; all 7 files")
    verdict.differing = ["model/d/model.keras", "report/e/report.json"]
    assert verdict.line().startswith("DOES NOT HOLD: model/d/model.keras differs, and 1 more; 1 fault in")
    assert verdict.as_json()["holds"] is False


def test_points_that_mlflow_lacks_or_has_twice_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalFile(tmp_path / "metrics.jsonl")
    for step in (10, 20, 30):
        journal.append(step, {"train/loss": 1.0})
    run: Any = SimpleNamespace(folder=tmp_path, home=Home(tmp_path), record={"mlflow_run_id": "y"})
    found: list[tuple[str, int]] = []
    asked: list[tuple[str, str]] = []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///elsewhere/mlflow.db")  # as MLflow leaves it
    monkeypatch.setattr(
        "tasks.tracking.runs.points_of", lambda uri, mlflow_id, names: asked.append((uri, mlflow_id)) or found
    )
    found[:] = [("train/loss", step) for step in (10, 20, 30)]
    assert counted(run) == (3, []) and asked == [(f"sqlite:///{tmp_path}/mlflow.db", "y")]
    found[:] = [("train/loss", step) for step in (10, 30, 30)]
    points, wrong = counted(run)
    assert points == 2 and wrong == [
        "MLflow lacks 1 of 3 points, such as train/loss at step 20",
        "MLflow has 1 point twice, such as train/loss at step 30",
    ]


def test_what_reaches_beyond_its_own_home_is_refused(tmp_path: Path) -> None:
    command = CommandHome(tmp_path / "home")
    several = "{kind: multi_worker, workers: 2}"
    for flags, says in (
        ([], "PRESET: none given"),
        (["--train.epochs", "1"], "PRESET: nothing; a drill is of a preset"),
        (
            ["flows/presets/digits.yaml", "--train.strategy", "{kind: parameter_server, workers: 1, servers: 1}"],
            "repeatable",
        ),
        (
            ["flows/presets/digits.yaml", "--train.strategy", several, "--train.cluster", "{hosts: [a, b]}"],
            "train.cluster: given; a drill strikes the processes of one machine",
        ),
    ):
        answer = command.here("drill", *flags)
        assert answer.code == 2 and says in answer.stderr, answer.stderr
    assert not (tmp_path / "home/drills").exists()


def test_an_unbroken_run_that_fails_is_the_drills_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(own: DrillHome) -> Any:
        run = own.root / "runs/one"
        run.mkdir(parents=True)
        record = {"run_id": "one", "stages": {}, "exit_code": 1, "error": {"field": "source.path", "saw": "gone"}}
        (run / "run.json").write_text(json.dumps(record))
        return SimpleNamespace(wait=lambda: 1)

    monkeypatch.setattr(home.DrillHome, "start", started)
    with pytest.raises(drill.Failed, match=r"source\.path: gone; a drill needs a run that ends; see .*unbroken\.log"):
        made(tmp_path).run()


def test_a_command_that_does_not_end_by_itself_is_ended_by_the_next_one(
    tmp_path: Path, flow: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose exit code counts."""
    second = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    monkeypatch.setattr(home.DrillHome, "start", lambda own: second)
    assert made(tmp_path)._end_of(flow, DrillHome(tmp_path, ["run"]), faults.Freeze()) == 3
    assert flow.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("wrong", "left"), [([], []), (["a step is lost"], ["broken1"])])
def test_the_first_pipeline_that_does_not_hold_is_the_last_and_stays(
    wrong: list[str], left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def pipeline(own: Drill, at: DrillHome, waiting: list[Fault], *more: Any) -> int:
        at.root.mkdir()
        begun.append(at.root.name)
        waiting.pop()
        return 0

    def compare(own: Drill, unbroken: DrillHome, broken: DrillHome, code: int, verdict: Verdict) -> None:
        verdict.pipelines += 1
        verdict.struck.append(struck())
        verdict.wrong += wrong

    monkeypatch.setattr(home.DrillHome, "start", lambda own: SimpleNamespace(wait=lambda: 0))
    monkeypatch.setattr(Drill, "_pipeline", pipeline)
    monkeypatch.setattr(Drill, "_compare", compare)
    assert made(tmp_path, kills=2).run().holds is not bool(wrong)
    assert begun == (["broken1"] if wrong else ["broken1", "broken2"])
    assert sorted(path.name for path in tmp_path.iterdir()) == left


@pytest.mark.slow
def test_the_page_works_as_it_stands(tmp_path: Path) -> None:
    """With faults on the digits; the environment names no server, as a drill has its own."""
    [block] = blocks("docs/how-to-drill.md")
    completed = run_script(block, ROOT, MILLRACE_HOME=tmp_path / "home")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    [folder] = (tmp_path / "home/drills").iterdir()
    found = json.loads((folder / "verdict.json").read_bytes())
    assert found["holds"] and len(found["struck"]) == 4 and found["compared"] > 30 and found["points"] > 20
    assert "all " in completed.stdout and "ledger and tracking whole" in completed.stdout
    logs = [f"broken{number + 1}.log" for number in range(found["pipelines"])]
    assert sorted(path.name for path in folder.iterdir()) == [*logs, "page.html", "unbroken.log", "verdict.json"]
    assert "<td>" in (folder / "page.html").read_text()
