"""The work of records in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.artifacts import Outcome
    from tasks.processes.workbench import Workbench
    from tasks.records.config import RecordsConfig
    from tasks.sources.kinds import SourceConfig


def convert(bench: Workbench, source: SourceConfig, config: RecordsConfig, memory: Path | None = None) -> Outcome:
    """Convert a source to records (`conversion.build`)."""
    from tasks.records import conversion

    return conversion.build(bench, source, config, memory)
