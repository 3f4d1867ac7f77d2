"""Arrays in several .npy files: written whole shard by whole shard, read as one."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray


class ArrayWriter:
    """Writes one .npy file, C order and little-endian, in parts along the first axis; `shape` is the whole's."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._missing = shape[0]
        self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, part: NDArray[Any]) -> None:
        """Add rows."""
        self._file.write(np.ascontiguousarray(part, dtype=self._dtype).tobytes())
        self._missing -= len(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        assert kind is not None or self._missing == 0, f"{self._missing} rows fewer written than promised"


class Shards:
    """Memory maps in a row as one read-only array: `len`, `shape`, `dtype`, an index, a slice or an array of rows.

    `parts`: the maps, all but the last of `each` rows.
    """

    def __init__(self, paths: list[Path]) -> None:
        self.parts = [np.load(path, mmap_mode="r") for path in paths]
        self.each = len(self.parts[0])
        self.dtype = self.parts[0].dtype
        self.shape = (sum(len(part) for part in self.parts), *self.parts[0].shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        wanted = np.asarray(rows, dtype=np.int64)
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise IndexError(f"rows from {wanted.min()} to {wanted.max()} of {len(self)}")
        # All shards but the last are of equal length, so a division finds the shard.
        shards, places = np.divmod(wanted, self.each)
        if wanted.ndim == 0:
            return np.asarray(self.parts[int(shards)][int(places)])
        found = np.empty((*wanted.shape, *self.shape[1:]), self.dtype)
        for number in np.unique(shards):
            found[shards == number] = self.parts[number][places[shards == number]]
        return found

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("several files cannot be one array without a copy")
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)


Array = np.memmap[Any, Any] | Shards
"""What a reader gets: both have `len`, `shape`, `dtype` and indices, and both are arrays to `numpy.asarray`."""


def open_array(paths: list[Path]) -> Array:
    """One file as a plain memory map, several as one array."""
    return np.load(paths[0], mmap_mode="r") if len(paths) == 1 else Shards(paths)
