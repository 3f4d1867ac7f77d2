"""An export: accepted variants, golden answers, the transform, a README, all checked in a fresh process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Artifact, Model, Outcome, Snapshot, Variant
from tasks.config import ExportConfig
from tasks.data import open_snapshot
from tasks.errors import Failed
from tasks.evaluation import gates
from tasks.exporting import REFERENCE, SAVED_MODEL, readme, verify
from tasks.exporting.transform import TASK
from tasks.models.features import TARGET, TOKENS, fed, model_input, targets
from tasks.models.forward import predict
from tasks.models.keras_file import EPOCH, architecture, load
from tasks.store.files import pretty
from tasks.store.staging import Staging

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

GOLDEN = "golden.npz"
SPLIT = "test"
TEXTS, LENGTH = 4, 64
"""Golden rows of text, and the tokens of each."""
PATIENCE = 600.0
"""Seconds for the fresh process."""


def build(bench: Workbench, model: Model, snapshot: Snapshot, variants: list[Variant], config: ExportConfig) -> Outcome:
    """Collect the accepted variants and prove that they answer as Keras does.

    Writes `<variant>/…`, `golden.npz` (`inputs` [n, *shape], `outputs` float32 of the Keras model),
    `transform/` and `README.md`. Runs on one thread, so that the golden outputs are the same whatever the machine's
    cores.

    Raises:
        Failed: no SavedModel among the variants, or a float variant differs here by more than its parity gate allows.
    """
    names = [variant.name for variant in variants]
    if SAVED_MODEL not in names:
        rule = "an export holds the float SavedModel"
        raise Failed("variants", ", ".join(names) or "none", rule, "see the warnings of compress")
    bench.staging.reserve(sum(variant.bytes for variant in variants))
    source = model_input(snapshot.manifest["features"])
    inputs = golden(snapshot, config.golden)
    for variant in variants:
        _copy(variant, "", bench.staging, variant.name, without=REFERENCE)
    _copy(snapshot, "transform", bench.staging, "transform")
    plan = architecture(model.path)
    if TARGET in snapshot.manifest["features"]:  # what outputs mean hangs on the task, which a snapshot does not know
        meaning = {"task": plan["model"]["task"], "loss": plan["loss"]}
        meaning["targets"] = targets(snapshot.manifest["features"])
        bench.staging.put(f"transform/{TASK}", pretty(meaning))
    outputs = predict(load(model.path), inputs)
    with bench.staging.piece(GOLDEN) as piece:
        write_arrays(piece.path, {"inputs": inputs, "outputs": outputs})

    found = check(bench.staging.root, bench.staging.scratch("elsewhere"))
    described = [json.loads((variant.path / "variant.json").read_bytes()) for variant in variants]
    largest = float(np.abs(outputs).max())
    verdicts = {
        variant["name"]: gates.parity(found[variant["name"]]["max_abs_difference"], largest, gate["limit"])
        for variant in described
        for gate in variant["gates"]
        if gate["gate"] == gates.PARITY
    }
    for name, verdict in verdicts.items():
        if not verdict.passed:
            rule = "in a fresh process a float variant answers as Keras does"
            remedy = "raise compress.max_difference if that much does not matter"
            raise Failed(f"variant {name}", verdict.text, rule, remedy)
    text = readme.write(
        described,
        found,
        source,
        snapshot.manifest["features"],
        inputs.shape,
        max(1.0, largest) * verdicts[SAVED_MODEL].limit,
        {package: version(package) for package in ("tensorflow", "ai-edge-litert")},
    )
    bench.staging.put("README.md", text.encode())
    metrics = {
        f"export/{name}/{figure}": findings[figure]
        for name, findings in found.items()
        for figure in ("max_abs_difference", "argmax_agreement")
    }
    return Outcome(
        counts={"variants": len(variants), "golden": len(inputs)},
        features=snapshot.manifest["features"],
        statistics={"metrics": metrics, "verified": found},
    )


def golden(snapshot: Snapshot, most: int) -> npt.NDArray:
    """The first test inputs. Of text a few rows' beginnings: every token brings a number for each token there is."""
    features = snapshot.manifest["features"]
    examples = fed(features, open_snapshot(snapshot.path).arrays(SPLIT))
    inputs = np.asarray(examples[: min(most, TEXTS) if TOKENS in features else most])
    return np.ascontiguousarray(inputs[:, :LENGTH] if TOKENS in features else inputs)


def check(export: Path, elsewhere: Path) -> dict[str, Any]:
    """Run `verify` in a fresh process that starts in another folder; what it found, by variant name.

    Raises:
        Failed: a file does not load or run there; the process' last words are in the error.
    """
    packages = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    command = [sys.executable, "-I", "-S", str(Path(verify.__file__).resolve()), str(export.resolve()), *packages]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "HOME": str(elsewhere)}
    try:
        done = subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        words, ended = done.stderr.strip().splitlines()[-1:] or [""], f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        raise Failed(str(export), f"no answer in {PATIENCE:g} s", "a fresh process must run it", "run again") from None
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise Failed(str(export), f"{words[0]} ({ended})", "every variant must run in a fresh process", "see the log")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def write_arrays(path: Path, arrays: dict[str, npt.NDArray]) -> None:
    """An `.npz` file whose bytes repeat: `numpy.savez` notes the time of each entry."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _copy(artifact: Artifact, under: str, staging: Staging, into: str, without: str = "") -> None:
    """The published files of an artifact that lie in its folder `under`, but the one that nobody deploys."""
    for row in artifact.manifest["files"]:
        path = Path(row["path"])
        if path.is_relative_to(under or ".") and row["path"] != without:
            with staging.piece(f"{into}/{path.relative_to(under).as_posix()}") as piece:
                shutil.copyfile(artifact.path / path, piece.path)
