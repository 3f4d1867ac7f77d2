"""Import rules between packages, and modules that a process must not import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tasks

ROOT = Path(__file__).parent.parent
VERBS = ("convert", "snapshot", "tune", "train", "evaluate", "compress", "export", "promote")


def test_tasks_is_ours() -> None:
    assert Path(str(tasks.__file__)).parent == ROOT / "tasks"


def test_flows_commands_and_verbs_load_no_framework() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted([*(ROOT / "flows").rglob("*.py"), *(ROOT / f"tasks/{verb}.py" for verb in VERBS)])
        if path.parent.name != "project"  # what `millrace new` copies
    ]
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
        "heavy = {'tensorflow', 'keras', 'jax', 'mlflow'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert completed.returncode == 0, completed.stderr


def test_a_flow_imports_no_statistics_and_no_tables_before_its_first_stage(tmp_path: Path) -> None:
    """Every run waits for it; of a method, its version is asked for."""
    script = (
        "import sys, flows.pipeline\n"
        "from pathlib import Path\n"
        "from flows import preflight\n"
        "from tasks.config.compose import load\n"
        "from tasks.runs.home import Home\n"
        "from tasks.runner import identities\n"
        "config = load(Path('flows/presets/digits.yaml'))\n"
        f"preflight.check('pipeline', config, Home(Path({str(tmp_path)!r})))\n"
        f"assert identities.records(config.source, config.records, Path({str(tmp_path)!r})).sources()\n"
        "assert all(chain.versions for chain in config.compress.chains)\n"
        "heavy = {'scipy', 'pandas', 'polars', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert completed.returncode == 0, completed.stderr


def test_a_release_that_compares_nothing_imports_no_statistics() -> None:
    """Every run waits for it, also one whose results are all in the store."""
    script = (
        "import sys\n"
        "from tasks.evaluation.measured import asked\n"
        "from tasks.registry import comparison, registry\n"
        "from tasks.runner import releasing\n"
        "heavy = {'scipy.stats', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert completed.returncode == 0, completed.stderr


def test_commands_are_listed_without_the_config_and_prefect() -> None:
    """`--help` imports every command, and must be quick."""
    script = (
        "import sys, flows.commands\n"
        "heavy = {'pydantic', 'tasks.config', 'prefect', 'numpy', 'packaging'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert completed.returncode == 0, completed.stderr


def test_a_flow_is_a_list_of_assignments() -> None:
    for name in ("pipeline", "dataset", "training", "release", "tuning"):
        tree = ast.parse((ROOT / "flows" / f"{name}.py").read_text())
        [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert function.name == name
        kinds = {type(node) for node in function.body[1:]}
        assert kinds <= {ast.Assign, ast.Return}, f"{name}: {kinds}"


def test_verbs_do_not_import_verbs() -> None:
    for verb in VERBS:
        tree = ast.parse((ROOT / "tasks" / f"{verb}.py").read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & {f"tasks.{other}" for other in VERBS}, verb


def test_commands_do_not_import_commands() -> None:
    files = {path.stem: path for path in (ROOT / "flows" / "commands").glob("*.py")}
    for name in files.keys() - {"__init__"}:
        nodes = list(ast.walk(ast.parse(files[name].read_text())))
        imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        assert not imported & {f"flows.commands.{other}" for other in files}, name


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("flows", "tasks", "infra")
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long
