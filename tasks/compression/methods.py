"""The interface of a method's module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import keras

    from tasks.compression.given import Given
    from tasks.models import ModelConfig
    from tasks.models.features import Arrays

CALIBRATED = "train"
"""The split that activations are observed on."""

CHOSEN = "validation"
"""The split that a method chooses on; the test split only judges."""


class FileMethod(Protocol):
    """A module of `METHODS` whose method changes a LiteRT file."""

    VERSION: int
    """Incremented when the same file would become another."""

    def write(self, config: Any, given: Given) -> bytes:
        """Return the compressed `.tflite` file; inputs and outputs keep their names and dtypes.

        Raises:
            Failed: the method does not fit the file.
        """
        ...


class ModelMethod(Protocol):
    """A module of `METHODS` whose method changes a Keras model."""

    VERSION: int
    """Incremented when the same model would become another."""

    def change(self, config: Any, model: keras.Model) -> None:
        """Change the weights of a model.

        Raises:
            Failed: the method does not fit the model.
        """
        ...


class TrainedMethod(Protocol):
    """A module of `METHODS` whose method trains a Keras model: it is prepared, trained as any model, and finished."""

    VERSION: int
    """Incremented when the same model would become another."""

    def prepare(self, config: Any, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture that is trained (`tasks.config.stored`), and weights that it begins with by path.

        Variables of other paths begin as they are built.

        Raises:
            Failed: the method does not fit the model.
        """
        ...

    def attach(self, config: Any, model: keras.Model) -> None:
        """Add to a model that was built what the method needs in training."""
        ...

    def finish(self, config: Any, architecture: Any, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture of the result, and its weights by path, of the model that was trained."""
        ...
