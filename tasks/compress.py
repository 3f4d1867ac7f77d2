"""The task compress: model to variants."""

from __future__ import annotations

from tasks.artifacts import Model, Records, Report, Snapshot, Variant
from tasks.config import CompressConfig, EvaluateConfig, ExportConfig
from tasks.stage import identities
from tasks.stage.stages import measure_stage, parent_of, run_stage, verb


@verb
def compress(
    model: Model,
    examples: Snapshot,
    report: Report,
    config: CompressConfig,
    evaluate: EvaluateConfig,
    export: ExportConfig,
) -> list[Variant]:
    """Convert a model to a file per float format of `export.formats`, and those to one file per method.

    A format that another format or a method is made from is made as well, and returned only where it is listed.

    Size, quality on the test split, and latency relative to the float LiteRT file (interleaved) are measured. A variant
    that a gate rejects is stored and shown with a warning, and is not returned.

    `report` is no parent: only the model's outputs on the test split are read from it, which depend on model and
    snapshot alone.
    """
    from tasks import compression

    records = parent_of(examples, "records", Records)
    made: dict[str, Variant] = {}

    def variant(name: str) -> Variant:
        if name not in made:
            made_from = compression.parent_of(name)
            parent = None if made_from is None else variant(made_from)
            made[name] = run_stage(
                "compress",
                Variant,
                identities.variant(name, model, examples, parent, config, evaluate),
                work="tasks.compression.variants:build",
                arguments=(name, model, examples, records, report, parent, config, evaluate),
                name=name,
            )
        return made[name]

    variants = [variant(name) for name in (*export.formats, *config.methods)]
    latency = measure_stage(
        "compress",
        "tasks.exporting.latency:measure",
        arguments=(list(made.values()), examples),
        always=config.max_latency_ratio is not None,
    )
    return compression.keep_accepted(variants, config, latency)
