"""The work of compression in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
    from tasks.compression.config import CompressConfig
    from tasks.compression.specs import VariantSpec
    from tasks.evaluation.config import EvaluateConfig
    from tasks.processes.workbench import Workbench


def write_variant(
    bench: Workbench,
    spec: VariantSpec,
    model: Model,
    examples: Snapshot,
    records: Records,
    report: Report,
    parent: Variant | None,
    reference: Variant | None,
    config: CompressConfig,
    evaluate: EvaluateConfig,
) -> Outcome:
    """Write a deployable form of a model (`variants.build`)."""
    from tasks.compression import variants

    return variants.build(bench, spec, model, examples, records, report, parent, reference, config, evaluate)


def loss_on_validation(
    bench: Workbench,
    variant: Variant,
    model: Model,
    examples: Snapshot,
    records: Records,
    report: Report,
    evaluate: EvaluateConfig,
) -> float:
    """Return what a variant loses on the validation split (`variants.lost_on_validation`)."""
    from tasks.compression import variants

    return variants.lost_on_validation(bench, variant, model, examples, records, report, evaluate)


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
    """Judge the variants of a model together by their gates (`verdicts.judge`)."""
    from tasks.compression import verdicts

    return verdicts.judge(bench, specs, variants, reference, report, latency, task, config, evaluate)
