"""A decoder-only transformer (Vaswani et al., arXiv 1706.03762) that predicts the next token at every position.

Root-mean-square norms before each block (Zhang and Sennrich, arXiv 1910.07467) and on queries and keys (Henry et al.,
arXiv 2010.04245), rotary position embeddings (Su et al., arXiv 2104.09864), SwiGLU (Shazeer, arXiv 2002.05202), tied
input and output embeddings (Press and Wolf, arXiv 1608.05859), no biases.

Built of stock layers and operations on symbolic tensors, so that Keras alone can load it, with free batch size and
length. Without `x[..., None]` and Keras' causal mask, which LiteRT cannot run at a free length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.errors import Failed
from tasks.models.architecture import Distribution, OwnArchitecture, Units
from tasks.models.decoding import DECODE, DOCUMENTS, KEYS, LOGITS, POSITION, PREFILL, VALUES, Memory, function_of
from tasks.models.features import TOKENS
from tasks.models.forward import Function
from tasks.models.prunable import Prunable, check_heads, head_size, prunable_blocks

if TYPE_CHECKING:
    import keras

EMBEDDING_STDDEV = 0.02
"""Initial standard deviation of the embedding. Inputs are multiplied by `EMBEDDING_SCALE`; logits start near zero."""
EMBEDDING_SCALE = 16.0


class TransformerModel(OwnArchitecture, place=3):
    """A decoder-only transformer over tokens: rotary positions, SwiGLU, one matrix for tokens in and out."""

    noun: ClassVar[str] = "transformer"
    reads: ClassVar[tuple[str, ...]] = ("tokens",)

    kind: Literal["transformer"] = "transformer"
    """The architecture."""

    task: Literal["language_model"] = "language_model"
    """Determines the default loss, the metrics, their intervals and the plots."""

    width: Units = 256
    """Size of a token's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 3
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; without `head_dim` they divide `width` into even parts."""

    head_dim: Annotated[int | None, LATER, Field(ge=2, le=1024)] = None
    """Size of a head, an even number; default: width / heads."""

    kv_heads: Annotated[int | None, LATER, Field(ge=1, le=256)] = None
    """Heads of keys and values, which divide `heads`; each is shared by heads / kv_heads queries (grouped-query
    attention). Default: as many as `heads`."""

    hidden: Units = 704
    """Hidden units of the feed-forward layer, each with a gate; with `experts` those of each."""

    experts: Annotated[int, LATER, Field(ge=0, le=1024)] = 0
    """Feed-forward layers of a block, of which a router chooses some for each token; 0: one layer and no router. All
    are computed: more weights for a token to choose from, not fewer computations."""

    experts_per_token: Annotated[int, LATER, Field(ge=1, le=1024)] = 2
    """How many of the `experts` a token uses."""

    balance_weight: Annotated[float, LATER, Field(ge=0, le=100)] = 0.01
    """Factor of the loss that keeps the `experts` of a sequence equally used; 0: none."""

    document_mask: Annotated[Literal["auto"] | bool, LATER] = "auto"
    """Whether attention stays within a document, which begins with its first token; `auto`: where rows are packed by
    `snapshot.packing: best_fit`."""

    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary embedding's wavelengths; larger for longer contexts."""

    @model_validator(mode="after")
    def heads_divide(self) -> TransformerModel:
        check_heads(self.width, self.heads, self.head_dim)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise Conflict("kv_heads", self.kv_heads, f"must divide {self.heads} heads", "use a divisor")
        return self

    @model_validator(mode="after")
    def experts_are_several(self) -> TransformerModel:
        if self.experts == 0:
            for name in ("experts_per_token", "balance_weight"):
                if (value := getattr(self, name)) != type(self).model_fields[name].default:
                    raise Conflict(name, value, "is ignored without experts", "set experts, or leave it out")
            return self
        if self.experts < max(2, self.experts_per_token):
            rule = f"there must be two at least, and as many as experts_per_token, {self.experts_per_token}"
            raise Conflict("experts", self.experts, rule, "raise it, or use 0 for one layer without a router")
        return self

    def fit_training(self, strategy: Distribution, remat: bool) -> None:
        """Raise `Conflict` for experts where a training does not compute their loss."""
        if self.experts and self.balance_weight and (remat or not strategy.adds_losses):
            setting, name = ("train.remat", "train.remat") if remat else ("train.strategy", strategy.kind)
            rule = f"{name} computes no loss but that of the outputs"
            raise Conflict("balance_weight", self.balance_weight, rule, f"set it to 0, or use another {setting}")

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: tokens int32 [B, T] to logits float32 [B, T, vocabulary] of each next token.

        Raises:
            Failed: the snapshot has no feature `tokens`.
        """
        import keras
        from keras import ops

        from tasks.models.layers import name_operations
        from tasks.models.layers.attention import document_number, later, other_documents, positions_of

        if TOKENS not in features:
            rule = "a transformer reads a feature tokens"
            raise Failed("model.kind", f"transformer on {', '.join(features)}", rule, "use snapshot.kind: tokens")
        inputs = keras.Input((None,), dtype="int32", name=TOKENS)
        positions = positions_of(inputs)
        mask = later(positions, positions)
        if self._of_documents(features):
            number = document_number(inputs, features)
            mask = ops.logical_or(mask, other_documents(number, number))
        outputs = self._logits(inputs, positions, mask, features, seed)
        return name_operations(keras.Model(inputs, outputs, name="transformer"))

    def _logits(
        self,
        tokens: keras.KerasTensor,
        positions: keras.KerasTensor,
        mask: keras.KerasTensor,
        features: dict[str, Any],
        seed: int,
        memory: Memory | None = None,
    ) -> keras.KerasTensor:
        """Add all layers: tokens [B, T] at positions [1 or B, T] to logits float32 [B, T, vocabulary].

        Args:
            mask: true where a query does not attend to a key, [1 or B, 1, T, keys].
            memory: takes the keys and values of each block, and returns those that are attended to.
        """
        import keras
        from keras import ops

        from tasks.models.layers.attention import (
            as_float32,
            attention,
            experts,
            feed_forward,
            norm,
            normal,
            rotation_of,
        )

        vocabulary = int(features[TOKENS]["vocabulary"])
        embedding = keras.layers.ReversibleEmbedding(
            vocabulary, self.width, embeddings_initializer=normal(EMBEDDING_STDDEV, "embedding", seed), name="embedding"
        )
        x = ops.cast(embedding(tokens), "float32") * EMBEDDING_SCALE
        rotation = rotation_of(positions, self)
        for block in range(self.layers):
            normed = norm(f"block{block}_attention_norm")(x)
            x = x + as_float32(attention(normed, mask, rotation, self, block, seed, self.kv_heads, memory))
            normed = norm(f"block{block}_mlp_norm")(x)
            x = x + as_float32((experts if self.experts else feed_forward)(normed, self, block, seed))
        x = embedding(norm("final_norm")(x), reverse=True)
        return keras.layers.Activation("linear", dtype="float32", name="logits")(x)

    def functions(self, features: dict[str, Any], model: keras.Model) -> list[Function]:
        """Return generation with a cache, as functions over the variables of the model.

        `prefill` takes tokens [B, T] and returns logits [B, T, vocabulary] and the cache: keys and values, [B, layers,
        kv_heads, T, size], and with a document mask the number of each token's document, float32 [B, T]. `decode` takes
        a token [B, 1], its position [B] and the cache of any capacity [.., C, ..], and returns logits [B, 1,
        vocabulary] and the cache with the token at its position; what is behind that is not read, so that rows may
        differ in length.
        """
        import keras
        from keras import ops

        from tasks.models.layers.attention import document_number, later, other_documents, positions_of

        of_document, heads = self._of_documents(features), self.kv_heads or self.heads
        tokens = keras.Input((None,), dtype="int32", name=TOKENS)
        positions, memory, cache = positions_of(tokens), Memory(), {}
        mask = later(positions, positions)
        if of_document:
            number = document_number(tokens, features)
            mask, cache = ops.logical_or(mask, other_documents(number, number)), {DOCUMENTS: number}
        logits = self._logits(tokens, positions, mask, features, 0, memory)
        prefill = function_of(PREFILL, [tokens], {LOGITS: logits, **memory.tensors, **cache}, model)

        token = keras.Input((1,), dtype="int32", name=TOKENS)
        position = keras.Input((), dtype="int32", name=POSITION)
        keys, values = (keras.Input((self.layers, heads, None, head_size(self)), name=name) for name in (KEYS, VALUES))
        inputs, cache = [token, position, keys, values], {}
        past_keys, past_values = ops.unstack(keys, self.layers, axis=1), ops.unstack(values, self.layers, axis=1)
        positions = ops.cast(ops.expand_dims(position, 1), "float32")
        places = positions_of(ops.max(past_keys[0], axis=(1, 3)))
        here, mask = ops.equal(places, positions), later(positions, places)
        if of_document:
            before = keras.Input((None,), name=DOCUMENTS)
            last = ops.sum(ops.where(ops.equal(places, positions - 1.0), before, 0.0), axis=1, keepdims=True)
            number = last + document_number(token, features)
            cache = {DOCUMENTS: ops.where(here, number, before)}
            mask = ops.logical_or(mask, other_documents(number, cache[DOCUMENTS]))
            inputs.append(before)
        memory = Memory((past_keys, past_values, ops.expand_dims(ops.expand_dims(here, 1), 3)))
        logits = self._logits(token, positions, mask, features, 0, memory)
        return [prefill, function_of(DECODE, inputs, {LOGITS: logits, **memory.tensors, **cache}, model)]

    def added_loss(self, model: keras.Model) -> keras.KerasTensor | None:
        """Return what training adds to the loss of each sequence, [B]: with experts, what balances them."""
        if not (self.experts and self.balance_weight):
            return None
        from tasks.models.layers.attention import balance_loss

        return balance_loss(self, model)

    def prunable(self) -> Prunable:
        """Return the attention heads and the hidden units of the feed-forward layers; with experts the heads alone."""
        return prunable_blocks(self, self.kv_heads, bool(self.experts))

    def _of_documents(self, features: dict[str, Any]) -> bool:
        """Return whether attention stays within a document."""
        packed: bool = features[TOKENS].get("packing") == "best_fit"
        return packed if self.document_mask == "auto" else self.document_mask
