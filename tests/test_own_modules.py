"""Code of the user's is imported from its folder, whose modules may be called as Millrace's, or anybody's, are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import flows
import tasks
from tasks.environment.user_code import deciding, files_of
from tasks.reader.own_modules import LOADED, OTHERS_HAVE, imported

PROJECT = {
    "tasks/__init__.py": "NAME = 'tasks of the user'\n",
    "tasks/layers.py": "from . import NAME as of_all\nWIDTH = 7\n",
    "tasks/convert.py": "WIDTH = 8\n",
    "tasks/nets.py": """
        from __future__ import annotations
        from dataclasses import dataclass
        import tasks
        import tasks.layers
        import tasks.layers as layers
        import flows
        from tasks import convert, NAME
        from tasks.layers import WIDTH, of_all
        from infra import sizes
        from .convert import WIDTH as other
        import yaml

        @dataclass
        class Net:
            width: int

        def make():
            import infra.sizes
            from tasks.late import LATE
            from . import later
            assert tasks.layers is layers and of_all == NAME == tasks.NAME and yaml.safe_load("1") == 1
            return Net(WIDTH), other, convert.WIDTH, flows.NAME, sizes.SIZE, infra.sizes.SIZE, LATE, later.LATER
        """,
    "tasks/late.py": "from infra.sizes import SIZE\nLATE = SIZE + 1\n",
    "tasks/later.py": "import tasks.late\nLATER = tasks.late.LATE + 1\n",
    "flows.py": "NAME = 'flows of the user'\n",
    "infra/sizes.py": "SIZE = 9\n",  # a package without __init__.py
    "plain.py": """
        import helper

        def make():
            import second_helper
            return helper.VALUE, second_helper.VALUE
        """,
    "helper.py": "VALUE = 1\n",
    "second_helper.py": "from tasks.layers import WIDTH\nVALUE = WIDTH\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    before = set(sys.modules)
    for path, content in PROJECT.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(dedent(content))
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith((OTHERS_HAVE, "chance", "plain", "helper", "second_helper")):
            del sys.modules[name]
    LOADED.clear()


def test_a_project_may_have_packages_called_tasks_flows_and_infra(project: Path) -> None:
    net, *numbers = imported("tasks.nets:make", project)()
    assert net.width == 7
    assert numbers == [8, 8, "flows of the user", 9, 9, 10, 11]
    assert type(net).__module__ == "own_code.tasks.nets"


def test_meanwhile_everybody_else_has_those_of_millrace(project: Path) -> None:
    imported("tasks.nets:make", project)()
    assert sys.modules["tasks"] is tasks and sys.modules["flows"] is flows
    from tasks.convert import convert

    assert callable(convert)
    assert not any(type(finder).__name__ == "OwnFinder" for finder in sys.meta_path)
    assert str(project) not in sys.path


def test_other_packages_get_none_of_its_modules_either_while_they_are_imported_first(project: Path) -> None:
    installed = project / "installed"
    installed.mkdir()
    (installed / "of_others.py").write_text("import their_helper\nVALUE = their_helper.VALUE\n")
    (installed / "their_helper.py").write_text("VALUE = 'theirs'\n")
    (project / "their_helper.py").write_text("VALUE = 'of the project'\n")
    (project / "chance.py").write_text(
        "import of_others, their_helper\n\ndef make():\n    return of_others.VALUE, their_helper.VALUE\n"
    )
    sys.path.append(str(installed))
    try:
        assert imported("chance:make", project)() == ("theirs", "of the project")
    finally:
        sys.path.remove(str(installed))
        for name in ("of_others", "their_helper"):
            sys.modules.pop(name, None)


def test_modules_whose_names_nobody_has_keep_them_and_are_found_while_the_function_runs(project: Path) -> None:
    make = imported("plain:make", project)
    assert make() == (1, 7)
    assert make.__module__ == "plain"


def test_a_relative_folder_is_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert imported("tasks.nets:make", Path())()[1] == 8


def test_the_same_module_of_another_folder_is_another_one(project: Path, tmp_path: Path) -> None:
    imported("tasks.nets:make", project)
    other = tmp_path / "other"
    (other / "tasks").mkdir(parents=True)
    (other / "tasks" / "nets.py").write_text("def make():\n    return 'of another folder'\n")
    assert imported("tasks.nets:make", other)() == "of another folder"
    assert imported("tasks.nets:make", project)()[1] == 8


def test_a_module_that_python_has_is_refused_and_not_what_others_import(project: Path) -> None:
    (project / "random.py").write_text("def make():\n    return 4\n")
    (project / "chance.py").write_text("import random\n\ndef make():\n    return random.Random(1).randint(1, 1)\n")
    assert imported("chance:make", project)() == 1
    assert list(files_of("model.target", "chance:make", project)) == ["chance.py"]
    with pytest.raises(ValueError, match="random:make: Python has a module random; rename yours"):
        imported("random:make", project)


def test_what_a_folder_lacks_is_not_taken_from_millrace(project: Path) -> None:
    (project / "tasks" / "wrong.py").write_text("from tasks.snapshots import open_snapshot\n")
    with pytest.raises(ModuleNotFoundError, match=r"tasks\.snapshots"):
        imported("tasks.wrong:open_snapshot", project)


def test_the_files_that_decide_are_those_that_are_imported(project: Path) -> None:
    """Those that `make` imports while it runs as well; and the version of the package that is not theirs."""
    found = deciding(files_of("model.target", "tasks.nets:make", project), project)
    files = [name for name, _ in found]
    assert files[:-1] == sorted(path for path in PROJECT if not path.endswith(("plain.py", "helper.py")))
    assert files[-1] == "package/PyYAML"


def test_what_is_missing_is_told_by_the_name_that_the_user_gave_it(project: Path) -> None:
    with pytest.raises(AttributeError, match=r"^module 'tasks.nets' has no attribute 'absent'$"):
        imported("tasks.nets:absent", project)
    (project / "tasks/broken.py").write_text("import tasks.absent\n")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'tasks.absent'$"):
        imported("tasks.broken:make", project)
