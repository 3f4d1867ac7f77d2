"""The simple models that are learned: of tables, images, sounds, texts and tags. A class is a kind, and no other line.

Of those that read some inputs of the records the first one here is used.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tasks.config.task import WEIGHT
from tasks.evaluation.baselines.simple_model import SEED, Floats, Learned, Rows, SimpleModel, evenly
from tasks.evaluation.splits import SnapshotSplit
from tasks.reader.values import NO_TIME, Values
from tasks.snapshots.tags import columns_of, padded_tags
from tasks.snapshots.transforms import own_array
from tasks.sources.features import Feature, of_role

TABLE_ROWS, ARRAY_ROWS, TEXT_ROWS, TAG_ROWS = 50_000, 20_000, 10_000, 50_000
"""Train examples that are learned from, at most."""
COLUMNS = 100
"""Numbers, categories and times that are read, at most: the first ones by name; an array of numbers is several."""
CATEGORIES = 254
"""Values of a category that are distinguished, at most: the most frequent ones; all others are one more."""
MICROSECONDS = 1e6
BLOCK_BYTES = 64 << 20
"""Bytes of arrays that are read at once, at most, or one example."""
CHARACTERS = 500
"""Characters of each text that are read, at most: the first ones."""
WORDS, PIECES = (1, 2), (2, 4)
"""Words in a row, and characters of a piece of a word, that are counted together."""
TERMS = 20_000
"""Terms of words, and of pieces, at most: the most frequent ones in train."""
PENALTY = 0.1
"""The strength of the penalty of words: TF-IDF is small."""
STRENGTH = 1.0
"""Of the penalty of squared weights, for inputs of unit size."""


def classifier(iterations: int, strength: float = STRENGTH) -> Any:
    """Return logistic regression by L-BFGS, which draws nothing."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / strength, max_iter=iterations)


def regressor(iterations: int, strength: float = STRENGTH) -> Any:
    """Return ridge regression by LSQR, which draws nothing."""
    from sklearn.linear_model import Ridge

    return Ridge(alpha=strength, max_iter=iterations, solver="lsqr")


