"""Arrays in a file with reproducible bytes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.models.keras_file import ZIP_DATE


def write_arrays(path: Path, arrays: dict[str, npt.NDArray]) -> None:
    """Write an `.npz` file with reproducible bytes: `numpy.savez` stores the time of each entry."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", ZIP_DATE), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
