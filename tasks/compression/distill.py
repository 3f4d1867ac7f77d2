"""Distillation (Hinton et al., arXiv 1503.02531): a smaller model, the student, learns from the outputs of a teacher.

The loss of an example is that of its labels, plus weight x T^2 x KL(teacher || student) of the distributions at a
temperature T, and the mean cosine distance of hidden states (DistilBERT: Sanh et al., arXiv 1910.01108). The teacher is
no part of the model that is trained: its outputs are computed beside it, as what an architecture adds to the loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.config.model_methods import Distill
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.models import ModelConfig

if TYPE_CHECKING:
    import keras

    from tasks.config.stored import PreparedModel
    from tasks.models.features import Arrays

VERSION = 2
EPSILON = 1e-6


def prepare(config: Distill, architecture: ModelConfig, model: keras.Model) -> tuple[PreparedModel, Arrays]:
    """Return the student, which begins with new weights."""
    from tasks.config.stored import PreparedModel

    return PreparedModel(task=config.student.task, model=config.student, method=config), {}


def attach(config: Distill, model: keras.Model) -> None:
    """Leave the student as it was built."""


def finish(config: Distill, architecture: PreparedModel, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the student and its weights."""
    from tasks.training.starting import by_path

    return architecture.model, by_path(model)


def added_loss(config: Distill, model: keras.Model, teacher: Path) -> keras.KerasTensor:
    """Return what the teacher adds to the loss of each example, a symbolic float32 [B].

    Args:
        model: the student.
        teacher: the folder of the teacher's artifact.

    Raises:
        Failed: outputs or hidden states of student and teacher have other shapes, or there is no such layer.
    """
    import keras

    from tasks.compression.frozen import Frozen
    from tasks.models.forward import arguments
    from tasks.models.keras_file import architecture, load

    network = load(teacher)
    pairs = sorted(config.hidden.items())  # the terms of a sum: their order decides its last bits, and no digest
    states = [hidden(network, name, "teacher") for _, name in pairs]
    inputs = network.inputs[0] if len(network.inputs) == 1 else {each.name: each for each in network.inputs}
    taught = Frozen(keras.Model(inputs, [network.output, *states], name="teacher"))(
        arguments(network, {each.name: each for each in model.inputs})
    )
    check_shapes("outputs", model.output, taught[0])
    task = TASKS[architecture(teacher)["model"]["task"]]
    real = real_tokens(model) if task.of_tokens and task.target is not None else None
    added = config.weight * DIVERGENCES[task.losses[0]](model.output, taught[0], config.temperature, real)
    for (name, _), state in zip(pairs, taught[1:], strict=True):
        own = hidden(model, name, "student")
        check_shapes(name, own, state)
        added = added + config.hidden_weight * cosine_distance(own, state, real)
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
