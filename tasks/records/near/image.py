"""Similar images: the share of equal bits of their difference hashes.

A bit says whether a pixel of the grey image, made 9 pixels wide and 8 high, is brighter than the one to its left. The
hash outlives another size, compression or brightness; it does not outlive a turned, mirrored or cropped image.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from tasks.draws import splitmix64
from tasks.reader.decoding import flat
from tasks.sources.encoding import values_of
from tasks.sources.hashes import Hashes

SIMILARITY = 0.9
LOWEST = 0.8
SLACK = 0.0

BITS = 64
SIZE = (9, 8)
"""Width and height of the grey image."""
CONTRAST = 16
"""Levels between the darkest and the brightest pixel below which a hash is of noise alone."""


def bands(similarity: float) -> int:
    """Return the number of bands: every pair of parts of the hash, of which the differing bits leave two unchanged."""
    return len(_pairs(similarity))


def _pairs(similarity: float) -> list[tuple[int, int]]:
    return list(combinations(range(_differing(similarity) + 2), 2))


def _differing(similarity: float) -> int:
    return int((1 - similarity) * BITS + 1e-9)


def signed(values: pa.Array, similarity: float) -> tuple[NDArray[np.uint8], Hashes]:
    """Return difference hashes, and the hash of each band; 0 of a missing image and of one almost without contrast."""
    found = [difference_hash(payload) if payload else None for payload in values_of(values)]
    hashes = np.array([found_hash or 0 for found_hash in found], "<u8")
    given = np.array([found_hash is not None for found_hash in found], bool)
    parts = np.array_split(np.arange(BITS, dtype=np.uint64), _differing(similarity) + 2)
    masks = np.array([int(sum(1 << int(bit) for bit in part)) for part in parts], np.uint64)
    columns = [
        splitmix64((hashes & (masks[one] | masks[other])) ^ np.uint64(number))
        for number, (one, other) in enumerate(_pairs(similarity))
    ]
    of_bands = np.stack(columns, axis=1)
    return hashes.view(np.uint8).reshape(-1, BITS // 8), np.where(given[:, None], np.maximum(of_bands, 1), 0)


def difference_hash(payload: bytes) -> int | None:
    """Return the difference hash of an image file; None of an image almost without contrast."""
    small = np.asarray(flat(payload, SIZE).convert("L").resize(SIZE, Image.Resampling.BOX), np.int16)
    if np.ptp(small) < CONTRAST:
        return None
    brighter = small[:, 1:] > small[:, :-1]
    return int.from_bytes(np.packbits(brighter).tobytes(), "little")


def estimates(one: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the shares of equal bits."""
    return 1 - np.bitwise_count(one ^ others).sum(axis=1) / BITS


def similarity(estimate: float, left: Callable[[], Any], right: Callable[[], Any]) -> float:
    """Return the estimate, which is exact."""
    return float(estimate)
