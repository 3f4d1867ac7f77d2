"""The batch script of Slurm, run by an `srun` that starts two tasks as Slurm does: stopped, queued again, resumed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.processes.config import ResourcesConfig
from tasks.processes.fork_server import SHARED
from tasks.store.journal import read
from tests.support.homes import DIGITS, ROOT, CommandHome, surroundings
from tests.support.shared import shared_fork_servers, shared_server
from tests.support.stacks import wait

SCRIPT = ROOT / "infra/slurm/train.sbatch"

SRUN = """#!/bin/bash
# Two tasks on two nodes; SIGTERM to it goes to every process of the step, as in Slurm. Ends with the highest exit code.
[ "$1" = --step ] || exec setsid "$0" --step "$@"
while [[ $1 == --* ]]; do shift; done
export SLURM_JOB_NODELIST='127.0.0.[1-2]' SLURM_STEP_NODELIST='127.0.0.[1-2]' SLURM_NTASKS=2
SLURM_PROCID=0 "$@" & chief=$!
SLURM_PROCID=1 "$@" & other=$!
trap 'kill -TERM $(pgrep --session 0 | grep -vx $$) 2>/dev/null' TERM
ended() { wait "$1"; local code=$?; while kill -0 "$1" 2>/dev/null; do wait "$1"; code=$?; done; return "$code"; }
ended "$chief"; first=$?
ended "$other"; second=$?
exit $((first > second ? first : second))
"""

SCONTROL = """#!/bin/bash
echo "$@" >> "$REQUEUED"
"""


def test_the_script_is_without_fault() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    checker = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([str(checker), str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_time_before_the_limit_and_after_the_first_exit_is_enough_to_save() -> None:
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", SCRIPT.read_text(), re.M))
    [after] = re.findall(r"--wait=(\d+)", SCRIPT.read_text())
    name, before = options["signal"].split("@")
    assert name == "TERM" and min(int(before), int(after)) > ResourcesConfig().grace
    assert options["ntasks-per-node"] == "1" and options["requeue"] == "" and options["open-mode"] == "append"


class Slurm:
    """A job of the script in a home, with the programs of Slurm that it calls."""

    def __init__(self, folder: Path, home: CommandHome) -> None:
        self.home, self.requeued, programs = home, folder / "requeued", folder / "bin"
        programs.mkdir()
        for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.variables = {
            **surroundings(),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "MILLRACE_HOME": str(home.root),
            "PREFECT_API_URL": shared_server(),
            SHARED: shared_fork_servers(),
            "REQUEUED": str(self.requeued),
            "SLURM_JOB_ID": "17",
            "SLURM_JOB_NUM_NODES": "2",
        }

    def start(self, *flags: str) -> subprocess.Popen[str]:
        words = ["bash", str(SCRIPT), str(DIGITS), *flags]
        return subprocess.Popen(
            words, cwd=ROOT, env=self.variables, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def trained(self) -> bool:
        points = (point for path in self.home.root.glob("runs/*/metrics.jsonl") for point in read(path))
        return any(point.step >= 400 for point in points)


@pytest.mark.slow
def test_a_job_saves_before_its_time_limit_is_queued_again_and_goes_on(finished: CommandHome, tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, finished.copied_to(tmp_path / "home"))
    flags = ["--train.steps", "1000", "--train.checkpoint.every", "1000"]
    job = slurm.start(*flags)
    wait(slurm.trained, 60)
    srun = subprocess.run(["pgrep", "--parent", str(job.pid)], capture_output=True, text=True, check=True)
    subprocess.run(["kill", "-TERM", srun.stdout.strip()], check=True)
    said = job.communicate(timeout=60)[1]
    assert job.returncode == 75, said
    assert slurm.requeued.read_text() == "requeue 17\n"
    job = slurm.start(*flags)
    said = job.communicate(timeout=60)[1]
    assert job.returncode == 0, said
    assert "going on" in said and "rank 1 by Slurm" in said
    record = slurm.home.newest_run("training")
    assert record["status"] == "completed" and len(record["attempts"]) == 2
    assert slurm.requeued.read_text() == "requeue 17\n"
