"""Raw input to a model's input, as an export's `transform/` says; one function per kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.data.text import Codec
from tasks.errors import Failed

TASK = "task.json"
"""What outputs mean, where that is not classes or tokens."""

KINDS = {"image": "image.json", "tokens": "tokens.json", "table": "table.json"}
"""The file in `transform/` that each kind of snapshot leaves."""


def read_transform(export: Path) -> dict[str, Any]:
    """The contents of the one of `KINDS` that an export holds; all have `kind`."""
    for name in KINDS.values():
        path = export / "transform" / name
        if path.is_file():
            try:
                transform: dict[str, Any] = json.loads(path.read_bytes())
            except ValueError as error:
                raise Failed(str(path), "not JSON", "an export holds it whole", "export again") from error
            told = export / "transform" / TASK
            return {**transform, **json.loads(told.read_bytes())} if told.is_file() else transform
    rule = f"an export holds one of transform/{', '.join(KINDS.values())}"
    raise Failed(str(export), "not an export", rule, "see `millrace list export`")


def codec(export: Path) -> Codec:
    """The tokenizer of an export of text."""
    return Codec.open(export / "transform")
