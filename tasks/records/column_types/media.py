"""Images and sounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.records.column_types import State, Typed
from tasks.records.column_types.texts import Text
from tasks.records.pixels import NotAnImage, PixelSums, sums
from tasks.sources.encoding import values_of

NONE = PixelSums((0, 0, 0), [], [])
BLOCK = 1 << 16
"""Frames that are decoded at a time."""


class Image(Text):
    """Images: the bytes of an image file, decoded once for their statistics; a missing one has no bytes."""

    kinds = ("image",)

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept the bytes of whole images of at most `max_pixels`, of the feature's shape."""
        if not (pa.types.is_binary(raw.type) or pa.types.is_large_binary(raw.type) or pa.types.is_null(raw.type)):
            values = pa.array([b""] * len(raw), pa.large_binary())
            return Typed(
                values, dict.fromkeys(range(len(raw)), f"{raw.type} is not an image"), _pixel_sums([NONE] * len(raw))
            )
        values, bad, measured = raw.cast(pa.large_binary()).fill_null(b""), {}, []
        given = np.asarray(raw.is_valid())
        for row, payload in enumerate(values_of(values)):
            measured.append(NONE)
            try:
                if given[row]:
                    measured[-1] = sums(payload, max_pixels)
                    self._check_shape(measured[-1].shape)
            except NotAnImage as reason:
                bad[row] = str(reason)
        return Typed(values, bad, _pixel_sums(measured))

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if any(declared not in (-1, size) for declared, size in zip(self.feature.shape, shape, strict=True)):
            raise NotAnImage(f"shape {shape}, not {self.feature.shape}")

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return count, bytes, the number of images of each shape, and the sums of pixels by number of channels."""
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
        return {**super().state(values, measured), "shapes": shapes, "pixels": pixels}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the state, with mean and standard deviation of each channel in place of sums."""
        return {
            **super().summary(state),
            "shapes": dict(sorted(state["shapes"].items())),
            "pixels": {channels: _pixels(total) for channels, total in sorted(state["pixels"].items())},
        }

    def connector(self) -> dict[str, Any]:
        """Describe an `Image`."""
        shape = {"dimensions": [str(size) for size in self.feature.shape]}
        encoding = {"encodingFormat": self.feature.encoding} if self.feature.encoding else {}
        return {
            "pythonClassName": "image_feature.Image",
            "image": {"shape": shape, "dtype": self.feature.dtype, **encoding},
        }


class Audio(Text):
    """Sounds: the bytes of a file, decoded once to see that they are whole; a missing one has no bytes."""

    kinds = ("audio",)

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept the bytes of whole sound files."""
        if not (pa.types.is_binary(raw.type) or pa.types.is_large_binary(raw.type) or pa.types.is_null(raw.type)):
            values = pa.array([b""] * len(raw), pa.large_binary())
            bad = dict.fromkeys(range(len(raw)), f"{raw.type} is not a sound")
            return Typed(values, bad, _frames([(0, 0)] * len(raw)))
        values, bad, measured = raw.cast(pa.large_binary()).fill_null(b""), {}, []
        given = np.asarray(raw.is_valid())
        for row, payload in enumerate(values_of(values)):
            measured.append((0, 0))
            if not given[row]:
                continue
            try:
                measured[-1] = decoded(payload)
            except ValueError as reason:
                bad[row] = str(reason)
        return Typed(values, bad, _frames(measured))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return count, bytes, and for each sampling rate the number of sounds and of frames."""
        frames, rates = (np.asarray(measured[name]) for name in ("frames", "rate"))
        by_rate = {
            str(rate): {"sounds": int((rates == rate).sum()), "frames": int(frames[rates == rate].sum())}
            for rate in np.unique(rates[rates > 0]).tolist()
        }
        return {**super().state(values, measured), "rates": by_rate}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the state, with seconds in place of frames."""
        rates = {
            rate: {"sounds": of_rate["sounds"], "seconds": of_rate["frames"] / int(rate)}
            for rate, of_rate in sorted(state["rates"].items())
        }
        return {**super().summary(state), "rates": rates}


def _pixel_sums(images: list[PixelSums]) -> dict[str, pa.Array]:
    return {
        "shape": pa.array([image.shape for image in images], pa.list_(pa.int64())),
        "sums": pa.array([image.sums for image in images], pa.list_(pa.int64())),
        "squares": pa.array([image.squares for image in images], pa.list_(pa.int64())),
    }


def _pixels(total: State) -> dict[str, Any]:
    """Return mean and standard deviation of each channel, from integer sums."""
    count = total["count"]
    channels = list(zip(total["sum"], total["squares"], strict=True))
    return {
        "mean": [of_channel / count for of_channel, _ in channels],
        "std": [math.sqrt(count * squares - of_channel * of_channel) / count for of_channel, squares in channels],
    }


def decoded(payload: bytes) -> tuple[int, int]:
    """Return frames and sampling rate of a sound; raises `ValueError` where it is not a whole file, or an empty one."""
    import soundfile

    from tasks.reader.sounds import Sound

    try:
        with Sound(payload) as sound:
            frames = sound.counted(BLOCK)
            if sound.length not in (None, frames):
                raise ValueError(f"{frames} frames, and its header says {sound.length}")
            if not frames:
                raise ValueError("no samples")
            return frames, sound.samplerate
    except soundfile.LibsndfileError as error:
        raise ValueError(f"not a sound: {error.error_string}") from None


def _frames(sounds: list[tuple[int, int]]) -> dict[str, pa.Array]:
    frames, rates = zip(*sounds, strict=True) if sounds else ((), ())
    return {"frames": pa.array(frames, pa.int64()), "rate": pa.array(rates, pa.int64())}
