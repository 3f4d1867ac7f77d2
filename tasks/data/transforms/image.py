"""`image`: nothing is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.config.transform import Image
from tasks.data.features import Feature
from tasks.data.transforms import Fitted, Known


def fitter(name: str, feature: Feature, config: Image, folder: Path) -> Known:
    """Return the transform of images."""
    shape = [config.height, config.width, config.channels]
    return Known(Fitted(config.model_dump(), {"dtype": "uint8", "shape": shape}))


def graph(states: Sequence[dict[str, Any]]) -> str:
    """Return why it has no operations of TensorFlow."""
    return "Pillow decodes and resizes its images"
