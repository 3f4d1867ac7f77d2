"""The task promote: export to a release."""

from __future__ import annotations

from tasks.artifacts import Export, Records, Release, Report, Snapshot
from tasks.evaluation.gating import PromoteConfig
from tasks.runner.releasing import release
from tasks.runner.stages import parent_of, verb


@verb
def promote(exported: Export, report: Report, config: PromoteConfig) -> Release:
    """Register an export once, with the alias `champion` if it is better than the champion by `promote.margin`.

    Both are compared on the same test records; a champion that was evaluated on others is evaluated again, from raw
    input to prediction. If that is not possible, or the gate fails, the version becomes `candidate` and the run ends
    with exit code 3; so it does with `promote.approval: required` until it is approved. Running it again changes
    nothing.
    """
    records = parent_of(parent_of(report, "snapshot", Snapshot), "records", Records)
    return release(exported, report, records, config)
