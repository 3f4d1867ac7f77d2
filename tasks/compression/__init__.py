"""The deployable forms of a model: which there are, from what each is made, and which are handed on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.artifacts import Variant
from tasks.config import CompressConfig
from tasks.evaluation import gates
from tasks.exporting import LITERT, SAVED_MODEL

VARIANT_VERSION = 2
"""Counts up when the same model and snapshot would give another variant."""

VARIANT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "ai-edge-litert", "ai-edge-quantizer")
"""Distributions whose versions decide a variant's bytes."""

INT8_DYNAMIC = "int8_dynamic"

FORMATS = {SAVED_MODEL: SAVED_MODEL, LITERT: LITERT, INT8_DYNAMIC: LITERT}
"""Format of each variant by its name; the float ones bear the name of their format."""

FLOAT = (SAVED_MODEL, LITERT)


def keep_accepted(variants: list[Variant], config: CompressConfig, latency: dict[str, Any]) -> list[Variant]:
    """The variants that go into an export; each that stays out, or that too few examples prove, is named in a warning.

    Size and quality were judged when a variant was made. Latency is judged here, and only where
    `compress.max_latency_ratio` is set: `latency` is what `tasks.exporting.latency.measure` gave, and the slowest of
    the batch sizes counts.
    """
    log = logging.getLogger(__name__)
    kept = []
    for variant in variants:
        verdicts = list(variant.manifest["statistics"]["gates"])
        if latency and config.max_latency_ratio is not None and variant.name not in FLOAT:
            ratio = max(batch["ratios"][variant.name] for batch in latency["batches"].values())
            verdicts.append(gates.latency(ratio, config.max_latency_ratio).as_json())
        reasons = "; ".join(verdict["text"] for verdict in verdicts if not verdict["passed"])
        if not accepted(verdicts, config):
            log.warning("variant %s is kept out: %s", variant.name, reasons)
            continue
        if reasons:
            log.warning("variant %s is kept, unproven: %s", variant.name, reasons)
        kept.append(variant)
    return kept


def accepted(verdicts: Sequence[Mapping[str, Any]], config: CompressConfig) -> bool:
    """Whether verdicts let a variant into an export: none failed or, with `undecided: reject`, is undecided."""
    refused = {gates.FAIL} | ({gates.UNDECIDED} if config.undecided == "reject" else set())
    return not any(verdict["verdict"] in refused for verdict in verdicts)
