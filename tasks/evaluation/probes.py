"""Robustness probes: changes of the test examples under which a model should lose little. A class a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field

from tasks.config.kinds import Kind, any_of
from tasks.errors import Refused
from tasks.reader.values import NO_TIME, Values
from tasks.sources.features import Feature, of_role

FIELD = "evaluate.robustness"

Draws = Sequence[np.random.Generator]
"""A generator for each example."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ERRORS = 4
"""Kinds of typing errors: exchanged with the next letter, left out, doubled, another letter."""
EMPTY: dict[str, Any] = {"category": "", "text": "", "image": b"", "audio": b""}
"""A missing value of a column that is a list, by its kind."""

IMAGE, NUMBERS, TEXT, ANY = "image", "numbers", "text", "any column"
"""Kinds of data that a probe changes: uint8 images, float32 arrays, columns of text, every column of the inputs."""

Share = Annotated[float, Field(gt=0, le=1)]


class Probe(Kind):
    """A change of every test example, drawn with a fixed seed from its row."""

    changes: ClassVar[tuple[str, ...]]
    """The kinds of data that it changes."""
    raw: ClassVar[bool] = False
    """Whether it changes columns of the records, before their transforms; else the model's inputs."""

    def change(self, values: Any, draws: Draws, feature: Mapping[str, Any]) -> Any:
        """Return changed values of some examples, of the same type and shape.

        Args:
            draws: a generator for each example.
            feature: the kind of a column (`kind`), or dtype, shape and `variance` of an input.
        """
        raise NotImplementedError


class NoiseProbe(Probe):
    """Adds Gaussian noise to images and numbers (Hendrycks and Dietterich, arXiv 1903.12261)."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE, NUMBERS)

    kind: Literal["noise"] = "noise"
    """The change."""

    scale: Annotated[float, Field(gt=0, le=10)] = 0.1
    """Standard deviation of the noise: of images as a share of 255, of numbers of their standard deviation."""

    def change(self, values: npt.NDArray, draws: Draws, feature: Mapping[str, Any]) -> npt.NDArray:
        """Return values with noise; pixels stay between 0 and 255, numbers are noisy by their deviation in train."""
        noise = np.stack([draw.standard_normal(values.shape[1:]) for draw in draws]) * self.scale
        if values.dtype == np.uint8:
            return np.clip(np.rint(values + 255 * noise), 0, 255).astype(np.uint8)
        deviation = np.sqrt(np.asarray(feature.get("variance", 1.0), np.float64))
        return (values + noise * deviation).astype(values.dtype)


class BlurProbe(Probe):
    """Blurs images with a Gaussian filter (Hendrycks and Dietterich, arXiv 1903.12261)."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE,)

    kind: Literal["blur"] = "blur"
    """The change."""

    sigma: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Standard deviation of the filter, in pixels."""

    def change(self, values: npt.NDArray, draws: Draws, feature: Mapping[str, Any]) -> npt.NDArray:
        """Return images uint8 [n, height, width, channels], blurred within each channel, mirrored at the edge."""
        from scipy.ndimage import gaussian_filter

        blurred = gaussian_filter(values.astype(np.float64), (0, self.sigma, self.sigma, 0))
        return np.clip(np.rint(blurred), 0, 255).astype(np.uint8)


class ContrastProbe(Probe):
    """Lowers the contrast of images (Hendrycks and Dietterich, arXiv 1903.12261)."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE,)

    kind: Literal["contrast"] = "contrast"
    """The change."""

    factor: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """What the distance of each pixel from the mean of its image is multiplied by."""

    def change(self, values: npt.NDArray, draws: Draws, feature: Mapping[str, Any]) -> npt.NDArray:
        """Return images uint8 [n, height, width, channels] whose pixels are nearer to the mean of their image."""
        means = values.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64)
        return np.clip(np.rint(means + self.factor * (values - means)), 0, 255).astype(np.uint8)


class ShiftProbe(Probe):
    """Moves images in a random direction; their edge fills the gap."""

    changes: ClassVar[tuple[str, ...]] = (IMAGE,)

    kind: Literal["shift"] = "shift"
    """The change."""

    pixels: Annotated[int, Field(ge=1, le=4096)] = 2
    """How far in each direction, at most."""

    def change(self, values: npt.NDArray, draws: Draws, feature: Mapping[str, Any]) -> npt.NDArray:
        """Return images [n, height, width, channels], each moved; pixels of the edge fill the gap."""
        height, width = values.shape[1:3]
        rows, columns = np.arange(height), np.arange(width)
        moved = np.empty_like(values)
        for number, draw in enumerate(draws):
            down, right = draw.integers(-self.pixels, self.pixels, 2, endpoint=True)
            above, left = np.clip(rows - down, 0, height - 1), np.clip(columns - right, 0, width - 1)
            moved[number] = values[number][above][:, left]
        return moved


