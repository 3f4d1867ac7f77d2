"""Distillation (Hinton et al., arXiv 1503.02531): a smaller model, the student, learns from the outputs of a teacher.

The loss of an example is that of its labels, plus weight x T^2 x KL(teacher || student) of the distributions at a
temperature T, and the mean cosine distance of hidden states (DistilBERT: Sanh et al., arXiv 1910.01108). The teacher is
no part of the model that is trained: its outputs are computed beside it, as what an architecture adds to the loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.compression.methods.method import FineTune, Trained
from tasks.config.base import NOT_IDENTITY, Conflict, Name
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.models import OwnModel
from tasks.training.initial import Text

if TYPE_CHECKING:
    import keras

    from tasks.compression.stored import PreparedModel
    from tasks.models import ModelConfig
    from tasks.models.features import Arrays

EPSILON = 1e-6


class Distill(Trained):
    """Distillation (Hinton et al., arXiv 1503.02531): another model, the student, is trained on the labels and on the
    outputs of a teacher."""

    version: ClassVar[int] = 2
    adds_loss: ClassVar[bool] = True

    kind: Literal["distill"] = "distill"
    """The method."""
    name: Annotated[Name | None, NOT_IDENTITY] = None
    """The student in the name of the variant; default: its kind."""
    student: OwnModel
    """The model that is trained, from new weights; of the same task, and an architecture of Millrace."""
    teacher: Annotated[Text | None, NOT_IDENTITY] = None
    """A model in the store, by its digest, or that of a registered version, NAME@ALIAS; its digest is a parent.
    Default: the model that the methods before this one have made, or that of the run."""
    temperature: Annotated[float, Field(ge=1, le=100)] = 4.0
    """Divides the logits of both, so that the teacher's small probabilities count."""
    weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Factor of the divergence of the outputs, which is also multiplied by the square of the temperature; the loss of
    the labels has 1."""
    hidden: dict[str, str] = {}
    """Layers of the student, and layers of the teacher whose outputs they should have: `{dense1: dense3}`. They have
    the same shape."""
    hidden_weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Factor of the mean cosine distance of these outputs."""
    fine_tune: FineTune
    """The training of the student."""

    @property
    def label(self) -> str:
        """The name of the method with that of the student."""
        return f"{self.kind}_{self.name or self.student.kind}"

    @property
    def teacher_model(self) -> str | None:
        """The model that the student learns from; empty for the one before the method."""
        return self.teacher or ""

    @property
    def student_model(self) -> OwnModel | None:
        """The student."""
        return self.student

    @model_validator(mode="after")
    def the_teacher_counts(self) -> Distill:
        if self.hidden and self.hidden_weight == 0:
            raise Conflict("hidden_weight", 0, "is the factor of the layers in hidden", "raise it, or leave hidden out")
        if self.weight == 0 and not self.hidden:
            rule = "is the factor of all that the student learns from the teacher"
            raise Conflict("weight", 0, rule, "raise it, name layers in hidden, or leave distill out")
        if self.weight == 0 and self.temperature != type(self).model_fields["temperature"].default:
            rule = "is of the divergence of the outputs, whose weight is 0"
            raise Conflict("temperature", self.temperature, rule, "leave it out, or raise weight")
        return self

    @model_validator(mode="after")
    def layers_are_weighed(self) -> Distill:
        if not self.hidden and self.hidden_weight != type(self).model_fields["hidden_weight"].default:
            remedy = "leave it out, or name layers in hidden"
            raise Conflict("hidden_weight", self.hidden_weight, "is the factor of layers that are not named", remedy)
        return self

    @model_validator(mode="after")
    def outputs_have_a_divergence(self) -> Distill:
        if (loss := TASKS[self.student.task].losses[0]) not in DIVERGENCES:
            rule = f"its outputs are no logits of probabilities, as {loss} is its loss"
            raise Conflict("student.task", self.student.task, rule, "leave distill out")
        return self

    def prepare(self, architecture: ModelConfig, model: keras.Model) -> tuple[PreparedModel, Arrays]:
        """Return the student, which begins with new weights."""
        from tasks.compression.stored import PreparedModel

        return PreparedModel.of(self.student, self), {}

    def finish(self, architecture: PreparedModel, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the student and its weights."""
        return super().finish(architecture.model, model)

    def added_loss(self, model: keras.Model, teacher: Path) -> keras.KerasTensor:
        """Return what the teacher adds to the loss of each example, a symbolic float32 [B].

        Args:
            model: the student.
            teacher: the folder of the teacher's artifact.

        Raises:
            Failed: outputs or hidden states of student and teacher have other shapes, or there is no such layer.
        """
        import keras

        from tasks.compression.keras_layers import Frozen
        from tasks.models.forward import arguments
        from tasks.models.keras_file import architecture, load

        network = load(teacher)
        pairs = sorted(self.hidden.items())  # the terms of a sum: their order decides its last bits, and no digest
        states = [hidden(network, name, "teacher") for _, name in pairs]
        inputs = network.inputs[0] if len(network.inputs) == 1 else {each.name: each for each in network.inputs}
        taught = Frozen(keras.Model(inputs, [network.output, *states], name="teacher"))(
            arguments(network, {each.name: each for each in model.inputs})
        )
        check_shapes("outputs", model.output, taught[0])
        task = TASKS[architecture(teacher)["model"]["task"]]
        real = real_tokens(model) if task.of_tokens and task.target is not None else None
        added = self.weight * DIVERGENCES[task.losses[0]](model.output, taught[0], self.temperature, real)
        for (name, _), state in zip(pairs, taught[1:], strict=True):
            own = hidden(model, name, "student")
            check_shapes(name, own, state)
            added = added + self.hidden_weight * cosine_distance(own, state, real)
        return added


def real_tokens(model: keras.Model) -> keras.KerasTensor:
    """Return 1 where there is a token, and 0 where padding follows it, float32 [B, T]."""
    from keras import ops

    from tasks.models.layers import PADDING

    [tokens, *_] = (each for each in model.inputs if len(each.shape) == 2 and each.shape[1] is None)
    return ops.cast(ops.not_equal(tokens, PADDING), "float32")


def softmax_divergence(student: Any, teacher: Any, temperature: float, real: Any = None) -> Any:
    """Return T^2 KL(teacher || student) of logits [B, ..., classes] at a temperature T, [B]: a mean over positions; of
    tagging over the `real` ones, [B, T]."""
    from keras import ops

    own = ops.log_softmax(ops.cast(student, "float32") / temperature, axis=-1)
    other = ops.log_softmax(ops.cast(teacher, "float32") / temperature, axis=-1)
    return temperature**2 * of_example(ops.sum(ops.exp(other) * (other - own), axis=-1), real)


def sigmoid_divergence(student: Any, teacher: Any, temperature: float, real: Any = None) -> Any:
    """Return T^2 KL(teacher || student) of the logits of independent labels [B, labels], [B]: the mean over labels."""
    from keras import ops

    own, other = (ops.cast(each, "float32") / temperature for each in (student, teacher))
    share = ops.sigmoid(other)
    positive = share * (ops.log_sigmoid(other) - ops.log_sigmoid(own))
    negative = (1.0 - share) * (ops.log_sigmoid(-other) - ops.log_sigmoid(-own))
    return temperature**2 * of_example(positive + negative)


DIVERGENCES = {"cross_entropy": softmax_divergence, "binary_cross_entropy": sigmoid_divergence}
"""The divergence of outputs by the default loss of a task."""


def cosine_distance(student: Any, teacher: Any, real: Any = None) -> Any:
    """Return 1 - cosine of hidden states [B, ..., size], [B]: the mean over positions, the `real` ones where they are
    known, [B, T]."""
    from keras import ops

    own, other = (ops.normalize(ops.cast(each, "float32"), axis=-1, epsilon=EPSILON) for each in (student, teacher))
    distance = 1.0 - ops.sum(own * other, axis=-1)
    return of_example(distance, real if len(distance.shape) == 2 else None)


def of_example(values: Any, real: Any = None) -> Any:
    """Return the mean of [B, ...] over all axes but the first, [B]; with `real` [B, T] that of the values it counts."""
    from keras import ops

    if real is not None:
        return ops.sum(values * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
    return values if len(values.shape) == 1 else ops.mean(values, axis=tuple(range(1, len(values.shape))))


def hidden(network: keras.Model, name: str, who: str) -> Any:
    """Return the output of a layer; raises `Failed` where a model has none of this name."""
    layers = {layer.name: layer for layer in network.layers}
    if name not in layers:
        remedy = f"use one of {', '.join(list(layers)[1:9])}"
        raise Failed("compress.methods", f"distill, hidden: {name}", f"is no layer of the {who}", remedy)
    return layers[name].output


def check_shapes(what: str, student: Any, teacher: Any) -> None:
    """Raise `Failed` where a tensor of the student has another shape than that of the teacher."""
    if tuple(student.shape) != tuple(teacher.shape):
        saw = f"distill: {what} {list(student.shape)} of the student, {list(teacher.shape)} of the teacher"
        raise Failed("compress.methods", saw, "they must have one shape", "choose another student, teacher or layer")
