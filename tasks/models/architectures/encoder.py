"""Bidirectional transformer encoders: of a text (BERT: Devlin et al., arXiv 1810.04805), and of an image's patches.

- The blocks are those of ModernBERT: root-mean-square norms before each, gated feed-forward, no biases (Warner et al.,
  arXiv 2412.13663), and dropout after each.
- Of a text: rotary positions, and dropout after the embedding. Texts have any length: padding is neither attended to
  nor part of the mean over the tokens that the head reads.
- Vision transformer (Dosovitskiy et al., arXiv 2010.11929), simplified as by Beyer et al. (arXiv 2205.01580): fixed
  sines and cosines of two axes as positions, no class token: the head reads the mean of all patches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.task import TASKS, ExampleTask, ReadingTask
from tasks.errors import Failed
from tasks.models.architecture import Dropout, OwnArchitecture, Units
from tasks.models.features import single_input
from tasks.models.prunable import Prunable, check_heads, prunable_blocks

if TYPE_CHECKING:
    import keras


EMBEDDING_STDDEV = 1.0
"""Initial standard deviation of the embedding, whose values are the sum to which the blocks add."""


class EncoderModel(OwnArchitecture, place=2):
    """A bidirectional transformer over the tokens of one text, whose mean the output layer reads; of `tagging` each."""

    noun: ClassVar[str] = "encoder"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["encoder"] = "encoder"
    """The architecture."""

    task: ReadingTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    width: Units = 128
    """Size of a token's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 2
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; without `head_dim` they divide `width` into even parts."""

    head_dim: Annotated[int | None, LATER, Field(ge=2, le=1024)] = None
    """Size of a head, an even number; default: width / heads."""

    hidden: Units = 352
    """Hidden units of the feed-forward layer, each with a gate."""

    dropout: Dropout = 0.1
    """Share of the embedding and of each block's outputs dropped while training."""

    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary embedding's wavelengths; larger for longer contexts."""

    @model_validator(mode="after")
    def heads_divide(self) -> EncoderModel:
        check_heads(self.width, self.heads, self.head_dim)
        return self

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: tokens [B, T] of any length to logits [B, classes] or outputs [B, targets]; of tagging to
        logits [B, T, classes], which are those of a constant at padding.

        Raises:
            Failed: the snapshot has another input than one text of tokens.
        """
        import keras
        from keras import ops

        from tasks.models.layers import PADDING, dropout, head, name_operations
        from tasks.models.layers.attention import as_float32, normal, positions_of, rotation_of

        feature = single_input(features)
        if not feature.padded:
            rule = "an encoder reads one text, as tokens or ids of words"
            raise Failed("model.kind", f"encoder on {feature.name}", rule, "give the column the transform tokens")
        inputs = keras.Input((None,), dtype=feature.dtype, name=feature.name)
        (vocabulary,) = feature.sizes
        initializer = normal(EMBEDDING_STDDEV, "embedding", seed)
        embedding = keras.layers.Embedding(vocabulary, self.width, embeddings_initializer=initializer, name="embedding")
        x = dropout(self.dropout, "embedding_dropout", seed)(as_float32(embedding(inputs)))
        is_padding = ops.equal(inputs, PADDING)
        mask = ops.expand_dims(ops.expand_dims(is_padding, 1), 1)
        rotation = rotation_of(positions_of(inputs), self)
        x = blocks(x, mask, rotation, self, seed)
        present = ops.expand_dims(ops.cast(ops.logical_not(is_padding), "float32"), -1)
        x = x * present
        if not TASKS[self.task].of_tokens:
            x = ops.sum(x, axis=1) / ops.maximum(ops.sum(present, axis=1), 1.0)
        return name_operations(keras.Model(inputs, head(x, features, self.task, seed), name="encoder"))

    def prunable(self) -> Prunable:
        """Return the attention heads and the hidden units of the feed-forward layers."""
        return prunable_blocks(self)


def blocks(
    x: keras.KerasTensor, mask: Any | None, rotation: Any | None, config: EncoderModel | ViTModel, seed: int
) -> keras.KerasTensor:
    """Add the blocks of attention and feed-forward, and a last norm: float32 [B, T, width] to float32 [B, T, width].

    For mask and rotation see `attention`.
    """
    from tasks.models.layers import dropout
    from tasks.models.layers.attention import as_float32, attention, feed_forward, norm

    for block in range(config.layers):
        attended = attention(norm(f"block{block}_attention_norm")(x), mask, rotation, config, block, seed)
        x = x + as_float32(dropout(config.dropout, f"block{block}_attention_dropout", seed)(attended))
        mapped = feed_forward(norm(f"block{block}_mlp_norm")(x), config, block, seed)
        x = x + as_float32(dropout(config.dropout, f"block{block}_mlp_dropout", seed)(mapped))
    return as_float32(norm("final_norm")(x))


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

        from tasks.models.layers import head, input_layer, layer_seed, name_operations
        from tasks.models.layers.attention import as_float32

        feature = self.single_image(features)
        inputs, x = input_layer(feature)
        initializer = keras.initializers.LecunNormal(layer_seed(seed, "patches"))
        side = self.patch
        x = keras.layers.Conv2D(self.width, side, strides=side, kernel_initializer=initializer, name="patches")(x)
        rows, columns = feature.shape[0] // side, feature.shape[1] // side
        x = keras.layers.Reshape((rows * columns, self.width), name="patch_list")(x)
        x = as_float32(x) + ops.array(positions(rows, columns, self.width), "float32")
        x = ops.mean(blocks(x, None, None, self, seed), axis=1)
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