class Tables(SimpleModel):
    """Gradient boosting of trees over histograms (Ke et al., LightGBM, NeurIPS 2017), as scikit-learn has it.

    It reads raw columns: numbers, times in seconds since 1970, and categories as such; what is missing stays so.
    """

    reads = ("number", "category", "time")
    name = "gradient boosting"
    rows = TABLE_ROWS

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn the values of the categories."""
        self.features: dict[str, Feature] = {name: train.raw[name] for name in names[:COLUMNS]}
        width = sum(int(np.prod(train.raw[name].shape)) for name in names)
        self.left_out = (f"{width - COLUMNS:,} of {width:,} numbers, categories and times",) if width > COLUMNS else ()
        self.known: dict[str, list[str]] = {}
        categories = [name for name, feature in self.features.items() if feature.kind == "category"]
        for name, values in train.values(rows, categories).items() if categories else ():
            there, counts = np.unique([value for value in values if value], return_counts=True)
            self.known[name] = there[np.lexsort((there, -counts))][:CATEGORIES].tolist()

    def values(self, split: SnapshotSplit, rows: Rows) -> Floats:
        """Return float64 [rows, columns], NaN where a value is missing; of a category the place among its values."""
        read = split.values(rows, list(self.features))
        columns = [self._column(name, read[name]) for name in self.features]
        return np.concatenate(columns, axis=1)[:, :COLUMNS]

    def _column(self, name: str, values: Values) -> Any:
        kind = self.features[name].kind
        if kind == "category":
            places = {value: float(place) for place, value in enumerate(self.known[name])} | {"": np.nan}
            return np.array([places.get(value, float(CATEGORIES)) for value in values])[:, None]
        if kind == "time":
            return np.where(values == NO_TIME, np.nan, values / MICROSECONDS)[:, None]
        return np.asarray(values, np.float64).reshape(len(values), -1)

    @property
    def _categorical(self) -> list[bool]:
        """Which columns are categories."""
        widths = [[feature.kind == "category"] * int(np.prod(feature.shape)) for feature in self.features.values()]
        return [each for column in widths for each in column][:COLUMNS]

    def classifier(self, iterations: int) -> Any:
        """Return gradient boosting with the settings of scikit-learn, but for iterations and seed."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(**self._settings(iterations))

    def regressor(self, iterations: int) -> Any:
        """Return the same for a number."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(**self._settings(iterations))

    def _settings(self, iterations: int) -> dict[str, Any]:
        fixed = {"early_stopping": False, "random_state": SEED}
        return {"max_iter": iterations, "categorical_features": self._categorical, **fixed}


class Grids(SimpleModel):
    """A linear model of the snapshot's arrays of some columns, each shrunk to `cells`."""

    rows = ARRAY_ROWS
    cells: ClassVar[tuple[int, int]]
    """The size of the first two axes after averaging, at most."""

    @classmethod
    def readable(cls, train: SnapshotSplit, names: list[str]) -> list[str]:
        """Return the columns with an array of their own: a function of the user's can make numbers of an image."""
        return [name for name in names if own_array(name) in train.arrays]

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn mean and standard deviation of each cell."""
        self._names = [own_array(name) for name in names]
        self.left_out = ()
        self._mean: Floats = np.zeros(1, np.float32)
        self._deviation: Floats = np.ones(1, np.float32)
        values = self.values(train, rows)
        self._mean, deviation = values.mean(axis=0), values.std(axis=0)
        self._deviation = np.where(deviation > 0, deviation, 1).astype(np.float32)

    def values(self, split: SnapshotSplit, rows: Rows) -> Floats:
        """Return float32 [rows, cells]."""
        parts = [self._shrunk(split.arrays[name], rows) for name in self._names]
        standardised: Floats = (np.concatenate(parts, axis=1) - self._mean) / self._deviation
        return standardised

    def _shrunk(self, array: Any, rows: Rows) -> Floats:
        size = max(1, BLOCK_BYTES // (int(np.prod(array.shape[1:])) * 8))
        starts = range(0, len(rows), size)
        return np.concatenate([shrunk(np.asarray(array[rows[at : at + size]]), self.cells) for at in starts])

    def classifier(self, iterations: int) -> Any:
        """Return logistic regression."""
        return classifier(iterations)

    def regressor(self, iterations: int) -> Any:
        """Return ridge regression."""
        return regressor(iterations)


def shrunk(values: npt.NDArray[Any], cells: tuple[int, int]) -> Floats:
    """Return arrays [n, height, width, ...] as means over at most `cells` equal parts of both, float32 [n, m].

    Of arrays [n, values] it is the values; NaN counts as 0.
    """
    small: npt.NDArray[Any] = np.nan_to_num(values.astype(np.float64))
    for axis, most in zip(range(1, small.ndim), cells, strict=False):
        size = small.shape[axis]
        begins = np.arange(min(size, most)) * size // min(size, most)
        widths = np.diff([*begins, size]).reshape([-1 if place == axis else 1 for place in range(small.ndim)])
        small = np.add.reduceat(small, begins, axis=axis) / widths
    return small.reshape(len(small), -1).astype(np.float32)


class Images(Grids):
    """The snapshot's images, shrunk to at most 8 x 8 pixels by averaging, with their channels."""

    reads = ("image",)
    name = "linear model of 8 x 8 pixels"
    cells = (8, 8)


class Sounds(Grids):
    """The snapshot's spectra [frames, bands], averaged over at most 8 spans of time and 16 groups of bands."""

    reads = ("audio",)
    name = "linear model of 8 x 16 spectra"
    cells = (8, 16)


