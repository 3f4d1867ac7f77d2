"""Gaussian noise on images and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config.probes import NoiseProbe
from tasks.evaluation.probes import Draws


def change(values: npt.NDArray, draws: Draws, config: NoiseProbe, feature: Mapping[str, Any]) -> npt.NDArray:
    """Return values with noise; pixels stay between 0 and 255, numbers are noisy by their deviation in train."""
    noise = np.stack([draw.standard_normal(values.shape[1:]) for draw in draws]) * config.scale
    if values.dtype == np.uint8:
        return np.clip(np.rint(values + 255 * noise), 0, 255).astype(np.uint8)
    deviation = np.sqrt(np.asarray(feature.get("variance", 1.0), np.float64))
    return (values + noise * deviation).astype(values.dtype)
