"""The snapshot of images alone: that of a table whose one column is an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.artifacts import Outcome, Records
from tasks.config.snapshot import ImageSnapshot, TableSnapshot
from tasks.config.transform import Image
from tasks.errors import Failed
from tasks.records.reading import RecordsReader
from tasks.snapshots import table

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


transformed = table.transformed


def build(bench: Workbench, records: Records, config: ImageSnapshot) -> Outcome:
    """Preprocess records to images uint8 [height, width, channels] under the name of their feature, and what they are
    labelled with (see `table.build`).

    Raises:
        Failed: the only input of the records is not an image, or an image cannot be decoded.
    """
    reader = RecordsReader(records.path)
    name = reader.single_input("image")
    if name is None:
        saw, rule = f"records of {', '.join(reader.features)}", "needs one input, an image"
        raise Failed("snapshot.kind", saw, rule, "choose a source of images, or snapshot.kind table")
    size = {field: getattr(config, field) for field in ("height", "width", "channels", "fit", "range")}
    return table.make(bench, reader, TableSnapshot(transforms={name: Image(**size)}, shards=config.shards))
