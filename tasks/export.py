"""The task export: accepted variants to an export."""

from __future__ import annotations

from tasks.artifacts import Export, Model, Records, Report, Snapshot, Variant
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting import work as exporting
from tasks.exporting.config import ExportConfig
from tasks.processes.workbench import work
from tasks.runner import identities
from tasks.runner.stages import parent_of, run_stage, verb


@verb
def export(
    model: Model, variants: list[Variant], report: Report, config: ExportConfig, evaluate: EvaluateConfig
) -> Export:
    """Collect variants, golden inputs and outputs, preprocessing and a README in a folder that needs no Millrace.

    `report` is a parent where a temperature or thresholds were fitted, which are part of the export.

    Raises:
        Failed: the outputs of a float variant in a fresh process without our code differ from those of Keras by more
            than `compress.max_difference`, or raw columns become other inputs in its graph than in the snapshot.
    """
    examples = parent_of(model, "snapshot", Snapshot)
    records = parent_of(examples, "records", Records)
    fitted = report if evaluate.served else None
    changed = {each.name: parent_of(each, "model", Model) for each in variants}
    changed = {name: other for name, other in changed.items() if other.digest != model.digest}
    return run_stage(
        "export",
        Export,
        identities.export(model, examples, variants, config, fitted),
        work(exporting.export, model, examples, records, variants, config, fitted, changed),
        threads=1,  # the golden outputs must not depend on the number of cores
    )