class TyposProbe(Probe):
    """Makes typing errors in texts: two letters exchanged, one left out, one doubled, or another one."""

    changes: ClassVar[tuple[str, ...]] = (TEXT,)
    raw: ClassVar[bool] = True

    kind: Literal["typos"] = "typos"
    """The change."""

    share: Share = 0.05
    """Share of the letters with an error."""

    def change(self, values: list[Any], draws: Draws, feature: Mapping[str, Any]) -> list[Any]:
        """Return texts, or lists of words, each with errors in its own letters; other characters stay."""
        if feature.get("kind") == "words":
            return [
                [_with_errors(word, draw, self.share) for word in words]
                for words, draw in zip(values, draws, strict=True)
            ]
        return [_with_errors(text, draw, self.share) for text, draw in zip(values, draws, strict=True)]


class MissingColumnsProbe(Probe):
    """Leaves out values of the columns that are inputs, as if they were missing."""

    changes: ClassVar[tuple[str, ...]] = (ANY,)
    raw: ClassVar[bool] = True

    kind: Literal["missing_columns"] = "missing_columns"
    """The change."""

    share: Share = 0.2
    """Share of the values of each column that are left out."""

    def change(self, values: Values, draws: Draws, feature: Mapping[str, Any]) -> Values:
        """Return values of a column, of which a share is missing; of arrays of numbers whole arrays, of lists single
        words, which are then unknown."""
        if feature["kind"] == "words":  # a list stays as long as it is: its words may have tags
            return [
                ["" if draw.random() < self.share else word for word in words]
                for words, draw in zip(values, draws, strict=True)
            ]
        lost = np.array([draw.random() < self.share for draw in draws])
        kind = feature["kind"]
        if kind in EMPTY:
            return [EMPTY[kind] if gone else value for value, gone in zip(values, lost, strict=True)]
        changed = np.array(values)
        changed[lost] = NO_TIME if kind == "time" else np.nan
        return changed


def _named(value: Any) -> Any:
    """Return a probe given by its name as the section with its defaults."""
    return {"kind": value} if isinstance(value, str) else value


PROBES: dict[str, type[Probe]] = Probe.kinds()
"""The sections by `kind`."""

if TYPE_CHECKING:
    ProbeConfig = Probe
else:
    ProbeConfig = Annotated[any_of(PROBES.values()), BeforeValidator(_named)]


def _with_errors(text: str, draw: np.random.Generator, share: float) -> str:
    letters = list(text)
    wrong = np.flatnonzero(draw.random(len(letters)) < share)
    kinds, others = draw.integers(ERRORS, size=len(wrong)), draw.integers(len(LETTERS), size=len(wrong))
    for place, kind, other in zip(wrong.tolist(), kinds.tolist(), others.tolist(), strict=True):
        letter = letters[place]
        if not letter.isalpha():
            continue
        if kind == 0 and place + 1 < len(letters):
            letters[place], letters[place + 1] = letters[place + 1], letter
        elif kind == 1:
            letters[place] = ""
        elif kind == 2:
            letters[place] = letter * 2
        else:
            letters[place] = LETTERS[other]
    return "".join(letters)


def check(probes: Sequence[Probe], columns: Mapping[str, Feature], images: bool) -> None:
    """Raise `Refused` where a probe does not fit the columns of a source; `images`: its snapshot is one of images."""
    for probe in probes:
        if probe.raw:
            changed_by(probe, column_kinds(columns))
        elif images:
            changed_by(probe, {"image": IMAGE})


def column_kinds(features: Mapping[str, Feature]) -> dict[str, str]:
    """Return the kind of each column of the records that is an input."""
    return {name: TEXT if each.kind in ("text", "words") else ANY for name, each in of_role(features, "input").items()}


def changed_by(probe: Probe, kinds: Mapping[str, str]) -> list[str]:
    """Return the names of the inputs or columns that a probe changes.

    Raises:
        Refused: there are none.
    """
    names = [name for name, kind in kinds.items() if kind in probe.changes or ANY in probe.changes]
    if not names:
        had = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "of other kinds"
        rule = f"changes {' or '.join(probe.changes)}, and the inputs are {had}"
        raise Refused(FIELD, probe.kind, rule, "leave it out")
    return names
