"""Values of the inputs that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.config.probes import MissingColumnsProbe
from tasks.evaluation.probes import Draws
from tasks.reader.values import NO_TIME, Values

EMPTY: dict[str, Any] = {"category": "", "text": "", "image": b"", "audio": b""}
"""A missing value of a column that is a list, by its kind."""


def change(values: Values, draws: Draws, config: MissingColumnsProbe, feature: Mapping[str, Any]) -> Values:
    """Return values of a column, of which a share is missing; of arrays of numbers whole arrays, of lists single words,
    which are then unknown."""
    if feature["kind"] == "words":  # a list stays as long as it is: its words may have tags
        return [
            ["" if draw.random() < config.share else word for word in words]
            for words, draw in zip(values, draws, strict=True)
        ]
    lost = np.array([draw.random() < config.share for draw in draws])
    kind = feature["kind"]
    if kind in EMPTY:
        return [EMPTY[kind] if gone else value for value, gone in zip(values, lost, strict=True)]
    changed = np.array(values)
    changed[lost] = NO_TIME if kind == "time" else np.nan
    return changed
