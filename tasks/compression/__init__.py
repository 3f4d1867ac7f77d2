"""The deployable forms (variants) of a model, and which of them go into an export."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from tasks.artifacts import Variant
from tasks.config import CompressConfig
from tasks.config.method import Method
from tasks.evaluation import gates

if TYPE_CHECKING:
    from tasks.compression.methods import FileMethod, ModelMethod, TrainedMethod

VARIANT_VERSION = 9
"""Incremented when the same model and snapshot would give another variant."""

VARIANT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "ai-edge-litert", "ai-edge-quantizer")
"""Packages whose versions decide a variant's bytes."""

MODEL_LIBRARIES = ("tensorflow", "keras", "numpy", "scikit-learn")
"""Packages whose versions decide the bytes of a model that a method has changed."""

METHODS = {
    "float16": "tasks.compression.float16",
    "int8_dynamic": "tasks.compression.int8_dynamic",
    "int8_weight_only": "tasks.compression.int8_weight_only",
    "int8_static": "tasks.compression.int8_static",
    "int8_selective": "tasks.compression.int8_selective",
    "int4_dynamic": "tasks.compression.int4_dynamic",
    "int4_weight_only": "tasks.compression.int4_weight_only",
    "gptq": "tasks.compression.gptq",
    "prune": "tasks.compression.prune",
    "cluster": "tasks.compression.cluster",
    "qat": "tasks.compression.qat",
    "distill": "tasks.compression.distill",
    "low_rank": "tasks.compression.low_rank",
    "prune_structured": "tasks.compression.prune_structured",
}
"""The module of each method, imported on use."""


def file_method(kind: str) -> FileMethod:
    """Return the module of a method that changes a file."""
    return cast("FileMethod", import_module(METHODS[kind]))


def model_method(kind: str) -> ModelMethod:
    """Return the module of a method that changes a model."""
    return cast("ModelMethod", import_module(METHODS[kind]))


def trained_method(kind: str) -> TrainedMethod:
    """Return the module of a method that trains a model."""
    return cast("TrainedMethod", import_module(METHODS[kind]))


def versions(methods: Sequence[Method]) -> dict[str, int]:
    """Return the code versions of methods by kind, for the digest of what they make."""
    return {method.kind: int(import_module(METHODS[method.kind]).VERSION) for method in methods}


def keep_accepted(variants: list[Variant], config: CompressConfig, latency: dict[str, Any]) -> list[Variant]:
    """Return the variants that go into an export; log a warning for each rejected and each undecided one.

    The gates for size and quality were applied when a variant was made. That for latency is applied here, where
    `compress.max_latency_ratio` is set, to the slowest batch size; `latency` is the result of
    `tasks.exporting.latency.measure`.
    """
    log = logging.getLogger(__name__)
    kept = []
    for variant in variants:
        verdicts = list(variant.manifest["statistics"]["gates"])
        if latency and config.max_latency_ratio is not None and variant.manifest["statistics"]["methods"]:
            ratio = max(row["variants"][variant.name]["ratio"] for row in latency["settings"])
            verdicts.append(gates.latency(ratio, config.max_latency_ratio).as_json())
        reasons = "; ".join(verdict["text"] for verdict in verdicts if not verdict["passed"])
        if not accepted(verdicts, config):
            log.warning("variant %s is rejected: %s", variant.name, reasons)
            continue
        if reasons:
            log.warning("variant %s is kept, but undecided: %s", variant.name, reasons)
        kept.append(variant)
    return kept


def accepted(verdicts: Sequence[Mapping[str, Any]], config: CompressConfig) -> bool:
    """Return whether no gate failed or, with `undecided: reject`, is undecided."""
    refused = {gates.FAIL} | ({gates.UNDECIDED} if config.undecided == "reject" else set())
    return not any(verdict["verdict"] in refused for verdict in verdicts)
