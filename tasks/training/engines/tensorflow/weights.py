"""The weights of a training: low-rank matrices beside them, averages over steps, and how both are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import keras
import numpy as np

from tasks.errors import Failed
from tasks.models.layers import layer_seed
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.optimizers import averages
from tasks.training.engines.tensorflow.scoring import numbered
from tasks.training.engines.tensorflow.step import copies
from tasks.training.optimizers import named
from tasks.training.sections import Lora

Adapted = list[tuple[keras.Variable, keras.Variable, keras.Variable, float]]
"""Kernels, their two matrices and the scale of the product."""

ADAPTED = (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Embedding)
"""The layers of Keras that low-rank adaptation knows."""


def adapt(model: keras.Model, config: TrainConfig, seed: int) -> Adapted:
    """Freeze layers of a model, and add the matrices of `train.lora`; return the kernels that have some.

    Raises:
        Failed: a pattern names no layer, or nothing is left to train.
    """
    adapted: Adapted = []
    if config.lora is not None:
        adapted = add_matrices(model, config.lora, seed)
    elif config.freeze:
        freeze(model, config.freeze)
    if not model.trainable_variables:
        rule = "names all layers, and nothing is left to train"
        raise Failed("train.freeze", ", ".join(config.freeze), rule, "leave out the output layer's")
    return adapted


def freeze(model: keras.Model, patterns: Sequence[str]) -> None:
    """Freeze the layers that patterns name; a normalisation among them uses its moving averages, as in inference."""
    for pattern in patterns:
        if not (layers := [layer for layer in weighted(model) if belongs(layer, pattern)]):
            raise names_nothing("train.freeze", pattern, model)
        for layer in layers:
            layer.trainable = False


def add_matrices(model: keras.Model, config: Lora, seed: int) -> Adapted:
    """Add two matrices to each layer of `lora.targets`, and freeze all others but those of `lora.also`."""
    layers = weighted(model)
    whole = {id(layer) for pattern in config.also for layer in layers if belongs(layer, pattern)}
    for pattern in config.also:
        if not any(belongs(layer, pattern) for layer in layers):
            raise names_nothing("train.lora.also", pattern, model)
    targets: dict[int, keras.Layer] = {}
    for pattern in config.targets:
        chosen = {id(layer): layer for layer in layers if isinstance(layer, ADAPTED) and belongs(layer, pattern)}
        if not chosen:
            known = [layer for layer in layers if isinstance(layer, ADAPTED)]
            raise names_nothing("train.lora.targets", pattern, model, known, "Dense, EinsumDense or Embedding layer")
        targets |= chosen
    for layer in layers:
        if id(layer) not in targets and id(layer) not in whole:
            layer.trainable = False
    return [matrices(layer, config, seed) for key, layer in targets.items() if key not in whole]


def matrices(
    layer: keras.Layer, config: Lora, seed: int
) -> tuple[keras.Variable, keras.Variable, keras.Variable, float]:
    """Freeze a layer, and add its two matrices; the first begins at random, the second at 0."""
    first = keras.initializers.HeUniform(layer_seed(seed, f"{layer.path}/lora"))
    alpha = config.rank if config.alpha is None else config.alpha
    kernel = layer._embeddings if isinstance(layer, keras.layers.Embedding) else layer._kernel
    layer.enable_lora(config.rank, a_initializer=first, b_initializer="zeros", lora_alpha=alpha)
    if (bias := getattr(layer, "bias", None)) is not None:
        bias.trainable = False
    names = (
        ("lora_embeddings_a", "lora_embeddings_b")
        if kernel.name == "embeddings"
        else ("lora_kernel_a", "lora_kernel_b")
    )
    a, b = (getattr(layer, name) for name in names)
    return kernel, a, b, alpha / config.rank


def merged(kernel: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """Return W + scale x A B, float32."""
    total: np.ndarray = kernel + np.float32(scale) * (a @ b)
    return total


def rate_factors(paths: Iterable[str], config: TrainConfig) -> list[float]:
    """Return the factor of the learning rate of each variable that is trained, by its path.

    Raises:
        Failed: a pattern of `train.layer_rates` names none of them, or two give one of them different factors.
    """
    paths = list(paths)
    for pattern in config.layer_rates:
        if not any(named(path, pattern) for path in paths):
            layers = list(dict.fromkeys(path.rpartition("/")[0] for path in paths))
            remedy = f"use names of {', '.join(layers[:8])}"
            raise Failed("train.layer_rates", pattern, "names no layer that is trained", remedy)
    return [rate_factor(path, config.layer_rates) for path in paths]


def rate_factor(path: str, rates: Mapping[str, float]) -> float:
    """Return the factor of a variable, 1 where no pattern names it; raises `Failed` where two give different ones."""
    given = [(pattern, rate) for pattern, rate in sorted(rates.items()) if named(path, pattern)]
    different = [next(each for each in given if each[1] == rate) for rate in dict.fromkeys(rate for _, rate in given)]
    if len(different) > 1:
        saw = " and ".join(f"{pattern}: {rate:g}" for pattern, rate in different)
        rule = "a variable has one factor, whatever the order of the patterns"
        raise Failed("train.layer_rates", f"{path} by {saw}", rule, "use patterns of which one names it")
    return different[0][1] if different else 1.0


def weighted(model: keras.Model) -> list[keras.Layer]:
    """Return the layers that have variables of their own, and not only by the layers within them."""
    layers = model._flatten_layers(include_self=False)
    return [layer for layer in layers if layer._trainable_variables or layer._non_trainable_variables]


def belongs(layer: keras.Layer, pattern: str) -> bool:
    """Return whether a pattern names a layer, or one around it."""
    own = [*layer._trainable_variables, *layer._non_trainable_variables]
    return any(named(variable.path, pattern) for variable in own)


def names_nothing(
    field: str,
    pattern: str,
    model: keras.Model,
    layers: Sequence[keras.Layer] | None = None,
    what: str = "layer with weights",
) -> Failed:
    """Return the error of a pattern that names no layer."""
    paths = [layer.path for layer in (weighted(model) if layers is None else layers)]
    shown = ", ".join(paths[:8]) + (f" and {len(paths) - 8} more" if len(paths) > 8 else "")
    return Failed(field, pattern, f"names no {what} of the model", f"use names of {shown or 'another model'}")


class Weights:
    """The variables of the model as it was built, by `model/<number>` in Keras' order."""

    def __init__(
        self, plain: Sequence[keras.Variable], adapted: Adapted, optimizer: keras.optimizers.Optimizer
    ) -> None:
        """Create it for the variables before `train.lora` added some."""
        self.plain = numbered("model", plain)
        self._averages = averages(optimizer)
        self._average_of = {id(variable): average for variable, average in self._averages}
        self._matrices = {id(kernel): (a, b, scale) for kernel, a, b, scale in adapted}

    def arrays(self) -> Arrays:
        """Return the values."""
        return {name: self._value(variable) for name, variable in self.plain.items()}

    def assign(self, arrays: Arrays) -> None:
        """Assign a result of `arrays`, before the first step."""
        for name, variable in self.plain.items():
            variable.assign(arrays[name])
        for variable, average in self._averages:
            average.assign(values(variable))

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Use the averages as the model's variables within the context."""
        before = [values(variable) for variable, _ in self._averages]
        for variable, average in self._averages:
            variable.assign(values(average))
        try:
            yield
        finally:
            for (variable, _), value in zip(self._averages, before, strict=True):
                variable.assign(value)

    def _value(self, variable: keras.Variable) -> np.ndarray:
        if (matrices := self._matrices.get(id(variable))) is None:
            return values(self._average_of.get(id(variable), variable))
        *factors, scale = matrices
        a, b = (values(self._average_of.get(id(each), each)) for each in factors)
        return merged(values(variable), a, b, scale)


def values(variable: keras.Variable) -> np.ndarray:
    """Return the values of a variable's first copy."""
    array: np.ndarray = copies(variable)[0].numpy()
    return array
