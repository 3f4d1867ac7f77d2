"""What all methods of compression have, and the training that some of them need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tasks.config.base import Conflict, Section
from tasks.config.schedule import Cosine
from tasks.config.train import Rate, Steps, TrainConfig
from tasks.models import OwnModel


class Method(Section):
    """What all methods have. A compressed file is made by several, one after the other."""

    on_file: ClassVar[bool] = True
    """Whether it changes the LiteRT file; otherwise the Keras model."""

    size_ratio: ClassVar[float] = 1.0
    """Largest size of the file, as a share of the float LiteRT file, where its gate has no `max_ratio`."""

    reads_limit: ClassVar[bool] = False
    """Whether it chooses by the limit of the quality gate, which is then part of the variant's digest."""

    made_from: ClassVar[str] = "litert"
    """The format of the float form that it changes."""

    gzip_ratio: ClassVar[float] = 1.0
    """The same of the size after gzip, for methods whose files are smaller only as a download."""

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

    kind: str

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
