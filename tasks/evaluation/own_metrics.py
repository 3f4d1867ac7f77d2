"""Metrics of the user's: means over examples of what their functions return, and the files that decide them."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.environment.user_code import raised_at
from tasks.errors import Failed
from tasks.evaluation.config import OWN_METRICS, EvaluateConfig
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.measured import Interval
from tasks.evaluation.metrics import Means, mean
from tasks.evaluation.units import Floats, Units
from tasks.reader.own_modules import imported

MEAN = Means(lambda values: values, mean, lowest=-inf)
"""Of what an own metric returns for each example."""

RULE = "takes targets and outputs of a split, and returns a finite number for each example"


def own_metrics(
    config: EvaluateConfig, targets: npt.NDArray[Any], outputs: npt.NDArray[Any], units: Units | None
) -> dict[str, Interval]:
    """Return the own metrics of a split by name, each with its interval.

    Args:
        targets: labels [N], or targets [N, n].
        outputs: logits [N, classes], or values in the targets' units [N, n].

    Raises:
        Failed: a function raises an error, or does not return a number for each example.
    """
    return {
        name: interval_of(MEAN, contributions(name, config, targets, outputs), units) for name in config.own_metrics
    }


def contributions(name: str, config: EvaluateConfig, targets: npt.NDArray[Any], outputs: npt.NDArray[Any]) -> Floats:
    """Return what the function of an own metric returns for the examples of a split, float64 [N, 1]."""
    function, folder = config.own_metrics[name], Path(config.folder or ".")
    try:
        values = np.asarray(imported(function, folder)(targets.copy(), outputs.copy()), np.float64)
    except Exception as error:  # whatever the user's code raises
        said = (str(error).strip() or "no message").splitlines()[0]
        where = raised_at(error, folder) or function
        raise Failed(f"{OWN_METRICS}.{name}", f"{where}: {type(error).__name__}: {said}", RULE, "correct it") from None
    if values.shape != (len(targets),):
        saw = f"{function} returned shape {list(values.shape)} for {len(targets)} examples"
        raise Failed(f"{OWN_METRICS}.{name}", saw, RULE, "take no mean over examples")
    if not np.isfinite(values).all():
        saw = f"{function} returned {values[~np.isfinite(values)][0]} for example {int(np.argmin(np.isfinite(values)))}"
        raise Failed(f"{OWN_METRICS}.{name}", saw, RULE, "return another number for it")
    return values[:, None]
