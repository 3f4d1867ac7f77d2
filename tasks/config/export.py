"""Contents of an export besides the accepted variants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tasks.config.base import Section


class ExportConfig(Section):
    """Every variant is checked in a fresh process that imports none of our code."""

    golden: Annotated[int, Field(ge=1, le=1024)] = 32
    """Test examples whose inputs and outputs are part of the export."""
