"""Near-duplicates: the input of which they are looked for, and its measure of similarity, a class a kind of input.

A value has a signature of fixed width, from which the similarity of two values is estimated, and a hash for each of
several bands. Values that are alike have the same hash in one of the bands, almost certainly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.draws import splitmix64
from tasks.errors import Refused
from tasks.records.config import NearDuplicates, NearHandling
from tasks.sources.encoding import binary_of, values_of
from tasks.sources.features import Feature, of_role
from tasks.sources.hashes import Hashes

NEAR_VERSION = 3
NEAR_LIBRARIES = ("rensa",)

ASIDE = ".."
"""Prefix of a spill's columns that only comparisons read."""
SIGNATURE = f"{ASIDE}signature"


@dataclass(frozen=True)
class Compared:
    """The input of which near-duplicates are looked for, how similar they are, and what becomes of them."""

    column: str
    kind: str
    similarity: float
    handling: NearHandling

    @property
    def measure(self) -> Measure:
        """The measure of the input's kind."""
        return MEASURES[self.kind]

    @property
    def bands(self) -> list[str]:
        """The columns of a spill with the hashes of the bands."""
        return [f"{ASIDE}band{number:03d}" for number in range(self.measure.bands(self.similarity))]

    def added(self, table: pa.Table) -> pa.Table:
        """Return rows of typed columns with signatures and bands."""
        signatures, hashes = self.measure.signed(table[self.column].combine_chunks(), self.similarity)
        fixed = binary_of(signatures).cast(pa.binary(signatures.shape[1]))
        for name, column in zip((SIGNATURE, *self.bands), (fixed, *map(pa.array, hashes.T)), strict=True):
            table = table.append_column(name, column)
        return table


def compared(features: Mapping[str, Feature], config: NearDuplicates | None) -> Compared | None:
    """Return what is compared; None where near-duplicates are not looked for.

    Raises:
        Refused: the features have no such input, or several, or have groups that must not be divided.
    """
    if config is None:
        return None
    field = "records.near_duplicates"
    inputs = {name: feature for name, feature in of_role(features, "input").items() if feature.kind in MEASURES}
    names = ", ".join(inputs) or "no text and no image"
    if config.column is None and len(inputs) != 1:
        rule = f"the inputs that can be compared are {names}"
        raise Refused(f"{field}.column", "none is named", rule, "name one" if inputs else "leave near_duplicates out")
    column = config.column or next(iter(inputs))
    if column not in inputs:
        raise Refused(f"{field}.column", column, f"must be a text or an image: {names}", "correct it")
    groups = of_role(features, "group")
    if config.handling == "group" and groups:
        rule = f"source.group ({next(iter(groups))}) decides the split, and a group must not be divided"
        raise Refused(f"{field}.handling", "group", rule, "choose report or drop, or leave source.group out")
    of_kind = Compared(column, inputs[column].kind, 0.0, config.handling)
    similarity, lowest = config.similarity, of_kind.measure.LOWEST
    if similarity is not None and similarity < lowest:
        rule = f"of a feature of kind {of_kind.kind} at least {lowest:g} can be looked for"
        raise Refused(f"{field}.similarity", similarity, rule, "raise it")
    return Compared(column, of_kind.kind, similarity or of_kind.measure.SIMILARITY, config.handling)


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

BITS = 64
SIZE = (9, 8)
"""Width and height of the grey image."""
CONTRAST = 16
"""Levels between the darkest and the brightest pixel below which a hash is of noise alone."""

Signatures = NDArray[np.uint8]
"""[n, width]."""

MEASURES: dict[str, Measure] = {}
"""By the kind of input."""


class Measure:
    """How similar the values of a kind of input are."""

    kind: ClassVar[str]
    """The kind of input."""
    SIMILARITY: ClassVar[float]
    """From which similarity two values are near-duplicates, by default."""
    LOWEST: ClassVar[float]
    """Smallest similarity that can be looked for."""
    SLACK: ClassVar[float]
    """How far an estimate may be below the similarity."""

    def __init_subclass__(cls) -> None:
        MEASURES[cls.kind] = cls()

    def bands(self, similarity: float) -> int:
        """Return the number of bands for a similarity."""
        raise NotImplementedError

    def signed(self, values: pa.Array, similarity: float) -> tuple[Signatures, Hashes]:
        """Return signatures, and the hash of each band, [n, bands]; 0 of a value that cannot be compared."""
        raise NotImplementedError

    def estimates(self, one: NDArray[np.uint8], others: Signatures) -> NDArray[np.float64]:
        """Return the similarities of a value to others, estimated from their signatures."""
        raise NotImplementedError

    def similarity(self, estimate: float, left: Callable[[], Any], right: Callable[[], Any]) -> float:
        """Return the similarity of two values, which are read where the estimate is not exact."""
        raise NotImplementedError


