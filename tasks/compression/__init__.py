"""The deployable forms (variants) of a model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from tasks.config.method import Method

if TYPE_CHECKING:
    from tasks.compression.methods import FileMethod, ModelMethod, TrainedMethod

VARIANT_VERSION = 13
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
