"""A loss of the user's: `package.module:function` of `train.loss`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from tasks.environment.user_code import raised_at
from tasks.errors import Failed
from tasks.reader.function import imported

RULE = "takes targets and outputs of some examples, and returns a float loss for each prediction"


@dataclass(frozen=True)
class OwnLoss:
    """Calls the user's function; an error in it names its file and line."""

    name: str
    folder: Path
    function: Any = field(init=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "function", imported(self.name, self.folder))
        except Exception as error:  # whatever the user's module raises
            raise self._failed(error) from None

    def __call__(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the losses, float32, of the shape of the targets."""
        try:
            losses = tf.cast(tf.convert_to_tensor(self.function(target, outputs)), tf.float32)
        except Exception as error:  # whatever the user's function raises
            raise self._failed(error) from None
        if losses.shape.as_list() != (expected := target.shape.as_list()):
            saw = f"returns shape {losses.shape.as_list()} for targets {expected} and outputs {outputs.shape.as_list()}"
            raise Failed("train.loss", f"{self.name} {saw}", RULE, "take no mean and no sum over examples or targets")
        return losses

    def _failed(self, error: Exception) -> Failed:
        where = raised_at(error, self.folder) or self.name
        said = (str(error).strip() or "no message").splitlines()[0]
        return Failed("train.loss", f"{where}: {type(error).__name__}: {said}", RULE, "correct the function")
