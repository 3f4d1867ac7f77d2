"""Transforms of images to pixels and of sounds to spectrograms."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, model_validator

from tasks.config import task
from tasks.config.base import LATER, LISTED, Conflict
from tasks.reader.values import Values
from tasks.snapshots.transforms.samples import NumberSample
from tasks.snapshots.transforms.transform import Fitted, Fitter, Known, Rows, Transform, no_flag
from tasks.sources.features import Feature

Pixels = Annotated[int, Field(ge=1, le=4096)]


def _ascending(levels: tuple[float, float]) -> tuple[float, float]:
    if not levels[0] < levels[1]:
        raise ValueError("the first of two levels must be the lower one; exchange them")
    return levels


GreyRange = Literal["full", "auto"] | Annotated[tuple[FiniteFloat, FiniteFloat], LISTED, AfterValidator(_ascending)]
"""`full`, `auto`, or the lowest and the highest level of a grey image."""

SHARES = (0.001, 0.999)
"""Shares of the pixels below the levels that become 0 and 255: a few dead or hot pixels do not decide."""
MOST_PIXELS = 1 << 32
"""More than an image has, so that each pixel of the split has a number of its own."""


class Image(Transform, place=5):
    """Images as uint8 [height, width, channels]; normalisation belongs to the model. A missing one is black."""

    reads: ClassVar[tuple[str, ...]] = ("image",)
    usual: ClassVar[bool] = True
    makes: ClassVar[str | None] = task.IMAGE
    alone: ClassVar[bool] = True
    no_graph: ClassVar[str] = "Pillow decodes and resizes its images"

    kind: Literal["image"] = "image"
    """The transform."""

    height: Pixels = 64
    """Rows of pixels; other images are resized (bilinear, antialiased)."""

    width: Pixels = 64
    """Columns of pixels."""

    channels: Annotated[Literal[1, 3], BeforeValidator(no_flag)] = 3
    """1: grey, 3: RGB; other images are converted."""

    fit: Literal["stretch", "crop", "pad"] = "stretch"
    """Handling of other proportions: `stretch` changes them, `crop` keeps the middle, `pad` adds black."""

    range: Annotated[GreyRange, LATER] = "full"
    """Levels of grey images of more than 8 bits (16-bit PNG, TIFF of whole numbers or floats) that become 0 and 255;
    what is outside is clipped, and between them 256 levels are kept. `full`: all 16 bits; `auto`: those between which
    998 of 1,000 pixels of the train split are; or two numbers. Images of 8 bits stay as they are."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return ImageFitter(self)


class LogMel(Transform, place=5):
    """Sounds as the logarithm of their mel spectrogram, float32 [frames, mels]; a missing one is silence."""

    reads: ClassVar[tuple[str, ...]] = ("audio",)
    usual: ClassVar[bool] = True
    makes: ClassVar[str | None] = task.SOUND
    alone: ClassVar[bool] = True
    no_graph: ClassVar[str] = "soundfile decodes its sounds"

    kind: Literal["log_mel"] = "log_mel"
    """The transform."""

    rate: Annotated[int, Field(ge=1000, le=192_000)] = 16_000
    """Samples per second to which sounds are converted; channels are averaged."""

    seconds: Annotated[float, Field(gt=0, le=3600)] = 4.0
    """Length of a sound; a longer one is cut, a shorter one padded with silence."""

    window: Annotated[float, Field(gt=0, le=1)] = 0.025
    """Length of a frame in seconds."""

    hop: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Seconds from the beginning of a frame to that of the next."""

    mels: Annotated[int, Field(ge=1, le=512)] = 64
    """Number of frequency bands."""

    @model_validator(mode="after")
    def frames_fit(self) -> LogMel:
        if self.window > self.seconds:
            raise Conflict("window", self.window, f"is longer than a sound of {self.seconds} s", "make it shorter")
        for name in ("window", "hop"):
            if round(getattr(self, name) * self.rate) < 1 or (name == "window" and round(self.window * self.rate) < 2):
                raise Conflict(name, getattr(self, name), "has no two samples at this rate", "make it longer")
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and mels."""
        window, hop, samples = (round(span * self.rate) for span in (self.window, self.hop, self.seconds))
        return 1 + (samples - window) // hop, self.mels

    def fitter(self, name: str, feature: Feature, folder: Path) -> Known:
        window, hop, samples = (round(span * self.rate) for span in (self.window, self.hop, self.seconds))
        state = {
            "kind": "log_mel",
            "rate": self.rate,
            "seconds": self.seconds,
            "window": window,
            "hop": hop,
            "samples": samples,
            "shape": list(self.shape),
        }
        return Known(Fitted(state, {"dtype": "float32", "shape": list(self.shape)}))


@dataclass
class ImageFitter:
    """Learns the range of levels, where it is `auto`, from a sample of the pixels."""

    config: Image
    sample: NumberSample = field(default_factory=NumberSample)

    @property
    def reads(self) -> bool:
        """Whether it needs values at all."""
        return self.config.range == "auto"

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from the images of some rows; a broken one is named when it is transformed."""
        from tasks.reader.decoding import BROKEN, deep_levels

        for payload, row in zip(values, rows.tolist(), strict=True):
            first = row * MOST_PIXELS
            try:
                for levels in deep_levels(payload) if payload else ():
                    self.sample.add(levels.astype(np.float32), np.arange(first, first + len(levels), dtype=np.int64))
                    first += len(levels)
            except BROKEN:
                continue

    def fitted(self) -> Fitted:
        """Return the transform; where no image has more than 8 bits, it has no range."""
        shape = [self.config.height, self.config.width, self.config.channels]
        chosen = range_of(self.sample) if self.reads else self.config.range
        state = self.config.model_dump(exclude={"range"})
        if chosen is None or isinstance(chosen, str):  # full
            return Fitted(state, {"dtype": "uint8", "shape": shape})
        low, high = chosen
        return Fitted(
            {**state, "range": [low, high]},
            {"dtype": "uint8", "shape": shape},
            summary={"low": low, "high": high} if self.reads else {},
        )


def range_of(sample: NumberSample) -> tuple[float, float] | None:
    """Return the levels between which nearly all pixels of a sample are; None of an empty one."""
    if not len(values := sample.values):
        return None
    low, high = (float(level) for level in np.quantile(values, SHARES))
    return low, max(high, low + 1)  # of one level alone: no division by zero
