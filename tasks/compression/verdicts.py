"""The judgement of the variants of a run: the verdicts of their gates, the front, and the one that is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Report, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.judgement import (
    ACCEPTED,
    REJECTED,
    UNDECIDED,
    FrontEntry,
    choose,
    dominated_by,
    missed,
    slowest_of,
)
from tasks.compression.methods.method import Method
from tasks.compression.specs import FLOAT, VariantSpec
from tasks.evaluation import gates
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gates import Ratio, Verdict, reasons
from tasks.evaluation.gating import Subject
from tasks.evaluation.intervals import difference, interval_of
from tasks.evaluation.multiple_testing import Test, decide
from tasks.evaluation.own_metrics import MEAN
from tasks.evaluation.report import read_slices
from tasks.evaluation.tasks import judge_of
from tasks.evaluation.units import UNITS, Floats, at
from tasks.exporting import EVIDENCE, LITERT

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

SPLIT = "test"


def judge(
    bench: Workbench,
    specs: Sequence[VariantSpec],
    variants: Sequence[Variant],
    reference: Variant | None,
    report: Report,
    latency: Mapping[str, Any],
    task: str,
    config: CompressConfig,
    evaluate: EvaluateConfig,
) -> dict[str, Any]:
    """Judge the variants of a run together.

    Args:
        specs: of the variants, in their order.
        reference: the float LiteRT file; None where none was made.
        latency: the result of `tasks.exporting.latency.measure`.

    Returns:
        `verdicts` (by variant, as `Verdict.as_json`), `standing` (`accepted`, `rejected` or `undecided`: kept and
        marked), `front` (by variant, as `FrontEntry`), `slices` (by compressed variant the metric
        and its loss on slices of the test split), `want`, `chosen` and `missed` (why nothing is chosen).
    """
    _, masks = read_slices(report, SPLIT)
    described = {variant.name: read(variant) for variant in variants}
    found: list[list[Verdict | Test]] = []
    slices: dict[str, Any] = {}
    for number, (spec, variant) in enumerate(zip(specs, variants, strict=True)):
        bench.progress(number, len(variants), "variants")
        own = described[variant.name]
        row: list[Verdict | Test] = []
        if spec.on_file is None:
            row.append(parity(own, config.max_difference))
        if spec.methods:
            assert reference is not None
            if not (converted := parity(read(reference), config.max_difference)).passed:
                row.append(replace(converted, text=f"made like the float LiteRT file, whose {converted.text}"))
            subject = subject_of(task, spec, variant, reference, masks, latency, evaluate)
            row += [each for gate in config.gates for each in gate.find(subject)]
            slices[variant.name] = by_slice(subject, masks)
        found.append(row)
    verdicts = dict(zip(described, decide(found), strict=True))
    standing = {name: standing_of(each, config.undecided) for name, each in verdicts.items()}
    return {
        "verdicts": {name: [verdict.as_json() for verdict in each] for name, each in verdicts.items()},
        "standing": standing,
        "slices": slices,
        **_front(described, verdicts, standing, latency, config),
    }


def read(variant: Variant) -> dict[str, Any]:
    """Return the description of a variant."""
    described: dict[str, Any] = json.loads((variant.path / "variant.json").read_bytes())
    return described


def parity(described: Mapping[str, Any], limit: float) -> Verdict:
    """Return whether a float file is the model on the test split, and on drawn inputs where there are any."""
    against = described["against_float"]
    on_test = gates.parity(against["max_abs_difference"], against["largest"], limit)
    if (drawn := against["drawn"]) is None:
        return on_test
    on_drawn = gates.parity(drawn["max_abs_difference"], drawn["largest"], limit, "outputs for drawn inputs")
    return on_test if on_drawn.passed or not on_test.passed else on_drawn


def subject_of(
    task: str,
    spec: VariantSpec,
    variant: Variant,
    reference: Variant,
    masks: Mapping[str, npt.NDArray[np.bool_]],
    latency: Mapping[str, Any],
    evaluate: EvaluateConfig,
) -> Subject:
    """Return what the gates judge of a compressed variant."""
    own, of_float = (each.manifest["statistics"] for each in (variant, reference))
    peaks = latency.get("peak_bytes", {})
    ratios = {name: Ratio(own[name] / of_float[name]) for name in ("bytes", "gzip_bytes")}
    if variant.name in peaks and peaks.get(reference.name):
        ratios["peak_bytes"] = Ratio(peaks[variant.name] / peaks[reference.name])
    if (slowest := slowest_of(variant.name, latency)) is not None:
        ratios["latency"] = slowest
    measures = {name: float(own[name]) for name in ("bytes", "gzip_bytes")}
    if variant.name in peaks:
        measures["peak_bytes"] = float(peaks[variant.name])
    with np.load(variant.path / EVIDENCE) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    return Subject(
        task=task,
        primary=evaluate.primary_of(task),
        own=_under("own/", values),
        reference=_under("float/", values),
        against="the float model",
        units=values.get(UNITS),
        masks=masks,
        measures=measures,
        ratios=ratios,
        limits={"bytes": product(spec.methods, "size_ratio"), "gzip_bytes": product(spec.methods, "gzip_limit")},
    )


def by_slice(subject: Subject, masks: Mapping[str, npt.NDArray[np.bool_]]) -> list[dict[str, Any]]:
    """Return the primary metric on slices, and what was lost against float (`loss`), each with its interval."""
    name, higher_is_better = subject.primary
    metric, sign = judge_of(subject.task).metrics.get(name, MEAN), 1 if higher_is_better else -1
    before, after = subject.reference[name], subject.own[name]
    rows = []
    for where, mask in masks.items():
        units = at(subject.units, mask)
        change = difference(metric, before[mask], after[mask], units)
        low, high = sorted((-sign * change.low, -sign * change.high))
        own = interval_of(metric, after[mask], units).ends
        lost = {"value": -sign * change.value, "low": low, "high": high}
        rows.append({"slice": where, "examples": int(mask.sum()), **own, "loss": lost})
    return rows


def standing_of(verdicts: Sequence[Verdict], undecided: str) -> str:
    """Return whether a variant is accepted, rejected, or kept and marked as undecided."""
    if any(verdict.verdict == gates.FAIL for verdict in verdicts):
        return REJECTED
    open_ones = [verdict for verdict in verdicts if verdict.verdict == gates.UNDECIDED]
    if not open_ones:
        return ACCEPTED
    keeps = undecided == "keep" or (undecided == "keep_if_few" and all(verdict.few for verdict in open_ones))
    return UNDECIDED if keeps else REJECTED


def _front(
    described: Mapping[str, dict[str, Any]],
    verdicts: Mapping[str, Sequence[Verdict]],
    standing: Mapping[str, str],
    latency: Mapping[str, Any],
    config: CompressConfig,
) -> dict[str, Any]:
    points = []
    for name, variant in described.items():
        if variant["format"] == LITERT:
            slowest = slowest_of(name, latency)
            ratio = (1.0 if name == FLOAT.name else slowest.value) if slowest is not None else None
            loss, accepted = variant["against_float"]["loss"], standing[name] != REJECTED
            points.append(FrontEntry(name, variant["bytes"], loss, ratio, accepted))
    dominated = dominated_by(points)
    chosen = None if config.want is None else choose(points, config.want)
    rejected = {name: reasons(verdicts[name]) for name in described if standing[name] == REJECTED}
    lost = config.want is not None and chosen is None
    return {
        "front": {point.name: asdict(replace(point, dominated_by=dominated[point.name])) for point in points},
        "want": None if config.want is None else config.want.model_dump(mode="json"),
        "chosen": None if chosen is None else chosen.name,
        "missed": missed(points, config.want, rejected) if lost and config.want is not None else None,
    }


def product(methods: Sequence[Method], name: str) -> float:
    """Return the product of a limit of methods, to three digits."""
    value = 1.0
    for method in methods:
        value *= getattr(method, name)
    return round(value, 3)


def _under(prefix: str, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
