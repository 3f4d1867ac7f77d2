"""Forms of variants."""

from __future__ import annotations

from typing import Any

from tasks.compression.config import CompressConfig
from tasks.compression.forms import Form, compressed


def of(entry: Any) -> Form:
    [chain] = CompressConfig.model_validate({"methods": [entry]}).chains
    return compressed(chain)
