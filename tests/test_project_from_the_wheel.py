"""A project of one's own from the wheel alone: plain pip, `new`, `run`, `up`, `schedule`, a change, `run`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import ROOT
from tests.support.stacks import free_ports

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
[INSTALL] = re.findall(r"^(pip install .*)$", README, re.M)
[NEW] = re.findall(r"^(millrace new \S+)", README, re.M)
SHORT = ("--compress.methods", "[]", "--export.formats", "[saved_model]")

NETS = """
from tasks.layers import UNITS  # this project's, not Millrace's
import flows
from model import make as perceptron

def make(features, outputs):
    return perceptron(features, outputs, units=UNITS * flows.TIMES)
"""
"""A project may have packages called as Millrace's are."""


class Shell:
    """Commands in the environment and the folder of a project, as a user types them."""

    def __init__(self, environment: Path, folder: Path) -> None:
        keep = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR", "PIP_CERT") if name in os.environ}
        ports = dict(zip(("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"), free_ports(), strict=True))
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.variables = {**keep, **ports, **pip, "PATH": f"{environment / 'bin'}:/usr/bin:/bin"}
        self.folder = folder

    def __call__(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(words, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode in codes, f"{shlex.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def json(self, *words: str) -> Any:
        """The object of a command; a gate may say no to the second model, as it says."""
        return json.loads(self("millrace", *words, "--json", codes=(0, 3)).splitlines()[-1])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which README's command has installed the wheel with plain pip."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (folder / "dist/constraints.txt").write_bytes((ROOT / "infra/constraints.txt").read_bytes())
    subprocess.run([sys.executable, "-m", "venv", "env"], cwd=folder, check=True)
    shell = Shell(folder / "env", folder)
    shell("sh", "-c", INSTALL + " --quiet --no-compile")
    shell("pip", "check")
    return folder / "env"


@pytest.fixture(scope="module")
def project(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    parent = tmp_path_factory.mktemp("own")
    Shell(environment, parent)("sh", "-c", NEW)
    shell = Shell(environment, parent / NEW.split()[-1])
    (shell.folder / "tasks").mkdir()
    (shell.folder / "tasks/nets.py").write_text(NETS)
    (shell.folder / "tasks/layers.py").write_text("UNITS = 16\n")
    (shell.folder / "flows.py").write_text("TIMES = 2\n")
    (shell.folder / "infra").mkdir()
    (shell.folder / "infra/__init__.py").write_text("raise SystemExit('nobody asks for this one')\n")
    return shell


def test_a_day_with_a_project_of_ones_own(project: Shell) -> None:
    """All in one, as each step needs the one before."""
    own = ("--model", '{kind: import, target: "tasks.nets:make"}')
    made = project.json("run", "tumours.yaml", "--train.steps", "60", *SHORT, *own)
    assert made["status"] == "completed"
    assert made["metrics"]["test/wrong"] == pytest.approx(1 - made["metrics"]["test/accuracy"])
    model = json.loads((Path(made["artifacts"]["train"][0]["path"]) / "architecture.json").read_text())["model"]
    assert model["target"] == "tasks.nets:make"
    try:
        up = project.json("up")
        assert {row["name"] for row in up["deployments"]} == {"pipeline/tumours", "gc/nightly"}
        assert not any(row["schedule"] for row in up["deployments"])
        flags = ("--train.steps", "90", *SHORT, *own)
        scheduled = project.json("schedule", "tumours.yaml", *flags, "--cron", "* * * * *", "--timezone", "UTC")
        assert scheduled["name"] == "pipeline/tumours-scheduled" and scheduled["next"]
        deadline = time.monotonic() + 300  # it runs within a minute: a change of one value
        while len(runs := project.json("list", "runs")["runs"]) < 2 or runs[1]["status"] not in (
            "completed",
            "rejected",
        ):
            assert time.monotonic() < deadline, runs
            time.sleep(1)
        project("millrace", "schedule", "tumours.yaml", "--remove")
        with urllib.request.urlopen(f"{up['mlflow_url']}/health") as answer:
            assert answer.status == 200
        again = project.json("run", "tumours.yaml", *flags)
        assert all(row["cached"] for rows in again["artifacts"].values() for row in rows), "the schedule has made it"
        compared = project.json("diff", made["run_id"], runs[1]["run_id"])
        assert "train.steps" in json.dumps(compared["config"])
    finally:
        project("millrace", "down")
    [answer] = project.json("predict", "tumours@champion", "data/tumours.csv")["predictions"][:1]
    assert answer["class"] in ("benign", "malignant")


def test_the_test_of_the_project_passes_and_the_documentation_is_there(project: Shell) -> None:
    readme = (project.folder / "README.md").read_text()
    [line] = re.findall(r"^python -m pip install .*$", readme, re.M)
    wheel = next(iter((Path(project.variables["PATH"].partition(":")[0]).parent.parent / "dist").glob("*.whl")))
    project("sh", "-c", line.replace(wheel.name, str(wheel)) + " --quiet")
    assert "3 passed" in project("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    [found] = re.findall(r"^(python -c 'import sys; print.*)$", readme, re.M)
    docs = Path(project("sh", "-c", found).strip())
    assert (docs / "reference.md").exists() and (docs / "images/run-page.png").exists()
