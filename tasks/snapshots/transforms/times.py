"""The transform of times to the numbers of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field, model_validator

from tasks.config.base import LISTED, Conflict
from tasks.reader.time_parts import PERIODS, names_of, on_circle, parts_of
from tasks.reader.values import NO_TIME, Values
from tasks.snapshots.transforms import NUMBERS, Fitted, Fitter, Rows, Transform
from tasks.snapshots.transforms.graphs import Graph
from tasks.snapshots.transforms.numbers import AS_IT_IS, indicated
from tasks.snapshots.transforms.statistics import Moments
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf

Part = Literal["year", "month", "day", "weekday", "hour"]

HOUR, DAY = 3_600_000_000, 86_400_000_000
"""In microseconds."""


class TimeParts(Transform, place=3):
    """Numbers of a time in UTC, of which the model standardises those that are not on a circle."""

    reads: ClassVar[tuple[str, ...]] = ("time",)
    usual: ClassVar[bool] = True

    kind: Literal["time_parts"] = "time_parts"
    """The transform."""

    parts: Annotated[tuple[Part, ...], LISTED, Field(min_length=1)] = get_args(Part)
    """Which numbers: `year`, `month`, `day` (of the month), `weekday` (0 is Monday), `hour`."""

    cyclical: bool = False
    """Whether all but the year become sine and cosine of their place on a circle: December is next to January."""

    indicator: Literal["auto"] | bool = "auto"
    """Whether a further number `NAME.missing` is 1 where the time is missing and 0 elsewhere; `auto`: where the train
    split has a missing one. Parts of a missing time are the train split's means."""

    @model_validator(mode="after")
    def parts_differ(self) -> TimeParts:
        if len(set(self.parts)) < len(self.parts):
            raise Conflict("parts", list(self.parts), "must differ", "name each part once")
        return self

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return TimeFitter(name, self)

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph:
        import tensorflow as tf

        state = states[0]
        fill = np.array([each["fill"] for each in states], np.float32)

        def numbers_of(part: str, found: tf.Tensor) -> list[tf.Tensor]:
            if not (state["cyclical"] and part in PERIODS):
                return [tf.cast(found, tf.float32)]
            first, period = PERIODS[part]
            places = on_circle(np.arange(first, first + period, dtype=np.float64), part)
            return [tf.gather(place.astype(np.float32), found - first) for place in places]

        def apply(times: tf.Tensor) -> tf.Tensor:
            missing = (times == NO_TIME)[..., tf.newaxis]
            found = calendar(tf.where(times == NO_TIME, tf.zeros_like(times), times))
            numbers = tf.stack([number for part in state["parts"] for number in numbers_of(part, found[part])], axis=2)
            filled = tf.where(missing, fill, numbers)
            return tf.concat([filled, tf.cast(missing, tf.float32)], axis=2) if state["indicator"] else filled

        return apply


class TimeFitter:
    """Learns the moments of the parts of times."""

    reads = True

    def __init__(self, name: str, config: TimeParts) -> None:
        self._name, self._config = name, config
        self._parts: list[str] = list(config.parts)
        self._names = names_of(self._parts, config.cyclical)
        self._moments, self._rows = Moments((len(self._names),)), 0

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from int64 [rows], microseconds since 1970."""
        parts = parts_of(values, self._parts, self._config.cyclical)
        self._moments.add(np.where((values == NO_TIME)[:, None], np.nan, parts))
        self._rows += len(values)

    def fitted(self) -> Fitted:
        """Return the transform."""
        missing = self._rows - self._moments.count
        fill = self._moments.mean.astype(np.float32).astype(np.float64)
        indicator = indicated(self._config.indicator, float(missing[0]))
        state = {
            "kind": "time_parts",
            "parts": self._parts,
            "cyclical": self._config.cyclical,
            "fill": fill.tolist(),
            "indicator": indicator,
        }
        filled = self._moments.filled(fill, missing).as_json()
        names = [*self._names, *(["missing"] if indicator else [])]
        feature: dict[str, Any] = {"names": [f"{self._name}.{part}" for part in names]}
        for key, as_it_is in AS_IT_IS.items():
            own = [value if name in self._parts else as_it_is for name, value in zip(names, filled[key], strict=False)]
            feature[key] = [*own, *([as_it_is] if indicator else [])]
        return Fitted(state, feature, NUMBERS)


def calendar(times: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return the parts of times in UTC, int64 microseconds since 1970, in the proleptic Gregorian calendar.

    Years begin in March, so that a leap day is the last one (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    """
    days, time_of_day = times // DAY, times % DAY
    since = days + 719_468  # 1 March of the year 0
    era, day_of_era = since // 146_097, since % 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    return {
        "year": year_of_era + era * 400 + month // 10,
        "month": (month + 2) % 12 + 1,
        "day": day_of_year - (153 * month + 2) // 5 + 1,
        "weekday": (days + 3) % 7,
        "hour": time_of_day // HOUR,
    }
