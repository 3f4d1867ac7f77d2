"""Transforms of numbers: as they are, in logarithms, as ranks or as intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from tasks.config.base import LISTED, Conflict, Section
from tasks.reader.numbers import OUTPUTS, signed
from tasks.reader.values import Values
from tasks.snapshots.transforms import CATEGORIES, NUMBERS, Fitted, Fitter, Known, Rows, Transform, no_flag
from tasks.snapshots.transforms.graphs import STEP, Graph, filling, frexp, stacked
from tasks.snapshots.transforms.statistics import Moments, NumberSample
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf

AS_IT_IS = {"mean": 0.0, "variance": 1.0}
"""Mean and variance of a number that the model does not standardise."""


class Missing(Section):
    """What stands in the place of a missing number."""

    fill: Annotated[Literal["mean", "median", "zero"] | float, BeforeValidator(no_flag)] = "mean"
    """The number in its place: `mean` or `median` of the train split, `zero`, or a number. Of an array of numbers each
    value has its own mean."""

    indicator: Literal["auto"] | bool = "auto"
    """Whether a further number `NAME.missing` is 1 where it is missing and 0 elsewhere; `auto`: where the train split
    has a missing one. Arrays of numbers have none."""


class NumberTransform(Transform, place=1):
    """A transform of numbers."""

    reads: ClassVar[tuple[str, ...]] = ("number",)

    missing: Missing = Missing()
    """What fills a missing number, and whether the model has an input that says so."""

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph:
        return filling(states, lambda numbers: numbers)


class Standardise(NumberTransform):
    """Numbers as they are, which the model standardises by the train split's mean and variance."""

    reads_arrays: ClassVar[bool] = True
    usual: ClassVar[bool] = True

    kind: Literal["standardise"] = "standardise"
    """The transform."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return NumberFitter(name, feature, self)


class Log(NumberTransform):
    """sign(x) log(1 + |x|), which the model standardises by the train split's mean and variance; of amounts, counts."""

    reads_arrays: ClassVar[bool] = True

    kind: Literal["log"] = "log"
    """The transform."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return NumberFitter(name, feature, self, signed)

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph:
        import tensorflow as tf

        return filling(states, lambda numbers: signed(numbers, tf, frexp))


class Keep(NumberTransform):
    """Numbers as they are, for the model too."""

    reads_arrays: ClassVar[bool] = True
    makes: ClassVar[str | None] = None

    kind: Literal["keep"] = "keep"
    """The transform."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return NumberFitter(name, feature, self, standardised=False)


