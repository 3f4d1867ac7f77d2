"""Two runs of a brought model or loss, before its training: what cannot be exact is found, and named."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.errors import Failed, of_the_machine
from tasks.models import ModelConfig
from tasks.models.features import input_arrays
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays

if TYPE_CHECKING:
    import keras

    from tasks.feed.snapshot_reader import SnapshotReader

STEPS, ROWS = 2, 4
RATE = 0.01
"""Learning rate of the steps."""

RULE = "a training is a function of its config, the seed and the examples, so that it can be resumed exactly"
REMEDY = "draw random numbers by keras.random with a SeedGenerator of the layer, and keep state in its variables"
RULE_OF_INFERENCE = "in inference a model is a function of its inputs alone, and works as in training"
REMEDY_OF_RANDOM = "call random layers without training=True: Keras tells them whether it is a training"
REMEDY_OF_SHAPE = "its layers must accept the same shapes in inference as in training"
REMEDY_OF_CROP = "use layers.CenterCrop, or train.augment: [{kind: crop}], in its place"
CODES = re.compile(r"\x1b\[[0-9;]*m")
"""Colours, which Keras puts into its errors."""
REMEDY_OF_LOSS = "draw no random numbers in the loss, and keep no state in Python"


def check_repeatable(model_config: ModelConfig, config: TrainConfig, snapshot: SnapshotReader, seed: int) -> None:
    """Build a model twice, run two steps of each from the same weights, and compare them bit for bit.

    The generators of Python, NumPy and Keras that have no seed of their own are in another state in the second run, and
    its step is traced once before, as that of a resumed training may be, so that what counts calls in Python differs.

    Raises:
        Failed: weights or outputs differ; the first variable or step is named. A brought model fails in inference, or
            answers at random.
    """

    models = [model_config.build(snapshot.features, seed) for _ in range(2)]
    field, remedy = "train.loss", REMEDY_OF_LOSS
    if model_config.own:
        field, remedy = model_config.setting, REMEDY
        same_names(models, field)
        same_values(models, "of two builds", field, remedy)
    batches = [snapshot.reader("train", min(ROWS, snapshot.counts["train"]), order="stored")[0]] * STEPS
    runs = [steps(model, model_config.task, config, snapshot, batches, run) for run, model in enumerate(models)]
    for step, (one, other) in enumerate(zip(*runs, strict=True)):
        if not np.array_equal(one, other, equal_nan=True):
            where = "the first call" if step == 0 else f"call {step + 1}"
            raise Failed(field, f"outputs of {where} differ between two runs with the same seed", RULE, remedy)
    same_values(models, f"after {STEPS} steps", field, remedy)
    if model_config.own:
        check_inference(models[0], input_arrays(snapshot.features, batches[0])[:], field)


def check_inference(model: keras.Model, inputs: Arrays, field: str) -> None:
    """Run a model in inference twice, and log a warning where it crops in training alone.

    Raises:
        Failed: it fails, or its outputs differ.
    """
    import keras

    from tasks.models.forward import inference_function

    crops = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.RandomCrop)]
    named = f"the layer {crops[0].name} crops in training alone" if crops else ""
    call = inference_function(model)
    try:
        one, other = call(inputs), call(inputs)
    except Exception as error:  # whatever the user's code raises
        if of_the_machine(error) is not None:
            raise
        said, *_ = CODES.sub("", f"{type(error).__name__}: {error}").partition("Arguments received")
        said = " ".join(said.split())[:300]
        saw, remedy = (f"{named}: {said}", REMEDY_OF_CROP) if crops else (said, REMEDY_OF_SHAPE)
        raise Failed(field, f"it fails in inference: {saw}", RULE_OF_INFERENCE, remedy) from error
    if not np.array_equal(one, other, equal_nan=True):
        saw = "outputs of two calls in inference differ"
        raise Failed(field, saw, RULE_OF_INFERENCE, REMEDY_OF_RANDOM)
    if crops:
        saw = f"{named}: evaluations and exports read whole images"
        logging.getLogger(__name__).warning("%s: %s; %s", field, saw, REMEDY_OF_CROP)


def same_names(models: list[keras.Model], field: str) -> None:
    """Raise `Failed` for the first variable that two models do not both have."""
    one, other = ({variable.path for variable in model.variables} for model in models)
    if one != other:
        saw = f"variables of two builds have other names: {sorted(one ^ other)[0]}"
        raise Failed(field, saw, RULE, "name layers, or let Keras name them")


def same_values(models: list[keras.Model], when: str, field: str, remedy: str) -> None:
    """Raise `Failed` for the first variable that differs between two models with the same variables in one order."""
    for one, other in zip(*(model.variables for model in models), strict=True):
        values = np.asarray(one)
        if not np.array_equal(values, np.asarray(other), equal_nan=values.dtype.kind == "f"):
            raise Failed(field, f"the values of {one.path} {when} differ", RULE, remedy)


def steps(
    model: keras.Model, task: str, config: TrainConfig, snapshot: SnapshotReader, batches: list[Arrays], run: int
) -> list[np.ndarray]:
    """Return the outputs of each step of plain gradient descent, in a run of this number."""
    import keras
    import tensorflow as tf

    from tasks.training.engines.tensorflow.engine import make_objective
    from tasks.training.engines.tensorflow.scoring import tensors

    objective = make_objective(task, config, snapshot)

    def step(batch: dict[str, Any]) -> Any:
        with tf.GradientTape() as tape:
            outputs = model(objective.inputs(model, batch), training=True)
            loss = objective(batch, tf.cast(outputs, tf.float32)).sums()[objective.minimised]
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        for variable, gradient in zip(variables, gradients, strict=True):
            if gradient is not None:
                variable.assign(variable - RATE * tf.convert_to_tensor(gradient))
        return outputs

    keras.utils.set_random_seed(7 + run)  # for what has no seed of its own
    for _ in range(run):
        tf.function(step, autograph=False).get_concrete_function(tensors(batches[0]))  # which computes nothing
    compiled = tf.function(step, autograph=False)
    return [compiled(tensors(batch)).numpy() for batch in batches]
