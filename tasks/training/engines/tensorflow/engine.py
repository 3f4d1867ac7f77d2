"""The TensorFlow engine of synchronous training: builds the model in a strategy, and computes its steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tasks.config.task import TASKS
from tasks.environment import hardware
from tasks.errors import Failed
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.models import ModelConfig
from tasks.models.features import output_size
from tasks.models.outputs import further_outputs
from tasks.models.stages import segments
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Batches, Compute, Keep
from tasks.training.engines.objectives import OBJECTIVES, Objective, OwnLoss
from tasks.training.engines.several_outputs import Further, SeveralOutputs
from tasks.training.engines.tensorflow.costs import (
    Need,
    Specs,
    activations,
    fits,
    forward_flops,
    measured_need,
    out_of_memory,
    peak_flops,
)
from tasks.training.engines.tensorflow.optimizers import make_optimizer, scale_rates
from tasks.training.engines.tensorflow.scoring import Scoring, numbered
from tasks.training.engines.tensorflow.segmented_steps import RematerialisedStep
from tasks.training.engines.tensorflow.step import (
    COMPUTING,
    FINITE,
    NORM,
    REDUCING,
    SCALE,
    SKIPPED,
    Step,
    split_seeds,
    trimmed,
)
from tasks.training.engines.tensorflow.strategies import Placement
from tasks.training.engines.tensorflow.watching import Watched
from tasks.training.engines.tensorflow.weights import Weights, adapt, rate_factors, values
from tasks.training.feeding import Feed
from tasks.training.group import Alone, Cluster, Seconds, agree
from tasks.training.loop import Plan
from tasks.training.meter import StepSums


def check_layers(model: keras.Model, config: TrainConfig) -> None:
    """Check that no layer computes with the statistics of a part of the batch.

    A plain BatchNormalization does, in each replica and in each micro-batch, so that its moving averages differ between
    replicas and from those of one device. `synchronized` ones add up the statistics of all replicas.

    Raises:
        Failed: there is such a layer, and the batch is divided.
    """
    for layer in of_batch(model):
        saw = f"BatchNormalization {layer.name}"
        if (parts := config.accumulate * config.strategy.micro_batches_of_each) > 1:
            rule = f"its statistics would be those of one of {parts} micro-batches"
            remedy = "set train.accumulate and micro_batches to 1, or use a norm of each example (GroupNormalization)"
            raise Failed("train.accumulate", saw, rule, remedy)
        if not config.strategy.exact:
            rule = f"{config.strategy.kind} has no batch whose statistics all workers share"
            raise Failed("train.strategy", saw, rule, "use a norm of each example (GroupNormalization)")
        if config.strategy.replicas > 1 and not layer.synchronized:
            rule = f"its statistics would be those of one of {config.strategy.replicas} replicas"
            raise Failed("train.strategy", saw, rule, "create it with synchronized=True, or use one_device")


def of_batch(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return the layers that compute with statistics of the batch."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]


POLICY = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class TensorFlowEngine:
    """Implements `tasks.training.engines.Engine`; must be created in the strategy's scope."""

    def __init__(self, step: Step, strategy: Placement, feed: Feed, weights: Weights, watched: Watched | None) -> None:
        self.model, self.optimizer, self.feed = step.model, step.optimizer, feed
        self._strategy = strategy
        self.loss, self.scales_loss = step.objective.loss, step.scales_loss
        self.group, self.position, self._weights = strategy.group, 0, weights
        self._watched = watched
        self.paths = {name: variable.path for name, variable in weights.plain.items()}
        self.on_host = not tf.config.list_physical_devices("GPU")
        self.activations = activations(getattr(step.model, "outputs", ())) if self.on_host else 0
        self._first_replica = strategy.devices * strategy.group.cluster.rank
        specs = {name: tf.TensorSpec((feed.examples, *shape), dtype) for name, (shape, dtype) in feed.layout.items()}
        self._specs = {**specs, "weight": tf.TensorSpec((feed.examples,), tf.float32)}
        self._step, self._run = step, strategy.prepare(step, self._specs)
        self._scoring = Scoring(step.model, step.objective, strategy.group)
        split_seeds(self.model, self._first_replica)

    @property
    def layout(self) -> dict[str, Any]:
        """The types of GPUs, and how they round."""
        return hardware.layout()

    def seek(self, step: int) -> None:
        """Continue with the examples of global step `step`."""
        self.position = step
        self.feed.seek(step)

    def step(self, rates: NDArray[np.float32]) -> StepSums:
        """Run a step with each of these rates in one call, with this process' slices of the batches."""
        n, started, waited = len(rates), time.perf_counter(), self.feed.waited
        arrays = self.feed.take(n)
        waited = self.feed.waited - waited
        fed = arrays["row"][arrays["weight"] > 0]
        figures: dict[str, float] = {}
        with out_of_memory():
            batches = {name: each for name, each in arrays.items() if name != "row"}
            if self._watched is None:
                returned = self._run(batches, rates)
            else:
                returned, figures = self._watched.run(self._run, batches, rates, self.position + n)
        self.position += n
        norms, finite = returned.pop(NORM).astype(np.float64), returned.pop(FINITE) > 0
        skipped, scales = returned.pop(SKIPPED) > 0, returned.pop(SCALE).astype(np.float64)
        computing, reducing = (float(returned.pop(name, np.zeros(1)).sum()) for name in (COMPUTING, REDUCING))
        own = Seconds(time.perf_counter() - started, waited, computing, reducing)
        agreed = agree(self.group, fed, own)
        return StepSums(
            sums={name: values.astype(np.float64) for name, values in returned.items()},
            gradient_norms=norms,
            finite=finite,
            rates=rates,
            fed=agreed.fed,
            fed_hash=agreed.fed_hash,
            seconds=max(rank.call for rank in agreed.ranks),
            waited=max(rank.waiting for rank in agreed.ranks),
            ranks=agreed.ranks,
            skipped=skipped,
            loss_scales=scales if self.scales_loss else None,
            norms=figures,
        )

    @property
    def divisible(self) -> bool:
        """Whether more micro-batches give the same step: no layer computes with statistics of the batch."""
        return not of_batch(self.model)

    def fits(self, accumulate: int, available: int) -> bool:
        """Return whether a replica's gradients of a step fit into memory in so many micro-batches.

        Args:
            available: free bytes of the host, where it computes.
        """
        if self.on_host:
            return self._need.of(self._share // accumulate) * self._strategy.devices <= available
        return fits(self._step, self._of_example, self._share, accumulate)

    @cached_property
    def _need(self) -> Need:
        """What micro-batches of a replica need of the host."""
        return measured_need(self._step, self._of_example, self._share, self.activations)

    @property
    def _share(self) -> int:
        """The examples of a replica."""
        examples: int = self._specs["weight"].shape[0]
        return examples // self._strategy.devices

    @property
    def _of_example(self) -> Specs:
        """An example's arrays by name."""
        return {name: tf.TensorSpec(spec.shape[1:], spec.dtype) for name, spec in self._specs.items()}

    def compute(self) -> Compute:
        """Count the products of an example's forward pass, and look up or measure those that the devices could do."""
        specs = {name: tf.TensorSpec((1, *spec.shape[1:]), spec.dtype) for name, spec in self._specs.items()}
        model, objective = self._step.model, self._step.objective
        flops = forward_flops(lambda batch: model(objective.inputs(model, batch), training=True), specs)
        devices = 1 if self.on_host else self._strategy.devices  # logical ones share the host's processors
        return Compute(flops, devices * self.group.cluster.size * peak_flops(model.compute_dtype))

    def memory(self) -> int:
        """Return the bytes in use on the first accelerator; 0 where the host computes."""
        return self._of_accelerator("current")

    def peak_memory(self) -> int:
        """Return the most bytes that were in use on the first accelerator; 0 where the host computes."""
        return self._of_accelerator("peak")

    def _of_accelerator(self, figure: str) -> int:
        return 0 if self.on_host else int(tf.config.experimental.get_memory_info("GPU:0")[figure])

    def accumulate(self, micro_batches: int) -> None:
        """Compute steps in so many micro-batches from now on."""
        self._step = replace(self._step, accumulate=micro_batches)
        self._run = self._strategy.prepare(self._step, self._specs)

    def score(self, batches: Batches) -> dict[str, float]:
        """Return means over batches by name; every process reads and scores its share of them."""
        with self._weights.averaged():
            return self._scoring.score(batches)

    def outputs(self, batches: Batches, keep: Keep) -> tuple[dict[str, float], Arrays]:
        """Return the same means, and what is kept of the outputs for each row."""
        with self._weights.averaged():
            return self._scoring.outputs(batches, keep)

    @property
    def samples(self) -> np.ndarray | None:
        """The outputs for the first examples of the last split that was scored here."""
        return self._scoring.samples

    def close(self) -> None:
        """End the prefetching thread, and disconnect from the other processes."""
        self.feed.close()
        self._strategy.close()

    def weights(self) -> Arrays:
        """Return the variables of the model that is made, numbered in Keras' order: `model/00000`."""
        return self._weights.arrays()

    def begin_with(self, weights: Arrays) -> None:
        """Assign a result of `weights`, before the first step."""
        self._weights.assign(weights)

    def state(self) -> Arrays:
        """Return all variables of model and optimizer, numbered in Keras' order: `model/00000`, `optimizer/00000`."""
        return {name: values(variable) for name, variable in self._variables().items()}

    def load(self, state: Arrays) -> None:
        """Assign every variable from a result of `state`."""
        variables = self._variables()
        assert variables.keys() == state.keys(), f"{sorted(variables.keys() ^ state.keys())[:3]}"
        for name, variable in variables.items():
            variable.assign(state[name])
        split_seeds(self.model, self._first_replica)

    def _variables(self) -> dict[str, Any]:
        return numbered("model", self.model.variables) | numbered("optimizer", self.optimizer.variables)


def build(
    config: TrainConfig, model_config: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> TensorFlowEngine:
    """Create the engine of a config."""
    hardware.prepare()
    strategy = config.strategy.create(cluster)  # first: it configures devices, before TensorFlow is initialised
    objective = make_objective(model_config.task, config, snapshot)
    with strategy.scope():
        with policy(POLICY[config.precision]):
            built = model_config.build(snapshot.features, seed)
            plain = built.variables
            adapted = adapt(built, config, seed)
        check_layers(built, config)
        model = strategy.place(built)
        optimizer = make_optimizer(config.optimizer, model.trainable_variables, config.precision, ema=config.ema)
        if config.layer_rates:
            paths = (variable.path for variable in model.trainable_variables)
            scale_rates(optimizer, rate_factors(paths, config))
        step = Step(
            *(model, optimizer, objective, config.clip_norm, config.accumulate, config.jit),
            timed=cluster.size > 1,
            with_added=with_added(model_config, built),
            padded=trimmed(config.order, snapshot.features),
            watched=config.strategy.watched,
        )
        if config.remat:
            step = RematerialisedStep(**vars(step), segments=tuple(segments(model)))
        feed = Feed(snapshot, plan, seed, cluster.rank, cluster.size, config.augment)
        watched = Watched(step.variables, config.log_every) if config.strategy.watched else None
        return TensorFlowEngine(step, strategy, feed, Weights(plain, adapted, optimizer), watched)


def make_objective(task: str, config: TrainConfig, snapshot: SnapshotReader) -> Objective | SeveralOutputs:
    """Create the objective of a task, and of further outputs.

    Raises:
        Conflict: an option does not apply to the task.
        Failed: the snapshot's labels, targets or further outputs do not fit.
    """
    config.fit(task)
    own = None if config.own_loss is None else OwnLoss(config.own_loss, Path(config.folder or "."))
    loss = TASKS[task].losses[0] if own or config.loss is None else config.loss
    made = OBJECTIVES[task].create(loss, config.label_smoothing, config.class_weights, snapshot)
    return with_further(replace(made, own=own), config, snapshot)


def with_further(main: Objective, config: TrainConfig, snapshot: SnapshotReader) -> Objective | SeveralOutputs:
    """Return the objective of all outputs of a snapshot: the main one's, where there is no other.

    Raises:
        Failed: `train.losses` are not those of the snapshot's further outputs.
    """
    outputs = further_outputs(snapshot.features)
    if (named := set(config.losses)) != (there := {each.column for each in outputs}):
        saw = ", ".join(sorted(named ^ there))
        rule = f"each further output of the snapshot has a loss: {', '.join(sorted(there)) or 'there is none'}"
        raise Failed("train.losses", saw, rule, "add or remove these")
    if not outputs:
        return main
    further = []
    for each in outputs:
        given = config.losses[each.column]
        made = OBJECTIVES[each.task].create(given.reported, 0.0, None, snapshot)
        if given.own is not None:
            folder, setting = Path(config.folder or "."), f"train.losses.{each.column}.loss"
            made = replace(made, own=OwnLoss(given.own, folder, setting))
        further.append(Further(each, made, given.weight))
    return SeveralOutputs(main, output_size(snapshot.features), tuple(further))


def with_added(config: ModelConfig, model: keras.Model) -> keras.Model | None:
    """Return the model with what its architecture adds to each example's loss as second output; layers are shared."""
    added = config.added_loss(model)
    if added is None:
        return None
    given = model.inputs[0] if len(model.inputs) == 1 else model.inputs
    return keras.Model(given, [*model.outputs, added])


def scorer(config: TrainConfig, model_config: ModelConfig, snapshot: SnapshotReader, seed: int) -> Scoring:
    """Create what scores weights of a training in another process, on one device."""
    with policy(POLICY[config.precision]):
        model = model_config.build(snapshot.features, seed)
    return Scoring(model, make_objective(model_config.task, config, snapshot), Alone())


@contextmanager
def policy(name: str) -> Iterator[None]:
    """Set Keras' dtype policy within the context."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
