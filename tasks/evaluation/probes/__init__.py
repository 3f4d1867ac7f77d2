"""Probes of robustness (`evaluate.robustness`): a module per kind, with a function `change`, and what each one fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tasks.config.probes import ANY, IMAGE, TEXT, AnyProbe
from tasks.errors import Refused
from tasks.reader.values import Values
from tasks.sources.features import Feature, of_role

KINDS = {
    "noise": "tasks.evaluation.probes.noise",
    "blur": "tasks.evaluation.probes.blur",
    "contrast": "tasks.evaluation.probes.contrast",
    "shift": "tasks.evaluation.probes.shift",
    "typos": "tasks.evaluation.probes.typos",
    "missing_columns": "tasks.evaluation.probes.missing_columns",
}
"""The module of each probe, imported on use."""

FIELD = "evaluate.robustness"

Draws = Sequence[np.random.Generator]
"""A generator for each example."""


class Change(Protocol):
    """The function `change` of a probe's module."""

    def __call__(self, values: Values, draws: Draws, config: Any, feature: Mapping[str, Any]) -> Values:
        """Return changed values of some examples, of the same type and shape.

        `feature` has the kind of a column (`kind`), or of an input dtype, shape and `variance`.
        """
        ...


def check(probes: Sequence[AnyProbe], columns: Mapping[str, Feature], images: bool) -> None:
    """Raise `Refused` where a probe does not fit the columns of a source; `images`: its snapshot is one of images."""
    for probe in probes:
        if probe.raw:
            changed_by(probe, column_kinds(columns))
        elif images:
            changed_by(probe, {"image": IMAGE})


def column_kinds(features: Mapping[str, Feature]) -> dict[str, str]:
    """Return the kind of each column of the records that is an input."""
    return {
        name: TEXT if each.kind in ("text", "words") else ANY for name, each in of_role(dict(features), "input").items()
    }


def changed_by(probe: AnyProbe, kinds: Mapping[str, str]) -> list[str]:
    """Return the names of the inputs or columns that a probe changes.

    Raises:
        Refused: there are none.
    """
    names = [name for name, kind in kinds.items() if kind in probe.changes or ANY in probe.changes]
    if not names:
        had = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "of other kinds"
        rule = f"changes {' or '.join(probe.changes)}, and the inputs are {had}"
        raise Refused(FIELD, probe.kind, rule, "leave it out")
    return names
