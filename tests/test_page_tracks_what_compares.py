"""The metrics by which runs are compared are sent to MLflow, and no others."""

from __future__ import annotations

from pathlib import Path

from tasks.artifacts import Artifact, Export, Report, Variant
from tasks.store.files import pretty
from tasks.tracking.shipping import of_measurements, of_stage


def artifact(kind: type[Artifact], folder: Path, metrics: dict[str, float], name: str) -> Artifact:
    (folder / "manifest.json").write_bytes(pretty({"statistics": {"metrics": metrics}}))
    return kind("0" * 64, folder, name)


def test_intervals_stay_in_the_report_but_for_the_primary_metric(tmp_path: Path) -> None:
    names = ("test/accuracy", "test/loss", "validation/accuracy")
    metrics = {f"{name}{end}": 0.5 for name in names for end in ("", "/low", "/high")}
    metrics_sent = of_stage("accuracy", "evaluate", artifact(Report, tmp_path, metrics, "report"), 2.0, False)
    first = {f"Quality/accuracy{end}" for end in ("", "_low", "_high")}
    assert metrics_sent.keys() == {*names, "test/accuracy/low", "test/accuracy/high", "seconds/evaluate", *first}


def test_an_export_sends_only_its_seconds(tmp_path: Path) -> None:
    checked = artifact(Export, tmp_path, {"export/litert/max_abs_difference": 0.0}, "export")
    assert of_stage("accuracy", "export", checked, 3.0, False) == {"seconds/export": 3.0}


def test_a_variant_sends_size_and_quality_and_a_stored_one_no_seconds(tmp_path: Path) -> None:
    metrics = {f"litert/{name}": 1.0 for name in ("bytes", "size_ratio", "test/rmse", "test/rmse/low", "test/mae")}
    metrics_sent = of_stage("rmse", "compress", artifact(Variant, tmp_path, metrics, "litert"), 0.1, True)
    assert metrics_sent.keys() == {"litert/bytes", "litert/size_ratio", "litert/test/rmse"}
    made = of_stage("rmse", "compress", artifact(Variant, tmp_path, metrics, "litert"), 0.1, False)
    assert made["seconds/compress.litert"] == 0.1


def test_an_imprecise_latency_is_not_sent() -> None:
    ratios = {name: {"ratio": ratio} for name, ratio in {"saved_model": 4.0, "litert": 1.0, "int8": 0.4}.items()}
    rows = [{"batch": 1, "threads": 1, "conclusive": True, "variants": ratios}]
    rows += [
        {**rows[0], "batch": 32, "conclusive": False},
        {**rows[0], "threads": 2, "variants": {"int8": {"ratio": 0.3}}},
    ]
    assert of_measurements({"latency": {"settings": rows, "peak_bytes": {"int8": 7}}}) == {
        "saved_model/latency_ratio_1": 4.0,
        "int8/latency_ratio_1": 0.4,
        "int8/latency_ratio_1_threads_2": 0.3,
        "int8/model_peak_bytes": 7.0,
    }
    assert of_measurements({}) == {}
    assert of_measurements({"evaluate/learned_baseline_seconds": 1.5}) == {"seconds/learned_baseline": 1.5}
