"""The trainable variables of a model, cut into pieces that are balanced over servers by their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays


def pieces_of(shape: Sequence[int], size: int, servers: int, min_bytes: int) -> int:
    """Return into how many pieces along its first axis a variable of `size` bytes is cut."""
    rows = shape[0] if shape else 1
    return max(1, min(servers, size // min_bytes, rows))


def placed(sizes: Sequence[int], servers: int) -> list[int]:
    """Return the server of each piece: in order, the one with the fewest bytes so far."""
    loads, chosen = [0] * servers, []
    for size in sizes:
        server = min(range(servers), key=lambda number: loads[number])
        loads[server] += size
        chosen.append(server)
    return chosen


class Shards:
    """Pieces on the servers, of the variables of a model that the chief holds as a template."""

    def __init__(self, model: keras.Model, servers: int, min_bytes: int) -> None:
        self.model = model
        self.constants = [variable.numpy() for variable in model.non_trainable_variables]
        """The variables that are not trained: seeds, frozen layers, statistics that were fitted to the examples."""
        values = [variable.numpy() for variable in model.trainable_variables]
        cut = [np.array_split(v, pieces_of(v.shape, v.nbytes, servers, min_bytes)) if v.ndim else [v] for v in values]
        servers_of = iter(placed([piece.nbytes for pieces in cut for piece in pieces], servers))
        self.of_variable: list[list[keras.Variable]] = []
        """The pieces of each trainable variable, by its number."""
        for variable, pieces in zip(model.trainable_variables, cut, strict=True):
            self.of_variable.append([])
            for number, piece in enumerate(pieces):
                scope = f"{variable.path.replace('/', '_')}_{number}"
                with tf.device(on_server(next(servers_of))), keras.name_scope(scope):
                    self.of_variable[-1].append(keras.Variable(piece, dtype=variable.dtype, name=variable.name))
        self.flat = [piece for pieces in self.of_variable for piece in pieces]
        pairs = zip(model.trainable_variables, self.of_variable, strict=True)
        self.paths = [variable.path for variable, pieces in pairs for _ in pieces]
        """The path in the model of each piece's variable."""

    def read(self) -> list[tf.Tensor]:
        """Return the trainable variables, from their pieces."""
        return [joined([piece.value for piece in pieces]) for pieces in self.of_variable]

    def arrays(self) -> Arrays:
        """Return all variables of the model by `model/<number>`, in Keras' order."""
        trainable = zip(self.model.trainable_variables, self.read(), strict=True)
        values = {id(variable): value.numpy() for variable, value in trainable}
        rest = {id(variable): variable.numpy() for variable in self.model.non_trainable_variables}
        return {f"model/{i:05d}": (values | rest)[id(variable)] for i, variable in enumerate(self.model.variables)}

    def assign(self, state: Arrays) -> None:
        """Assign all variables of the model by name."""
        numbers = {id(variable): number for number, variable in enumerate(self.model.trainable_variables)}
        for i, variable in enumerate(self.model.variables):
            value = state[f"model/{i:05d}"]
            if (number := numbers.get(id(variable))) is None:
                variable.assign(value)
            else:
                self.split(number, value, [piece.value for piece in self.of_variable[number]])
        self.constants = [variable.numpy() for variable in self.model.non_trainable_variables]

    def split(self, number: int, value: np.ndarray, pieces: Sequence[tf.Variable]) -> None:
        """Assign a variable's value, or that of one of its slots, to its pieces."""
        if len(pieces) == 1:
            pieces[0].assign(value)
            return
        ends = np.cumsum([piece.shape[0] for piece in self.of_variable[number]])[:-1]
        for piece, part in zip(pieces, np.split(value, ends), strict=True):
            piece.assign(part)


class Slots:
    """The variables of an optimizer that is built for the pieces, as those of one for whole variables."""

    def __init__(self, optimizer: keras.optimizers.Optimizer, shards: Shards) -> None:
        self.shards = shards
        prefix = f"{shards.flat[0].path.replace('/', '_')}_"
        names = sum(variable.path.rpartition("/")[2].startswith(prefix) for variable in optimizer.variables)
        first = len(optimizer.variables) - names * len(shards.flat)
        self.head, slots, at = optimizer.variables[:first], iter(optimizer.variables[first:]), []
        """Those that do not belong to a variable: iterations, learning rate, loss scale."""
        for pieces in shards.of_variable:
            rows = [[next(slots) for _ in range(names)] for _ in pieces]
            at.append([[row[k] for row in rows] for k in range(names)])
        self.of_variable: list[list[list[Any]]] = at
        """Of each trainable variable, of each of its slots, the pieces."""

    def arrays(self) -> Arrays:
        """Return all variables of the optimizer by `optimizer/<number>`, in the order for whole variables."""
        whole = [joined([piece.value for piece in pieces]) for slots in self.of_variable for pieces in slots]
        values = [*(variable.value for variable in self.head), *whole]
        return {f"optimizer/{i:05d}": value.numpy() for i, value in enumerate(values)}

    def assign(self, state: Arrays) -> None:
        """Assign all variables of the optimizer by name."""
        for i, variable in enumerate(self.head):
            variable.assign(state[f"optimizer/{i:05d}"])
        i = len(self.head)
        for number, slots in enumerate(self.of_variable):
            for pieces in slots:
                self.shards.split(number, state[f"optimizer/{i:05d}"], [piece.value for piece in pieces])
                i += 1


def joined(pieces: Sequence[Any]) -> tf.Tensor:
    """Return the whole of the pieces of a variable."""
    return tf.identity(pieces[0]) if len(pieces) == 1 else tf.concat([tf.identity(piece) for piece in pieces], 0)


def on_server(number: int) -> str:
    """Return the device of a server."""
    return f"/job:ps/replica:0/task:{number}/device:CPU:0"
