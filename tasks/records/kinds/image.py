"""Images: the bytes of an image file, decoded once for their statistics; a missing one has no bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.records.kinds import State, Typed, merge_by_key, text
from tasks.records.pixels import NotAnImage, PixelSums, sums
from tasks.sources.encoding import Encoded, bytes_entry, values_of
from tasks.sources.features import Feature

TYPE = pa.large_binary()
NONE = PixelSums((0, 0, 0), [], [])


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept the bytes of whole images of at most `max_pixels`, of the feature's shape."""
    if not (pa.types.is_binary(raw.type) or pa.types.is_large_binary(raw.type) or pa.types.is_null(raw.type)):
        values = pa.array([b""] * len(raw), TYPE)
        return Typed(
            values, dict.fromkeys(range(len(raw)), f"{raw.type} is not an image"), _measured([NONE] * len(raw))
        )
    values, bad, measured = raw.cast(TYPE).fill_null(b""), {}, []
    given = np.asarray(raw.is_valid())
    for row, payload in enumerate(values_of(values)):
        measured.append(NONE)
        try:
            if given[row]:
                measured[-1] = sums(payload, max_pixels)
                _check_shape(feature, measured[-1].shape)
        except NotAnImage as reason:
            bad[row] = str(reason)
    return Typed(values, bad, _measured(measured))


def _check_shape(feature: Feature, shape: tuple[int, ...]) -> None:
    if any(declared not in (-1, size) for declared, size in zip(feature.shape, shape, strict=True)):
        raise NotAnImage(f"shape {shape}, not {feature.shape}")


def _measured(images: list[PixelSums]) -> dict[str, pa.Array]:
    return {
        "shape": pa.array([image.shape for image in images], pa.list_(pa.int64())),
        "sums": pa.array([image.sums for image in images], pa.list_(pa.int64())),
        "squares": pa.array([image.squares for image in images], pa.list_(pa.int64())),
    }


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which images have no bytes."""
    return text.missing(feature, values)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return a `bytes_list` of one image."""
    return bytes_entry(name, values)


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return count, bytes, the number of images of each shape, and the sums of pixels by number of channels."""
    absent = int(np.asarray(missing(feature, values)).sum())
    shapes: dict[str, int] = {}
    pixels: dict[str, dict[str, Any]] = {}
    columns = (measured[name].to_pylist() for name in ("shape", "sums", "squares"))
    for shape, total, squares in zip(*columns, strict=True):
        if not total:
            continue
        height, width, channels = shape
        name = "x".join(map(str, shape))
        shapes[name] = shapes.get(name, 0) + 1
        zeros = {"count": 0, "sum": [0] * channels, "squares": [0] * channels}
        of_channels = pixels.setdefault(str(channels), zeros)
        of_channels["count"] += height * width
        of_channels["sum"] = [a + b for a, b in zip(of_channels["sum"], total, strict=True)]
        of_channels["squares"] = [a + b for a, b in zip(of_channels["squares"], squares, strict=True)]
    return {"missing": absent, **text.sizes(values), "shapes": shapes, "pixels": pixels}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the state, with mean and standard deviation of each channel in place of sums."""
    return {
        **text.summary(feature, state),
        "shapes": dict(sorted(state["shapes"].items())),
        "pixels": {channels: _pixels(total) for channels, total in sorted(state["pixels"].items())},
    }


def _pixels(total: State) -> dict[str, Any]:
    """Return mean and standard deviation of each channel, from integer sums."""
    count = total["count"]
    channels = list(zip(total["sum"], total["squares"], strict=True))
    return {
        "mean": [of_channel / count for of_channel, _ in channels],
        "std": [math.sqrt(count * squares - of_channel * of_channel) / count for of_channel, squares in channels],
    }


def connector(feature: Feature) -> dict[str, Any]:
    """Describe an `Image`."""
    shape = {"dimensions": [str(size) for size in feature.shape]}
    encoding = {"encodingFormat": feature.encoding} if feature.encoding else {}
    return {"pythonClassName": "image_feature.Image", "image": {"shape": shape, "dtype": feature.dtype, **encoding}}
