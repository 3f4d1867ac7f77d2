"""The memory that the gradients of a step need: tried on an accelerator, predicted on a host.

An accelerator refuses what is too much. A host's system kills a process instead, so that there the peaks of two smaller
micro-batches are measured, and extended in a straight line.
"""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from tasks.models.segments import elements
from tasks.models.stages import upstream
from tasks.training.engines import OutOfMemory
from tasks.training.engines.tensorflow.seeds import copies
from tasks.training.engines.tensorflow.step import Step

log = logging.getLogger(__name__)

Specs = dict[str, tf.TensorSpec]
"""An example's arrays by name: shape without the batch, and dtype."""
LARGE = 16 << 20
"""Bytes from which on a peak is measured well: TensorFlow does not count tensors of less than 256 KiB."""


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
    return sum(4 * elements(node.outputs) for node in upstream(outputs))


def fits(step: Step, specs: Specs, examples: int, accumulate: int) -> bool:
    """Return whether the gradients of examples fit into an accelerator's memory in so many micro-batches."""
    try:
        with out_of_memory():
            gradients(replace(step, accumulate=accumulate), specs, examples)()
            tf.test.experimental.sync_devices()
    except OutOfMemory:
        return False
    return True


def predicted(step: Step, specs: Specs, examples: int) -> int:
    """Return the bytes of a host that the gradients of so many examples need at once; 0 where they are not counted."""

    if not counted():  # a larger and larger micro-batch would be tried in vain, up to the whole one
        log.warning("TensorFlow counts no memory on this processor: whether a step fits into it is not known")
        return 0

    def of(size: int) -> int:
        return peak(gradients(replace(step, accumulate=1), specs, size))

    larger, high = 1, of(1)
    while high < LARGE and larger < examples:
        larger = min(4 * larger, examples)
        high = of(larger)
    if larger == examples:
        return high
    smaller = max(1, larger // 2)
    slope = (high - of(smaller)) / (larger - smaller) if larger > 1 else high
    return round(high + slope * (examples - larger))


def counted() -> bool:
    """Return whether TensorFlow counts the memory of the host."""
    try:
        return peak(lambda: tf.zeros((LARGE,), tf.uint8)) > 0
    except ValueError:  # its allocator has no statistics
        return False


def peak(run: Callable[[], object]) -> int:
    """Return the bytes that a function needs at most, besides those in use before."""
    run()  # it compiles, and changes nothing
    gc.collect()  # tensors that are freed in between would be taken off
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
