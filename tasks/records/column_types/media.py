"""Images and sounds, decoded once to see that they are whole.

Pillow holds 4 bytes for a pixel of a decoded colour image; no second copy of it is made.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import pyarrow as pa
from numpy.typing import NDArray

from tasks.reader.image import BROKEN, SIXTEEN_BITS, is_transparent, strips
from tasks.records.column_types import State, Typed
from tasks.records.column_types.texts import Text
from tasks.sources.encoding import values_of
from tasks.sources.values import is_octets

PIL.Image.MAX_IMAGE_PIXELS = None  # `records.max_pixels` is the limit

PIXEL_MODES = ("L", "LA", "RGB", "RGBA", *SIXTEEN_BITS)
"""Pillow modes whose values are pixels, unlike a palette's; of PNG with a transparent level or colour that one too."""
BLOCK = 1 << 16
"""Frames that are decoded at a time."""


class NotAnImage(ValueError):
    """The reason why bytes are not an image that can be used."""


@dataclass(frozen=True)
class PixelSums:
    """Shape [height, width, channels] of an image; for each channel the sum of the values and of their squares."""

    shape: tuple[int, int, int] = (0, 0, 0)
    sums: list[int] = field(default_factory=list)
    squares: list[int] = field(default_factory=list)


class Media(Text):
    """Files, of which each is decoded once for its statistics; a missing one has no bytes."""

    kinds: ClassVar[tuple[str, ...]] = ()
    noun: ClassVar[str]
    """What a value is, with its article."""

    nothing: ClassVar[Any]
    """The figures of a missing file."""

    def figures(self, payload: bytes, max_pixels: int) -> Any:
        """Return what statistics need of a file; raises `ValueError` where it is not a whole one."""
        raise NotImplementedError

    def columns(self, figures: list[Any]) -> dict[str, pa.Array]:
        """Return the figures of files as columns, by short name."""
        raise NotImplementedError

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept the bytes of whole files; of images those of at most `max_pixels`, and of the feature's shape."""
        bad: dict[int, str] = {}
        if not (is_octets(raw.type) or pa.types.is_null(raw.type)):
            bad = dict.fromkeys(range(len(raw)), f"{raw.type} is not {self.noun}")
            raw = pa.nulls(len(raw))
        values, figures = raw.cast(pa.large_binary()).fill_null(b""), [self.nothing] * len(raw)
        given = np.asarray(raw.is_valid())
        for row, payload in enumerate(values_of(values)):
            if given[row]:
                try:
                    figures[row] = self.figures(payload, max_pixels)
                except ValueError as reason:
                    bad[row] = str(reason)
        return Typed(values, bad, self.columns(figures))


class Image(Media):
    """Images: the bytes of an image file; a missing one has none."""

    kinds = ("image",)
    noun = "an image"
    nothing = PixelSums()

    def figures(self, payload: bytes, max_pixels: int) -> PixelSums:
        """Return the sums over its pixels."""
        found = pixel_sums(payload, max_pixels)
        if any(declared not in (-1, size) for declared, size in zip(self.feature.shape, found.shape, strict=True)):
            raise NotAnImage(f"shape {found.shape}, not {self.feature.shape}")
        return found

    def columns(self, figures: list[PixelSums]) -> dict[str, pa.Array]:
        """Return shapes, sums and squares."""
        lists = pa.list_(pa.int64())
        names = ("shape", "sums", "squares")
        return {name: pa.array([getattr(each, name) for each in figures], lists) for name in names}

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


class Audio(Media):
    """Sounds: the bytes of a file, decoded once to see that it is whole; a missing one has none."""

    kinds = ("audio",)
    noun = "a sound"
    nothing = (0, 0)

    def figures(self, payload: bytes, max_pixels: int) -> tuple[int, int]:
        """Return frames and sampling rate."""
        return decoded(payload)

    def columns(self, figures: list[tuple[int, int]]) -> dict[str, pa.Array]:
        """Return frames and rates."""
        return {
            name: pa.array([each[at] for each in figures], pa.int64()) for at, name in enumerate(("frames", "rate"))
        }

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

    from tasks.reader.log_mel import Sound

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


def pixel_sums(payload: bytes, max_pixels: int) -> PixelSums:
    """Decode an image and sum over its pixels; raises `NotAnImage` for a broken one, and one of too many pixels."""
    try:
        with PIL.Image.open(io.BytesIO(payload)) as image:
            if (count := image.width * image.height) > max_pixels:
                shape = f"{image.width:,} x {image.height:,} = {count:,} pixels"
                raise NotAnImage(f"{shape}; records.max_pixels is {max_pixels:,}")
            colours = "RGBA" if is_transparent(image) else "RGB"
            known = image.mode in PIXEL_MODES and image.mode != "RGBA"
            return _sums(image, image.mode if known else colours)
    except BROKEN as error:
        if isinstance(error, NotAnImage):
            raise
        saw = "not an image" if isinstance(error, PIL.UnidentifiedImageError) else f"not a whole image: {error}"
        raise NotAnImage(saw) from error


def _sums(image: PIL.Image.Image, mode: str) -> PixelSums:
    """Return the sums over an image after its conversion to a mode."""
    channels = len(PIL.Image.new(mode, (1, 1)).getbands())
    levels = 65_536 if mode in SIXTEEN_BITS else 256
    counts = np.zeros((channels, levels), np.int64)
    for _, strip in strips(image):
        counts += _histogram(strip if strip.mode == mode else strip.convert(mode), levels).reshape(channels, levels)
    values = np.arange(levels, dtype=np.int64)
    shape = (image.height, image.width, channels)
    return PixelSums(shape, (counts @ values).tolist(), (counts @ (values * values)).tolist())


def _histogram(strip: PIL.Image.Image, levels: int) -> NDArray[np.int64]:
    if levels == 256:
        return np.array(strip.histogram(), np.int64)
    return np.bincount(np.clip(np.asarray(strip, np.int64), 0, levels - 1).ravel(), minlength=levels)
