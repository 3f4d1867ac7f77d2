"""What a step costs: the floating-point operations of its model, and the memory that its gradients need.

Memory is tried on an accelerator, which refuses what is too much. A host's system kills a process instead, so that
there the peaks of one example and of a smaller micro-batch are measured, and extended in a straight line.
"""

from __future__ import annotations

import logging
import math
import re
import time
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

PEAKS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10": 125e12,
    "V100": 125e12,
    "T4": 65e12,
}
"""Dense multiplications and additions a second of NVIDIA's accelerators in half precision, from their data sheets; of
those with several forms the SXM one. The first name that a device's own name contains counts."""

SIZE, TIMES = 1024, 5
"""Side of the matrices that a processor multiplies, and how often; the fastest time counts."""


def forward_flops(model: Callable[[dict[str, tf.Tensor]], Any], specs: dict[str, tf.TensorSpec]) -> int:
    """Return the operations of products and convolutions of a forward pass, two for a multiplication and its addition.

    The body of a loop counts once.
    """
    graph = tf.function(model, autograph=False).get_concrete_function(specs).graph
    return sum(flops_of(operation) for operation in operations(graph))


def operations(graph: Any) -> Iterator[tf.Operation]:
    """Yield the operations of a graph and of the functions within it."""
    yield from graph.get_operations()
    for function in getattr(graph, "_functions", {}).values():
        inner = getattr(function, "graph", None)
        if inner is not None and inner is not graph:
            yield from operations(inner)


def flops_of(operation: tf.Operation) -> int:
    """Return the operations of one of TensorFlow's, 0 for one that is no product and where a shape is not known."""
    shapes = [tensor.shape for tensor in (*operation.inputs, *operation.outputs)]
    if operation.type not in COUNTED or not all(shape.is_fully_defined() for shape in shapes):
        return 0
    inputs, output = [tensor.shape.as_list() for tensor in operation.inputs], operation.outputs[0].shape.as_list()
    return 2 * COUNTED[operation.type](operation, inputs, output)


def _matmul(operation: tf.Operation, inputs: list[list[int]], output: list[int]) -> int:
    transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
    return math.prod(output) * inputs[0][-2 if transposed else -1]


def _convolution(operation: tf.Operation, inputs: list[list[int]], output: list[int]) -> int:
    return math.prod(output) * math.prod(inputs[1][:-1])


def _depthwise(operation: tf.Operation, inputs: list[list[int]], output: list[int]) -> int:
    return math.prod(output) * math.prod(inputs[1][:2])


def _einsum(operation: tf.Operation, inputs: list[list[int]], output: list[int]) -> int:
    equation = operation.get_attr("equation").decode()
    names = equation.partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for labels, shape in zip(names, inputs, strict=True):
        if "." in labels:
            return 0
        sizes |= dict(zip(labels, shape, strict=True))
    return math.prod(sizes.values())


COUNTED: dict[str, Callable[[tf.Operation, list[list[int]], list[int]], int]] = {
    "MatMul": _matmul,
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "BatchMatMulV3": _matmul,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "DepthwiseConv2dNative": _depthwise,
    "Einsum": _einsum,
}
"""Multiplications by operation."""


def peak_flops(dtype: str) -> float:
    """Return the operations a second of a device of this process: catalogued for an accelerator, else measured.

    Args:
        dtype: that of the products; a processor's peak is measured in it and in float32, and the higher one counts. 0
            where an accelerator is not in the catalogue, or computes in float32, which has several meanings there.
    """
    accelerators = tf.config.list_physical_devices("GPU")
    if accelerators:
        name = tf.config.experimental.get_device_details(accelerators[0]).get("device_name", "")
        return 0.0 if dtype == "float32" else next((peak for part, peak in PEAKS.items() if part in name), 0.0)
    return max(measured_flops(each) for each in {dtype, "float32"})


def measured_flops(dtype: str) -> float:
    """Return the operations a second of a product of two square matrices."""
    matrix = tf.ones((SIZE, SIZE), dtype)
    multiply = tf.function(lambda values: tf.matmul(values, values), autograph=False)
    multiply(matrix)
    seconds = []
    for _ in range(TIMES):
        started = time.perf_counter()
        multiply(matrix).numpy()
        seconds.append(time.perf_counter() - started)
    return float(2 * SIZE**3 / min(seconds))


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


def measured_need(step: Step, specs: Specs, most: int, estimate: int) -> Need:
    """Measure what the gradients of micro-batches of at most so many examples need; 0 where a host counts no memory.

    Args:
        estimate: bytes of an example's activations, 0 where it is not known.
    """
    if not counted():  # a larger and larger micro-batch would be tried in vain, up to the whole one
        log.warning("TensorFlow counts no memory on this processor: whether a step fits into it is not known")
        return Need(1, 0, 0.0)

    def of(size: int) -> int:
        return peak_bytes(gradients(replace(step, accumulate=1), specs, size))

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
        return peak_bytes(lambda: tf.zeros((LARGE,), tf.uint8)) > 0
    except ValueError:  # its allocator has no statistics
        return False


def peak_bytes(run: Callable[[], object]) -> int:
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
