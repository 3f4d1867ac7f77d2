"""Arrays in one or more .npy files (shards), read as one array."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray


def row_bytes(features: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes of an example in all arrays, from the features of a snapshot."""
    return sum(int(np.prod(each["shape"])) * np.dtype(each["dtype"]).itemsize for each in features.values())


class ArrayWriter:
    """Writes a .npy file of `shape`, C order and little-endian, in parts along the first axis."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._missing = shape[0]
        self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, part: NDArray[Any]) -> None:
        """Append rows, [n, *shape[1:]]."""
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
    """Several memory maps as one read-only array, with `len`, `shape`, `dtype`, indexed by int, slice or rows.

    `parts`: the maps; all but the last have `rows_per_shard` rows.
    """

    def __init__(self, paths: list[Path]) -> None:
        self.parts = [np.load(path, mmap_mode="r") for path in paths]
        self.rows_per_shard = len(self.parts[0])
        self.dtype = self.parts[0].dtype
        self.shape = (sum(len(part) for part in self.parts), *self.parts[0].shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        positions = np.asarray(rows, dtype=np.int64)
        positions = np.where(positions < 0, positions + len(self), positions)
        if positions.size and not (positions.min() >= 0 and positions.max() < len(self)):
            raise IndexError(f"rows from {positions.min()} to {positions.max()} of {len(self)}")
        # All shards but the last have equal length.
        shards, offsets = np.divmod(positions, self.rows_per_shard)
        if positions.ndim == 0:
            return np.asarray(self.parts[int(shards)][int(offsets)])
        values = np.empty((*positions.shape, *self.shape[1:]), self.dtype)
        for number in np.unique(shards):
            values[shards == number] = self.parts[number][offsets[shards == number]]
        return values

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("several files cannot be one array without a copy")
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)


Array = np.memmap[Any, Any] | Shards
"""An array on disk: both types have `len`, `shape`, `dtype` and indexing, and convert with `numpy.asarray`."""


def open_array(paths: list[Path]) -> Array:
    """Open one file as a memory map, several as `Shards`."""
    return np.load(paths[0], mmap_mode="r") if len(paths) == 1 else Shards(paths)
