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
    "convert/records": "2acc650c54ad2fdb",
    "snapshot/snapshot": "b4e0d20cc6cf883d",
    "train/model": "c2ab01e2cfb21134",
    "evaluate/report": "42b8c4a39eb6d266",
    "compress/saved_model": "6cfb2b15c32aa8b5",
    "compress/litert": "7e7d60efb6b294b2",
    "compress/int8_dynamic": "51279f5d10c2e3fe",
    "export/export": "ecff07290ef5e942",
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
