"""A bidirectional transformer encoder of a text (BERT: Devlin et al., arXiv 1810.04805), with the blocks of ModernBERT.

Root-mean-square norms before each block, rotary positions, gated feed-forward, no biases (Warner et al., arXiv
2412.13663); dropout after each block and the embedding. Texts have any length: padding is neither attended to nor part
of the mean over the tokens that the head reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER
from tasks.config.task import TASKS, ReadingTask
from tasks.errors import Failed
from tasks.models.architecture import Dropout, OwnArchitecture, Units
from tasks.models.features import single_input
from tasks.models.heads import check_heads, prunable_blocks
from tasks.models.prunable import Prunable

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
        from tasks.models.layers.attention import (
            as_float32,
            attention,
            feed_forward,
            norm,
            normal,
            positions_of,
            rotation_of,
        )

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
        for block in range(self.layers):
            attended = attention(norm(f"block{block}_attention_norm")(x), mask, rotation, self, block, seed)
            x = x + as_float32(dropout(self.dropout, f"block{block}_attention_dropout", seed)(attended))
            mapped = feed_forward(norm(f"block{block}_mlp_norm")(x), self, block, seed)
            x = x + as_float32(dropout(self.dropout, f"block{block}_mlp_dropout", seed)(mapped))
        present = ops.expand_dims(ops.cast(ops.logical_not(is_padding), "float32"), -1)
        x = as_float32(norm("final_norm")(x)) * present
        if not TASKS[self.task].of_tokens:
            x = ops.sum(x, axis=1) / ops.maximum(ops.sum(present, axis=1), 1.0)
        return name_operations(keras.Model(inputs, head(x, features, self.task, seed), name="encoder"))

    def prunable(self) -> Prunable:
        """Return the attention heads and the hidden units of the feed-forward layers."""
        return prunable_blocks(self)
