"""A metric, or a measure of a file, against a number."""

from __future__ import annotations

from tasks.config.gates import MEASURES, AbsoluteGate
from tasks.evaluation import gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.gating import Subject
from tasks.evaluation.multiple_testing import Test, at_most


def find(gate: AbsoluteGate, subject: Subject) -> list[Verdict | Test]:
    """Return the verdict on a measure, none where it was not measured, or the test of a metric."""
    sign, limit = (1, gate.at_most) if gate.at_least is None else (-1, gate.at_least)
    assert limit is not None
    if gate.metric is not None and gate.metric in MEASURES:
        value = subject.measures.get(gate.metric)
        if value is None:
            return [gates.unmeasured(gate.label, limit, "it was not measured here")]
        return [gates.measured(gate.label, value, limit, f"takes {value:,.0f} bytes")]
    name, metric, _ = subject.metric(gate)
    return [at_most(gate.label, metric, subject.own[name], sign, limit, subject.units, subject.counted)]
