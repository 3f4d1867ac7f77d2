"""Augmentations: random changes of training examples when they are read, functions of (seed, epoch, row).

A class a kind, with its settings and the change. Pillow and SciPy are imported by the process that changes examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import LISTED, Conflict
from tasks.config.kinds import Kind, any_of
from tasks.config.task import IMAGE, SOUND, TOKENS
from tasks.draws import Draws
from tasks.reader.tokens import PADDING

Text = Annotated[str, StringConstraints(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Extent = Annotated[int, Field(ge=1, le=4096)]
Bounds = Annotated[tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], LISTED]

GREY = 128
"""Value of pixels that are covered."""
LUMA = np.array([299, 587, 114], np.int64)
"""Weights of red, green and blue in grey, in thousandths (ITU-R BT.601)."""

Values = NDArray[Any]
Shares = NDArray[np.float32]


class Augmentation(Kind):
    """A random change of an input; every example has its own draw in every epoch."""

    reads: ClassVar[tuple[str, ...]] = (IMAGE,)
    """The kinds of inputs that it changes."""
    mixes: ClassVar[bool] = False
    """Whether it mixes two examples and their labels."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Packages that decide its bytes."""

    input: Text | None = None
    """The input that is changed; default: the only one of its kind."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        """Return changed values of some examples, first axis the example, of the same dtype and shape.

        Args:
            feature: what the snapshot says of the input.
        """
        raise NotImplementedError

    def mix(self, values: Values, others: Values, draws: Draws) -> tuple[Values, Shares]:
        """Return values mixed with those of other examples, and the share of the other, [n]; of one that `mixes`."""
        raise NotImplementedError


class Flip(Augmentation):
    """Mirrors images."""

    kind: Literal["flip"] = "flip"
    """The change."""

    axis: Literal["horizontal", "vertical"] = "horizontal"
    """`horizontal` exchanges left and right, `vertical` top and bottom."""

    share: Share = 0.5
    """Share of the examples that are mirrored."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        axis = 2 if self.axis == "horizontal" else 1
        chosen = draws.uniform(0) < self.share
        changed = values.copy()
        changed[chosen] = values[chosen].take(range(values.shape[axis] - 1, -1, -1), axis)
        return changed


class Crop(Augmentation):
    """Moves images by a random number of pixels in each direction (He et al., arXiv 1512.03385)."""

    kind: Literal["crop"] = "crop"
    """The change."""

    padding: Extent = 4
    """Pixels in each direction, at most."""

    fill: Literal["zero", "edge"] = "zero"
    """What stands where the image has moved away: 0, or the pixels of its edge."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        border = self.padding
        mode: Any = {"zero": "constant", "edge": "edge"}[self.fill]
        height, width = values.shape[1:3]
        padded = np.pad(values, ((0, 0), (border, border), (border, border), (0, 0)), mode)
        tops, lefts = (draws.integers(number, 2 * border + 1) for number in (0, 1))
        changed = np.empty_like(values)
        for image, (top, left) in enumerate(zip(tops.tolist(), lefts.tolist(), strict=True)):
            changed[image] = padded[image, top : top + height, left : left + width]
        return changed


class ResizedCrop(Augmentation):
    """Cuts out a random rectangle and resizes it to the image's size (Szegedy et al., arXiv 1409.4842)."""

    libraries: ClassVar[tuple[str, ...]] = ("pillow",)

    kind: Literal["resized_crop"] = "resized_crop"
    """The change."""

    area: Bounds = (0.5, 1.0)
    """Smallest and largest share of the image's area."""

    ratio: Bounds = (0.75, 1.3333)
    """Smallest and largest ratio of width to height, in units of the image's own."""

    @model_validator(mode="after")
    def bounds_are_in_order(self) -> ResizedCrop:
        for name in ("area", "ratio"):
            low, high = getattr(self, name)
            if low > high:
                raise Conflict(name, [low, high], "the smallest comes first", "exchange them")
        if self.area[1] > 1:
            raise Conflict("area", self.area[1], "is a share of the image's area", "use at most 1")
        return self

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        from PIL import Image

        from tasks.feed.image_operations import as_image, as_pixels

        low, high = (math.log(bound) for bound in self.ratio)
        height, width = values.shape[1:3]
        areas = draws.between(0, *self.area)
        ratios = np.exp(draws.between(1, low, high))  # as likely wide as tall
        widths = np.clip(np.rint(width * np.sqrt(areas * ratios)), 1, width)
        heights = np.clip(np.rint(height * np.sqrt(areas / ratios)), 1, height)
        lefts = draws.integers(2, (width - widths + 1).astype(np.int64))
        tops = draws.integers(3, (height - heights + 1).astype(np.int64))
        boxes = np.stack([lefts, tops, lefts + widths, tops + heights], axis=1).tolist()
        changed = np.empty_like(values)
        for number, box in enumerate(boxes):
            image = as_image(values[number])
            changed[number] = as_pixels(image.resize((width, height), Image.Resampling.BILINEAR, tuple(box)))
        return changed


