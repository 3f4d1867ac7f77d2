"""An export: accepted variants, golden inputs and outputs, the transform and a README, verified in a fresh process."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import reduce
from importlib.metadata import version
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Artifact, Model, Outcome, Records, Report, Snapshot, Variant
from tasks.config.task import TARGET, TASKS
from tasks.environment import hardware
from tasks.errors import Failed
from tasks.evaluation import decisions
from tasks.exporting import EVIDENCE, FORMATS, SAVED_MODEL, readme
from tasks.exporting.config import ExportConfig
from tasks.exporting.fresh_process import Verified, fresh_process
from tasks.exporting.preprocess import DECISION, TASK, golden_columns, in_graph, read_transform, usual_task
from tasks.exporting.readme import LIBRARIES
from tasks.exporting.verify import FURTHER, INPUTS, OUTPUTS, RAW_INPUTS, SHORTER, own_outputs, shortened
from tasks.feed import open_snapshot
from tasks.models.features import TOKENS, input_arrays, model_inputs, output_size, targets
from tasks.models.forward import Batch, predict
from tasks.models.keras_file import architecture, load, weights_sha256
from tasks.models.outputs import further_outputs, with_main_output
from tasks.models.usage import Usage
from tasks.store.files import pretty, write_arrays
from tasks.store.staging import Staging

if TYPE_CHECKING:
    import keras

    from tasks.processes.workbench import Workbench

NONE_CHANGED: Mapping[str, Model] = MappingProxyType({})

GOLDEN = "golden.npz"
SPLIT = "test"
GOLDEN_TEXTS, GOLDEN_LENGTH = 4, 64
"""Golden rows of a language model, and the tokens of each."""


def build(
    bench: Workbench,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    variants: list[Variant],
    config: ExportConfig,
    report: Report | None = None,
    changed: Mapping[str, Model] = NONE_CHANGED,
) -> Outcome:
    """Collect the accepted variants and verify each in a fresh process: that it loads, and its outputs are Keras'.

    Outputs may differ by the variant's `tolerance`, from those of `model` or of the one in `changed` that methods have
    made of it. A variant that does not keep to it is not exported, and a warning says why; of the SavedModel it is an
    error. Latency and memory are recorded as the run's measurement `fresh_process`.

    Writes `<variant>/…`, `golden.npz` (`inputs/<name>` [n, *shape], `outputs` float32 of Keras and, of a variant in
    `changed`, `outputs/<variant>`; of a model that takes raw columns also `raw/<name>`), `transform/` (with the
    temperature and thresholds of `report`, if it is given), `usage/` (the rows that the models have used) and
    `README.md`. Runs on one thread, so that the golden
    outputs do not depend on the machine's number of cores.

    Args:
        changed: by name of a variant the model that it was made from, where that is not `model`.

    Raises:
        Failed: there is no SavedModel among the variants, or it does not pass; a fresh process was killed.
    """
    hardware.leave()  # fresh processes compute on the host, and are compared with these outputs
    names = [variant.name for variant in variants]
    if SAVED_MODEL not in names:
        rule = "an export holds the float SavedModel"
        raise Failed("variants", ", ".join(names) or "none", rule, "see the warnings of compress")
    bench.staging.reserve(sum(variant.bytes for variant in variants))
    variants = in_order(variants)
    descriptions = [json.loads((variant.path / "variant.json").read_bytes()) for variant in variants]
    inputs = golden_inputs(snapshot, config.golden)
    with ExitStack() as processes:
        verify_variants = {
            variant["name"]: processes.enter_context(
                fresh_process(
                    bench.staging.root / variant["name"],
                    FORMATS[variant["format"]],
                    bench.staging.scratch(f"working_folder_{variant['name']}"),
                )
            )
            for variant in descriptions
        }
        for variant in variants:
            _copy(variant, "", bench.staging, variant.name)
        _copy(snapshot, "transform", bench.staging, "transform")
        reduce(or_, (Usage.of_model(each.path) for each in (model, *changed.values()))).write(bench.staging)
        task = task_of(model, snapshot)
        if "further" in task or task["task"] != usual_task(snapshot.manifest["features"]):
            bench.staging.put(f"transform/{TASK}", pretty(task))
        if report is not None:
            bench.staging.put(f"transform/{DECISION}", (report.path / decisions.FILE).read_bytes())
        whole = load(model.path)
        network = with_main_output(whole)
        outputs = golden_outputs(network, inputs, "", task["task"])
        outputs |= further_outputs_of(whole, inputs, snapshot.manifest["features"])
        for name, other in changed.items():
            outputs |= golden_outputs(load(other.path), inputs, f"/{name}", task["task"])
        with bench.staging.piece(GOLDEN) as piece:
            write_arrays(piece.path, {**golden_arrays(snapshot, records, inputs), **outputs})
        found = {name: verify_variant() for name, verify_variant in verify_variants.items()}
    bench.measure("fresh_process", {name: each.measured for name, each in found.items() if each.fault is None})
    descriptions = keep_verified(descriptions, found, weights_sha256(network), bench)
    verified = {variant["name"]: found[variant["name"]].figures for variant in descriptions}
    expected = {
        variant["name"]: (own_outputs(variant["name"], outputs), variant["tolerance"]) for variant in descriptions
    }
    text = readme.write(
        descriptions,
        verified,
        read_transform(bench.staging.root),
        model_inputs(snapshot.manifest["features"]),
        {name: array.shape for name, array in inputs.arrays.items()},
        expected,
        {package: version(package) for package in packages_of(descriptions)},
        next((variant.name for variant in variants if variant.chosen and variant.name in verified), None),
        {variant.name: variant.note for variant in variants},
    )
    bench.staging.put("README.md", text.encode())
    metrics = {
        f"export/{name}/{name_of_figure}": figures[name_of_figure]
        for name, figures in verified.items()
        for name_of_figure in ("max_abs_difference", "argmax_agreement")
    }
    return Outcome(
        counts={"variants": len(descriptions), "golden": len(inputs)},
        features=snapshot.manifest["features"],
        statistics={"metrics": metrics, "verified": verified},
    )


def in_order(variants: Iterable[Variant]) -> list[Variant]:
    """Return the variants in the order of an export: float ones in that of `FORMATS`, then the others by name."""
    rank = {name: number for number, name in enumerate(FORMATS)}
    return sorted(variants, key=lambda each: (rank.get(each.name, len(rank)), each.name))


def keep_verified(
    descriptions: list[dict[str, Any]], found: dict[str, Verified], weights: str, bench: Workbench
) -> list[dict[str, Any]]:
    """Return the variants that passed; drop the files of the others, with a warning that says why.

    Raises:
        Failed: the SavedModel is among them.
    """
    kept = []
    for variant in descriptions:
        name = variant["name"]
        fault = fault_of(found[name], variant["tolerance"], weights)
        if fault is None:
            kept.append(variant)
            continue
        if name == SAVED_MODEL:
            rule = "in a fresh process it answers as Keras does"
            remedy = "see the log; raise compress.max_difference if that much does not matter"
            raise Failed(f"variant {name}", fault, rule, remedy)
        logging.getLogger(__name__).warning("variant %s is not exported: %s", name, fault)
        for piece in bench.staging.pieces(f"{name}/"):
            bench.staging.drop(piece)
    return kept


def fault_of(found: Verified, tolerance: float, weights: str) -> str | None:
    """Return why a variant does not pass; None where it does.

    Args:
        found: what the fresh process found.
        tolerance: how much outputs may differ.
        weights: the hash of the model's weights, for the formats that keep them as they are.
    """
    if found.fault is not None:
        return found.fault
    difference = found.figures["max_abs_difference"]
    if not difference <= tolerance:
        return f"outputs differ from Keras' by at most {difference:.2e}, over the tolerance {tolerance:.2e}"
    if found.figures["raw_differs"]:
        return f"its graph makes another {', '.join(found.figures['raw_differs'])} of raw columns than the snapshot has"
    if found.figures.get("weights_sha256", weights) != weights:
        return "its weights are not those of the model"
    return None


def packages_of(descriptions: list[dict[str, Any]]) -> list[str]:
    """Return the packages that an export's README names."""
    return sorted({*LIBRARIES, *(name for each in descriptions for name in FORMATS[each["format"]].packages)})


