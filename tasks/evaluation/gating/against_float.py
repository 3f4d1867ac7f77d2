"""A compressed variant against the float model, or against the float LiteRT file."""

from __future__ import annotations

from tasks.config.gates import MEASURES, FloatGate
from tasks.evaluation import gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.gating import Subject
from tasks.evaluation.judging import limit
from tasks.evaluation.multiple_testing import Test, loss

GZIP = "gzip_bytes"
WORDS = {"bytes": "the float file's bytes", GZIP: "the float file's bytes after gzip", "peak_bytes": "its memory"}


def find(gate: FloatGate, subject: Subject) -> list[Verdict | Test]:
    """Return the verdict on a ratio, or the test of the loss of a metric.

    The size after gzip is judged with that of the file where a method makes a file smaller only so.
    """
    if gate.metric is not None and gate.metric in MEASURES:
        found: list[Verdict | Test] = [_ratio(gate.metric, gate.label, gate.max_ratio, subject)]
        if gate.metric == "bytes" and gate.max_ratio is None and subject.limits.get(GZIP, 1.0) < 1:
            found.append(_ratio(GZIP, MEASURES[GZIP], None, subject))
        return found
    name, metric, sign = subject.metric(gate)
    before, after = subject.reference[name], subject.own[name]
    most = limit(subject.task, metric, gate.max_loss, metric.of(before))
    return [loss(gate.label, metric, before, after, sign, most, subject.units, subject.counted)]


def _ratio(measure: str, label: str, limit: float | None, subject: Subject) -> Verdict:
    most = subject.limits[measure] if limit is None else limit
    ratio = subject.ratios.get(measure)
    if ratio is None:
        return gates.unmeasured(label, most, "it was not measured here")
    if measure == "latency":
        return gates.latency(ratio.value, most, ratio.error)
    return gates.measured(label, ratio.value, most, f"{ratio.value:.3f} of {WORDS[measure]}")
