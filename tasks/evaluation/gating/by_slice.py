"""Each slice of the test split against the float model, or against the champion."""

from __future__ import annotations

from tasks.config.gates import SlicesGate
from tasks.evaluation import gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.gating import Subject
from tasks.evaluation.multiple_testing import Test, loss
from tasks.evaluation.units import at


def find(gate: SlicesGate, subject: Subject) -> list[Verdict | Test]:
    """Return the test of the slice with the weakest evidence.

    All slices must pass, so that this p-value is that of all of them together, without a correction (Berger,
    Technometrics 24, 1982: intersection-union test).
    """
    name, metric, sign = subject.metric(gate)
    if name not in subject.reference:
        why = f"not comparable: {subject.against} has no {name.replace('_', ' ')} of each of these test examples"
        return [gates.unmeasured(gate.label, gate.max_loss, why)]
    before, after = subject.reference[name], subject.own[name]
    tests = [
        loss(
            gate.label,
            metric,
            before[mask],
            after[mask],
            sign,
            gate.max_loss,
            at(subject.units, mask),
            subject.counted,
            where,
        )
        for where, mask in subject.masks.items()
        if mask.sum() >= gate.least
    ]
    if not tests:
        return [gates.unmeasured(gate.label, gate.max_loss, f"no slice has {gate.least} {subject.counted}", few=True)]
    return [max(tests, key=lambda test: (test.lower > test.limit, test.p_value))]
