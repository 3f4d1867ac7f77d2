"""A closer look at the columns of a conversion: distributions, associations, suspicions.

It is made of a sample of each split: the rows with the lowest places, which are keyed hashes, so that the sample is
random and the same for the same data. Counts, means and extremes are of all rows (`tasks.records.column_types`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

from tasks.reader.values import NO_TIME
from tasks.records.column_types.numbers import Number
from tasks.records.merging import Spills
from tasks.records.sorting import one_chunk
from tasks.sources.features import PREDICTED, Feature, of_role
from tasks.sources.hashes import SPACE

SAMPLE = 10_000
"""Rows of each split in the sample, about."""
BINS = 20
TOP = 10
"""Values of a category with a share of their own."""
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

MUCH_MISSING = 0.4
"""Share of missing values that is suspicious."""
SAME = 0.999
"""Association from which a column tells what is predicted."""
FEW = 10
"""Examples of a class in train below which it can hardly be learned."""
MANY = 20
"""Different values at least that may name what rows belong to."""
ONE_OUTCOME = 0.95
"""Share of rows with the outcome of the first row of their value, from which the value predicts it."""
DENSE, ORDERED = 1.5, 0.5
"""Range of whole numbers by their count at most, and association, of a number of rows that are in an order."""
DIFFERENT, SURE = 0.1, 0.001
"""Distance of two distributions that matters, and the probability, divided by the number of columns, of a larger one
between samples of one distribution."""
TRAIN, TEST = "train", "test"

Values = NDArray[Any]
"""Numbers float64 with NaN for missing ones, or strings."""


def profile(spills: Spills, features: Mapping[str, Feature], states: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the profile of all columns with one value a row.

    Args:
        states: the statistics of each split by feature, as in the manifest.

    Returns:
        `rows`, the size of the sample by split; `columns`, by name `histogram` (`edges` or `values`, and by split the
        share of each), `quantiles` by split, and `association` with what is predicted, from 0 to 1; and `suspicions`,
        lines of text.
    """
    shown = {name: feature for name, feature in features.items() if _is_shown(feature)}
    samples = {split: _sample(spills, split) for split in spills.splits}
    values = {
        name: {split: _values(feature, table[name]) for split, table in samples.items() if table.num_rows}
        for name, feature in shown.items()
    }
    predicted = [name for role in PREDICTED for name in of_role(shown, role)]
    columns: dict[str, dict[str, Any]] = {}
    for name, of_splits in values.items():
        columns[name] = {"histogram": _histogram(of_splits)}
        if of_splits[TRAIN].dtype.kind == "f":
            columns[name]["quantiles"] = {split: _quantiles(of_split) for split, of_split in of_splits.items()}
        if predicted and name != predicted[0]:
            columns[name]["association"] = association(of_splits[TRAIN], values[predicted[0]][TRAIN])
    return {
        "rows": {split: table.num_rows for split, table in samples.items()},
        "columns": _rounded(columns),
        "suspicions": list(_suspicions(shown, values, columns, states, predicted)),
    }


def _rounded(value: Any) -> Any:
    """Return numbers with six digits: processors differ in the last ones, and nobody reads them."""
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def association(left: Values, right: Values) -> float:
    """Return how far one variable tells another, from 0 to 1, over the rows where both are present.

    Of two numbers the absolute correlation; of a category and a number the correlation ratio (Fisher, 1925); of two
    categories Cramér's V, corrected for bias (Bergsma, J. Korean Stat. Soc. 42, 2013).
    """
    present = _present(left) & _present(right)
    left, right = left[present], right[present]
    if len(left) < 3:
        return 0.0
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        if left.std() == 0 or right.std() == 0:
            return 0.0
        return float(abs(np.corrcoef(left, right)[0, 1]))
    if left.dtype.kind != "f" and right.dtype.kind != "f":
        return _cramers_v(left, right)
    numbers, groups = (left, right) if left.dtype.kind == "f" else (right, left)
    return _correlation_ratio(numbers, groups)


