"""The task convert: source to records."""

from __future__ import annotations

from tasks.artifacts import Records
from tasks.processes.workbench import work
from tasks.records import work as records
from tasks.records.config import RecordsConfig
from tasks.runner import identities
from tasks.runner.stages import run_stage, runner, verb
from tasks.sources.kinds import SourceConfig


@verb
def convert(source: SourceConfig, config: RecordsConfig) -> Records:
    """Convert a source to TFRecord shards, split by a keyed hash of each example.

    The records have raw bytes (images as PNG or JPEG), a key per example, an offset index, statistics, and metadata for
    `tfds.builder_from_directory`.

    Raises:
        Refused: the source has no examples, or is older than `records.max_age`.
        Failed: more unreadable examples than `records.bad_budget`, only one class, an empty split, or a file that
            changes while it is read.
    """

    memory = runner().store.root / ".verified"
    return run_stage(
        "convert",
        Records,
        identities.records(source, config, memory),
        work(records.convert, source, config, memory),
        check=lambda: source.check_age(config.oldest()),
    )
