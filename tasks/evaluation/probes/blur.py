"""A Gaussian blur of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from tasks.config.probes import BlurProbe
from tasks.evaluation.probes import Draws


def change(values: npt.NDArray, draws: Draws, config: BlurProbe, feature: Mapping[str, Any]) -> npt.NDArray:
    """Return images uint8 [n, height, width, channels], blurred within each channel; beyond the edge it is mirrored."""
    blurred = gaussian_filter(values.astype(np.float64), (0, config.sigma, config.sigma, 0))
    return np.clip(np.rint(blurred), 0, 255).astype(np.uint8)