def _correlation_ratio(numbers: Values, groups: Values) -> float:
    _, which = np.unique(groups, return_inverse=True)
    total = float(((numbers - numbers.mean()) ** 2).sum())
    if not total or which.max() + 1 > len(numbers) // 2:  # as many groups as rows tell any number
        return 0.0
    counts = np.bincount(which)
    means = np.bincount(which, numbers) / counts
    return float(np.sqrt(min(1.0, (counts * (means - numbers.mean()) ** 2).sum() / total)))


def _cramers_v(left: Values, right: Values) -> float:
    _, rows = np.unique(left, return_inverse=True)
    _, columns = np.unique(right, return_inverse=True)
    r, k, n = rows.max() + 1, columns.max() + 1, len(rows)
    if min(r, k) < 2:
        return 0.0
    table = np.zeros((r, k))
    np.add.at(table, (rows, columns), 1)
    expected = table.sum(1, keepdims=True) * table.sum(0) / n
    phi = ((table - expected) ** 2 / expected).sum() / n
    corrected = max(0.0, phi - (k - 1) * (r - 1) / (n - 1))
    smaller = min(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(min(1.0, corrected / smaller))) if smaller > 0 else 0.0


def _is_shown(feature: Feature) -> bool:
    kinds = ("number", "category", "label", "text", "time")
    return feature.kind in kinds and not feature.shape and feature.role in ("input", *PREDICTED, "weight")


def _sample(spills: Spills, split: str) -> pa.Table:
    """Return the rows of a split with the lowest places, about `SAMPLE` of them."""
    count = spills.counts[split]
    high = SPACE if count <= SAMPLE else SPACE * SAMPLE // count
    tables = [spills.slice(spill, spills.splits.index(split), 0, high) for spill in spills.numbers]
    return pa.concat_tables(tables)


def _values(feature: Feature, column: pa.ChunkedArray) -> Values:
    """Return values as float64, NaN where missing, or as strings; of texts their number of characters."""
    array = one_chunk(column)
    if feature.kind == "number":
        return Number(feature).floats(array)[:, 0].astype(np.float64)
    if feature.kind == "time":
        times = np.asarray(array)
        return np.where(times == NO_TIME, np.nan, times.astype(np.float64))
    if feature.kind == "text":
        return np.asarray(pa.compute.utf8_length(array)).astype(np.float64)
    return np.asarray(array.to_pylist(), dtype=np.str_)


def _present(values: Values) -> NDArray[np.bool_]:
    present: NDArray[np.bool_] = ~np.isnan(values) if values.dtype.kind == "f" else values != ""
    return present


def _histogram(of_splits: Mapping[str, Values]) -> dict[str, Any]:
    """Return the shares of each bin, or of the most frequent values of train and of all others."""
    train = of_splits[TRAIN][_present(of_splits[TRAIN])]
    if train.dtype.kind == "f":
        low, high = np.quantile(train, (0.005, 0.995)) if len(train) else (0.0, 1.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, BINS + 1)
        shares = {
            split: (np.histogram(np.clip(values, low, high), edges)[0] / max(len(values), 1)).tolist()
            for split, values in of_splits.items()
        }
        return {"edges": edges.tolist(), "shares": shares}
    names, counts = np.unique(train, return_counts=True)
    top = [str(names[place]) for place in np.lexsort((names, -counts))[:TOP]]
    shares = {split: [float((values == name).mean()) for name in top] for split, values in of_splits.items()}
    return {"values": top, "shares": shares}


def _quantiles(values: Values) -> list[float]:
    present = values[_present(values)]
    return np.quantile(present, QUANTILES).tolist() if len(present) else []


