"""The work of compression in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
    from tasks.compression.config import CompressConfig
    from tasks.compression.forms import Form
    from tasks.compression.methods.method import ModelMethod
    from tasks.config.train import TrainConfig
    from tasks.evaluation.config import EvaluateConfig
    from tasks.processes.workbench import Workbench


def write_variant(
    bench: Workbench,
    form: Form,
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

    return variants.build(bench, form, model, examples, records, report, parent, reference, config, evaluate)


def change_model(bench: Workbench, method: ModelMethod, model: Model) -> Outcome:
    """Change a model by a method that does not train (`changed.build`)."""
    from tasks.compression import changed

    return changed.build(bench, method, model)


def prepare(bench: Workbench, method: ModelMethod, model: Model, seed: int) -> Outcome:
    """Prepare a model for the training of a method (`changed.prepare`)."""
    from tasks.compression import changed

    return changed.prepare(bench, method, model, seed)


def train(
    bench: Workbench,
    name: str,
    examples: Snapshot,
    prepared: Model,
    teacher: Model | None,
    config: TrainConfig,
    seed: int,
) -> Outcome | None:
    """Train a prepared model (`changed.train`)."""
    from tasks.compression import changed

    return changed.train(bench, name, examples, prepared, teacher, config, seed)


def finish(bench: Workbench, method: ModelMethod, trained: Model) -> Outcome:
    """Make the model of a method from the one that it has trained (`changed.finish`)."""
    from tasks.compression import changed

    return changed.finish(bench, method, trained)


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
    forms: Sequence[Form],
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

    return verdicts.judge(bench, forms, variants, reference, report, latency, task, config, evaluate)
