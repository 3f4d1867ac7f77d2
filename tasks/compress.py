"""The task compress: model to variants."""

from __future__ import annotations

from typing import Any, cast

from tasks.artifacts import Model, Records, Report, Snapshot, Variant
from tasks.compression import work as compression
from tasks.compression.config import CompressConfig
from tasks.compression.methods.method import Chain, ModelMethod
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting import latency
from tasks.exporting.config import ExportConfig
from tasks.processes.workbench import work
from tasks.runner import identities, starting_models
from tasks.runner.compressing import judged, kept, search
from tasks.runner.stages import measure_stage, parent_of, run_stage, verb
from tasks.training.config import TrainConfig


@verb
def compress(
    model: Model,
    examples: Snapshot,
    report: Report,
    config: CompressConfig,
    evaluate: EvaluateConfig,
    export: ExportConfig,
    train: TrainConfig,
    seed: int,
) -> list[Variant]:
    """Convert a model to a file for each float format of `export.formats`, and to one for each entry of
    `compress.methods`.

    Methods that change the model make models of their own, which are converted in the same way. Those that train do so
    as `train` says, but for their own steps and learning rate: exactly, from the last checkpoint of an earlier attempt.
    With `compress.search` further methods are tried, and those on the front of size and loss on validation are added.
    A format that another format or a method is made from is made as well, and returned only where it is listed.

    Size, quality on the test split, and latency relative to the float LiteRT file (interleaved) are measured, and all
    variants are judged together by `compress.gates`. One that a gate rejects is stored and shown with a warning, and is
    not returned.

    `report` is no parent: only the model's outputs on the test split are read from it, which depend on model and
    snapshot alone.

    Raises:
        Failed: no variant is what `compress.want` asks for.
    """
    from tasks.compression.specs import FLOAT, VariantSpec, compressed

    records = parent_of(examples, "records", Records)
    task = model.task
    models: dict[str, Model] = {"": model}
    made: dict[str, Variant] = {}

    def changed(chain: Chain) -> Model:
        if chain.name not in models:
            before = changed(Chain(chain[:-1]))
            method = cast(ModelMethod, chain[-1])  # those that change the file come last, and are of no model
            models[chain.name] = starting_models.change_model(method, before, examples, chain.name, train, seed)
        return models[chain.name]

    def variant(spec: VariantSpec) -> Variant:
        if spec.name not in made:
            parent = None if spec.parent is None else variant(spec.parent)
            reference = variant(FLOAT) if spec.methods else None
            of = changed(spec.methods.on_model)
            made[spec.name] = run_stage(
                "compress",
                Variant,
                identities.variant(spec, of, examples, parent, reference, task, config, evaluate),
                work(
                    compression.write_variant, spec, of, examples, records, report, parent, reference, config, evaluate
                ),
                name=spec.name,
            )
        return made[spec.name]

    chains = {chain.name: chain for chain in config.chains}
    if config.search is not None:
        from tasks.compression.search import space

        tried = space(task, config, evaluate.primary_of(task)[0])
        searched = search(
            config.search,
            identities.search(model, report, tried, task, config, evaluate),
            tried,
            make=lambda chain: variant(compressed(chain)),
            lost=lambda each: measure_stage(
                "compress",
                "trial",
                work(compression.loss_on_validation, each, model, examples, records, report, evaluate),
            ),
        )
        chains |= {chain.name: chain for chain in searched}
    specs = [*map(VariantSpec, export.formats), *map(compressed, chains.values())]
    variants = [variant(spec) for spec in specs]

    def judge() -> dict[str, Any]:
        latencies = measure_stage("compress", "latency", work(latency.measure, list(made.values()), examples))
        reference = made.get(FLOAT.name)
        judging = work(compression.judge, specs, variants, reference, report, latencies, task, config, evaluate)
        return measure_stage("compress", "gates", judging)

    return kept(variants, judged("compress", identities.judgement(variants, report, config, evaluate), judge))
