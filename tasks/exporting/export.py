"""An export: accepted variants, golden inputs and outputs, the transform and a README, verified in a fresh process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Artifact, Model, Outcome, Records, Report, Snapshot, Variant
from tasks.config import ExportConfig
from tasks.config.task import TARGET
from tasks.data import open_snapshot
from tasks.errors import Failed
from tasks.evaluation import decisions, gates
from tasks.exporting import FORMATS, SAVED_MODEL, format_of, readme, verify
from tasks.exporting.preprocess import golden_columns, in_graph
from tasks.exporting.raw_inputs import LIBRARIES
from tasks.exporting.transform import DECISION, TASK, read_transform
from tasks.exporting.verify import INPUTS, RAW_INPUTS
from tasks.models.features import TOKENS, input_arrays, model_inputs, targets
from tasks.models.forward import Batch, predict
from tasks.models.keras_file import ZIP_DATE, architecture, load
from tasks.store.files import pretty
from tasks.store.staging import Staging

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

GOLDEN = "golden.npz"
SPLIT = "test"
GOLDEN_TEXTS, GOLDEN_LENGTH = 4, 64
"""Golden rows of a language model, and the tokens of each."""
TIMEOUT = 600.0
"""Seconds after which the fresh process is ended."""


def build(
    bench: Workbench,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    variants: list[Variant],
    config: ExportConfig,
    report: Report | None = None,
) -> Outcome:
    """Collect the accepted variants and verify that their outputs equal those of Keras.

    Writes `<variant>/…`, `golden.npz` (`inputs/<name>` [n, *shape], `outputs` float32 of Keras; of a model that takes
    raw columns also `raw/<name>`), `transform/` (with the temperature and thresholds of `report`, if it is given) and
    `README.md`. Runs on one thread, so that the golden outputs do not
    depend on the machine's number of cores.

    Raises:
        Failed: there is no SavedModel among the variants, a float variant's outputs differ by more than its limit, or
            raw columns become other inputs in its graph than in the snapshot.
    """
    names = [variant.name for variant in variants]
    if SAVED_MODEL not in names:
        rule = "an export holds the float SavedModel"
        raise Failed("variants", ", ".join(names) or "none", rule, "see the warnings of compress")
    bench.staging.reserve(sum(variant.bytes for variant in variants))
    inputs = golden_inputs(snapshot, config.golden)
    with fresh_process(bench.staging.root, bench.staging.scratch("working_folder")) as verify_export:
        for variant in variants:
            _copy(variant, "", bench.staging, variant.name)
        _copy(snapshot, "transform", bench.staging, "transform")
        if TARGET in snapshot.manifest["features"]:
            bench.staging.put(f"transform/{TASK}", pretty(task_of(model, snapshot)))
        if report is not None:
            bench.staging.put(f"transform/{DECISION}", (report.path / decisions.FILE).read_bytes())
        outputs = predict(load(model.path), inputs)
        with bench.staging.piece(GOLDEN) as piece:
            write_arrays(piece.path, {**golden_arrays(snapshot, records, inputs), "outputs": outputs})
        verified = verify_export()
    descriptions = [json.loads((variant.path / "variant.json").read_bytes()) for variant in variants]
    largest = float(np.abs(outputs).max())
    verdicts = {
        variant["name"]: gates.parity(verified[variant["name"]]["max_abs_difference"], largest, gate["limit"])
        for variant in descriptions
        for gate in variant["gates"]
        if gate["gate"] == gates.PARITY
    }
    for name, verdict in verdicts.items():
        if not verdict.passed:
            rule = "in a fresh process a float variant answers as Keras does"
            remedy = "raise compress.max_difference if that much does not matter"
            raise Failed(f"variant {name}", verdict.text, rule, remedy)
    check_raw(verified)
    text = readme.write(
        descriptions,
        verified,
        read_transform(bench.staging.root),
        model_inputs(snapshot.manifest["features"]),
        {name: array.shape for name, array in inputs.arrays.items()},
        max(1.0, largest) * verdicts[SAVED_MODEL].limit,
        {package: version(package) for package in {*(format_of(name).PACKAGE for name in FORMATS), *LIBRARIES}},
    )
    bench.staging.put("README.md", text.encode())
    metrics = {
        f"export/{name}/{name_of_figure}": figures[name_of_figure]
        for name, figures in verified.items()
        for name_of_figure in ("max_abs_difference", "argmax_agreement")
    }
    return Outcome(
        counts={"variants": len(variants), "golden": len(inputs)},
        features=snapshot.manifest["features"],
        statistics={"metrics": metrics, "verified": verified},
    )


def check_raw(verified: dict[str, Any]) -> None:
    """Raise `Failed` where a variant's graph made other inputs of the golden raw columns than the golden ones."""
    for name, figures in verified.items():
        if figures["raw_differs"]:
            saw = f"its graph makes another {', '.join(figures['raw_differs'])} of raw columns"
            rule = "in a fresh process it makes what the snapshot holds, bit for bit"
            raise Failed(f"variant {name}", saw, rule, "make the snapshot again on this processor, or report it")


