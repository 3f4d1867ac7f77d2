"""Whether a version differs from the champion by more than noise: both on the same test examples, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.errors import Refused
from tasks.evaluation import paired
from tasks.pages import results
from tasks.pages.facts import Facts
from tasks.runs.runs import Run, resolve_run

if TYPE_CHECKING:
    from tasks.registry.registry import Registered

SPLIT = "test"


def since(champion: Registered, run: Run) -> paired.Change | None:
    """Return the change of the primary metric from the champion to the model of a run, by the reports of both.

    None where the champion's run or its report is not in this home, or was made on other examples.
    """
    try:
        before = resolve_run(run.home, champion.tags.get("millrace.run") or "none")
    except Refused:
        return None
    after = Facts(run)
    pair = results.pair(Facts(before), after, SPLIT)
    return None if pair is None else _change(after, pair[0].values.get(after.metric), pair[1])


def since_scored(contributions: Sequence[Sequence[float]], run: Run) -> paired.Change | None:
    """Return the change from the champion's contributions to the primary metric on this run's test examples."""
    after = Facts(run)
    own = results.contributions(after, SPLIT)
    return None if own is None else _change(after, np.asarray(contributions, np.float64), own)


def _change(after: Facts, before: Any, own: paired.Contributions) -> paired.Change | None:
    values = own.values.get(after.metric)
    if before is None or values is None or before.shape != values.shape:
        return None
    return paired.change(own.metrics[after.metric], before, values, after.config.evaluate.resamples)
