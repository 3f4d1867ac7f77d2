"""A variant of a model: written, run on the test split and on drawn inputs, compared with the float Keras model.

A converter may leave out an operation that no test example needs: `relu` where all values are positive, or the rounding
of a division where no number is negative. The file then equals Keras on the test split, and not on later rows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.inputs import MethodInputs
from tasks.compression.methods.method import CHOSEN, FileMethod
from tasks.compression.specs import VariantSpec
from tasks.errors import Failed, of_the_machine
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.intervals import flat, intervals
from tasks.evaluation.judging import ModelOutputs, Probe, compare, contributions_of, names_of, run_model
from tasks.evaluation.report import read_kept
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.units import UNITS, Floats, Units
from tasks.exporting import EVIDENCE, FORMATS, SAVED_MODEL, open_variant
from tasks.exporting.preprocess import in_graph
from tasks.models.features import TOKENS, Arrays, Input, model_inputs
from tasks.models.forward import Call, Examples, inference_function
from tasks.models.keras_file import architecture, functions_of, load
from tasks.models.outputs import further_function, with_main_output
from tasks.store.files import pretty, write_arrays

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


ROWS, MAX_OUTPUTS = 32, 1 << 22
"""Rows that are drawn, fewer where they would have more outputs."""
FACTORS = np.array([-4, -1, 1, 4], np.float32)
"""What numbers of test examples are multiplied by, each by one of them."""
NEAR = np.float32(1 + 2**-19)
"""Numbers times this are 16 roundings away: where Keras answers otherwise there, a file may do so."""


def compared(
    model: Call, file: Call, inputs: Sequence[Input], examples: Examples, outputs: int, limit: float
) -> Mapping[str, float] | None:
    """Return the `difference` of a file on inputs drawn like the first examples; None of a model that reads texts only.

    Args:
        outputs: the number of outputs for a row.
    """
    if all(_is_text(each) for each in inputs):
        return None
    rows = max(1, min(ROWS, MAX_OUTPUTS // outputs))
    return difference(model, file, draw(inputs, examples[:rows]), limit)


def draw(inputs: Sequence[Input], examples: Arrays) -> Arrays:
    """Return inputs like `examples` (by name, [B, *shape]): numbers of either sign, any pixel, any id.

    Texts stay as they are: their padding and their order have a meaning.
    """
    random = np.random.Generator(np.random.PCG64(0))
    return {each.name: _drawn(each, examples[each.name], random) for each in inputs}


def _drawn(source: Input, values: npt.NDArray, random: np.random.Generator) -> npt.NDArray:
    if _is_text(source):
        return values
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values * random.choice(FACTORS, values.shape).astype(values.dtype)
    if source.sizes:
        return random.integers(0, source.sizes, values.shape).astype(values.dtype)
    return random.integers(0, 256, values.shape).astype(values.dtype) if values.dtype == np.uint8 else values


def _is_text(source: Input) -> bool:
    return source.padded or source.name == TOKENS


def difference(model: Call, file: Call, inputs: Arrays, limit: float) -> Mapping[str, float]:
    """Return the largest difference of a file's outputs from the model's (`max_abs_difference`), and the model's
    largest output (`largest`), over the rows on which the model's outputs are finite and steady.

    Args:
        limit: the share of the largest output, or of 1, by which a steady output changes at most from inputs to those
            that are `NEAR`: what changes by more is chaotic, such as the sine of a large number.
    """
    near = {name: array * NEAR if array.dtype.kind == "f" else array for name, array in inputs.items()}
    expected, beside, actual = _rows(model(inputs)), _rows(model(near)), _rows(file(inputs))
    finite = np.isfinite(expected).all(axis=1) & np.isfinite(beside).all(axis=1)
    largest = float(np.abs(expected[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore"):  # of two infinite ones
        steady = finite & (np.abs(expected - beside).max(axis=1) <= limit * max(1.0, largest))
    differing = np.abs(actual[steady] - expected[steady])
    found = float(np.where(np.isfinite(differing), differing, np.finfo("f4").max).max(initial=0.0))
    return {"max_abs_difference": found, "largest": largest}


def _rows(outputs: npt.NDArray) -> npt.NDArray[np.float64]:
    return outputs.reshape(len(outputs), -1).astype("f8")


SPLIT = "test"
MAX_PROBED_OUTPUTS = 1 << 26
"""Outputs that are compared with Keras' one by one, at most: of a language model those of the first rows."""

