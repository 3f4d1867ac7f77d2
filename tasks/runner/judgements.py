"""The judgement of the variants of a run: made once for the same variants and gates, and kept with each run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.artifacts import Variant
from tasks.compression.judgement import FILE, REJECTED, open_gates, reasons, tags
from tasks.errors import Failed
from tasks.runner.attempt import current
from tasks.runner.modes import runner
from tasks.store.files import pretty, write
from tasks.store.store import digest_of


def judged(stage: str, key: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the judgement of what a stage returned, write it to the run's folder, and tag the MLflow run with it.

    It is that of an earlier run with the same key, with the latencies of then, where this run made nothing of the
    stage; otherwise `work` makes it. In a preview it is an earlier one, or empty.
    """
    digest = digest_of(dict(key))
    if not runner().computes:
        return _earlier(runner().home.runs, digest) or {}
    attempt = current.get()
    run = attempt.run
    cached = all(row["cached"] for row in run.record["stages"][stage])
    judgement = (_earlier(run.home.runs, digest) if cached else None) or {**work(), "key": digest}
    write(run.folder / FILE, pretty(judgement))
    attempt.shipper.tags(tags(judgement))
    return judgement


def kept(variants: Sequence[Variant], judgement: Mapping[str, Any]) -> list[Variant]:
    """Return the variants that go into an export, with a note where a gate is undecided, and the chosen one marked.

    A warning is logged for each rejected and each undecided one.

    Raises:
        Failed: none of them is what `compress.want` asks for.
    """
    log, accepted = logging.getLogger(__name__), []
    for variant in variants:
        verdicts = judgement.get("verdicts", {}).get(variant.name, ())
        if judgement.get("standing", {}).get(variant.name) == REJECTED:
            log.warning("variant %s is rejected: %s", variant.name, reasons(verdicts))
            continue
        note = open_gates(verdicts)
        if note:
            log.warning("variant %s is kept, but undecided: %s", variant.name, note)
        chosen = judgement.get("chosen") == variant.name
        accepted.append(replace(variant, note=note, chosen=chosen) if note or chosen else variant)
    if missed := judgement.get("missed"):
        wanted = ", ".join(f"{name} {value:,}" for name, value in judgement["want"].items() if value is not None)
        remedy = "add a method to compress.methods, or ask for less; the variants are kept"
        raise Failed("compress.want", wanted, f"no variant meets it: {missed}", remedy)
    return accepted


def _earlier(runs: Path, digest: str) -> dict[str, Any] | None:
    """Return the newest judgement of the home with this key."""
    for path in sorted(runs.glob(f"*/{FILE}"), reverse=True):
        judgement: dict[str, Any] = json.loads(path.read_bytes())
        if judgement["key"] == digest:
            return judgement
    return None
