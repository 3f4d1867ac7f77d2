"""JSON files in the home that are replaced as a whole: whoever reads one has the old or the new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(path: Path, value: Any) -> None:
    """Write a value as JSON, in a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1))
    new.replace(path)
