"""The weights that a training makes: averaged over steps, and with low-rank matrices merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import keras
import numpy as np

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.adapting import Adapted, merged
from tasks.training.engines.tensorflow.optimizers import averages
from tasks.training.engines.tensorflow.scoring import numbered
from tasks.training.engines.tensorflow.seeds import copies


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
