"""What an export must prove before it is published."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tasks.config.base import Section


class ExportConfig(Section):
    """Parity is checked in a fresh process that imports none of our code."""

    tolerance: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """Largest absolute difference between a float variant's outputs and Keras'."""

    golden: Annotated[int, Field(ge=1, le=1024)] = 32
    """Test examples whose inputs and outputs travel with the export."""