class Colour(Augmentation):
    """Changes brightness, contrast and saturation, each by a random factor."""

    kind: Literal["colour"] = "colour"
    """The change."""

    brightness: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Largest relative change of the pixels' values."""

    contrast: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Largest relative change of the differences from the image's mean."""

    saturation: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Largest relative change of the differences from grey; without effect on grey images."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        def factors(number: int, most: float) -> Values:
            return draws.between(number, 1 - most, 1 + most).astype(np.float32)[:, None, None, None]

        changed = values.astype(np.float32)
        if self.brightness:
            changed *= factors(0, self.brightness)
        if self.contrast:
            # A sum of integers does not depend on its order.
            pixels = values.shape[1] * values.shape[2]
            mean = (_grey(np.rint(changed)).sum(axis=(1, 2)) / np.float64(1000 * pixels)).astype(np.float32)
            mean = mean[:, None, None, None]
            changed = mean + (changed - mean) * factors(1, self.contrast)
        if self.saturation and values.shape[3] == 3:
            grey = (_grey(np.rint(changed)) / np.float64(1000)).astype(np.float32)[..., None]
            changed = grey + (changed - grey) * factors(2, self.saturation)
        return np.clip(np.rint(changed), 0, 255).astype(np.uint8)


class RandAugment(Augmentation):
    """Applies random operations of a fixed list of 14 (Cubuk et al., arXiv 1909.13719)."""

    libraries: ClassVar[tuple[str, ...]] = ("pillow",)

    kind: Literal["rand_augment"] = "rand_augment"
    """The change."""

    operations: Annotated[int, Field(ge=1, le=10)] = 2
    """Operations, one after the other."""

    magnitude: Annotated[float, Field(ge=0, le=10)] = 5.0
    """Strength of each: 10 is a rotation by 30 degrees, a shear by 0.3, a move by 45 % of the size, a factor of 1.9."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        from tasks.feed.image_operations import OPERATIONS, as_image, as_pixels

        operations, strength = list(OPERATIONS.values()), self.magnitude / 10
        words = range(self.operations)
        chosen = np.stack([draws.integers(2 * number, len(operations)) for number in words], axis=1).tolist()
        signs = np.stack([1 - 2 * draws.integers(2 * number + 1, 2) for number in words], axis=1).tolist()
        changed = np.empty_like(values)
        for number, (which, directions) in enumerate(zip(chosen, signs, strict=True)):
            image = as_image(values[number])
            for index, direction in zip(which, directions, strict=True):
                image = operations[index](image, strength, direction)
            changed[number] = as_pixels(image)
        return changed


class Cutout(Augmentation):
    """Covers a square at a random place in grey (DeVries and Taylor, arXiv 1708.04552)."""

    kind: Literal["cutout"] = "cutout"
    """The change."""

    size: Extent = 8
    """Side of the square in pixels; it may reach over the edge."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        height, width = values.shape[1:3]
        tops = draws.integers(0, height) - self.size // 2  # the centre is within the image
        lefts = draws.integers(1, width) - self.size // 2
        covered = _within(tops, self.size, height)[:, :, None] & _within(lefts, self.size, width)[:, None, :]
        return np.where(covered[..., None], np.uint8(GREY), values)


