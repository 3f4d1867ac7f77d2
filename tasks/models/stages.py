"""Cutting a model into stages: consecutive parts, each of which reads the output of the one before.

The stages are those of a pipeline over devices, or segments whose activations are computed again in the backward pass:
of the forward pass only the outputs of the segments are kept, and in the backward pass the activations of one segment
at a time (Chen et al., arXiv 1604.06174).

A Functional or Sequential model is cut where a single tensor connects what is above with what is below. Any other model
lists its parts in an attribute `stages`: layers, of which the first is called on the model's input and every other on
the output of the one before; the last one's output is the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tasks.errors import Failed

if TYPE_CHECKING:
    import keras

LENGTH = 256
"""What an axis of free length counts as: a batch has as many examples everywhere, and a text about so many tokens."""
LIMITS = 64
"""Sizes of the largest segment that are tried."""


@dataclass(frozen=True)
class Stage:
    """Layers that are called in turn."""

    layers: tuple[Any, ...]
    reads: tuple[str, ...]
    """Names of the model's inputs that the first layer reads, after the output of the stage before."""

    @property
    def variables(self) -> list[keras.Variable]:
        """Variables, each once, seeds included; another stage may use the same."""
        return unique(variable for layer in self.layers for variable in layer.variables)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Trainable variables, each once."""
        return unique(variable for layer in self.layers for variable in layer.trainable_variables)

    def __call__(self, before: Any, inputs: dict[str, Any], training: bool) -> Any:
        """Return the stage's output for that of the stage before, None for the first, and the model's inputs."""
        values = [] if before is None else [before]
        values += [inputs[name] for name in self.reads]
        value = values[0] if len(values) == 1 else values
        for layer in self.layers:
            value = layer(value, training=training)
        return value


def cut(model: keras.Model, count: int) -> list[Stage]:
    """Cut a model into `count` stages, so that the most costly one costs as little as possible.

    The cost is an estimate of the multiplications of a forward pass; of a model that lists its `stages`, the number of
    its weights.

    Raises:
        Failed: the model cannot be cut, or not into so many stages.
    """
    parts = parts_of(model, multiplications)
    if parts is None:
        rule = "a model is cut between the layers of its graph, or lists its stages"
        remedy = "give the model an attribute stages (docs/how-to-distribute.md), or use another strategy"
        raise Failed("train.strategy.kind", f"pipeline of {type(model).__name__}", rule, remedy)
    if (most := len(parts.costs)) < count:
        remedy = f"use {most} devices at most" if most > 1 else "use another strategy, or a model with more layers"
        raise Failed("train.strategy.devices", count, f"this model can be cut into {most} stages at most", remedy)
    return [parts.stage(*part) for part in balanced(parts.costs, count)]


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


@dataclass(frozen=True)
class Parts:
    """The smallest parts that a model can be cut into."""

    costs: list[int]
    """The cost of each part."""
    ends: list[Any]
    """The output of each part, a symbolic tensor; of a model that lists its stages None."""
    stage: Callable[[int, int], Stage]
    """Makes a stage of the parts [start, stop)."""


def parts_of(model: keras.Model, cost: Callable[[Any], int]) -> Parts | None:
    """Return the parts of a model; of one that is no graph and lists no stages None.

    Args:
        cost: the cost of a node of Keras' graph. A listed stage costs the number of its weights.
    """
    if hasattr(model, "stages"):
        listed = list(model.stages)
        costs = [sum(math.prod(weight.shape) for weight in each.trainable_variables) for each in listed]
        names = tuple(tensor.name for tensor in model.inputs)
        return Parts(
            costs, [None] * len(listed), lambda start, stop: Stage(tuple(listed[start:stop]), () if start else names)
        )
    if not getattr(model, "outputs", None):
        return None
    ends = [*separators(model), model.outputs[0]]
    costs_above = [sum(cost(node) for node in upstream([end])) for end in ends]
    costs = [above - before for before, above in pairwise([0, *costs_above])]
    return Parts(
        costs, ends, lambda start, stop: part_between(model, ends[start - 1] if start else None, ends[stop - 1])
    )


def balanced(costs: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return `count` consecutive ranges of the costs, of which the most costly costs least; then the most equal."""
    above = [0, *accumulate(costs)]

    @cache
    def best(stop: int, ranges: int) -> tuple[int, int, tuple[int, ...]]:
        """Return of the ranges that end at `stop`: the highest cost, the sum of squared costs, the ends."""
        if ranges == 1:
            return above[stop], above[stop] ** 2, (stop,)
        choices = []
        for start in range(ranges - 1, stop):
            highest, squares, ends = best(start, ranges - 1)
            last = above[stop] - above[start]
            choices.append((max(highest, last), squares + last**2, (*ends, stop)))
        return min(choices)

    return list(pairwise((0, *best(len(costs), count)[2])))


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


