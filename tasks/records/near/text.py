"""Similar texts: the share of common pieces of five characters (Jaccard index), found by MinHash.

Letters' case and white space do not count. R-MinHash is rensa's; its values depend on seed and pieces alone. Bands of
rows of the signature are Broder's scheme (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4). Of each
value eight bits are kept, which hardly changes an estimate (Li and König, b-bit minwise hashing, 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rensa import RMinHash

from tasks.draws import splitmix64
from tasks.sources.hashes import Hashes

SIMILARITY = 0.8
LOWEST = 0.5
SLACK = 0.12
"""Three standard deviations of an estimate from `VALUES` values, at a similarity of 0.7."""

VALUES = 128
"""Values of a signature."""
SEED = 7
MISSED = 0.01
"""Share at most of the pairs just at the similarity that are in no common band."""
PIECE = 5
"""Characters of a piece; shorter texts are one piece."""
LONGEST = 1 << 20
"""Characters of a text that are compared: of a longer one its beginning."""
CHARACTERS, TEXTS = 1 << 20, 4096
"""Characters of the texts whose pieces are in memory together, about, and their number at most."""
BASE = np.uint64(0x9E3779B97F4A7C15)


def bands(similarity: float) -> int:
    """Return the number of bands: they have as many rows as `MISSED` allows."""
    return VALUES // _rows(similarity)


def _rows(similarity: float) -> int:
    fit = [rows for rows in range(1, VALUES + 1) if (1 - similarity**rows) ** (VALUES // rows) <= MISSED]
    return max(fit)


def signed(values: pa.Array, similarity: float) -> tuple[NDArray[np.uint8], Hashes]:
    """Return MinHash signatures, and the hash of each band; 0 of an empty text."""
    minima = np.zeros((len(values), VALUES), "<u4")
    given = np.zeros(len(values), bool)
    for first, texts in _groups(values):
        pieces, counts = _pieces(texts)
        ends = np.concatenate(([0], np.cumsum(counts))).astype(np.uint64)
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(pieces, ends, VALUES, SEED)
        minima[first : first + len(texts)] = matrix.to_rows()
        given[first : first + len(texts)] = [bool(text) for text in texts]
    number, rows = bands(similarity), _rows(similarity)
    hashes = np.zeros((len(values), number), np.uint64)
    for row in range(rows):
        hashes = splitmix64(hashes ^ minima[:, row : number * rows : rows].astype(np.uint64))
    return minima.astype(np.uint8), np.where(given[:, None], np.maximum(hashes, 1), 0)


def _groups(values: pa.Array) -> Iterator[tuple[int, list[str]]]:
    """Yield consecutive plain texts, a few together, with the number of the first."""
    first, size, texts = 0, 0, list[str]()
    for number, value in enumerate(values):
        texts.append(_plain(value.as_py()))
        size += len(texts[-1])
        if size >= CHARACTERS or len(texts) == TEXTS:
            yield first, texts
            first, size, texts = number + 1, 0, []
    if texts:
        yield first, texts


def _plain(text: str) -> str:
    return " ".join(text[:LONGEST].lower().split())


def _pieces(texts: list[str]) -> tuple[Hashes, NDArray[np.int64]]:
    """Return the hashes of all pieces of the texts, and how many each text has."""
    padded = [text.ljust(PIECE, "\0") for text in texts]
    characters = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    sizes = np.array([len(text) for text in padded])
    whole = np.ones(len(characters), bool)
    ends = np.cumsum(sizes)
    for back in range(1, PIECE):
        whole[ends - back] = False
    begins = np.flatnonzero(whole)
    hashes = np.zeros(len(begins), np.uint64)
    for offset in range(PIECE):
        hashes = hashes * BASE + characters[begins + offset]
    return splitmix64(hashes), sizes - (PIECE - 1)


def estimates(one: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the shares of equal values of the signatures."""
    equal: NDArray[np.float64] = (one == others).mean(axis=1)
    return equal


def similarity(estimate: float, left: Callable[[], str], right: Callable[[], str]) -> float:
    """Return the share of common pieces of two texts."""
    ours, theirs = (np.unique(_pieces([_plain(text())])[0]) for text in (left, right))
    common = len(np.intersect1d(ours, theirs, assume_unique=True))
    return common / (len(ours) + len(theirs) - common)