def _suspicions(
    features: Mapping[str, Feature],
    values: Mapping[str, Mapping[str, Values]],
    columns: Mapping[str, Any],
    states: Mapping[str, Mapping[str, Any]],
    predicted: list[str],
) -> Iterator[str]:
    """Yield what of the data deserves attention, in words."""
    for name, feature in features.items():
        train = values[name][TRAIN]
        if feature.role == "input":
            missing = 1 - float(_present(train).mean())
            if missing >= MUCH_MISSING:
                yield f"{name}: {missing:.0%} are missing in train"
            if missing < 1 and len(np.unique(train[_present(train)])) == 1 and not missing:
                yield f"{name}: all values in train are equal"
            if columns[name].get("association", 0.0) >= SAME:
                yield f"{name} tells {predicted[0]} exactly; it may not be known when a prediction is made"
            if together := sum(of_split.get(name, {}).get("together", 0) for of_split in states.values()):
                rule = "fall together in float32, which has 7 digits; source.formats has an offset"
                yield f"{name}: {together:,} values or more {rule}"
            if predicted:
                yield from _of_rows(name, values[name], values[predicted[0]], columns[name].get("association", 0.0))
        if feature.kind == "label":
            rare = [each for each, count in states[TRAIN][name]["classes"].items() if count < FEW]
            for each in rare[:TOP]:
                count = states[TRAIN][name]["classes"][each]
                yield f"class {each} of {name}: {count} example{'s' * (count != 1)} in train"
            if len(rare) > TOP:
                yield f"{len(rare) - TOP} more classes of {name} with fewer than {FEW} examples in train"
        if TEST in values[name] and (difference := _difference(train, values[name][TEST], len(features))):
            yield f"{name}: train and test differ ({difference})"


def _of_rows(
    name: str, values: Mapping[str, Values], outcomes: Mapping[str, Values], association: float
) -> Iterator[str]:
    """Yield whether an input names rows, or what rows belong to, and so predicts the outcome."""
    train, outcome = values[TRAIN], outcomes[TRAIN]
    different, first, which, counts = np.unique(
        train[_present(train)], return_index=True, return_inverse=True, return_counts=True
    )
    if len(different) < MANY:
        return
    if train.dtype.kind == "f" and counts.max() == 1 and (different == np.trunc(different)).all():
        everything = np.concatenate([each[_present(each)] for each in values.values()])
        if everything.max() - everything.min() < DENSE * len(everything) and association >= ORDERED:
            yield f"{name} numbers the rows, and tells what is predicted ({association:.2f}): they are in its order"
    if TEST not in values or outcome.dtype.kind == "f" or counts.mean() < 2:
        return
    labels = outcome[_present(train)]
    usual = labels[first]
    same = float((labels == usual[which])[counts[which] > 1].mean())
    both = np.isin(different, values[TEST]).sum()
    if same >= ONE_OUTCOME and 2 * both >= len(different):
        yield (
            f"{name}: {same:.0%} of the rows of a value have one label, and {both:,} of {len(different):,} values are "
            "in train and in test; if rows belong to it, make it source.group: a score on test may be too high"
        )


def _difference(train: Values, test: Values, comparisons: int) -> str:
    """Return in words how two samples differ by more than chance; empty where they do not.

    Numbers by the two-sample Kolmogorov-Smirnov test, categories by the chi-squared test of their counts.
    """
    train, test = train[_present(train)], test[_present(test)]
    if min(len(train), len(test)) < FEW:
        return ""
    if train.dtype.kind == "f":
        result = stats.ks_2samp(train, test)
        if result.statistic > DIFFERENT and result.pvalue < SURE / comparisons:
            return f"Kolmogorov-Smirnov distance {result.statistic:.2f}"
        return ""
    names = np.unique(np.concatenate([train, test]))
    if len(names) < 2:
        return ""
    counts = np.array([[(sample == name).sum() for name in names[:1000]] for sample in (train, test)])
    shares = counts / counts.sum(1, keepdims=True)
    distances = np.abs(shares[0] - shares[1])
    if distances.max() > DIFFERENT and stats.chi2_contingency(counts + 0.5).pvalue < SURE / comparisons:
        furthest = int(distances.argmax())
        return f"{names[furthest]}: {shares[0][furthest]:.0%} and {shares[1][furthest]:.0%}"
    return ""
