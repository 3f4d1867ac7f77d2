"""Statistics of a split, computed while it is written: a mergeable state per shard, as JSON.

Integers (counts, pixels, bytes) are summed exactly and floats by Chan's method in order of shard, so that the result
does not depend on which attempt wrote which shard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tasks.data.features import Example, Feature, Value
from tasks.data.pixels import number_of_pixels, sums
from tasks.data.sources import Unreadable

State = dict[str, Any]
"""The state of a feature; JSON."""

States = dict[str, State]
"""The state of each feature, by name."""


class ShardStatistics:
    """Accumulates the statistics of a shard; `state` is the input of `merged` and `summary`."""

    def __init__(self, features: Mapping[str, Feature], max_pixels: int | None = None) -> None:
        self._features, self._max_pixels = features, max_pixels
        self.state: States = {}

    def pixels(self, example: Example) -> int:
        """Return the number of pixels of an example's images, as their headers name it."""
        images = (name for name, feature in self._features.items() if feature.kind == "image")
        return sum(number_of_pixels(example[name]) for name in images)

    def examine(self, example: Example) -> States:
        """Return the states of an example; raises `Unreadable` where a value does not fit its feature."""
        return {
            name: _state_of(feature, name, example[name], self._max_pixels) for name, feature in self._features.items()
        }

    def merge(self, states: States) -> None:
        """Add the states of an example."""
        for name, state in states.items():
            self.state[name] = _merge(self.state[name], state) if name in self.state else state

    def add(self, example: Example) -> None:
        """Add an example; raises `Unreadable`, and adds nothing, where a value does not fit its feature."""
        self.merge(self.examine(example))


def merged(states: Iterable[States]) -> States:
    """Merge the states of shards."""
    total: States = {}
    for features in states:
        for name, state in features.items():
            total[name] = _merge(total[name], state) if name in total else state
    return total


def summary(features: Mapping[str, Feature], state: States) -> dict[str, Any]:
    """Convert a state for the manifest: means and standard deviations in place of sums, classes by name."""
    return {name: _summary(feature, state[name]) for name, feature in features.items() if name in state}


def _state_of(feature: Feature, name: str, value: Value, max_pixels: int | None) -> State:
    """Return the state of a single value."""
    match feature.kind:
        case "image":
            return _image(feature, name, value, max_pixels)
        case "label":
            return _label(feature, name, value)
        case "number":
            return _numbers(name, value)
        case "bytes":
            return {"count": 1, "bytes": _bytes(name, value)}


def _image(feature: Feature, name: str, value: Value, max_pixels: int | None) -> State:
    size, pixels = _bytes(name, value), sums(name, value, max_pixels)
    if any(declared not in (-1, result) for declared, result in zip(feature.shape, pixels.shape, strict=True)):
        raise Unreadable(f"{name}: shape {pixels.shape}, not {feature.shape}")
    height, width, channels = pixels.shape
    return {
        "count": 1,
        "bytes": size,
        "shapes": {"x".join(map(str, pixels.shape)): 1},
        "pixels": {str(channels): {"count": height * width, "sum": pixels.sums, "squares": pixels.squares}},
    }


def _label(feature: Feature, name: str, value: Value) -> State:
    if isinstance(value, bytes) or not 0 <= int(value) < len(feature.classes or ()):
        raise Unreadable(f"{name}: {value!r} is none of the {len(feature.classes or ())} classes")
    return {"count": 1, "classes": {str(int(value)): 1}}


def _numbers(name: str, value: Value) -> State:
    if isinstance(value, bytes) or not np.isfinite(np.asarray(value)).all():
        raise Unreadable(f"{name}: not a finite number: {value!r}")
    numbers = np.asarray(value, dtype=np.float64).ravel()
    if not numbers.size:
        return {"count": 0, "mean": 0.0}
    mean = float(numbers.mean())
    return {
        "count": numbers.size,
        "min": float(numbers.min()),
        "max": float(numbers.max()),
        "mean": mean,
        "squares": float(((numbers - mean) ** 2).sum()),
    }


def _bytes(name: str, value: Value) -> State:
    if not isinstance(value, bytes):
        raise Unreadable(f"{name}: {type(value).__name__}, not bytes")
    return {"min": len(value), "max": len(value), "sum": len(value)}


def _merge(left: State, right: State) -> State:
    """Merge two states of a feature, each key by its meaning."""
    if "mean" in left:
        return _merge_numbers(left, right)
    total: State = {}
    for key in left.keys() | right.keys():
        if key not in left or key not in right:
            total[key] = left.get(key, right.get(key))
        elif isinstance(left[key], dict):
            total[key] = _merge(left[key], right[key])
        elif isinstance(left[key], list):
            total[key] = [a + b for a, b in zip(left[key], right[key], strict=True)]
        else:
            total[key] = {"min": min, "max": max}.get(key, lambda a, b: a + b)(left[key], right[key])
    return total


def _merge_numbers(left: State, right: State) -> State:
    """Merge means and sums of squared deviations without cancellation (Chan, Golub and LeVeque, 1979)."""
    count = left["count"] + right["count"]
    if not left["count"] or not right["count"]:
        return left if left["count"] else right
    difference = right["mean"] - left["mean"]
    return {
        "count": count,
        "min": min(left["min"], right["min"]),
        "max": max(left["max"], right["max"]),
        "mean": left["mean"] + difference * right["count"] / count,
        "squares": left["squares"]
        + right["squares"]
        + difference * difference * left["count"] * right["count"] / count,
    }


def _summary(feature: Feature, state: State) -> dict[str, Any]:
    result: dict[str, Any] = {"kind": feature.kind, "count": state["count"]}
    if "bytes" in state:
        size = state["bytes"]
        result["bytes"] = {"min": size["min"], "max": size["max"], "mean": size["sum"] / state["count"]}
    if "shapes" in state:
        result["shapes"] = dict(sorted(state["shapes"].items()))
        result["pixels"] = {channels: _pixels(sums) for channels, sums in sorted(state["pixels"].items())}
    if "classes" in state:
        result["classes"] = {
            name: state["classes"].get(str(number), 0) for number, name in enumerate(feature.classes or ())
        }
    if "mean" in state and state["count"]:
        result |= {key: state[key] for key in ("min", "max", "mean")}
        result["std"] = math.sqrt(state["squares"] / state["count"])
    return result


def _pixels(sums: State) -> dict[str, Any]:
    """Return mean and standard deviation of each channel, from integer sums."""
    count = sums["count"]
    channels = list(zip(sums["sum"], sums["squares"], strict=True))
    return {
        "mean": [total / count for total, _ in channels],
        "std": [math.sqrt(count * squares - total * total) / count for total, squares in channels],
    }
