"""millrace new: a project of one's own, with a preset, a model, a test, deployments and a README."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import infra
from flows.reply import AsJson, replying
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.guess import Guess

TEMPLATES = Path(__file__).parent.parent / "project"
CONSTRAINTS = Path(infra.__file__).parent / "constraints.txt"

TABLE = Path("data/tumours.csv")
"""The table of a project without data of its own."""

METRICS = {"classification": "wrong", "regression": "relative_error"}
"""The function of model.py that is a metric of a task."""

IGNORED = """\
.millrace/
.millrace-backups/
.venv/
__pycache__/
.pytest_cache/
"""


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    data: Annotated[
        str | None,
        typer.Option("--from", metavar="DATA", help="Raw data, as for `millrace init`; default: a small table."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a project folder: a preset, a model and its test, deployments, and a README with the everyday commands."""
    with replying("new", as_json) as reply:
        from tasks.guess import Choices, guess_source

        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            saw = "not empty" if folder.is_dir() else "a file"
            raise Refused("DIR", f"{folder}: {saw}", "new overwrites nothing", "name a folder that is new or empty")
        guess = None if data is None else guess_source(data, Choices())  # first: nothing is written of what is refused
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if guess is None:
                write_table(folder / TABLE)
                guess = guess_source(folder / TABLE, Choices())
                guess = replace(guess, source={**guess.source, "path": str(TABLE)})
            files = files_of(guess, str(TABLE) if data is None else data, own_model=data is None)
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
            shutil.copyfile(CONSTRAINTS, folder / CONSTRAINTS.name)
        except OSError as error:
            rule = "new writes a folder"
            raise Refused(
                "DIR", f"{error.filename}: {error.strerror}", rule, "fix it, or name another folder"
            ) from None
        written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        reply.add(folder=str(folder.resolve()), files=written)
        for name in written:
            reply.say(f"wrote {folder / name}")
        reply.say(f"next: cd {folder}, read README.md, and: millrace run {guess.name}.yaml")


def write_table(path: Path) -> None:
    """Write the measurements of 569 tumours, benign or malignant, that come with scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    loaded = load_breast_cancer()
    names = [*(name.replace(" ", "_") for name in loaded.feature_names), "diagnosis"]
    rows = [
        ",".join([*(f"{value:g}" for value in values), loaded.target_names[target]])
        for values, target in zip(loaded.data, loaded.target, strict=True)
    ]
    path.parent.mkdir()
    path.write_text("\n".join([",".join(names), *rows, ""]), encoding="utf-8")


def files_of(guess: Guess, raw: str, own_model: bool) -> dict[str, str]:
    """Return the texts of a project by file name.

    Args:
        raw: the data, as somebody names them to the command.
        own_model: whether the preset trains the model of model.py, and not a built-in one.
    """
    from flows.preset_text import description, preset_of

    preset, of_examples = Path(f"{guess.name}.yaml"), guess.what in ("table", "images")
    text = preset_of(guess, preset)
    if of_examples:
        text = with_own_code(text, guess.task, own_model)
    own = f"--model '{{kind: import, task: {guess.task}, target: \"model:make\"}}'"
    filled = {
        "name": guess.name,
        "preset": preset,
        "deployment": guess.name.replace("_", "-"),
        "description": description(guess).capitalize(),
        "raw": raw,
        "version": version("millrace"),
        "pytest": " pytest" if of_examples else "",
        "test": "python -m pytest\n" if of_examples else "",
        "files": "| `model.py`, `test_model.py` | a Keras 3 model and metrics of your own, with tests |\n"
        if of_examples
        else "",
        "own_model": ""
        if own_model or not of_examples
        else f"\nThe preset trains a built-in model. `millrace run {preset} {own}` trains that of `model.py`.\n",
    }
    texts = {name: (TEMPLATES / name).read_text(encoding="utf-8") for name in ("prefect.yaml", "README.md")}
    files = {name: text.format(**filled) for name, text in texts.items()}
    if of_examples:
        files |= {name: (TEMPLATES / name).read_text(encoding="utf-8") for name in ("model.py", "test_model.py")}
    return {str(preset): text, **files, ".gitignore": IGNORED}


def with_own_code(preset: str, task: str, own_model: bool) -> str:
    """Return the text of a preset with the metric of model.py, and with its model where that is wanted."""
    if own_model:
        section = f'model:\n  kind: import\n  task: {task}\n  target: "model:make"  # a function of model.py\ntrain:\n'
        preset = re.sub(r"^model:\n.*?^train:\n", section, preset, count=1, flags=re.DOTALL | re.MULTILINE)
    if task not in METRICS:
        return preset
    metric = (
        f'  own_metrics: {{{METRICS[task]}: "model:{METRICS[task]}"}}  # functions of model.py, beside the others\n'
    )
    if re.search(r"^evaluate:\n", preset, flags=re.MULTILINE):
        return re.sub(r"^evaluate:\n", f"evaluate:\n{metric}", preset, count=1, flags=re.MULTILINE)
    return f"{preset}evaluate:\n{metric}"
