"""Robustness probes: changes of the test examples under which a model should lose little."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field

from tasks.config.base import BY_KIND, Section

IMAGE, NUMBERS, TEXT, ANY = "image", "numbers", "text", "any column"
"""Kinds of data that a probe changes: uint8 images, float32 arrays, columns of text, every column of the inputs."""

Share = Annotated[float, Field(gt=0, le=1)]


class Probe(Section):
    """A change of every test example, drawn with a fixed seed from its row."""

    changes: ClassVar[tuple[str, ...]]
    """The kinds of data that it changes."""
    raw: ClassVar[bool] = False
    """Whether it changes columns of the records, before their transforms; else the model's inputs."""


class NoiseProbe(Probe):
    """Adds Gaussian noise to images and numbers (Hendrycks and Dietterich, arXiv 1903.12261)."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE, NUMBERS)

    kind: Literal["noise"] = "noise"
    """The change."""

    scale: Annotated[float, Field(gt=0, le=10)] = 0.1
    """Standard deviation of the noise: of images as a share of 255, of numbers of their standard deviation."""


class BlurProbe(Probe):
    """Blurs images with a Gaussian filter (Hendrycks and Dietterich, arXiv 1903.12261)."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE,)

    kind: Literal["blur"] = "blur"
    """The change."""

    sigma: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Standard deviation of the filter, in pixels."""


class ContrastProbe(Probe):
    """Lowers the contrast of images (Hendrycks and Dietterich, arXiv 1903.12261)."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE,)

    kind: Literal["contrast"] = "contrast"
    """The change."""

    factor: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """What the distance of each pixel from the mean of its image is multiplied by."""


class ShiftProbe(Probe):
    """Moves images in a random direction; their edge fills the gap."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE,)

    kind: Literal["shift"] = "shift"
    """The change."""

    pixels: Annotated[int, Field(ge=1, le=4096)] = 2
    """How far in each direction, at most."""


class TyposProbe(Probe):
    """Makes typing errors in texts: two letters exchanged, one left out, one doubled, or another one."""

    changes: ClassVar[tuple[str, ...]] = (TEXT,)
    raw: ClassVar[bool] = True

    kind: Literal["typos"] = "typos"
    """The change."""

    share: Share = 0.05
    """Share of the letters with an error."""


class MissingColumnsProbe(Probe):
    """Leaves out values of the columns that are inputs, as if they were missing."""

    changes: ClassVar[tuple[str, ...]] = (ANY,)
    raw: ClassVar[bool] = True

    kind: Literal["missing_columns"] = "missing_columns"
    """The change."""

    share: Share = 0.2
    """Share of the values of each column that are left out."""


AnyProbe = NoiseProbe | BlurProbe | ContrastProbe | ShiftProbe | TyposProbe | MissingColumnsProbe


def _named(value: Any) -> Any:
    """Return a probe given by its name as the section with its defaults."""
    return {"kind": value} if isinstance(value, str) else value


ProbeConfig = Annotated[Annotated[AnyProbe, BY_KIND], BeforeValidator(_named)]

PROBES: dict[str, type[AnyProbe]] = {section.model_fields["kind"].default: section for section in get_args(AnyProbe)}
"""The sections by `kind`."""
