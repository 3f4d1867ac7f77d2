"""What all methods of compression have, and the training that some of them need.

A method is one class, in a file of this folder: the settings of its entry in `compress.methods`, what others need to
know of it, and what it does. Configs are read in processes that compute nothing, so that whatever is slow to import
(TensorFlow, Keras, numpy, ai-edge-quantizer) is imported by the methods of the classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tasks.config.base import Conflict, Section
from tasks.config.kinds import Kind
from tasks.models import OwnModel
from tasks.training.config import Rate, TrainConfig
from tasks.training.schedules import Cosine
from tasks.training.sections import Steps

if TYPE_CHECKING:
    import keras

    from tasks.compression.inputs import MethodInputs
    from tasks.models import ModelConfig
    from tasks.models.features import Arrays

CALIBRATED = "train"
"""The split that activations are observed on."""

CHOSEN = "validation"
"""The split that a method chooses on; the test split only judges."""


class Method(Kind):
    """What all methods have. A compressed file is made by several, one after the other."""

    version: ClassVar[int]
    """Incremented when the same model or file would become another; part of the digest of what the method makes."""

    libraries: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions decide what it makes, besides those that decide all models or variants."""

    on_file: ClassVar[bool] = True
    """Whether it changes the LiteRT file; otherwise the Keras model."""

    size_ratio: ClassVar[float] = 1.0
    """Largest size of the file, as a share of the float LiteRT file, where its gate has no `max_ratio`."""

    reads_limit: ClassVar[bool] = False
    """Whether it chooses by the limit of the quality gate, which is then part of the variant's digest."""

    made_from: ClassVar[str] = "litert"
    """The format of the float form that it changes."""

    gzip_ratio: ClassVar[float] = 1.0
    """Largest size after gzip, as a share of that of the float LiteRT file, for methods whose files are smaller only as
    a download."""

    weight_bits: ClassVar[int | None] = None
    """Of a method that changes the file, the bits of its weights; None where they are float."""

    undone_by_training: ClassVar[bool] = False
    """Whether another training of its model would undo what it does to the values of weights."""

    moves_weights: ClassVar[bool] = False
    """Whether it gives the weights other values, besides 0, without a training."""

    one_signature: ClassVar[bool] = False
    """Whether it looks at one signature of the file, where a language model's has three, of the same weights."""

    adds_loss: ClassVar[bool] = False
    """Whether its training has a loss besides that of the outputs."""

    @classmethod
    def listed_by(cls) -> tuple[Any, ...]:
        """Return what methods are listed by: first what changes the file, then what changes the values of a model's
        weights, then what makes another architecture."""
        return not cls.on_file, not cls.undone_by_training, *super().listed_by()

    @classmethod
    def tried(cls, limit: float | None) -> dict[str, Self]:
        """Return the settings that `compress.search` tries, by the name of the choice; by default none.

        Args:
            limit: the loss of the primary metric that the quality gate accepts; None where it is not known.
        """
        return {}

    @property
    def student_model(self) -> OwnModel | None:
        """The model that it trains in place of the one before it."""
        return None

    @property
    def teacher_model(self) -> str | None:
        """The model that it learns from: empty for the model before it, None where it learns from none."""
        return None

    def with_teacher(self, digest: str) -> Method:
        """Return the same with a model in the store as the one that it learns from."""
        return self.model_copy(update={"teacher": digest})

    @property
    def by_channel(self) -> bool:
        """Of a method with `weight_bits`, whether the weights of an output channel share a scale."""
        return True

    @property
    def label(self) -> str:
        """Its name in those of a variant and of a model that it makes; it shows some of the settings. A config in which
        two models or files of one name have other settings is refused."""
        return self.kind

    def check_behind(self, behind: Sequence[Method]) -> None:
        """Raise `Conflict` where the methods behind it cannot be applied, or undo what it does.

        What is behind another one of the kind, or behind a student, is not looked at: the weights are new there.
        """
        if self.on_file and behind:
            rule = f"{self.kind} changes the finished file, and {behind[0].kind} would come after it"
            raise Conflict("methods", _kinds(self, *behind), rule, f"put {self.kind} last, once")
        for method in behind:
            if method.kind == self.kind or method.student_model is not None:
                return
            if (undone := self.undone_by(method)) is not None:
                rule, remedy = undone
                raise Conflict("methods", _kinds(self, method), rule, remedy)

    def undone_by(self, behind: Method) -> tuple[str, str] | None:
        """Return why a method behind it undoes what it does, and a remedy; None where it does not."""
        if not self.undone_by_training or behind.training is None:
            return None
        rule = f"{behind.kind} trains all weights, and what {self.kind} does to their values is lost"
        return rule, f"put {self.kind} behind {behind.kind}"

    def differing(self, other: Method) -> list[str]:
        """Return the names of the settings in which another one of the kind differs."""
        return [name for name in type(self).model_fields if getattr(self, name) != getattr(other, name)]

    @property
    def gzip_limit(self) -> float:
        """`gzip_ratio`, or what follows from the settings."""
        return self.gzip_ratio

    @property
    def training(self) -> FineTune | None:
        """The training that it needs; None where it changes weights at once."""
        return None


