"""The deployable forms (variants) of a model, and which of them go into an export."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from tasks.artifacts import Variant
from tasks.config import CompressConfig
from tasks.evaluation import gates
from tasks.exporting import FORMATS

VARIANT_VERSION = 6
"""Incremented when the same model and snapshot would give another variant."""

VARIANT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "ai-edge-litert", "ai-edge-quantizer")
"""Packages whose versions decide a variant's bytes."""

METHODS = {"int8_dynamic": "tasks.compression.int8_dynamic"}
"""The module of each of `compress.methods`, imported on use."""


class Method(Protocol):
    """A module of `METHODS`."""

    FORMAT: str
    """The format of the float file that it compresses, and of its result."""

    def write(self, float_file: Path, target: Path) -> None:
        """Compress a float file; inputs and outputs keep their dtypes."""


def method_of(name: str) -> Method:
    """Return the module of a method."""
    return cast(Method, import_module(METHODS[name]))


def is_float(name: str) -> bool:
    """Return whether a variant is float: it has the name of its format, any other the name of its method."""
    return name in FORMATS


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
        if latency and config.max_latency_ratio is not None and not is_float(variant.name):
            ratio = max(batch["ratios"][variant.name] for batch in latency["batches"].values())
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
