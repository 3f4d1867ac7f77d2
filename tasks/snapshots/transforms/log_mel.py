"""`log_mel`: nothing is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.config.transform import LogMel
from tasks.snapshots.transforms import Fitted, Known
from tasks.sources.features import Feature


def fitter(name: str, feature: Feature, config: LogMel, folder: Path) -> Known:
    """Return the transform of sounds."""
    window, hop, samples = (round(span * config.rate) for span in (config.window, config.hop, config.seconds))
    state = {
        "kind": "log_mel",
        "rate": config.rate,
        "seconds": config.seconds,
        "window": window,
        "hop": hop,
        "samples": samples,
        "shape": list(config.shape),
    }
    return Known(Fitted(state, {"dtype": "float32", "shape": list(config.shape)}))


def graph(states: Sequence[dict[str, Any]]) -> str:
    """Return why it has no operations of TensorFlow."""
    return "soundfile decodes its sounds"
