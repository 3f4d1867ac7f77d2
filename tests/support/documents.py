"""Blocks of the documentation."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tasks.processes.fork_server import SHARED
from tests.support.homes import ROOT, surroundings
from tests.support.shared import shared_fork_servers, shared_server, shell_path
from tests.support.stacks import Up

DOCS = ROOT / "docs/order.md"


def blocks(document: str, language: str = "sh") -> list[str]:
    """The blocks of a page that are in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


def added(path: str) -> str:
    """The code of a file in `docs/adding-a-kind.md`, or what is added to it."""
    [code] = [block for block in blocks("docs/adding-a-kind.md", "python") if block.startswith(f"# {path}\n")]
    return code.partition("\n")[2].lstrip("\n")


def calls(block: str) -> list[list[str]]:
    """The words of each call of `millrace` in a block, as the shell reads them, up to a redirection or an operator."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        if not re.search(r"(^|[\s(;&|/])millrace\s", line):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for begin in (place for place, word in enumerate(words) if word.rpartition("/")[2] == "millrace"):
            ends = (place for place in range(begin, len(words)) if not words[place].strip("();<>|&"))
            found.append(words[begin + 1 : next((end for end in ends if words[end]), len(words))])
    return found


def run_script(script: str, folder: Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script, in which `millrace` is the warm one, and shares servers with the runs of other tests."""
    given = {name: str(value) for name, value in variables.items()}
    shared = {"PREFECT_API_URL": shared_server(), SHARED: shared_fork_servers(), "PATH": shell_path()}
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**surroundings(), **shared, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def followed(stack: Up, page: str, instead: Mapping[str, str], **variables: str) -> str:
    """What the shell blocks of a page print, run as one script on a stack, with other words `instead` of some."""
    usual = {
        ":4200": f":{stack.given['PREFECT_SERVER_API_PORT']}",
        ":5000": f":{stack.given['MLFLOW_PORT']}",
        ".millrace/": f"{stack.root}/",
        "$PWD/.millrace": str(stack.root),
    }
    lines = [
        f"{line} || test $? = 3" if "# exit code 3" in line else line
        for block in blocks(f"docs/{page}.md")
        for line in block.splitlines()
        if not line.startswith("mlflow ui")
    ]
    script = "\n".join(lines)
    for old, new in {**usual, **instead}.items():
        script = script.replace(old, new)
    environment = {
        **surroundings(),
        **stack.given,
        "PATH": shell_path(),
        "MILLRACE_HOME": str(stack.root),
        "COLUMNS": "200",
        **variables,
    }
    words = ["bash", "-e", "-x", "-c", script.replace("# exit code 3 ||", "||")]
    completed = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, f"{completed.stdout}\n{completed.stderr}"
    assert "Traceback" not in completed.stderr
    return completed.stdout
