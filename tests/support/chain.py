"""The stages after a training in one fresh process, as a script."""

from __future__ import annotations

CHAIN = """
import pickle, sys
from dataclasses import replace
from pathlib import Path
from tasks.artifacts import Export, Report, Variant
from tasks.compression.forms import FLOAT, Form, compressed
from tasks.compression.variants import build as compress
from tasks.config import CompressConfig, EvaluateConfig, ExportConfig
from tasks.evaluation.report import build as evaluate
from tasks.exporting.export import build as export
from tasks.models.keras_file import architecture, load, save
from tasks.store.files import pretty
from tasks.store.store import digest_of
from tasks.store.staging import Staging
from tasks.processes.workbench import Workbench

root = Path(sys.argv[1])
model, snapshot, records = pickle.loads((root.parent / "handles").read_bytes())

def workbench(name):
    (root / name).mkdir(parents=True)
    lock = root / f"{name}.lock"
    lock.write_text('{"token": 1}')
    nothing = lambda *_, **__: None
    return Workbench(Staging(root / name, lock, 1), None, nothing, nothing, lambda: False, threads=1)

def publish(kind, name, bench, outcome):
    manifest = {"files": bench.staging.seal(), "counts": outcome.counts, "statistics": outcome.statistics}
    (root / name / "manifest.json").write_bytes(pretty(manifest))
    return kind("0" * 64, root / name, name)

bench = workbench("report")
report = publish(Report, "report", bench, evaluate(bench, model, snapshot, records, EvaluateConfig(resamples=100)))
variants = {}
config = CompressConfig()
for form in (Form("saved_model"), FLOAT, compressed(config.chains[0])):
    bench = workbench(form.name)
    parents = [variants.get(other.name) if other else None for other in (form.parent, form.methods and FLOAT)]
    outcome = compress(bench, form, model, snapshot, records, report, *parents, config, EvaluateConfig())
    variants[form.name] = publish(Variant, form.name, bench, outcome)
bench = workbench("export")
publish(Export, "export", bench, export(bench, model, snapshot, records, list(variants.values()), ExportConfig()))
bench = workbench("keras")
plan = architecture(model.path)
network = load(model.path)
from pydantic import TypeAdapter
from tasks.config import ModelConfig
save(network, bench.staging, TypeAdapter(ModelConfig).validate_python(plan["model"]), plan["features"], plan["seed"])
"""
