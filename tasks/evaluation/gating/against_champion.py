"""A new version against the champion."""

from __future__ import annotations

from tasks.config.gates import ChampionGate
from tasks.evaluation import gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.gating import Subject
from tasks.evaluation.multiple_testing import Test, loss


def find(gate: ChampionGate, subject: Subject) -> list[Verdict | Test]:
    """Return the test of the loss of a metric against the champion."""
    name, metric, sign = subject.metric(gate)
    if name not in subject.reference:
        why = f"not comparable: {subject.against} has no {name.replace('_', ' ')} of each of these test examples"
        return [gates.unmeasured(gate.label, gate.max_loss, why)]
    pair = (subject.reference[name], subject.own[name])
    return [loss(gate.label, metric, *pair, sign, gate.max_loss, subject.units, subject.counted)]
