"""What all architectures have: a kind of model is a section of the config that builds itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field

from tasks.config.base import LATER, Conflict
from tasks.config.kinds import Kind
from tasks.errors import Failed
from tasks.models.features import Input, single_input

if TYPE_CHECKING:
    import keras

    from tasks.models.forward import Function
    from tasks.models.prunable import Prunable

CODE = "code"
"""The folder of a model artifact with copies of the user's files that the model is built from."""

Units = Annotated[int, Field(ge=1, le=65_536)]
Dropout = Annotated[float, Field(ge=0, lt=1)]


class Distribution(Protocol):
    """What an architecture asks the strategy of a training (`tasks.training.strategies`)."""

    kind: str
    adds_losses: ClassVar[bool]


class Architecture(Kind):
    """A kind of model: a pure function of its config, the snapshot's features and a seed.

    The config is read by processes that compute nothing, so modules with architectures import Keras in methods alone.
    """

    noun: ClassVar[str]
    """Name of the architecture in a sentence."""
    reads: ClassVar[tuple[str, ...]]
    """The kinds of snapshot that it can be trained on."""
    own: ClassVar[bool] = False
    """Whether the user has brought the model, so that its code and files are part of the digest."""

    if TYPE_CHECKING:
        task: str

    @property
    def weights_file(self) -> str | None:
        """The file with weights that a training begins with."""
        return None

    @property
    def learns_from(self) -> Path | None:
        """The folder of a model in the store whose outputs a training learns from."""
        return None

    @property
    def setting(self) -> str:
        """The setting that names the model, for errors about what it does."""
        return "model.kind"

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where the architecture cannot read images of this size."""

    def fit_training(self, strategy: Distribution, remat: bool) -> None:
        """Raise `Conflict` where the architecture cannot be trained under a strategy, or with `train.remat`."""

    def fit_start(self, given: bool) -> None:
        """Raise `Conflict` where weights of the model's own are not those that a training begins with.

        Args:
            given: whether `train.init` names the weights.
        """

    def build(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the untrained float32 model.

        Args:
            features: a snapshot manifest's `features`: `{name: {"shape": [...], "dtype": ..., "classes": [...]}}`.
            seed: seed of the initial weights and of dropout, each layer with its own (`layers.layer_seed`).

        Returns:
            A Keras model from an input named as the feature ([B, *shape], the feature's dtype) to float32 outputs
            ([B, classes], [B, targets], or [B, T, vocabulary] of a transformer); every layer has a name.

        Raises:
            Failed: the features do not fit the architecture.
        """
        raise NotImplementedError

    def functions(self, features: dict[str, Any], model: keras.Model) -> list[Function]:
        """Return further functions of a model that its exports have as signatures; none for most kinds."""
        return []

    def added_loss(self, model: keras.Model) -> keras.KerasTensor | None:
        """Return what a training adds to the loss of each example, a symbolic float32 [B]; None for most kinds.

        It is computed from the model's layers, and no part of the model that is saved.
        """
        return None

    def prunable(self) -> Prunable | None:
        """Return the units that a smaller model of the kind can have fewer of; None where that is not known."""
        return None

    def own_files(self) -> dict[str, bytes]:
        """Return the files that the user's model is built from, by path in `CODE`; none for those of Millrace."""
        return {}

    def source_files(self) -> list[tuple[str, str]]:
        """Return path and SHA-256 of what the user's model is built from, and of the weights that it begins with;
        none for those of Millrace."""
        return []

    def at(self, folder: Path) -> Self:
        """Return the config of a model artifact in a folder, with the copies of its files in place of the user's."""
        return self

    def single_image(self, features: dict[str, Any]) -> Input:
        """Return the only input, an image that fits the architecture; raises `Failed` where it is none or does not."""
        feature = single_input(features)
        if len(feature.shape) != 3:
            saw = f"{self.noun} on {feature.name} of shape {list(feature.shape)}"
            raise Failed("model.kind", saw, "it reads images", "use kind: mlp")
        try:
            self.fit_image(*feature.shape[:2])
        except Conflict as misfit:
            raise Failed(f"model.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        return feature


Initializer = Literal[
    "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform", "lecun_normal", "orthogonal"
]


class OwnArchitecture(Architecture):
    """An architecture of Millrace."""

    initializer: Annotated[Initializer | None, LATER] = None
    """How the kernels of dense and convolutional layers begin, by the name that Keras has for it; default: as the
    architecture's papers have it. Output layers, and kernels that begin at 0, stay as they are."""

    def build(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the untrained float32 model (see `Architecture.build`)."""
        model = self.network(features, seed)
        if self.initializer is not None:
            from tasks.models.layers import initialise

            initialise(model, self.initializer, seed)
        return model

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model with kernels that begin as its papers have it; raises `Failed` where features do not fit."""
        raise NotImplementedError


def stored_model(values: dict[str, Any]) -> Architecture:
    """Return the config of a model in the store from the `model` of its `architecture.json`.

    Kinds that are made from others stand with the methods that make them (`tasks.compression.stored`); they are known
    where that module has been imported, as it has in every process that computes.
    """
    return Architecture.kinds()[values["kind"]].model_validate(values)