class Texts(SimpleModel):
    """A linear model of the frequencies of words and of their pieces (TF-IDF).

    It reads all texts of an example, one after another; lists of words are joined by blanks.
    """

    reads = ("text", "words")
    name = "linear model of words and characters"
    rows = TEXT_ROWS

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn the terms and how frequent they are."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.names = names
        self.left_out = (f"texts after their first {CHARACTERS} characters",)
        texts, common = self._texts(train, rows), {"max_features": TERMS, "sublinear_tf": True}
        vectorisers = (
            TfidfVectorizer(ngram_range=WORDS, token_pattern=r"\S+", **common),
            TfidfVectorizer(ngram_range=PIECES, analyzer="char_wb", **common),
        )
        self._vectorisers = [each.fit([*texts, "."]) for each in vectorisers]  # a term at least, of empty texts too
        if not any(len(text) == CHARACTERS for text in texts):
            self.left_out = ()

    def values(self, split: SnapshotSplit, rows: Rows) -> Any:
        """Return a sparse matrix, float64 [rows, terms]."""
        from scipy.sparse import hstack

        texts = self._texts(split, rows)
        return hstack([each.transform(texts) for each in self._vectorisers], format="csr")

    def _texts(self, split: SnapshotSplit, rows: Rows) -> list[str]:
        columns = split.values(rows, self.names)
        parts = [[each if isinstance(each, str) else " ".join(each) for each in column] for column in columns.values()]
        return [" ".join(texts)[:CHARACTERS] for texts in zip(*parts, strict=True)]

    def classifier(self, iterations: int) -> Any:
        """Return logistic regression."""
        return classifier(iterations, PENALTY)

    def regressor(self, iterations: int) -> Any:
        """Return ridge regression."""
        return regressor(iterations, PENALTY)


class Tags(Learned):
    """The most frequent class of each word in train, the classical baseline (Charniak et al., AAAI 1993).

    Of a word that train does not have, it is the most frequent class of all words.
    """

    name = "most frequent class of each word"

    def __init__(self, train: SnapshotSplit, words: str, label: str) -> None:
        """Count the classes of each word by the weights of their sequences; of equal counts the first class is taken.

        Args:
            words: the column of words.
            label: the column of their tags.
        """
        self.words = words
        with self.timed():
            total = len(next(iter(train.arrays.values())))
            rows = evenly(total, TAG_ROWS)
            self.rows = len(rows)
            self.left_out = (f"all but {self.rows:,} of {total:,} train sequences",) if self.rows < total else ()
            weights = np.asarray(train.arrays[WEIGHT][rows]) if WEIGHT in train.arrays else np.ones(len(rows))
            read = train.values(rows, [words, label])
            of_word: dict[str, Counter[int]] = {}
            of_all: Counter[int] = Counter()
            for text, tags, weight in zip(read[words], read[label], weights.tolist(), strict=True):
                for word, tag in zip(text, tags, strict=True):
                    of_word.setdefault(word, Counter())[tag] += weight
                    of_all[tag] += weight
            self.known = {word: _most(counts) for word, counts in of_word.items()}
            self.otherwise = _most(of_all)

    @classmethod
    def of(cls, train: SnapshotSplit) -> Self | None:
        """Return it; None where it is not one column of words whose tags are learned."""
        words, [label] = columns_of(train.raw), of_role(train.raw, "label")
        return cls(train, words[0], label) if len(words) == 1 else None

    def predict(self, judge: Any, split: SnapshotSplit) -> Any:
        """Return the classes of the words that the judged model reads too; those that are cut have none."""
        [texts] = split.values(np.arange(judge.examples), [self.words]).values()
        found = [[self.known.get(word, self.otherwise) for word in text] for text in texts]
        return judge.predictions({judge.saved: padded_tags(found, judge.length)})


def _most(counts: Counter[int]) -> int:
    return min(counts, key=lambda tag: (-counts[tag], tag))