class Quantile(NumberTransform):
    """The rank of a number in the train split: robust to outliers and to any scale."""

    kind: Literal["quantile"] = "quantile"
    """The transform."""

    quantiles: Annotated[int, Field(ge=2, le=10_000)] = 1000
    """Number of quantiles of the train split, between which ranks are interpolated."""

    output: Literal["normal", "uniform"] = "normal"
    """`uniform`: the rank in [0, 1]; `normal`: the quantile of the standard normal distribution at that rank."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return QuantileFitter(name, feature, self, standardised=False)

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph:
        import tensorflow as tf

        values, levels = (
            stacked([state["values"] for state in states], np.inf),
            stacked([state["levels"] for state in states], 0),
        )
        slopes = stacked([np.diff(state["levels"]) / np.diff(state["values"]) for state in states], 0)

        def change(numbers: tf.Tensor) -> tf.Tensor:
            inside = tf.transpose(tf.maximum(numbers, values[:, 0]))  # above the last value the slope is 0
            place = tf.raw_ops.UpperBound(sorted_inputs=values, values=inside) - 1
            slope, value, level = (tf.gather(table, place, batch_dims=1) for table in (slopes, values, levels))
            return OUTPUTS[states[0]["output"]](tf.transpose(slope * (inside - value) + level), tf, frexp)

        return filling(states, change)


class Bucketize(Transform, place=1):
    """The number of the interval that holds a number, as a category; a missing number is a category of its own."""

    reads: ClassVar[tuple[str, ...]] = ("number",)

    kind: Literal["bucketize"] = "bucketize"
    """The transform."""

    buckets: Annotated[int, Field(ge=2, le=10_000)] = 10
    """Number of intervals that hold about equally many examples of the train split; fewer where values repeat."""

    boundaries: Annotated[tuple[float, ...], LISTED] = ()
    """Where the intervals begin, ascending, in place of those of the train split."""

    @model_validator(mode="after")
    def boundaries_ascend(self) -> Bucketize:
        if self.boundaries and self.buckets != type(self).model_fields["buckets"].default:
            raise Conflict("buckets", self.buckets, "is ignored where boundaries are given", "leave one of them out")
        if any(low >= high for low, high in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise Conflict("boundaries", list(self.boundaries), "must ascend", "sort them, each once")
        return self

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return Known(_intervals(name, list(self.boundaries))) if self.boundaries else BucketFitter(name, self.buckets)

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph:
        exact = stacked([state["boundaries"] for state in states], np.inf)
        # No float32 but 0 is nearer to 0 than a step, while TensorFlow would take a subnormal boundary for 0.
        boundaries = np.where(np.abs(exact) < STEP, np.where(exact > 0, STEP, 0.0), exact)

        def apply(numbers: tf.Tensor) -> tf.Tensor:
            import tensorflow as tf

            ids = 1 + tf.transpose(tf.raw_ops.UpperBound(sorted_inputs=boundaries, values=tf.transpose(numbers)))
            return tf.where(tf.math.is_nan(numbers), 0, ids)[..., tf.newaxis]

        return apply


def indicated(setting: Literal["auto"] | bool, missing: float) -> bool:
    """Return whether a column has an indicator, with this number of missing values."""
    return missing > 0 if setting == "auto" else bool(setting)


def shares(name: str, moments: Moments, indicator: bool, standardised: bool = True) -> dict[str, Any]:
    """Return the feature of a number, and of its indicator, which the model takes as they are."""
    own = moments.as_json() if standardised else {key: [value] for key, value in AS_IT_IS.items()}
    if not indicator:
        return {"names": [name], **own}
    return {"names": [name, f"{name}.missing"], **{key: [*own[key], value] for key, value in AS_IT_IS.items()}}


class NumberFitter:
    """Learns moments before and after the change of a transform, and a sample where quantiles are needed."""

    reads = True

    def __init__(
        self,
        name: str,
        feature: Feature,
        config: NumberTransform,
        change: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
        standardised: bool = True,
    ) -> None:
        """Create one of a column.

        Args:
            change: what the transform does with a number, where `standardised` needs the moments after it.
            standardised: whether the model standardises the result.
        """
        self.name, self.feature, self.config = name, feature, config
        self._change, self._standardised = change, standardised
        self._rows = 0
        self._before, self._after = Moments(feature.shape), Moments(feature.shape)
        self.sample = NumberSample()
        self._sampled = config.missing.fill == "median" or isinstance(config, Quantile)

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from float32 [rows, *shape]."""
        self._rows += len(values)
        self._before.add(values)
        if self._change is not None:
            self._after.add(self._change(values.astype(np.float64)))
        if self._sampled:
            self.sample.add(values, rows)

    def fitted(self) -> Fitted:
        """Return the transform."""
        return self.finish({})

    def finish(self, more: dict[str, Any]) -> Fitted:
        """Return the transform with more state."""
        missing = self._rows - self._before.count
        fill = np.broadcast_to(np.float32(self._fill()), self.feature.shape).astype(np.float64)
        indicator = not self.feature.shape and indicated(self.config.missing.indicator, float(missing))
        state = {
            "kind": self.config.kind,
            "shape": list(self.feature.shape),
            "fill": fill.ravel().tolist() if self.feature.shape else float(fill),
            "indicator": indicator,
            **more,
        }
        moments = self._before.filled(fill, missing)
        if self._change is not None:
            moments = self._after.filled(self._change(fill), missing)
        if not self.feature.shape:
            return Fitted(state, shares(self.name, moments, indicator, self._standardised), NUMBERS)
        own: dict[str, Any] = {"dtype": "float32", "shape": list(self.feature.shape)}
        if self.feature.names is not None:
            own["names"] = list(self.feature.names)
        return Fitted(state, {**own, **moments.of_last_axis().as_json()} if self._standardised else own)

    def _fill(self) -> Any:
        fill = self.config.missing.fill
        if fill == "median":
            values = self.sample.values
            return np.median(values) if len(values) else 0.0
        return self._before.mean if fill == "mean" else 0.0 if fill == "zero" else fill


class QuantileFitter(NumberFitter):
    """Learns quantiles, each value once with the mean of its ranks."""

    config: Quantile

    def fitted(self) -> Fitted:
        """Return the transform."""
        values, levels = ranks(self.sample.values, self.config.quantiles)
        return self.finish({"values": values.tolist(), "levels": levels.tolist(), "output": self.config.output})


def ranks(sample: NDArray[np.float64], quantiles: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return strictly ascending values and their ranks in [0, 1], at most `quantiles` of them."""
    if not len(sample):
        return np.zeros(1), np.full(1, 0.5)
    levels = np.linspace(0, 1, min(quantiles, max(2, len(sample))))
    values, place = np.unique(np.quantile(sample, levels), return_inverse=True)
    return values, np.bincount(place, levels) / np.bincount(place)


class BucketFitter:
    """Learns boundaries between intervals of about equally many rows."""

    reads = True

    def __init__(self, name: str, buckets: int) -> None:
        self._name, self._buckets, self._sample = name, buckets, NumberSample()

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from float32 [rows]."""
        self._sample.add(values, rows)

    def fitted(self) -> Fitted:
        """Return the transform."""
        values = self._sample.values
        inner = np.linspace(0, 1, self._buckets + 1)[1:-1]
        # A boundary at the smallest value would have nothing below it.
        boundaries = np.unique(np.quantile(values, inner)) if len(values) else np.empty(0)
        return _intervals(self._name, boundaries[boundaries > values[0]].tolist() if len(values) else [])


def _intervals(name: str, boundaries: list[float]) -> Fitted:
    state = {"kind": "bucketize", "boundaries": boundaries}
    size = len(boundaries) + 2
    return Fitted(state, {"names": [name], "sizes": [size]}, CATEGORIES, {"size": size})