def task_of(model: Model, snapshot: Snapshot) -> dict[str, Any]:
    """Return task, loss and targets: a snapshot does not know the task, on which the outputs' meaning depends; and by
    name what the further outputs are, where there are any."""
    trained, features = architecture(model.path), snapshot.manifest["features"]
    outputs = further_outputs(features)
    further = {each.name: {"column": each.column, "task": each.task, **each.meaning} for each in outputs}
    return {
        "task": trained["model"]["task"],
        "loss": trained["loss"],
        "targets": targets(features) if TARGET in features else [],
        **({"further": further} if further else {}),
    }


def further_outputs_of(whole: keras.Model, inputs: Batch, features: dict[str, Any]) -> dict[str, npt.NDArray]:
    """Return a model's further outputs for the golden inputs by name in the file."""
    outputs = further_outputs(features)
    if not outputs:
        return {}
    sizes = [output_size(features), *(each.size for each in outputs)]
    _, *parts = np.split(predict(whole, inputs), np.cumsum(sizes)[:-1], axis=1)
    return {f"{FURTHER}/{each.name}": part for each, part in zip(outputs, parts, strict=True)}


def golden_outputs(network: keras.Model, inputs: Batch, suffix: str, task: str) -> dict[str, npt.NDArray]:
    """Return a model's outputs for the golden inputs by name in the file; of tags also those for shorter inputs, which
    are no part of the others, as a model may look ahead."""
    outputs = {f"{OUTPUTS}{suffix}": predict(network, inputs)}
    if TASKS[task].of_tokens and TASKS[task].target is not None:
        shorter = Batch({name: shortened(array) for name, array in inputs.arrays.items()})
        outputs[f"{SHORTER}{suffix}"] = predict(network, shorter)
    return outputs


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


def _copy(artifact: Artifact, folder: str, staging: Staging, target: str) -> None:
    """Copy an artifact's published files of `folder` (all for "") to `target` in the staging."""
    for row in artifact.manifest["files"]:
        path = Path(row["path"])
        if path.is_relative_to(folder or ".") and row["path"] != EVIDENCE:
            with staging.piece(f"{target}/{path.relative_to(folder).as_posix()}") as piece:
                shutil.copyfile(artifact.path / path, piece.path)
