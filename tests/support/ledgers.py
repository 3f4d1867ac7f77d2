"""A model and a snapshot with as much as the proof of a ledger reads of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.training.ledger import LEDGER


def ledger_of(
    root: Path, lines: list[dict[str, Any]], examples: int, batch: int, epochs: int | None
) -> tuple[Path, Path]:
    """The folders of a model whose ledger has these lines, trained with seed 1, and of its snapshot of `examples`."""
    train = {"batch_size": batch, "epochs": epochs}
    for folder, manifest in {
        "model": {"inputs": {"config": {"train": train, "seed": 1}}},
        "snapshot": {"counts": {"train": examples}, "features": {}},
    }.items():
        (root / folder / "state").mkdir(parents=True)
        (root / folder / "manifest.json").write_text(json.dumps(manifest))
    (root / "model" / LEDGER).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root / "model", root / "snapshot"