class Noise(Augmentation):
    """Adds normal noise, independent at each value."""

    reads: ClassVar[tuple[str, ...]] = (IMAGE, SOUND)

    kind: Literal["noise"] = "noise"
    """The change."""

    deviation: Annotated[float, Field(gt=0)] = 0.1
    """Standard deviation: of images as a share of the range of 0 to 255, of sounds in the logarithm of power."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        noise = draws.normal(0, math.prod(values.shape[1:])).reshape(values.shape)
        if values.dtype == np.uint8:
            changed = values + noise * np.float32(255 * self.deviation)
            return np.clip(np.rint(changed), 0, 255).astype(np.uint8)
        return values + noise * np.float32(self.deviation)


class TimeMask(Augmentation):
    """Replaces random spans of a sound's time by its mean in each band (Park et al., arXiv 1904.08779)."""

    reads: ClassVar[tuple[str, ...]] = (SOUND,)

    kind: Literal["time_mask"] = "time_mask"
    """The change."""

    width: Extent = 10
    """Frames of a span, at most."""

    spans: Annotated[int, Field(ge=1, le=20)] = 2
    """Number of spans."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        return _masked(values, draws, 1, self.width, self.spans)


class BandMask(Augmentation):
    """Replaces random spans of a sound's bands by their mean (Park et al., arXiv 1904.08779)."""

    reads: ClassVar[tuple[str, ...]] = (SOUND,)

    kind: Literal["band_mask"] = "band_mask"
    """The change."""

    width: Extent = 8
    """Bands of a span, at most."""

    spans: Annotated[int, Field(ge=1, le=20)] = 2
    """Number of spans."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        return _masked(values, draws, 2, self.width, self.spans)


class TokenDropout(Augmentation):
    """Replaces random tokens of a text by padding, which the model ignores (Iyyer et al., ACL 2015)."""

    reads: ClassVar[tuple[str, ...]] = (TOKENS,)

    kind: Literal["token_dropout"] = "token_dropout"
    """The change."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Probability of each token."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        limit, lost = np.uint64(int(self.share * 2**32)), feature.get("unknown", PADDING)
        length = values.shape[1]
        words = draws.words(0, -(-length // 2)).astype("<u8").view("<u4")[:, :length]
        return np.where((words < limit) & (values != PADDING), values.dtype.type(lost), values)


class Mixup(Augmentation):
    """Mixes each example and its label or targets with those of another one (Zhang et al., arXiv 1710.09412)."""

    reads: ClassVar[tuple[str, ...]] = (IMAGE, SOUND)
    mixes: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)

    kind: Literal["mixup"] = "mixup"
    """The change."""

    alpha: Annotated[float, Field(gt=0, le=100)] = 0.2
    """Both parameters of the Beta distribution of the mixture; the greater part is the example's own."""

    def mix(self, values: Values, others: Values, draws: Draws) -> tuple[Values, Shares]:
        shares = _smaller_part(draws.words(0)[:, 0], self.alpha)
        of_other = shares.reshape(-1, *[1] * (values.ndim - 1))
        mixed = values + (others.astype(np.float32) - values) * of_other
        return (np.rint(mixed) if values.dtype == np.uint8 else mixed).astype(values.dtype), shares


class Cutmix(Augmentation):
    """Covers a rectangle with that of another example, whose label counts by area (Yun et al., arXiv 1905.04899)."""

    mixes: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)

    kind: Literal["cutmix"] = "cutmix"
    """The change."""

    alpha: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Both parameters of the Beta distribution of the area; the greater part is the example's own."""

    def mix(self, values: Values, others: Values, draws: Draws) -> tuple[Values, Shares]:
        height, width = values.shape[1:3]
        side = np.sqrt(_smaller_part(draws.words(0)[:, 0], self.alpha).astype(np.float64))
        heights, widths = np.rint(side * height).astype(np.int64), np.rint(side * width).astype(np.int64)
        tops, lefts = draws.integers(1, height - heights + 1), draws.integers(2, width - widths + 1)
        tall, wide = _within(tops, heights, height), _within(lefts, widths, width)
        mixed = np.where((tall[:, :, None] & wide[:, None, :])[..., None], others, values)
        return mixed, (heights * widths / (height * width)).astype(np.float32)


AUGMENTATIONS: dict[str, type[Augmentation]] = Augmentation.kinds()
"""The sections by `kind`."""

if TYPE_CHECKING:
    AugmentConfig = Augmentation
else:
    AugmentConfig = any_of(AUGMENTATIONS.values())


def _grey(values: Values) -> Values:
    """Return thousandfold grey values, int64 [n, height, width]."""
    whole = values.astype(np.int64)
    return whole @ LUMA if whole.shape[3] == 3 else whole[..., 0] * 1000


def _within(starts: Values, sizes: int | Values, length: int) -> Values:
    """Return which of the places [0, length) are within a span from each start, bool [starts, length]."""
    places = np.arange(length)
    return (places >= starts[:, None]) & (places < (starts + sizes)[:, None])


def _masked(values: Values, draws: Draws, axis: int, width: int, spans: int) -> Values:
    """Return float32 [n, time, bands] with spans along an axis at the mean of each band, or of all of the sound."""
    length = values.shape[axis]
    covered = np.zeros((len(values), length), bool)
    for number in range(spans):
        widths = draws.integers(2 * number, min(width, length) + 1)
        starts = draws.integers(2 * number + 1, length - widths + 1)
        covered |= _within(starts, widths, length)
    means = values.mean(axis=1, keepdims=True, dtype=np.float64)
    if axis == 2:  # the mean of a band over time would show what was in it
        means = means.mean(axis=2, keepdims=True)
    where = covered[:, :, None] if axis == 1 else covered[:, None, :]
    return np.where(where, means.astype(np.float32), values)


def _smaller_part(words: NDArray[np.uint64], alpha: float) -> Shares:
    """Return shares in [0, 0.5], float32 [n]: min(x, 1 - x) of x ~ Beta(alpha, alpha), by random words [n]."""
    return _beta_quantiles(alpha)[(words >> np.uint64(52)).astype(np.int64)]


@cache
def _beta_quantiles(alpha: float) -> Shares:
    """Return the quantiles of the lower half, in the middle of 4,096 parts of equal probability."""
    from scipy.stats import beta

    return beta.ppf((np.arange(4096) + 0.5) / 8192, alpha, alpha).astype(np.float32)
