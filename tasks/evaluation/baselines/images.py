"""Images: a linear model of few pixels."""

from __future__ import annotations

from typing import ClassVar

from tasks.evaluation.baselines.grids import Grids


class Images(Grids):
    """The snapshot's images, shrunk to at most 8 x 8 pixels by averaging, with their channels."""

    name: ClassVar[str] = "linear model of 8 x 8 pixels"
    cells: ClassVar[tuple[int, int]] = (8, 8)
