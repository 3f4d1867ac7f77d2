"""Forms of variants."""

from __future__ import annotations

from typing import Any

from tasks.compression.config import CompressConfig
from tasks.compression.specs import VariantSpec, compressed


def of(entry: Any) -> VariantSpec:
    [chain] = CompressConfig.model_validate({"methods": [entry]}).chains
    return compressed(chain)
