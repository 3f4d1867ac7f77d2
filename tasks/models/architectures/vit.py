"""A vision transformer (Dosovitskiy et al., arXiv 2010.11929), simplified as by Beyer et al. (arXiv 2205.01580).

Fixed sines and cosines of two axes as positions, no class token: the head reads the mean of all patches. The blocks are
those of the encoder, without rotary positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.task import ExampleTask
from tasks.models.architecture import Dropout, OwnArchitecture, Units
from tasks.models.heads import check_heads, prunable_blocks
from tasks.models.prunable import Prunable

if TYPE_CHECKING:
    import keras


WAVELENGTH = 10_000.0
"""The longest wavelength of the positions, in patches."""


class ViTModel(OwnArchitecture, place=5):
    """A vision transformer: square patches of an image as tokens, and the blocks of the encoder."""

    noun: ClassVar[str] = "vision transformer"
    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["vit"] = "vit"
    """The architecture."""

    task: ExampleTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    patch: Annotated[int, Field(ge=1, le=256)] = 4
    """Side of a patch in pixels; it divides height and width."""

    width: Units = 128
    """Size of a patch's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 4
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; without `head_dim` they divide `width` into even parts."""

    head_dim: Annotated[int | None, LATER, Field(ge=2, le=1024)] = None
    """Size of a head, an even number; default: width / heads."""

    hidden: Units = 352
    """Hidden units of the feed-forward layer, each with a gate."""

    dropout: Dropout = 0.1
    """Share of each block's outputs dropped while training."""

    @model_validator(mode="after")
    def heads_divide(self) -> ViTModel:
        check_heads(self.width, self.heads, self.head_dim)
        if self.width % 4:
            raise Conflict(
                "width", self.width, "must divide by 4: sines and cosines of two axes", "use a multiple of 4"
            )
        return self

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where patches do not divide the image."""
        if height % self.patch or width % self.patch:
            rule = f"must divide {height} x {width} pixels"
            raise Conflict("patch", self.patch, rule, "use another side, or change snapshot.height and snapshot.width")

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: images [B, height, width, channels] to logits [B, classes] or outputs [B, targets].

        Raises:
            Failed: the input is not an image, or patches do not divide it.
        """
        import keras
        from keras import ops

        from tasks.models.layers import dropout, head, input_layer, layer_seed, name_operations
        from tasks.models.layers.attention import as_float32, attention, feed_forward, norm

        feature = self.single_image(features)
        inputs, x = input_layer(feature)
        initializer = keras.initializers.LecunNormal(layer_seed(seed, "patches"))
        side = self.patch
        x = keras.layers.Conv2D(self.width, side, strides=side, kernel_initializer=initializer, name="patches")(x)
        rows, columns = feature.shape[0] // side, feature.shape[1] // side
        x = keras.layers.Reshape((rows * columns, self.width), name="patch_list")(x)
        x = as_float32(x) + ops.array(positions(rows, columns, self.width), "float32")
        for block in range(self.layers):
            attended = attention(norm(f"block{block}_attention_norm")(x), None, None, self, block, seed)
            x = x + as_float32(dropout(self.dropout, f"block{block}_attention_dropout", seed)(attended))
            mapped = feed_forward(norm(f"block{block}_mlp_norm")(x), self, block, seed)
            x = x + as_float32(dropout(self.dropout, f"block{block}_mlp_dropout", seed)(mapped))
        x = ops.mean(as_float32(norm("final_norm")(x)), axis=1)
        return name_operations(keras.Model(inputs, head(x, features, self.task, seed), name="vit"))

    def prunable(self) -> Prunable:
        """Return the attention heads and the hidden units of the feed-forward layers."""
        return prunable_blocks(self)


def positions(rows: int, columns: int, width: int) -> np.ndarray:
    """Return the position of each patch, [1, rows x columns, width]: sines and cosines of its row and its column."""
    rates = WAVELENGTH ** (-np.arange(width // 4) / max(width // 4 - 1, 1))
    row, column = np.divmod(np.arange(rows * columns), columns)
    angles = [np.outer(place, rates) for place in (row, column)]
    return np.concatenate([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)[None]
