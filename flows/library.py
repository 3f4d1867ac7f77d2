"""Millrace from Python and notebooks: run a flow, and open what runs have made.

A flow runs in a process of its own, as that of the command does, so that a signal, a crash or the memory of a training
is not the notebook's. What is opened is read in this process. The home is that of the working directory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras

    from tasks.feed.snapshot_reader import SnapshotReader

Preset = str | Path

STAGES = {"snapshot": "snapshot", "model": "train", "report": "evaluate"}
"""The stage of a run that makes what is opened."""


def run(
    preset: Preset, values: Mapping[str, Any] | None = None, *, flow: str = "pipeline", new: bool = False
) -> dict[str, Any]:
    """Run a flow, or continue its unfinished run, and return the object of `millrace run --json`.

    Args:
        preset: the file.
        values: other values of its keys: `{"train.steps": 800, "model.units": [64]}`.
        flow: pipeline, dataset, training, release or tuning.
        new: whether to start a new run, even if one of the same config is unfinished.

    Returns:
        `status` (`completed`, `rejected`, `awaiting_approval`, `stopped`), `run_id`, `artifacts` by stage, `metrics` by
        flat name (`test/accuracy`), and the rest of docs/contracts.md.

    Raises:
        Refused, Failed: as the command says it; progress is printed on standard error.
    """
    flags = [word for key, value in (values or {}).items() for word in (f"--{key}", _text(value))]
    return _command("run", flow, str(preset), *flags, *(["--new"] if new else []))


def runs() -> list[dict[str, Any]]:
    """Return the runs of the home, oldest first: `run_id`, `name`, `flow`, `status`, `created`, `score`, `alias`."""
    from flows.commands.runs import runs as rows
    from tasks.runs.home import find_home

    return list(rows(find_home().readable()))


def open_model(which: str) -> keras.Model:
    """Return a trained model, not compiled, with Keras and TensorFlow imported.

    Args:
        which: the id of a run or of a model, a part of one, or NAME@ALIAS.

    Raises:
        Refused: there is none.
    """
    from tasks.models.keras_file import load

    return load(_folder("model", which))


def open_report(which: str) -> dict[str, Any]:
    """Return the content of `report.json` of an evaluation: metrics by split with their intervals, and what was judged.

    Args:
        which: the id of a run or of a report, a part of one, or NAME@ALIAS.

    Raises:
        Refused: there is none.
    """
    report: dict[str, Any] = json.loads((_folder("report", which) / "report.json").read_bytes())
    return report


def open_snapshot(which: str) -> SnapshotReader:
    """Return the reader of a snapshot: `.arrays(split)` as memory maps by feature, `.dataset(split, batch_size)` as a
    `tf.data.Dataset`, `.counts` of examples by split.

    Args:
        which: the id of a run or of a snapshot, a part of one, NAME@ALIAS, or the path of a snapshot's folder.

    Raises:
        Refused: there is none.
    """
    from tasks.feed import open_snapshot as opened

    return opened(which if Path(which).is_dir() else _folder("snapshot", which))


def predict(export: str, inputs: Sequence[str | Path | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of an exported model, in the order of the inputs, as `millrace predict --json` has them.

    Args:
        export: NAME@ALIAS, NAME@VERSION, a digest, or the folder of an export.
        inputs: paths of files (images, sounds, texts, tables), or rows as dicts by the names of the raw columns.

    Raises:
        Refused, Failed: as the command says it.
    """
    rows = [each for each in inputs if isinstance(each, Mapping)]
    files = [str(each) for each in inputs if not isinstance(each, Mapping)]
    with TemporaryDirectory(prefix="millrace-rows-") as folder:
        if rows:
            path = Path(folder) / "rows.jsonl"
            path.write_text("".join(f"{json.dumps(dict(row))}\n" for row in rows), encoding="utf-8")
            files = [*files, str(path)]
        answers: list[dict[str, Any]] = _command("predict", export, *files)["predictions"]
        return answers


def _command(*words: str) -> dict[str, Any]:
    """Return the object of a command with `--json`; raises its error."""
    from tasks.errors import Failed, Refused

    command = [sys.executable, "-P", "-m", "flows", *words, "--json"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    reply: dict[str, Any] = json.loads(printed.splitlines()[-1])
    if reply["error"] is not None:
        raise (Refused if reply["status"] == "refused" else Failed)(**reply["error"])
    return reply


def _text(value: Any) -> str:
    """Return a value as the text of a flag."""
    return value if isinstance(value, str) else json.dumps(value)


def _folder(kind: str, which: str) -> Path:
    """Return the folder of an artifact: its own digest, or what a run or the run of a registered version has made."""
    from flows.references import resolved
    from tasks.errors import Refused
    from tasks.runs.home import find_home
    from tasks.runs.runs import find_runs, resolve_run
    from tasks.store.store import Store

    home = find_home().readable()
    run = which
    if "@" in which:
        with resolved(home, which) as version:
            run = version.registered.tags.get("millrace.run", "")
    if not any(run in each.run_id for each in find_runs(home)):
        return Store(home.store).resolve(which, kind).path
    made = resolve_run(home, run).record["stages"].get(STAGES[kind], [])
    if len(made) != 1:
        saw = f"several {kind}s" if made else f"no {kind}"
        named = ", ".join(f"{row['name']} {row['digest'][:12]}" for row in made)
        remedy = f"name one by its digest: {named}" if made else "see millrace show RUN"
        raise Refused(which, saw, f"the run must have made one {kind}", remedy)
    return Store(home.store).resolve(f"{kind}/{made[0]['digest']}", kind).path
