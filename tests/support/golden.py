"""What is pinned: the digests that the digits preset leads to, and files of lines in `tests/golden`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from flows.plans import plan
from tasks.config.load import load
from tasks.store.store import Store
from tests.support.homes import DIGITS, ROOT

GOLDEN = {
    "convert/records": "0d34d924e70dda1d",
    "snapshot/snapshot": "6d644aab3292d524",
    "train/model": "2c07d132dc90c5d3",
    "evaluate/report": "f958098d00bf1007",
    "compress/saved_model": "5ed11b1b76eed0b2",
    "compress/litert": "93a99b826f653945",
    "compress/int8_dynamic": "ff80ca3c6e970be7",
    "export/export": "224d7dfa37cc5cbd",
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