MARGIN = 2.0
"""A quantised file differs in a fresh process at most so many times as much as on the test split, of which the golden
inputs are a part: activations are rounded otherwise in other batches."""

CHUNK = 1 << 20


def build(
    bench: Workbench,
    spec: VariantSpec,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    report: Report,
    parent: Variant | None,
    reference: Variant | None,
    config: CompressConfig,
    evaluate: EvaluateConfig,
) -> Outcome:
    """Make a variant of a model, which may be one that methods have changed.

    Writes its folder or file (`saved_model/` or `model.tflite`) and `variant.json`: name, format, methods, file, bytes,
    files, quality on the test split with intervals, the loss against the float Keras model with 95 % bounds, of a float
    file how much it differs on drawn inputs, and the `tolerance` of an export; and `judged.npz`, which gates read
    (`evidence`; see `tasks.compression.verdicts`).
    Bins are those of `evaluate`.

    Args:
        report: that of the float model; its outputs are read from there, whatever the report's configuration. Keras
            runs here for the probed rows only.
        parent: the float form of the same model that it is made from.
        reference: the float LiteRT file of the model before all methods.
    """
    bench.staging.reserve(model.bytes)
    forms = FloatForms(bench, model, snapshot, parent)
    architecture_json = architecture(model.path)
    task, loss = architecture_json["model"]["task"], architecture_json["loss"]
    file = FORMATS[spec.format].file
    scratch = bench.staging.scratch(spec.name)
    if (method := spec.on_file) is None:
        forms.write(spec.format, scratch)
    else:
        limit = config.max_quality_loss(evaluate.primary_of(task)[0])
        inputs = MethodInputs(forms.path, task, loss, snapshot, records, evaluate, limit)
        (scratch / file).write_bytes(method.write(inputs))
    bench.staging.take(scratch)

    judge = make_judge(task, SnapshotSplit(snapshot.path, records.path, SPLIT), evaluate, loss)
    probed = min(len(judge.inputs), max(1, MAX_PROBED_OUTPUTS // judge.outputs))
    probe = Probe(inference_function(forms.network), probed)
    variant_call = open_variant(bench.staging.root, spec.format, bench.threads)
    outputs = run_model(judge, variant_call, name=SPLIT, probe=probe, progress=bench.progress)
    on_drawn = None
    if method is None:
        read = model_inputs(snapshot.manifest["features"])
        on_drawn = compared(probe.call, variant_call, read, judge.inputs, judge.outputs, config.max_difference)
    Decision.read(report.path).settle(judge)
    own = judge.predictions(outputs.kept)
    quality_metrics = intervals(judge.metrics, names_of(judge, task, evaluate), own, judge.units)
    of_float = read_kept(report, SPLIT, judge)
    comparison = compare(task, judge, of_float, outputs.kept, evaluate)
    before, after = (contributions_of(judge, kept, evaluate) for kept in (of_float, outputs.kept))
    with bench.staging.piece(EVIDENCE) as piece:
        write_arrays(piece.path, evidence(before if spec.methods else {}, after, judge.units))

    files = bench.staging.pieces(file)
    sizes = {
        "bytes": sum(file["bytes"] for file in files.values()),
        "gzip_bytes": sum(gzip_bytes(bench.staging.root / name) for name in files),
    }
    variant = {
        "name": spec.name,
        "format": spec.format,
        "methods": [each.model_dump(mode="json") for each in spec.methods],
        "file": file,
        **sizes,
        "files": sorted(files),
        "quality": {"split": SPLIT, "metrics": {metric: item.as_json() for metric, item in quality_metrics.items()}},
        "against_float": {
            **comparison.as_json(),
            "max_abs_difference": outputs.max_abs_difference,
            "largest": outputs.largest,
            "probed": probed,
            "drawn": on_drawn,
        },
        "tolerance": tolerance(config, method, outputs),
    }
    bench.staging.put("variant.json", pretty(variant))
    figures = {
        **flat(SPLIT, quality_metrics),
        **{f"{SPLIT}/{figure}": value for figure, value in comparison.figures.items()},
        **sizes,
    }
    if spec.methods and reference is not None:
        largest = reference.manifest["statistics"]
        figures["size_ratio"] = sizes["bytes"] / largest["bytes"]
        figures["gzip_ratio"] = sizes["gzip_bytes"] / largest["gzip_bytes"]
    metrics = {f"{spec.name}/{key}": value for key, value in figures.items()}
    statistics = {key: variant[key] for key in ("format", "methods", "bytes", "gzip_bytes")}
    return Outcome(counts={"files": len(files), SPLIT: judge.examples}, statistics={"metrics": metrics, **statistics})


def lost_on_validation(
    bench: Workbench,
    variant: Variant,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    report: Report,
    evaluate: EvaluateConfig,
) -> float:
    """Return how much of the primary metric a variant loses against the float model on the validation split."""
    plan = architecture(model.path)
    task = plan["model"]["task"]
    judge = make_judge(task, SnapshotSplit(snapshot.path, records.path, CHOSEN), evaluate, plan["loss"])
    call = open_variant(variant.path, variant.manifest["statistics"]["format"], bench.threads)
    kept = run_model(judge, call, name=CHOSEN, progress=bench.progress).kept
    loss = compare(task, judge, read_kept(report, CHOSEN, judge), kept, evaluate).loss
    return float(loss)


def tolerance(config: CompressConfig, method: FileMethod | None, outputs: ModelOutputs) -> float:
    """Return how far the file's answers may be from Keras' in a fresh process.

    Of a float form that is `compress.max_difference`; of a file that a method has changed, what it was here, with a
    margin for other batches and shorter texts.
    """
    rounding = config.max_difference * max(1.0, outputs.largest)
    return rounding if method is None else max(rounding, MARGIN * outputs.max_abs_difference)


def evidence(before: dict[str, Floats], after: dict[str, Floats], units: Units | None) -> dict[str, npt.NDArray]:
    """Return the arrays of `judged.npz`: contributions of the float model (`float/<metric>`) and of the variant
    (`own/<metric>`), and `units`, where examples are in groups."""
    arrays: dict[str, npt.NDArray] = {f"float/{name}": values for name, values in before.items()}
    arrays |= {f"own/{name}": values for name, values in after.items()}
    return arrays if units is None else {**arrays, UNITS: units}


class FloatForms:
    """The float forms of a model: those that are there, and those that are written when they are asked for."""

    def __init__(self, bench: Workbench, model: Model, snapshot: Snapshot, parent: Variant | None) -> None:
        self._bench, self._model, self._snapshot = bench, model, snapshot
        self._paths: dict[str, Path] = {}
        if parent is not None:
            name = parent.manifest["statistics"]["format"]
            self._paths[name] = parent.path / FORMATS[name].file

    @cached_property
    def network(self) -> Any:
        """The Keras model, with its main output."""
        return with_main_output(self._whole)

    @cached_property
    def _whole(self) -> Any:
        return load(self._model.path)

    def path(self, name: str) -> Path:
        """Return the file or folder of the model in a format."""
        if name not in self._paths:
            self._paths[name] = self.write(name, self._bench.staging.scratch(f"float_{name}"))
        return self._paths[name]

    def write(self, name: str, folder: Path) -> Path:
        """Write the model in a format into a folder; return the path there."""
        form = FORMATS[name]
        parent = None if form.parent is None else self.path(form.parent)
        try:
            others = functions_of(self._model.path, self.network)
            if name == SAVED_MODEL:
                others += further_function(self._whole, self._snapshot.manifest["features"])
            form.write(self.network, in_graph(self._snapshot.path), parent, folder / form.file, others)
        except Exception as error:  # each library's converter has its own
            if of_the_machine(error) is not None:
                raise
            saw = f"{name}: {' '.join(str(error).split())[:500]}"
            rule = "a listed format is one that the model can be converted to"
            raise Failed("export.formats", saw, rule, f"leave {name} out") from error
        return folder / form.file


def gzip_bytes(path: Path) -> int:
    """Return the size of a file after gzip."""
    compressor, size = zlib.compressobj(6, zlib.DEFLATED, 31), 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            size += len(compressor.compress(chunk))
    return size + len(compressor.flush())
