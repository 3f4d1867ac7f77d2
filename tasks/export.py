"""export: the accepted variants, checked in a fresh process, in one folder."""

from __future__ import annotations

from tasks.artifacts import Export, Model, Snapshot, Variant
from tasks.config import ExportConfig
from tasks.stage import identities
from tasks.stage.stages import parent_of, run_stage, verb


@verb
def export(model: Model, variants: list[Variant], config: ExportConfig) -> Export:
    """A folder that answers without us: the variants, golden inputs and outputs, the transform, a README.

    Fails where a float variant's outputs, in a process that imports none of our code, differ from Keras' by more
    than `compress.max_difference`.
    """
    examples = parent_of(model, "snapshot", Snapshot)
    return run_stage(
        "export",
        Export,
        identities.export(model, examples, variants, config),
        work="tasks.exporting.export:build",
        arguments=(model, examples, variants, config),
        threads=1,  # the golden outputs are the same whatever the machine's cores
    )
