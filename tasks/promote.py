"""promote: an export to a release."""

from __future__ import annotations

from tasks.artifacts import Export, Records, Release, Report, Snapshot
from tasks.config import PromoteConfig
from tasks.stage.releasing import release
from tasks.stage.stages import parent_of, verb


@verb
def promote(exported: Export, report: Report, config: PromoteConfig) -> Release:
    """The export registered once, and under the alias `champion` if it beats the present one by `promote.margin`.

    Both are judged on the same test records; a champion that was judged on others is scored again, from raw input
    to prediction. Where that cannot be, or the gate says no, the version becomes `candidate` and the run ends with
    exit code 3; so it does where `promote.approval` asks for a person's yes, until that is there. Running it again
    changes nothing.
    """
    records = parent_of(parent_of(report, "snapshot", Snapshot), "records", Records)
    return release(exported, report, records, config)
