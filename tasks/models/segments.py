"""Cutting a model into segments whose activations are computed again in the backward pass.

Of a forward pass only the outputs of the segments are kept, and in the backward pass the activations of one segment at
a time (Chen et al., arXiv 1604.06174).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import keras

from tasks.errors import Failed
from tasks.models.stages import Stage, parts_of

LENGTH = 256
"""What an axis of free length counts as: a batch has as many examples everywhere, and a text about so many tokens."""
LIMITS = 64
"""Sizes of the largest segment that are tried."""


def segments(model: keras.Model) -> list[Stage]:
    """Cut a model so that the outputs of the segments and the activations of the largest one need least memory.

    Raises:
        Failed: the model cannot be cut.
    """
    parts = parts_of(model, activations)
    if parts is None or len(parts.costs) < 2:
        saw = f"true, and {model.name} has no two parts that a single tensor connects"
        remedy = "give the model an attribute stages (docs/how-to-distribute.md), or leave it out"
        raise Failed("train.remat", saw, "a model is cut between the layers of its graph, or lists its stages", remedy)
    outputs = [0 if end is None else elements([end]) for end in parts.ends]
    return [parts.stage(*ranges) for ranges in cheapest(parts.costs, outputs)]


def activations(node: Any) -> int:
    """Return the elements of a node's outputs, for an example."""
    return elements(node.outputs)


def elements(tensors: Iterable[Any]) -> int:
    """Return the elements of symbolic tensors, for an example."""
    return sum(math.prod(LENGTH if size is None else size for size in tensor.shape[1:]) for tensor in tensors)


def cheapest(costs: Sequence[int], outputs: Sequence[int]) -> list[tuple[int, int]]:
    """Return at least two consecutive ranges of the parts that need least memory.

    Args:
        costs: the activations of each part.
        outputs: the elements of each part's output, which is kept at the end of a range.
    """
    least, most = max(costs), sum(costs)
    limits = {round(least * (most / max(least, 1)) ** (number / LIMITS)) for number in range(LIMITS + 1)}
    choices = [packed(costs, limit) for limit in sorted(limits)]

    def memory(ranges: list[tuple[int, int]]) -> int:
        kept = sum(outputs[stop - 1] for _, stop in ranges[:-1])
        return kept + max(sum(costs[start:stop]) for start, stop in ranges)

    return min((ranges for ranges in choices if len(ranges) > 1), key=memory)


def packed(costs: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Return consecutive ranges, each as long as its costs are within a limit; the last part is in one of its own
    where all would be in one."""
    ranges, start, total = [], 0, 0
    for number, cost in enumerate(costs):
        if number > start and total + cost > limit:
            ranges.append((start, number))
            start, total = number, 0
        total += cost
    ranges.append((start, len(costs)))
    return ranges if len(ranges) > 1 else [(0, len(costs) - 1), (len(costs) - 1, len(costs))]
