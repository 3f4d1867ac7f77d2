"""The memory that the gradients of a step need: tried on an accelerator, predicted on a host.

An accelerator refuses what is too much. A host's system kills a process instead, so that there the peaks of one example
and of a smaller micro-batch are measured, and extended in a straight line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras
import tensorflow as tf

from tasks.environment import process
from tasks.models.stages import elements, upstream
from tasks.training.engines import OutOfMemory
from tasks.training.engines.tensorflow.step import Step, copies

log = logging.getLogger(__name__)

Specs = dict[str, tf.TensorSpec]
"""An example's arrays by name: shape without the batch, and dtype."""
LARGE = 16 << 20
"""Bytes from which on a peak is measured well: TensorFlow does not count tensors of less than 256 KiB."""
TRACES = 3
"""The graphs whose greatest peak counts. TensorFlow's order of operations is the same in all runs of a graph, and
differs between graphs of one function: the gradients of activations may all have to wait for those of the weights."""


@contextmanager
def out_of_memory() -> Iterator[None]:
    """Raise `OutOfMemory` where TensorFlow cannot allocate a tensor."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        tensor = re.search(r"tensor with shape(\[[\d,]*\]) and type (\w+)", str(error))
        what = f"a tensor {tensor[1]} of type {tensor[2]}" if tensor else str(error).strip().splitlines()[0]
        raise OutOfMemory(what) from error


def activations(outputs: Sequence[Any]) -> int:
    """Return about how many bytes the float32 outputs of all layers of a graph have, for an example."""
    total = 0
    for node in upstream(outputs):
        nested = getattr(node.operation, "outputs", None)  # of a model within the model
        total += 4 * elements(node.outputs) if nested is None else activations(nested)
    return total


def fits(step: Step, specs: Specs, examples: int, accumulate: int) -> bool:
    """Return whether the gradients of examples fit into an accelerator's memory in so many micro-batches."""
    try:
        with out_of_memory():
            gradients(replace(step, accumulate=accumulate), specs, examples)()
            tf.test.experimental.sync_devices()
    except OutOfMemory:
        return False
    return True


@dataclass(frozen=True)
class Need:
    """The bytes of a host that the gradients of a micro-batch need at once: a straight line through a measured peak."""

    examples: int
    peak: int
    slope: float
    """Bytes for each further example."""

    def of(self, examples: int) -> int:
        """Return the bytes for so many examples."""
        return max(0, round(self.peak + self.slope * (examples - self.examples)))


def measured(step: Step, specs: Specs, most: int, estimate: int) -> Need:
    """Measure what the gradients of micro-batches of at most so many examples need; 0 where a host counts no memory.

    Args:
        estimate: bytes of an example's activations, 0 where it is not known.
    """
    if not counted():  # a larger and larger micro-batch would be tried in vain, up to the whole one
        log.warning("TensorFlow counts no memory on this processor: whether a step fits into it is not known")
        return Need(1, 0, 0.0)

    def of(size: int) -> int:
        return peak(gradients(replace(step, accumulate=1), specs, size))

    larger = min(most, max(1, LARGE // estimate)) if estimate else 1
    high = of(larger)
    while high < LARGE and larger < most:
        larger = min(4 * larger, most)
        high = of(larger)
    high = max(high, *(of(larger) for _ in range(TRACES - 1)))
    return Need(larger, high, (high - of(1)) / (larger - 1) if larger > 1 else high)


def counted() -> bool:
    """Return whether TensorFlow counts the memory of the host."""
    try:
        return peak(lambda: tf.zeros((LARGE,), tf.uint8)) > 0
    except ValueError:  # its allocator has no statistics
        return False


def peak(run: Callable[[], object]) -> int:
    """Return the bytes that a function needs at most, besides those in use before."""
    run()  # it compiles, and changes nothing
    with process.paused():  # tensors that are freed in between would be taken off
        tf.config.experimental.reset_memory_stats("CPU:0")
        before = tf.config.experimental.get_memory_info("CPU:0")["current"]
        run()
        return int(tf.config.experimental.get_memory_info("CPU:0")["peak"]) - before


def gradients(step: Step, specs: Specs, examples: int) -> Callable[[], None]:
    """Return a function that computes the gradients of full texts or other inputs of ones, and changes no variable."""
    constants = [(variable, copies(variable)[0]) for variable in step.model.non_trainable_variables]

    @tf.function(autograph=False)
    def compute(batch: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        with keras.StatelessScope(state_mapping=[(variable, tf.identity(copy)) for variable, copy in constants]):
            return [gradient / 2.0 for gradient in step.accumulated(batch)]  # the update has them scaled as well

    def run() -> None:
        compute({name: tf.ones((examples, *spec.shape), spec.dtype) for name, spec in specs.items()})

    return run
