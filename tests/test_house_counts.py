"""`python -m tests.house` counts what its page says, of a small house whose numbers are known."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import house
from tests.support.homes import ROOT
from tests.support.houses import Broken, House, circles, read, walk

FILES = {
    "pyproject.toml": """\
[tool.importlinter]
[[tool.importlinter.contracts]]
layers = ["flows", "tasks.a | tasks.b"]
""",
    "docs/reference.md": """\
| key | type |
| --- | --- |
| `seed` | integer |
| `a.size` | integer |
""",
    "flows/__init__.py": '"""Flows."""\n',
    "flows/main.py": """\
from tasks.go import go


def main(size: int) -> None:
    go(size)
""",
    "tasks/__init__.py": "",
    "tasks/errors.py": '''\
"""Errors."""

# what a user can mend


class Refused(Exception):  # one shape
    """A fault."""
''',
    "tasks/go.py": """\
from tasks import run


def go(size: int) -> None:
    run.run('tasks.a.work:work', size)
""",
    "tasks/run.py": """\
from importlib import import_module


def run(work: str, size: int) -> None:
    module, _, name = work.partition(':')
    getattr(import_module(module), name)(size)
""",
    "tasks/a/__init__.py": "",
    "tasks/a/work.py": '''\
"""`tasks.a.kinds` in a docstring."""

from .kinds import open_kind as opened

NOUN = "tasks.b"


def work(size: int) -> None:
    opened('plain', size).write()
''',
    "tasks/a/kinds.py": """\
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.a.work import work


def open_kind(kind: str, size: int) -> Any:
    values: dict[str, Any] = {'size': size}
    return import_module(f'tasks.b.{kind}').Plain(**values)
""",
    "tasks/b/__init__.py": "",
    "tasks/b/plain.py": """\
class Plain:
    def __init__(self, size: int) -> None:
        self.size = size

    def write(self) -> None:
        with open('file.txt', 'w') as file:
            file.write(' ' * self.size)
""",
    "tasks/b/back.py": """\
def read() -> int:
    from tasks.a.work import work

    return len(open('file.txt').read())
""",
}
WALK = """
    flows/main.py: main
    tasks/go.py: go
    tasks/a/work.py: work
    tasks/a/kinds.py: open_kind
    tasks/b/plain.py: Plain.__init__
    tasks/a/kinds.py: ^open_kind
    tasks/a/work.py: ^work
    tasks/b/plain.py: Plain.write
    tasks/b/back.py: ~file.txt read
    = len(
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit, and a file that git ignores."""
    for path, text in {**FILES, ".gitignore": "tasks/ignored.py\n", "tasks/ignored.py": "\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    for arguments in (("init", "--quiet"), ("add", "--all"), (*author, "commit", "--quiet", "--message=a")):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    return tmp_path


def test_a_commit_and_the_working_tree_stand_side_by_side(root: Path) -> None:
    (root / "tasks/go.py").unlink()
    (root / "tasks/new.py").write_text("x: dict[str, Any]\n")
    head, *rows = house.report([read("HEAD", root), read(None, root)], {"size": [WALK]})
    assert head.endswith("working tree")
    of_all = rows[: rows.index("")]
    table = {label: numbers for label, *numbers in (re.split(r"\s{2,}", row) for row in of_all)}
    assert table["files"] == ["12", "12"]
    assert table["dict[str, Any]"] == ["1", "2"]
    assert table["walk: size"] == ["6", "broken"]
    assert "  broken at tasks/go.py: there is no go" in rows


def test_numbers_are_those_of_the_files(root: Path) -> None:
    commit = read("HEAD", root)
    assert commit.files == FILES
    built, details = house.structure(commit)
    assert built == {
        "floors": "3",
        "layers": "2",
        "circles of rooms": "0",
        "circles of modules": "1",
        "modules in circles": "2",
        "dict[str, Any]": "1",
        "texts that name code": "3",
        "files with such texts": "3",
        "imports by text": "2",
        "keys of the reference": "2",
    }
    assert "circle of modules: tasks/a/kinds.py, tasks/a/work.py" in details
    assert house.by_room(commit)["room verbs"] == "3 / 11"


def test_lines_are_told_apart() -> None:
    numbers = house.writing(House("one", {path: FILES[path] for path in ("flows/main.py", "tasks/errors.py")}))
    assert numbers == {
        "files": "2",
        "lines": "12",
        "median lines a file": "6",
        "lines of the longest file": "7",
        "lines, blank": "41.7%",  # 5
        "lines, comment": "16.7%",  # 2, one of them behind code
        "lines, docstring": "16.7%",  # 2
        "lines, code": "33.3%",  # 4
        "characters of the longest line": "38",
        "characters a line of code": "24.2",
    }


def test_a_walk_that_holds_has_its_files_in_order(root: Path) -> None:
    files, end = walk(read("HEAD", root), WALK)
    order = ("flows/main", "tasks/go", "tasks/a/work", "tasks/a/kinds", "tasks/b/plain", "tasks/b/back")
    assert files == [f"{path}.py" for path in order]
    assert end == "tasks/b/back.py:4: return len(open('file.txt').read())"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    tasks/go.py: go\n", "", "flows/main.py: main does not name work, of tasks/a/work.py"),
        ("^open_kind", "open_kind", "tasks/b/plain.py: Plain.__init__ does not name open_kind, of tasks/a/kinds.py"),
        ("~file.txt", "~other.txt", "tasks/b/plain.py: Plain.write does not speak of other.txt"),
        ("= len(", "= sum(", "tasks/b/back.py: read has no sum("),
        ("Plain.write", "Plain.gone", "tasks/b/plain.py: there is no Plain.gone"),
    ],
)
def test_a_walk_that_skips_a_station_is_broken(root: Path, old: str, new: str, why: str) -> None:
    with pytest.raises(Broken) as broken:
        walk(read(None, root), WALK.replace(old, new))
    assert str(broken.value) == why


def test_the_first_route_that_holds_counts(root: Path) -> None:
    numbers, details = house.walked(read(None, root), {"size": [WALK.replace("= len(", "= sum("), WALK], "none": []})
    assert numbers == {"walk: size": "6", "walk: none": "broken"}
    assert not any("broken at" in line for line in details)


def test_no_module_of_ours_imports_one_that_imports_it() -> None:
    """Imports inside functions and of types count too."""
    assert circles(read(None, ROOT).imports) == []
