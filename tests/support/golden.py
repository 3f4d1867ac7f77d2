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
    "snapshot/snapshot": "1217d78412710929",
    "train/model": "4a770af102f51bd0",
    "evaluate/report": "15532bd621423fd8",
    "compress/saved_model": "c451980e39a91709",
    "compress/litert": "d2a512cc9c0cb48b",
    "compress/int8_dynamic": "dd26f7db08f6e784",
    "export/export": "a2887690b8deeaa0",
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
