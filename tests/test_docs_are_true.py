"""The documentation: its commands are run, and what can be generated from the code equals it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from flows.commands import app
from flows.launching import read_flags
from tasks.config.compose import Config, load, validate
from tasks.config.reference import page
from tests.support.documents import blocks, calls, run_script
from tests.support.homes import ROOT, CommandHome

TOP = [f"--{name}" for name, field in Config.model_fields.items() if field.annotation in (int, str)]
"""Flags of a preset's keys that are in no section."""

TRAINING = ("train", "distribute", "cluster", "bring-a-model", "tune", "evaluate", "compress")
"""The pages whose blocks each are run in a home that has the digits."""


def test_the_reference_page_is_what_the_config_classes_say() -> None:
    assert (ROOT / "docs/reference.md").read_text() == page(), "run `make docs`"


def test_what_each_slow_file_proves_is_said() -> None:
    said = set(re.findall(r"^\| `(test_\w+\.py)` \|", (ROOT / "docs/exactness.md").read_text(), re.M))
    assert said == {path.name for path in (ROOT / "tests").glob("test_*.py") if "mark.slow" in path.read_text()}


def test_links_between_pages_lead_somewhere() -> None:
    for source in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", source.read_text()):
            assert (source.parent / target).exists(), f"{source.name}: {target}"


def test_every_piece_of_a_preset_in_the_documentation_is_taken() -> None:
    whole = {"name": "here", "source": {"kind": "sklearn", "dataset": "digits"}, "train": {"steps": 1}}
    pieces = [piece for page in (ROOT / "docs").glob("*.md") for piece in blocks(f"docs/{page.name}", "yaml")]
    assert len(pieces) >= 5
    for piece in pieces:
        validate({**whole, **yaml.safe_load(piece)})


PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
"""All of them; what their blocks do is seen by the slow tests, here and in those of the platform."""


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_every_block_is_a_script_whose_commands_flags_and_presets_there_are(page: str) -> None:
    commands: Any = typer.main.get_command(app)
    for block in blocks(page):
        read = subprocess.run(["bash", "-n", "-c", block], capture_output=True, text=True)
        assert (read.returncode, read.stderr) == (0, ""), block
        for name, *words in calls(block):
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            known = {option for each in commands.commands[name].params for option in each.opts}
            assert {option for option in given if "." not in option} <= known | set(TOP), (name, words)
            valued = {
                option
                for each in commands.commands[name].params
                for option in each.opts
                if not getattr(each, "is_flag", 1)
            }
            words = [word for before, word in pairwise(["", *words]) if before not in valued]
            presets = [word for word in words if word.endswith(".yaml") and (ROOT / word).exists()]
            if presets:
                rest = [word for word in words[words.index(presets[0]) + 1 :] if word not in known]
                load(ROOT / presets[0], [(key, value) for key, value in read_flags(rest) if "$" not in value])


@pytest.mark.slow
def test_the_page_on_tables_works_as_it_stands(tmp_path: Path) -> None:
    """In one folder with one home."""
    (tmp_path / "work").mkdir()
    for block in blocks("docs/how-to-tables.md"):
        completed = run_script(block, tmp_path / "work", MILLRACE_HOME=tmp_path / "home")
        assert completed.returncode == 0, f"{block}\n{completed.stdout}\n{completed.stderr}"
        assert "Traceback" not in completed.stderr
    answers = (tmp_path / "work/answers.csv").read_text().splitlines()
    assert answers[0] == "bottle,alcohol,malic_acid,color_intensity,hue,shade,grape,input,class,confidence,error"
    assert len(answers) == 179


def run_page(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the only commands of a page in a folder, with a home of its own; they must end well."""
    [block] = blocks(page)
    completed = run_script(block, folder, MILLRACE_HOME=folder / "home")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed


@pytest.mark.slow
def test_the_page_on_text_works_as_it_stands(tmp_path: Path) -> None:
    completed = run_page("docs/how-to-text.md", tmp_path)
    assert "% padding" in completed.stdout + completed.stderr


@pytest.mark.slow
def test_the_page_on_tagging_works_as_it_stands(tmp_path: Path) -> None:
    completed = run_page("docs/how-to-tag.md", tmp_path)
    assert "; CALL: " in completed.stdout and "Traceback" not in completed.stderr


@pytest.mark.slow
def test_the_page_on_serving_works_as_it_stands(tmp_path: Path) -> None:
    [block] = blocks("docs/how-to-serve.md")
    completed = run_script(block, tmp_path, TMPDIR=tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    answers = [json.loads(line) for line in completed.stdout.splitlines() if line.startswith("{")]
    rows, raw, value, column = answers
    assert [row["class"] in ("no", "yes") for row in rows["predictions"]] == [True, True]
    assert len(raw["predictions"][0]) == 2
    says = "row 1, column age: 'old'; must be a decimal number such as 12, -0.5 or 1e-3"
    assert value["message"].splitlines()[-1] == f"Error: {says}"
    assert "Model is missing inputs ['income']" in column["message"]


@pytest.mark.slow
def test_the_page_on_python_works_as_it_stands(tmp_path: Path) -> None:
    """In a project that it makes, with the home beside its prefect.yaml."""
    [block] = blocks("docs/how-to-python.md")
    completed = run_script(block, tmp_path, TMPDIR=tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert re.search(r"^completed [01]\.\d+$", completed.stdout, re.M)
    assert len(re.findall(r"^(?:malignant|benign) (?:malignant|benign) [01]\.\d+$", completed.stdout, re.M)) == 3


@pytest.mark.slow
def test_the_page_on_exports_works_as_it_stands(tmp_path: Path) -> None:
    [block] = blocks("docs/how-to-export.md")
    completed = run_script(block, tmp_path, TMPDIR=tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "7 variants checked in a fresh process" in completed.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for page in TRAINING for block in blocks(f"docs/how-to-{page}.md")])
def test_the_pages_on_training_work_as_they_stand(block: str, finished: CommandHome, tmp_path: Path) -> None:
    """In a home that has the snapshot of the digits; what is one command and nothing else needs no shell."""
    if block.startswith("make horovod") and shutil.which("g++") is None:
        pytest.skip("no g++, which compiles Horovod")
    home, found = finished.copied_to(tmp_path / "home"), calls(block)
    if block.startswith("millrace ") and len(found) == 1 and "$" not in block:
        answer = home.here(*found[0])
        assert answer.code == 0, f"{block}\n{answer.stdout}\n{answer.stderr}"
        return
    completed = run_script(block, ROOT, MILLRACE_HOME=home.root)
    assert completed.returncode == 0, f"{block}\n{completed.stdout}\n{completed.stderr}"


@pytest.mark.slow
def test_the_page_on_data_works_as_it_stands(tmp_path: Path) -> None:
    """In one shell, as it says."""
    script = "".join(blocks("docs/how-to-data.md"))
    completed = run_script(script, ROOT, MILLRACE_HOME=tmp_path / "home", TMPDIR=tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "Traceback" not in completed.stderr
    seen = ("rent: predicted as a number", "user.age number", "image/encoded image", "40 sounds", "pets.zip/pets")
    assert [said for said in seen if said not in completed.stdout] == []
