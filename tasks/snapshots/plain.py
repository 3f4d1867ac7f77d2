"""Images of one level alone, from which nothing can be learnt: they are counted, and many are a warning."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.snapshots.transforms.layout import Layout

log = logging.getLogger(__name__)

REMEDY = "of images with more than 8 bits choose the levels (snapshot: range), else see what they are"


def counted(layout: Layout, arrays: Mapping[str, NDArray[Any]]) -> Counter[str]:
    """Return the number of images whose pixels are all equal by column."""
    return Counter(
        {
            place["column"]: int((np.ptp(arrays[place["array"]], axis=(1, 2, 3)) == 0).sum())
            for place in layout.description["layout"]
            if layout.description["transforms"][place["column"]]["kind"] == "image"
        }
    )


def warn(plain: Mapping[str, int], total: int) -> None:
    """Warn of each column most of whose images are of one level."""
    for name, images in plain.items():
        if images > total / 2:
            log.warning("%s: the pixels of %d of %d images are all equal; %s", name, images, total, REMEDY)
