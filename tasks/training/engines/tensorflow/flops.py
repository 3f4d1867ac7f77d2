"""The floating-point operations of a model, and the most that its devices can do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

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
