"""Pruning: the smallest weights become 0, so that the file is smaller after gzip.

By magnitude over the model or in each layer (Han et al., arXiv 1506.02626), or two of each four along a layer's inputs
(2:4; Mishra et al., arXiv 2104.08378). The file has the same size and speed: LiteRT multiplies by zeros, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tasks.compression.kernels import kernels
from tasks.config.methods import Prune
from tasks.errors import Failed

if TYPE_CHECKING:
    import keras

VERSION = 1
GROUP, ZEROS = 4, 2
"""Of so many weights so many become 0."""

Weights = npt.NDArray[np.float32]


def change(config: Prune, model: keras.Model) -> None:
    """Set weights of a model to 0.

    Raises:
        Failed: no layer has inputs in groups of four.
    """
    variables = kernels(model)
    values = {variable.path: np.asarray(variable) for variable in variables}
    if config.pattern == "2:4":
        pruned = {path: two_of_four(each) for path, each in values.items() if each.shape[-2] % GROUP == 0}
        if not pruned:
            saw = ", ".join(f"{path} {list(each.shape)}" for path, each in values.items()) or "no layer with weights"
            rule = "a layer is pruned 2:4 where its inputs divide by 4"
            raise Failed("compress.methods", f"prune 2:4: {saw}", rule, "use pattern: any")
    elif config.scope == "layer":
        pruned = {path: without_smallest([each], config.share)[0] for path, each in values.items()}
    else:
        pruned = dict(zip(values, without_smallest(list(values.values()), config.share), strict=True))
    for variable in variables:
        if variable.path in pruned:
            variable.assign(pruned[variable.path])


def without_smallest(kernels: list[Weights], share: float) -> list[Weights]:
    """Return kernels of which this share of all weights, the smallest in magnitude, is 0; of equal ones the first."""
    flat = np.concatenate([kernel.ravel() for kernel in kernels])
    smallest = np.argsort(np.abs(flat), kind="stable")[: int(share * flat.size)]
    flat[smallest] = 0
    ends = np.cumsum([kernel.size for kernel in kernels])[:-1]
    return [part.reshape(kernel.shape) for part, kernel in zip(np.split(flat, ends), kernels, strict=True)]


def two_of_four(kernel: Weights) -> Weights:
    """Return a kernel [.., inputs, outputs] in which the two smallest of each four inputs of an output are 0."""
    groups = np.moveaxis(kernel, -2, -1)
    shape = groups.shape
    groups = groups.reshape(-1, GROUP).copy()
    smallest = np.argsort(np.abs(groups), axis=-1, kind="stable")[:, :ZEROS]
    np.put_along_axis(groups, smallest, 0, axis=-1)
    return np.moveaxis(groups.reshape(shape), -1, -2)
