"""Generation with a cache of keys and values: a transformer as two functions, of a prompt and of one token more.

The functions are the model's own arithmetic over its own variables, and further models of Keras only while they are
traced: so the weights are in an export once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tasks.models.forward import Function

if TYPE_CHECKING:
    import keras

PREFILL, DECODE = "prefill", "decode"
"""The signatures."""
TOKENS, POSITION, KEYS, VALUES, DOCUMENTS, LOGITS = "tokens", "position", "keys", "values", "documents", "logits"


class Memory:
    """The keys and values of all blocks, [B, layers, heads, T, size], while a graph is built.

    Args:
        past: those of the blocks so far computed, and where the new ones belong: true in [B, 1, T, 1]; None: there are
            none, and the new ones are all.
    """

    def __init__(self, past: tuple[list[Any], list[Any], Any] | None = None) -> None:
        self._past = past
        self._kept: list[tuple[Any, Any]] = []

    def __call__(self, keys: Any, values: Any) -> tuple[Any, Any]:
        """Take the new keys and values of the next block; return those that its queries attend to."""
        from keras import ops

        if self._past is not None:
            past_keys, past_values, here = self._past
            block = len(self._kept)
            keys, values = ops.where(here, keys, past_keys[block]), ops.where(here, values, past_values[block])
        self._kept.append((keys, values))
        return keys, values

    @property
    def tensors(self) -> dict[str, Any]:
        """The keys and the values of all blocks."""
        from keras import ops

        keys, values = zip(*self._kept, strict=True)
        return {KEYS: ops.stack(keys, axis=1), VALUES: ops.stack(values, axis=1)}


def function_of(name: str, inputs: list[Any], outputs: dict[str, Any], model: keras.Model) -> Function:
    """Return a graph of Keras, of layers with the names of the model's, as a function over the model's variables."""
    import keras

    from tasks.models.layers import name_operations

    graph = name_operations(keras.Model(inputs, list(outputs.values()), name=name))
    return over(graph, list(outputs), model)


def over(graph: keras.Model, names: list[str], model: keras.Model) -> Function:
    """Return a graph, with names of its outputs, as a function over the variables of a model with the same paths.

    Raises:
        ValueError: it has other variables than the model.
    """
    own = {weight.path: weight for weight in model.weights}
    wanted = [weight.path for weight in (*graph.trainable_variables, *graph.non_trainable_variables)]
    if sorted(wanted) != sorted(own):
        raise ValueError(f"{graph.name} has other variables than the model")
    trained = [own[weight.path] for weight in graph.trainable_variables]
    others = [own[weight.path] for weight in graph.non_trainable_variables]

    def call(tensors: Mapping[str, Any]) -> dict[str, Any]:
        given = [tensors[each.name] for each in graph.inputs]
        values = [weight.value for weight in trained], [weight.value for weight in others]
        results, _ = graph.stateless_call(*values, given[0] if len(given) == 1 else given, training=False)
        return dict(zip(names, results, strict=True))

    return Function(graph.name, graph.inputs, call, graph, names)
