"""What is pinned: the digests that the digits preset leads to, and files of lines in `tests/golden`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from flows.launching import plan
from tasks.config.compose import load
from tasks.store.store import Store
from tests.support.homes import DIGITS, ROOT

GOLDEN = {
    "convert/records": "6db1ec9afb2b00a1",
    "snapshot/snapshot": "adef11929de5c603",
    "train/model": "c41adde271135fb6",
    "evaluate/report": "c628f6eec2e919ee",
    "compress/saved_model": "d647862a869486cd",
    "compress/litert": "0c3290d09d355eb4",
    "compress/int8_dynamic": "498a81caeac4c107",
    "export/export": "ddf4507ab2b156e2",
}


def digests(store: Path, preset: Path = DIGITS, **flags: str) -> dict[str, str]:
    config = load(preset, [(name.replace("__", "."), value) for name, value in flags.items()])
    planned = plan(Store(store), config)
    return {f"{stage}/{wanted.name}": wanted.digest[:16] for stage, rows in planned.items() for wanted in rows}


def pinned(name: str, lines: Iterable[str]) -> None:
    """Assert that these are the lines of a file of `tests/golden`; PIN=1 in the environment writes it first."""
    path, text = ROOT / "tests/golden" / name, "\n".join(lines) + "\n"
    if os.environ.get("PIN"):
        path.write_text(text)
    assert text.splitlines() == path.read_text().splitlines(), "if it is meant: PIN=1, and say it in CHANGELOG.md"