def separators(model: keras.Model) -> list[Any]:
    """Return the tensors at which a Functional model may be cut, in order, with weights before and after each.

    Below such a tensor no layer above it is needed again, except those without variables: what they compute of the
    model's inputs alone, as a mask, every stage computes for itself. A variable may be used on both sides.
    """
    nodes = upstream(model.outputs)
    weighted = [node for node in nodes if getattr(node.operation, "trainable_variables", ())]
    found: dict[int, Any] = {}
    for node in nodes:
        above, below = set(upstream(node.outputs)), set(upstream(model.outputs, node.outputs))
        before = sum(one in above for one in weighted)
        again = any(getattr(one.operation, "variables", ()) for one in above & below)
        if 0 < before < len(weighted) and len(node.outputs) == 1 and not again:
            found[before] = node.outputs[0]  # the last of those with the same weights before
    return [found[before] for before in sorted(found)]


def part_between(model: keras.Model, start: Any | None, end: Any) -> Stage:
    """Return the stage between two tensors of a Functional model; it shares the model's layers."""
    import keras

    above = upstream([end], [] if start is None else [start])
    inputs = [tensor for tensor in model.inputs if node_of(tensor) in above]
    given = inputs if start is None else [start, *inputs]
    layer = keras.Model(given[0] if len(given) == 1 else given, end)
    return Stage((layer,), tuple(tensor.name for tensor in inputs))


def multiplications(node: Any) -> int:
    """Estimate the multiplications by weights for an example; those along an axis of free length are counted once.

    What reads integers looks up rows, and multiplies nothing.
    """
    import keras

    if any(keras.backend.is_int_dtype(tensor.dtype) for tensor in node.input_tensors):
        return 0
    weights = [weight.shape for weight in getattr(node.operation, "trainable_variables", ())]
    positions = math.prod(size or 1 for size in node.outputs[0].shape[1:-1])
    return positions * sum(math.prod(shape) for shape in weights if len(shape) > 1)


def activations(node: Any) -> int:
    """Return the elements of a node's outputs, for an example."""
    return elements(node.outputs)


def elements(tensors: Iterable[Any]) -> int:
    """Return the elements of symbolic tensors, for an example."""
    return sum(math.prod(LENGTH if size is None else size for size in tensor.shape[1:]) for tensor in tensors)


def upstream(tensors: Iterable[Any], without: Iterable[Any] = ()) -> list[Any]:
    """Return the nodes of Keras' graph that compute tensors from the inputs, or from `without`; each after its own."""
    stops = {id(tensor) for tensor in without}
    found: dict[Any, None] = {}
    left = [(tensor, False) for tensor in tensors]
    while left:
        tensor, finished = left.pop()
        node = node_of(tensor)
        if finished:
            found[node] = None
        elif node not in found and id(tensor) not in stops:
            left += [(tensor, True), *((source, False) for source in node.input_tensors)]
    return list(found)


def node_of(tensor: Any) -> Any:
    """Return the node of Keras' graph that a symbolic tensor is an output of."""
    operation, number, _ = tensor._keras_history
    return operation._inbound_nodes[number]


def unique(variables: Iterable[keras.Variable]) -> list[keras.Variable]:
    """Return the variables, each once, in the order of their first use."""
    return list({id(variable): variable for variable in variables}.values())
