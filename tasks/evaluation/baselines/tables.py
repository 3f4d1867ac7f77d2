"""Tables: gradient boosting of trees over histograms (Ke et al., LightGBM, NeurIPS 2017), as scikit-learn has it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tasks.evaluation.baselines.kind import SEED, Floats, Kind, Rows
from tasks.evaluation.splits import SnapshotSplit
from tasks.reader.values import NO_TIME, Values
from tasks.sources.features import Feature

ROWS = 50_000
"""Train examples that are learned from, at most."""
COLUMNS = 100
"""Numbers, categories and times that are read, at most: the first ones by name; an array of numbers is several."""
CATEGORIES = 254
"""Values of a category that are distinguished, at most: the most frequent ones; all others are one more."""
MICROSECONDS = 1e6


class Tables(Kind):
    """Raw columns: numbers, times in seconds since 1970, and categories as such; what is missing stays so."""

    name: ClassVar[str] = "gradient boosting"
    rows: ClassVar[int] = ROWS

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
