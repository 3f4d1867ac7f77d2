"""How records become fixed-layout examples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import Section

Pixels = Annotated[int, Field(ge=1, le=4096)]


class ImageSnapshot(Section):
    """Images as uint8 [height, width, channels]; normalisation belongs to the model."""

    kind: Literal["image"] = "image"
    """The layout of an example."""

    height: Pixels = 28
    """Rows of pixels; other images are resized (bilinear, antialiased)."""

    width: Pixels = 28
    """Columns of pixels; other images are resized (bilinear, antialiased)."""

    channels: Literal[1, 3] = 3
    """1: grey, 3: RGB; other images are converted."""

    shards: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of array files of each feature and split."""


SnapshotConfig = ImageSnapshot
