"""A lower contrast of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config.probes import ContrastProbe
from tasks.evaluation.probes import Draws


def change(values: npt.NDArray, draws: Draws, config: ContrastProbe, feature: Mapping[str, Any]) -> npt.NDArray:
    """Return images uint8 [n, height, width, channels] whose pixels are nearer to the mean of their image."""
    means = values.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64)
    return np.clip(np.rint(means + config.factor * (values - means)), 0, 255).astype(np.uint8)
