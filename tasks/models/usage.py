"""The rows that a model has used: trained on, and stopped, chosen or calibrated on.

They are known by their hashes (`RecordsReader.row_hashes`), which no choice of columns, types or splits changes. So a
model can be compared with another one on rows that neither has used, also where its records are gone or came from
another home. The validation split counts as used by any model: its curve, early stopping, thresholds, and the choice
among seeds and trials are of it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.feed.snapshot_reader import SnapshotReader
    from tasks.sources.hashes import Hashes
    from tasks.store.staging import Staging

FOLDER = "usage"
"""The folder of a model, or of an export."""
DESCRIPTION = "usage.json"

TRAINED, CHOSEN = "trained", "chosen"
USES = {TRAINED: "train", CHOSEN: "validation"}
"""The split of records behind each use."""


@dataclass(frozen=True)
class Usage:
    """Hashes of the rows that a model has used, by use."""

    rows: Mapping[str, Hashes]
    """Sorted and different, uint64 [n], by the names of `USES`."""
    unknown: tuple[str, ...] = field(default=())
    """Weights that it began from whose rows are not known, in words."""

    @classmethod
    def of(cls, snapshot: SnapshotReader) -> Usage:
        """Return the usage of a training on a snapshot alone."""
        return cls({use: np.unique(snapshot.record_hashes(split)) for use, split in USES.items()})

    @classmethod
    def read(cls, folder: Path) -> Usage | None:
        """Return the usage of a model or an export in a folder; None where it does not say."""
        path = folder / FOLDER / DESCRIPTION
        if not path.is_file():
            return None
        unknown = tuple(json.loads(path.read_bytes())["unknown"])
        return cls({use: np.load(folder / FOLDER / f"{use}.npy") for use in USES}, unknown)

    @classmethod
    def of_model(cls, folder: Path) -> Usage:
        """Return the usage of a model in the store, which is unknown where it does not say."""
        return cls.read(folder) or cls.of_weights(f"the model {folder.name[:12]}")

    @classmethod
    def of_weights(cls, what: str) -> Usage:
        """Return the usage of weights from elsewhere, which is not known; `what`: in words, with their name."""
        return cls({use: np.zeros(0, np.uint64) for use in USES}, (what,))

    def __or__(self, other: Usage) -> Usage:
        """Return what a model has used that has used both, as it began from another one."""
        rows = {use: np.union1d(self.rows[use], other.rows[use]) for use in USES}
        return Usage(rows, tuple(sorted({*self.unknown, *other.unknown})))

    def write(self, staging: Staging) -> None:
        """Write it to the staging of a model or an export."""
        for use, hashes in self.rows.items():
            content = io.BytesIO()
            np.save(content, hashes.astype("<u8"))
            staging.put(f"{FOLDER}/{use}.npy", content.getvalue())
        counts = {use: len(hashes) for use, hashes in self.rows.items()}
        staging.put(f"{FOLDER}/{DESCRIPTION}", pretty({"rows": counts, "unknown": list(self.unknown)}))

    def used(self, hashes: Hashes) -> dict[str, npt.NDArray[np.bool_]]:
        """Return by use which rows, uint64 [n], are among those that were used, bool [n]."""
        return {use: np.isin(hashes, rows) for use, rows in self.rows.items()}
