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
    "train/model": "bbfc79b416bef76c",
    "evaluate/report": "0cd13df5fa19b8e5",
    "compress/saved_model": "b6ad94cc2f3df974",
    "compress/litert": "de83b65a42708b27",
    "compress/int8_dynamic": "7fc2461cf383a67a",
    "export/export": "890b7566c9c96219",
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