def _kinds(*methods: Method) -> str:
    return ", ".join(method.kind for method in methods)


class FileMethod(Method):
    """A method that changes the finished LiteRT file."""

    @abstractmethod
    def write(self, inputs: MethodInputs) -> bytes:
        """Return the compressed `.tflite` file; inputs and outputs keep their names and dtypes.

        Raises:
            Failed: the method does not fit the file.
        """

    @classmethod
    def tried(cls, limit: float | None) -> dict[str, Self]:
        """Return the method as it is by default."""
        kind: str = cls.model_fields["kind"].default
        return {kind: cls(kind=kind)}


class ModelMethod(Method):
    """A method that changes a Keras model: at once (`change`), or by a training that it prepares and finishes."""

    on_file: ClassVar[bool] = False

    def change(self, model: keras.Model) -> None:
        """Change the weights of a model, in place.

        Raises:
            Failed: the method does not fit the model.
        """
        raise NotImplementedError(f"{self.kind} changes a model by a training")

    def prepare(self, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture that is trained (`tasks.compression.stored`), and weights that it begins with by the
        paths of their variables.

        Variables of other paths begin as they are built.

        Raises:
            Failed: the method does not fit the model.
        """
        raise NotImplementedError(f"{self.kind} changes a model at once")

    def attach(self, model: keras.Model) -> None:
        """Add to a model that was built what the method needs in training; by default nothing."""

    def added_loss(self, model: keras.Model, teacher: Path) -> keras.KerasTensor | None:
        """Return what the method adds to the loss of each example, a symbolic float32 [B]; by default nothing.

        Args:
            model: the one that is trained.
            teacher: the folder of the artifact of the model that it learns from.
        """
        return None

    def finish(self, architecture: Any, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture of the result, and its weights by path, of the model that was trained; by default
        both as they are."""
        from tasks.training.initial import by_path

        return architecture, by_path(model)


class FineTune(Section):
    """A training of the model that a method has prepared: with the settings of `train` (batch, optimizer, precision,
    strategy, ...) but these, and a learning rate that falls by a cosine from the first step on. All layers are trained,
    and the last weights are taken; `init`, `freeze`, `lora`, `layer_rates`, `seeds`, `select`, `early_stopping`,
    `continue_from` and `tensorboard` are those of the training before."""

    steps: Steps
    """Global steps."""
    learning_rate: Rate | None = None
    """The peak learning rate; default: that of `train`."""

    def of(self, train: TrainConfig) -> TrainConfig:
        """Return the config of this training, for the section `train` of the run."""
        fresh = TrainConfig(steps=self.steps)
        own = ("init", "freeze", "lora", "layer_rates", "seeds", "select", "early_stopping", "continue_from")
        values: dict[str, Any] = {name: getattr(fresh, name) for name in (*own, "epochs", "tensorboard")}
        rate = train.learning_rate if self.learning_rate is None else self.learning_rate
        return train.model_copy(update={**values, "steps": self.steps, "learning_rate": rate, "schedule": Cosine()})


class Trained(ModelMethod):
    """A method that needs a training."""

    fine_tune: FineTune
    """The training."""

    @property
    def training(self) -> FineTune | None:
        """The training, of the model that the method has prepared."""
        return self.fine_tune


class Chain(tuple[Method, ...]):
    """Methods in the order in which they are applied."""

    @property
    def name(self) -> str:
        """The name of the variant."""
        return "-".join(method.label for method in self)

    @property
    def on_model(self) -> Chain:
        """Those that change the Keras model; they come first."""
        return Chain(method for method in self if not method.on_file)

    @property
    def parts(self) -> tuple[Chain, ...]:
        """Its beginnings and itself: what makes a model, or the file, of that name."""
        return tuple(Chain(self[:count]) for count in range(1, len(self) + 1))

    @property
    def versions(self) -> dict[str, int]:
        """The code versions of the methods by kind, for the digest of what they make."""
        return {method.kind: method.version for method in self}

    @property
    def libraries(self) -> tuple[str, ...]:
        """The packages that decide what the methods make, besides those of all models and variants."""
        return tuple(library for method in self for library in method.libraries)
