"""convert: raw data to records."""

from __future__ import annotations

from tasks.artifacts import Records
from tasks.config import RecordsConfig, SourceConfig
from tasks.stage import identities
from tasks.stage.stages import run_stage, store_of_run, verb


@verb
def convert(source: SourceConfig, config: RecordsConfig) -> Records:
    """Raw data to TFRecord shards, split by a keyed hash of each example's key.

    The records hold raw bytes (images as PNG or JPEG), a key per example, an offset index, statistics, and the
    metadata by which `tfds.builder_from_directory` reads them. Refused: a source that has no examples, or is older
    than `records.max_age`. Fails on more unreadable examples than `records.bad_budget`, one class only, an empty
    split, a file that changes.
    """
    from tasks.data.sources import check_age

    memory = store_of_run().root / ".verified"
    return run_stage(
        "convert",
        Records,
        identities.records(source, config, memory),
        work="tasks.data.records:build",
        arguments=(source, config, memory),
        check=lambda: check_age(source, config.oldest()),
    )
