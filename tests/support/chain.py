"""The stages after a training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from tasks.artifacts import Export, Model, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.specs import FLOAT, VariantSpec, compressed
from tasks.compression.variants import build as compress
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build as evaluate
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import build as export
from tasks.models import ModelConfig
from tests.support.benches import published, workbench


def chain(root: Path, model: Model, snapshot: Snapshot, records: Records) -> None:
    """Make `report`, variants and `export` of a model in `root`, and in `keras` the model's file once more."""
    from tasks.models.keras_file import architecture, load, save

    bench = workbench(root / "report")
    made = evaluate(bench, model, snapshot, records, EvaluateConfig(resamples=100))
    report, config = published(Report, bench, made), CompressConfig()
    variants: dict[str, Variant] = {}
    for form in (VariantSpec("saved_model"), FLOAT, compressed(config.chains[0])):
        bench = workbench(root / form.name)
        parents = [variants.get(other.name) if other else None for other in (form.parent, form.methods and FLOAT)]
        outcome = compress(bench, form, model, snapshot, records, report, *parents, config, EvaluateConfig())
        variants[form.name] = replace(published(Variant, bench, outcome), name=form.name)
    bench = workbench(root / "export")
    published(Export, bench, export(bench, model, snapshot, records, list(variants.values()), ExportConfig()))
    plan = architecture(model.path)
    layers = TypeAdapter(ModelConfig).validate_python(plan["model"])
    save(load(model.path), workbench(root / "keras").staging, layers, plan["features"], plan["seed"])


CHAIN = """
import pickle, sys
from pathlib import Path
from tests.support.chain import chain
root = Path(sys.argv[1])
chain(root, *pickle.loads((root.parent / "handles").read_bytes()))
"""
"""`chain` as a script: its word is `root`, and beside that lie the pickled `handles`."""
