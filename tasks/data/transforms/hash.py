"""`hash`: nothing is learnt."""

from __future__ import annotations

from pathlib import Path

from tasks.config.transform import Hash
from tasks.data.features import Feature
from tasks.data.transforms import CATEGORIES, Fitted, Known


def fitter(name: str, feature: Feature, config: Hash, folder: Path) -> Known:
    """Return the transform of categories."""
    state = {"kind": "hash", "buckets": config.buckets}
    return Known(Fitted(state, {"names": [name], "sizes": [config.buckets + 1]}, CATEGORIES))
