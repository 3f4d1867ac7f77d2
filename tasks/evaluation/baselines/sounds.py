"""Sounds: a linear model of coarse spectra."""

from __future__ import annotations

from typing import ClassVar

from tasks.evaluation.baselines.grids import Grids


class Sounds(Grids):
    """The snapshot's spectra [frames, bands], averaged over at most 8 spans of time and 16 groups of bands."""

    name: ClassVar[str] = "linear model of 8 x 16 spectra"
    cells: ClassVar[tuple[int, int]] = (8, 16)
