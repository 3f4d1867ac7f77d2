"""The task compress: model to variants."""

from __future__ import annotations

from tasks.artifacts import Model, Records, Report, Snapshot, Variant
from tasks.config import CompressConfig, EvaluateConfig
from tasks.stage import identities
from tasks.stage.stages import measure_stage, parent_of, run_stage, verb


@verb
def compress(
    model: Model, examples: Snapshot, report: Report, config: CompressConfig, evaluate: EvaluateConfig
) -> list[Variant]:
    """Convert a model to a float SavedModel, that to a float LiteRT file, and that to a file for each entry of
    `compress.methods`.

    Size, quality on the test split, and latency relative to the float file (interleaved) are measured. A variant that a
    gate rejects is stored and shown with a warning, and is not returned.

    `report` is no parent: only the model's outputs on the test split are read from it, which depend on model and
    snapshot alone.
    """
    from tasks.compression import keep_accepted
    from tasks.compression.forms import Form

    records = parent_of(examples, "records", Records)

    def variant(form: Form, of: Model, parents: list[Variant], reference: Variant | None) -> Variant:
        return run_stage(
            "compress",
            Variant,
            identities.variant(form, of, examples, parents, reference, config, evaluate),
            work="tasks.compression.variants:build",
            arguments=(form, of, examples, records, report, parents, reference, config, evaluate),
            name=form.name,
        )

    saved_model = variant(Form("saved_model", "saved_model"), model, [], None)
    litert = variant(Form("litert", "litert"), model, [saved_model], None)
    compressed = [
        variant(Form(chain.name, "litert", chain), model, [saved_model, litert], litert) for chain in config.chains
    ]
    variants = [saved_model, litert, *compressed]
    latency = measure_stage(
        "compress",
        "tasks.exporting.latency:measure",
        arguments=(variants, examples),
        always=config.max_latency_ratio is not None,
    )
    return keep_accepted(variants, config, latency)
