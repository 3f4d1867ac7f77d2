"""Where raw data is and how to read it."""

from __future__ import annotations

from typing import Literal

from tasks.config.base import Name, Section


class SklearnSource(Section):
    """A real data set that ships inside the scikit-learn package: nothing is downloaded."""

    kind: Literal["sklearn"] = "sklearn"
    """How the source is read."""

    name: Name = "digits"
    """Names the records' files."""

    dataset: Literal["digits"] = "digits"
    """`digits`: 1,797 handwritten digits, 8 x 8 pixels of 17 grey levels, ten classes."""


SourceConfig = SklearnSource