class TextMeasure(Measure):
    """Similar texts: the share of common pieces of five characters (Jaccard index), found by MinHash.

    Letters' case and white space do not count. R-MinHash is rensa's; its values depend on seed and pieces alone. Bands
    of rows of the signature are Broder's scheme (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4). Of
    each value eight bits are kept, which hardly changes an estimate (Li and König, b-bit minwise hashing, 2010).
    """

    kind = "text"
    SIMILARITY = 0.8
    LOWEST = 0.5
    SLACK = 0.12
    """Three standard deviations of an estimate from `VALUES` values, at a similarity of 0.7."""

    def bands(self, similarity: float) -> int:
        """Return the number of bands: they have as many rows as `MISSED` allows."""
        return VALUES // _rows(similarity)

    def signed(self, values: pa.Array, similarity: float) -> tuple[NDArray[np.uint8], Hashes]:
        """Return MinHash signatures, and the hash of each band; 0 of an empty text."""
        from rensa import RMinHash

        minima = np.zeros((len(values), VALUES), "<u4")
        given = np.zeros(len(values), bool)
        for first, texts in _groups(values):
            pieces, counts = _pieces(texts)
            ends = np.concatenate(([0], np.cumsum(counts))).astype(np.uint64)
            matrix = RMinHash.digest_matrix_from_flat_token_hashes(pieces, ends, VALUES, SEED)
            minima[first : first + len(texts)] = matrix.to_rows()
            given[first : first + len(texts)] = [bool(text) for text in texts]
        number, rows = self.bands(similarity), _rows(similarity)
        hashes = np.zeros((len(values), number), np.uint64)
        for row in range(rows):
            hashes = splitmix64(hashes ^ minima[:, row : number * rows : rows].astype(np.uint64))
        return minima.astype(np.uint8), np.where(given[:, None], np.maximum(hashes, 1), 0)

    def estimates(self, one: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the shares of equal values of the signatures."""
        equal: NDArray[np.float64] = (one == others).mean(axis=1)
        return equal

    def similarity(self, estimate: float, left: Callable[[], str], right: Callable[[], str]) -> float:
        """Return the share of common pieces of two texts."""
        ours, theirs = (np.unique(_pieces([_plain(text())])[0]) for text in (left, right))
        common = len(np.intersect1d(ours, theirs, assume_unique=True))
        return common / (len(ours) + len(theirs) - common)


class ImageMeasure(Measure):
    """Similar images: the share of equal bits of their difference hashes.

    A bit says whether a pixel of the grey image, made 9 pixels wide and 8 high, is brighter than the one to its left.
    The hash outlives another size, compression or brightness; it does not outlive a turned, mirrored or cropped image.
    """

    kind = "image"
    SIMILARITY = 0.9
    LOWEST = 0.8
    SLACK = 0.0

    def bands(self, similarity: float) -> int:
        """Return the number of bands: each pair of parts of the hash; the differing bits leave two parts unchanged."""
        return len(_pairs(similarity))

    def signed(self, values: pa.Array, similarity: float) -> tuple[NDArray[np.uint8], Hashes]:
        """Return difference hashes, and the hash of each band; 0 of a missing image, or one almost without contrast."""
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

    def estimates(self, one: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the shares of equal bits."""
        return 1 - np.bitwise_count(one ^ others).sum(axis=1) / BITS

    def similarity(self, estimate: float, left: Callable[[], Any], right: Callable[[], Any]) -> float:
        """Return the estimate, which is exact."""
        return float(estimate)


def _rows(similarity: float) -> int:
    fit = [rows for rows in range(1, VALUES + 1) if (1 - similarity**rows) ** (VALUES // rows) <= MISSED]
    return max(fit)


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


def _pairs(similarity: float) -> list[tuple[int, int]]:
    return list(combinations(range(_differing(similarity) + 2), 2))


def _differing(similarity: float) -> int:
    return int((1 - similarity) * BITS + 1e-9)


def difference_hash(payload: bytes) -> int | None:
    """Return the difference hash of an image file; None of an image almost without contrast."""
    from PIL import Image

    from tasks.reader.image import flat

    small = np.asarray(flat(payload, SIZE).convert("L").resize(SIZE, Image.Resampling.BOX), np.int16)
    if np.ptp(small) < CONTRAST:
        return None
    brighter = small[:, 1:] > small[:, :-1]
    return int.from_bytes(np.packbits(brighter).tobytes(), "little")
