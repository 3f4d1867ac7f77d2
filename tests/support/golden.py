"""The digests that the digits preset leads to."""

from __future__ import annotations

from pathlib import Path

from flows.plans import plan
from tasks.config.load import load
from tasks.store.store import Store
from tests.support.homes import DIGITS

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
