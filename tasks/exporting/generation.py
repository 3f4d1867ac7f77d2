"""Generation with the cache of keys and values that an export's signatures `prefill` and `decode` hand back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.models.decoding import DECODE, DOCUMENTS, LOGITS, POSITION, PREFILL
from tasks.models.features import TOKENS, Arrays
from tasks.models.forward import Call

CAPACITY = 64
"""Positions that a cache has at first; it is doubled when it is full."""


def with_cache(call: Call) -> Call:
    """Return a loaded model with a cache where it has the signatures for one, else the model."""
    interface = getattr(call, "interface", {"signatures": ()})
    return Cached(call) if DECODE in interface["signatures"] else call


class Cached:
    """A language model on one row of tokens: where they are those of the last call and one more, only that is computed.

    Returns logits float32 [1, T, vocabulary], or [1, 1, vocabulary] of the last position, equal to those of the model
    on all tokens but for rounding.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokens: list[int] = []
        self._cache: Arrays = {}

    def __call__(self, batch: Arrays) -> Any:
        tokens = batch[TOKENS][0].tolist()
        if self._tokens and tokens[:-1] == self._tokens:
            position = len(self._tokens)
            self._cache = padded(self._cache, capacity_for(position + 1))
            last = {TOKENS: batch[TOKENS][:, -1:], POSITION: np.array([position], np.int32)}
            results = self._model.run(DECODE, {**last, **self._cache})
        else:
            results = self._model.run(PREFILL, {TOKENS: batch[TOKENS]})
        logits = results.pop(LOGITS)
        self._tokens, self._cache = tokens, results
        return logits


def capacity_for(length: int) -> int:
    """Return the capacity of a cache for so many tokens: few different ones, as a runtime plans for each anew."""
    capacity = CAPACITY
    while capacity < length:
        capacity *= 2
    return capacity


def padded(cache: Arrays, capacity: int) -> Arrays:
    """Return a cache with at least a capacity: keys and values [.., T, size] and documents' numbers [B, T]."""
    axis = {name: array.ndim - (1 if name == DOCUMENTS else 2) for name, array in cache.items()}
    missing = {name: capacity - array.shape[axis[name]] for name, array in cache.items()}
    return {
        name: np.pad(array, [(0, max(0, missing[name]) if each == axis[name] else 0) for each in range(array.ndim)])
        if missing[name] > 0
        else array
        for name, array in cache.items()
    }
