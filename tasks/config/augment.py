"""Augmentations: random changes of training examples when they are read, functions of (seed, epoch, row)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import LISTED, Conflict, Section
from tasks.config.kinds import BY_KIND

Text = Annotated[str, StringConstraints(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Extent = Annotated[int, Field(ge=1, le=4096)]
Bounds = Annotated[tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], LISTED]

IMAGE, SOUND, TOKENS = "image", "sound", "tokens"
"""Kinds of inputs: uint8 [height, width, channels], float32 [time, bands], ids of a text [length]."""
PREDICTED = "tokens to predict"
"""The kind of a language model's input, which no augmentation changes."""


class Augmentation(Section):
    """A random change of an input; every example has its own draw in every epoch."""

    reads: ClassVar[tuple[str, ...]] = (IMAGE,)
    """The kinds of inputs that it changes."""
    mixes: ClassVar[bool] = False
    """Whether it mixes two examples and their labels."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Packages that decide its bytes."""

    input: Text | None = None
    """The input that is changed; default: the only one of its kind."""


class Flip(Augmentation):
    """Mirrors images."""

    kind: Literal["flip"] = "flip"
    """The change."""

    axis: Literal["horizontal", "vertical"] = "horizontal"
    """`horizontal` exchanges left and right, `vertical` top and bottom."""

    share: Share = 0.5
    """Share of the examples that are mirrored."""


class Crop(Augmentation):
    """Moves images by a random number of pixels in each direction (He et al., arXiv 1512.03385)."""

    kind: Literal["crop"] = "crop"
    """The change."""

    padding: Extent = 4
    """Pixels in each direction, at most."""

    fill: Literal["zero", "edge"] = "zero"
    """What stands where the image has moved away: 0, or the pixels of its edge."""


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


class RandAugment(Augmentation):
    """Applies random operations of a fixed list of 14 (Cubuk et al., arXiv 1909.13719)."""

    libraries: ClassVar[tuple[str, ...]] = ("pillow",)

    kind: Literal["rand_augment"] = "rand_augment"
    """The change."""

    operations: Annotated[int, Field(ge=1, le=10)] = 2
    """Operations, one after the other."""

    magnitude: Annotated[float, Field(ge=0, le=10)] = 5.0
    """Strength of each: 10 is a rotation by 30 degrees, a shear by 0.3, a move by 45 % of the size, a factor of 1.9."""


class Cutout(Augmentation):
    """Covers a square at a random place in grey (DeVries and Taylor, arXiv 1708.04552)."""

    kind: Literal["cutout"] = "cutout"
    """The change."""

    size: Extent = 8
    """Side of the square in pixels; it may reach over the edge."""


class Mixup(Augmentation):
    """Mixes each example and its label or targets with those of another one (Zhang et al., arXiv 1710.09412)."""

    reads: ClassVar[tuple[str, ...]] = (IMAGE, SOUND)
    mixes: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)

    kind: Literal["mixup"] = "mixup"
    """The change."""

    alpha: Annotated[float, Field(gt=0, le=100)] = 0.2
    """Both parameters of the Beta distribution of the mixture; the greater part is the example's own."""


class Cutmix(Augmentation):
    """Covers a rectangle with that of another example, whose label counts by area (Yun et al., arXiv 1905.04899)."""

    mixes: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)

    kind: Literal["cutmix"] = "cutmix"
    """The change."""

    alpha: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Both parameters of the Beta distribution of the area; the greater part is the example's own."""


class Noise(Augmentation):
    """Adds normal noise, independent at each value."""

    reads: ClassVar[tuple[str, ...]] = (IMAGE, SOUND)

    kind: Literal["noise"] = "noise"
    """The change."""

    deviation: Annotated[float, Field(gt=0)] = 0.1
    """Standard deviation: of images as a share of the range of 0 to 255, of sounds in the logarithm of power."""


class TimeMask(Augmentation):
    """Replaces random spans of a sound's time by its mean in each band (Park et al., arXiv 1904.08779)."""

    reads: ClassVar[tuple[str, ...]] = (SOUND,)

    kind: Literal["time_mask"] = "time_mask"
    """The change."""

    width: Extent = 10
    """Frames of a span, at most."""

    spans: Annotated[int, Field(ge=1, le=20)] = 2
    """Number of spans."""


class BandMask(Augmentation):
    """Replaces random spans of a sound's bands by their mean (Park et al., arXiv 1904.08779)."""

    reads: ClassVar[tuple[str, ...]] = (SOUND,)

    kind: Literal["band_mask"] = "band_mask"
    """The change."""

    width: Extent = 8
    """Bands of a span, at most."""

    spans: Annotated[int, Field(ge=1, le=20)] = 2
    """Number of spans."""


class TokenDropout(Augmentation):
    """Replaces random tokens of a text by padding, which the model ignores (Iyyer et al., ACL 2015)."""

    reads: ClassVar[tuple[str, ...]] = (TOKENS,)

    kind: Literal["token_dropout"] = "token_dropout"
    """The change."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Probability of each token."""


AnyAugmentation = (
    Flip
    | Crop
    | ResizedCrop
    | Colour
    | RandAugment
    | Cutout
    | Noise
    | TimeMask
    | BandMask
    | TokenDropout
    | Mixup
    | Cutmix
)
AugmentConfig = Annotated[AnyAugmentation, BY_KIND]

AUGMENTATIONS: dict[str, type[Augmentation]] = {
    section.model_fields["kind"].default: section for section in get_args(AnyAugmentation)
}
"""The sections by `kind`."""
