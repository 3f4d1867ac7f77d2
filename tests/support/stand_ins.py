"""The few fields that a page or the terminal reads of a run, a variant, a trial and a metric, without the artifacts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from tasks.compression.judgement import Judgement
from tasks.evaluation.metrics import Share
from tasks.evaluation.paired import Contributions
from tasks.search.table import COMPLETE, Trial
from tasks.view.report import Split, read

SHARE = Share(lambda values: values)


def trial(number: int, value: float | None, **more: Any) -> Trial:
    """A completed trial of ten steps."""
    plain = Trial(number, COMPLETE, {"rate": 0.1}, value, 10, 1.0, None, False, None)
    return replace(plain, **more)


def facts(**more: Any) -> Any:
    """The facts of a run that has neither a report, of which the content of its file is given, nor any artifact."""
    content = None if more.get("report") is None else read(more["report"])
    test = Split() if content is None else content.test
    given = {"judgement": Judgement(), "one": lambda kind: None, **more, "report": content, "test": test}
    return SimpleNamespace(**given)


def contributions(identities: Any = None, **values: Any) -> Contributions:
    """Contributions to shares, [N, 1], of examples whose rows have the hashes 0 to N - 1."""
    count = len(next(iter(values.values())))
    numbers = np.arange(count, dtype=np.uint64)
    return Contributions(
        metrics=dict.fromkeys(values, SHARE),
        values=values,
        identities=numbers if identities is None else np.asarray(identities, np.uint64),
        extents=np.ones(count),
        units=None,
        rows=lambda hashes: np.isin(numbers, hashes),
        places=np.arange(count),
        total=count,
    )


def variant(name: str, metrics: dict[str, float], **statistics: Any) -> Any:
    """A variant of 1,000 bytes."""
    return SimpleNamespace(name=name, metrics=metrics, manifest={"statistics": {"bytes": 1000, **statistics}})


def bounded(value: float, **more: Any) -> dict[str, Any]:
    """A metric whose interval is 0.1 to either side."""
    return {"value": value, "low": value - 0.1, "high": value + 0.1, **more}