def task_of(model: Model, snapshot: Snapshot) -> dict[str, Any]:
    """Return task, loss and targets: a snapshot does not know the task, on which the outputs' meaning depends."""
    trained = architecture(model.path)
    return {
        "task": trained["model"]["task"],
        "loss": trained["loss"],
        "targets": targets(snapshot.manifest["features"]),
    }


def golden_inputs(snapshot: Snapshot, count: int) -> Batch:
    """Return the first test inputs; of text the beginnings of a few rows, as outputs are large ([B, T, vocabulary])."""
    features = snapshot.manifest["features"]
    examples = input_arrays(features, open_snapshot(snapshot.path).arrays(SPLIT))
    if TOKENS not in features:
        return Batch(examples[:count])
    return Batch({TOKENS: np.ascontiguousarray(examples[: min(count, GOLDEN_TEXTS)][TOKENS][:, :GOLDEN_LENGTH])})


def golden_arrays(snapshot: Snapshot, records: Records, inputs: Batch) -> dict[str, npt.NDArray]:
    """Return the golden inputs by name in the file, and where a graph takes raw columns those of the same examples."""
    named = {f"{INPUTS}{name}": array for name, array in inputs.arrays.items()}
    preprocess = in_graph(snapshot.path)
    if preprocess is None:
        return named
    raw = golden_columns(preprocess, records, SPLIT, len(inputs))
    return named | {f"{RAW_INPUTS}{name}": array for name, array in raw.items()}


@contextmanager
def fresh_process(export: Path, working_folder: Path) -> Iterator[Callable[[], dict[str, Any]]]:
    """Start a fresh process in another folder, which imports the runtimes while the export is written.

    Yields a function that has the process verify the export, and returns its results by variant name. It raises
    `Failed` where a file does not load or run; the error has the process' last line of stderr.
    """
    packages = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    formats = [str(Path(format_of(name).__file__).resolve()) for name in FORMATS]
    script = str(Path(verify.__file__).resolve())
    command = [sys.executable, "-I", "-S", script, str(export.resolve()), *formats, "--", *packages]
    one_thread = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "HOME": str(working_folder), **one_thread}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=working_folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )

    def verify_export() -> dict[str, Any]:
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            rule = "a fresh process must run it"
            raise Failed(str(export), f"no answer in {TIMEOUT:g} s", rule, "run again") from None
        if process.returncode:
            sys.stderr.write(errors)
            saw = f"{(errors.strip().splitlines() or [''])[-1]} (exit code {process.returncode})"
            raise Failed(str(export), saw, "every variant must run in a fresh process", "see the log")
        results: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        return results

    with process:
        try:
            yield verify_export
        finally:
            process.kill()


def write_arrays(path: Path, arrays: dict[str, npt.NDArray]) -> None:
    """Write an `.npz` file with reproducible bytes: `numpy.savez` stores the time of each entry."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", ZIP_DATE), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _copy(artifact: Artifact, folder: str, staging: Staging, target: str) -> None:
    """Copy an artifact's published files of `folder` (all for "") to `target` in the staging."""
    for row in artifact.manifest["files"]:
        path = Path(row["path"])
        if path.is_relative_to(folder or "."):
            with staging.piece(f"{target}/{path.relative_to(folder).as_posix()}") as piece:
                shutil.copyfile(artifact.path / path, piece.path)
