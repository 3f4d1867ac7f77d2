"""The engine of asynchronous training: servers hold the parameters, workers compute the steps.

Every step is computed by one worker on a whole batch: it reads the parameters, and its update is applied when it is
ready, whatever others have applied meanwhile (Dean et al., NIPS 2012).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tasks.environment import hardware
from tasks.errors import Stopped
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.models import ModelConfig
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Batches, Compute, Keep
from tasks.training.engines.objectives import Batch
from tasks.training.engines.shards import Shards, Slots, on_server
from tasks.training.engines.tensorflow.engine import POLICY, check_layers, make_objective, policy
from tasks.training.engines.tensorflow.optimizers import apply_locally, inner, make_optimizer
from tasks.training.engines.tensorflow.scoring import first, numbered, tensors, whole
from tasks.training.engines.tensorflow.step import FINITE, NORM, SCALE, SHIFT, SKIPPED, Step, refuse, trimmed
from tasks.training.engines.tensorflow.strategies.replicated import lost_processes
from tasks.training.engines.tensorflow.weights import adapt
from tasks.training.feeding import Feed
from tasks.training.group import Alone, Cluster, ProcessGroup
from tasks.training.ledger import hash_of
from tasks.training.loop import Plan
from tasks.training.meter import Meter, StepSums
from tasks.training.strategies import ParameterServer

CONCURRENT = 8
"""Operations that a worker or server runs at the same time: requests of several others wait for one another."""


_running: list[tf.distribute.Server] = []
"""The server of this process."""


def jobs(strategy: ParameterServer, cluster: Cluster) -> dict[str, list[str]]:
    """Return the addresses by job, in the order of the ranks: the chief, the workers, the servers."""
    first_server = 1 + strategy.workers
    addresses = list(cluster.addresses)
    return {"chief": addresses[:1], "worker": addresses[1:first_server], "ps": addresses[first_server:]}


def connect(strategy: ParameterServer, cluster: Cluster) -> tf.distribute.ParameterServerStrategy:
    """Connect the chief to all workers and servers."""
    use_grpc()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs(strategy, cluster)), rpc_layer="grpc", task_type="chief", task_id=0
    )
    return tf.distribute.ParameterServerStrategy(resolver)


def serve(config: TrainConfig, cluster: Cluster, stopping: Callable[[], int]) -> None:
    """Run TensorFlow's server of a worker or of a parameter server, until this process is killed.

    Raises:
        Stopped: a signal came. The server goes on: the chief saves what it holds.
    """
    use_grpc()
    assert isinstance(config.strategy, ParameterServer)
    workers = config.strategy.workers
    job, index = ("worker", cluster.rank - 1) if cluster.rank <= workers else ("ps", cluster.rank - 1 - workers)
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=CONCURRENT,
    )
    spec = tf.train.ClusterSpec(jobs(config.strategy, cluster))
    _running.append(tf.distribute.Server(spec, job_name=job, task_index=index, protocol="grpc", config=options))
    while not (number := stopping()):
        time.sleep(0.1)
    raise Stopped(number)


def use_grpc() -> None:
    """Let a call to a process that was lost fail at once instead of waiting for it."""
    os.environ["GRPC_FAIL_FAST"] = "use_caller"


STALENESS = "staleness"


@dataclass(frozen=True)
class ServedStep(Step):
    """A step whose parameters are read from servers, and updated there."""

    shards: Shards | None = None
    number: tf.Tensor | None = None
    """The global step, from which dropout's seeds are derived."""

    @property
    def variables(self) -> list[keras.Variable]:
        """The pieces of the variables."""
        assert self.shards is not None
        return self.shards.flat

    def forward(self, batch: Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the model's outputs in training; nothing is added to the loss."""
        return self.outputs(self.objective.inputs(self.model, batch), training=True), []

    def outputs(self, inputs: Any, *, training: bool) -> tf.Tensor:
        """Return the model's outputs with the servers' parameters."""
        assert self.shards is not None
        pairs = zip(self.model.non_trainable_variables, self.shards.constants, strict=True)
        constants = [self._constant(variable, value) for variable, value in pairs]
        outputs, _, losses = self.model.stateless_call(
            self.shards.read(), constants, inputs, training=training, return_losses=True
        )
        refuse(losses, "train.strategy.kind", "parameter_server")
        return outputs

    def _constant(self, variable: keras.Variable, constant: np.ndarray) -> tf.Tensor:
        """Return a variable that is not trained; a seed is another one at every step."""
        value = tf.constant(constant)
        if self.number is None or not variable.path.endswith("seed_generator_state"):
            return value
        shift = tf.cast(tf.stack([self.number * SHIFT % 2**32, 0]), tf.uint32)
        return value + tf.cast(shift, value.dtype)


class ParameterServerEngine:
    """Implements `tasks.training.engines.Engine` for the chief of an asynchronous training."""

    def __init__(self, step: ServedStep, strategy: tf.distribute.ParameterServerStrategy, feed: Feed) -> None:
        assert step.shards is not None
        self.group: ProcessGroup = Alone()
        self.activations, self.divisible = 0, False
        self.layout: dict[str, Any] = hardware.layout()  # its result is not repeatable in any case
        self.paths = {name: each.path for name, each in numbered("model", step.model.variables).items()}
        self.feed, self.position = feed, 0
        self.loss, self.scales_loss = step.objective.loss, step.scales_loss
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._shards, self._slots = step.shards, Slots(step.optimizer, step.shards)
        self._rate = step.optimizer.learning_rate
        with tf.device(on_server(0)):
            self._applied = tf.Variable(0, dtype=tf.int64)
            """Updates that were applied, counted atomically."""
        self._train = self._compiled(step, strategy)
        plain, self._scored = step.objective.plain(), step.objective.sums

        @tf.function(reduce_retracing=True, autograph=False)
        def score(batch: Batch, whole: bool) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            outputs = tf.cast(step.outputs(plain.inputs(step.model, batch), training=False), tf.float32)
            main = plain.main(outputs)
            return plain(batch, outputs).sums(), main if whole else first(main)

        self._score = score
        self.samples: np.ndarray | None = None

    def _compiled(self, step: ServedStep, strategy: tf.distribute.ParameterServerStrategy) -> Any:
        """Return the step of a worker: its results by name, with the updates that others applied meanwhile."""
        apply_locally(step.optimizer)
        count_atomically(step.optimizer)

        def on_worker(batch: Batch, rate: tf.Tensor, number: tf.Tensor) -> dict[str, tf.Tensor]:
            before = self._applied.read_value()
            with tf.control_dependencies([before]):
                step.optimizer.learning_rate.assign(rate)
                numbered = ServedStep(**{**vars(step), "number": number})
                returned = numbered(batch, lambda sums: sums)
            with tf.control_dependencies(list(returned.values())):
                after = self._applied.assign_add(1, read_value=True)
            return {**returned, STALENESS: after - 1 - before}

        @tf.function(autograph=False)
        def train(batch: Batch, rate: tf.Tensor, number: tf.Tensor) -> dict[str, tf.Tensor]:
            results: dict[str, tf.Tensor] = strategy.run(on_worker, (batch, rate, number))
            return results

        return train

    def compute(self) -> Compute:
        """Return that nothing is known: steps are computed elsewhere."""
        return Compute(0, 0.0)

    def memory(self) -> int:
        """Return 0, for the same reason."""
        return 0

    def peak_memory(self) -> int:
        """Return 0, as above."""
        return 0

    def fits(self, accumulate: int, available: int) -> bool:
        """Return true: steps are computed elsewhere (`train.fit_memory` is refused)."""
        return True

    def accumulate(self, micro_batches: int) -> None:
        """Do nothing, as above."""

    def seek(self, step: int) -> None:
        """Continue with the examples of global step `step`."""
        self.position = step
        self.feed.seek(step)
        self._applied.assign(step)

    def step(self, rates: NDArray[np.float32]) -> StepSums:
        """Let the workers compute a step with each of these rates, and wait for all."""
        n, started, waited = len(rates), time.perf_counter(), self.feed.waited
        arrays = self.feed.take(n)
        waited = self.feed.waited - waited
        fed = arrays["row"][arrays["weight"] > 0]
        with lost_processes():
            scheduled = [
                self._coordinator.schedule(
                    self._train,
                    (
                        tensors({name: values[k] for name, values in arrays.items()}),
                        tf.constant(rates[k]),
                        tf.constant(self.position + k, tf.int64),
                    ),
                )
                for k in range(n)
            ]
            self._coordinator.join()
            results = self._coordinator.fetch(scheduled)
            applied = int(self._applied.numpy())
        self.position += n
        values = {name: np.array([result[name] for result in results], np.float64) for name in results[0]}
        scales = values.pop(SCALE)
        return StepSums(
            gradient_norms=values.pop(NORM),
            finite=values.pop(FINITE) > 0,
            skipped=values.pop(SKIPPED) > 0,
            loss_scales=scales if self.scales_loss else None,
            staleness=values.pop(STALENESS).astype(np.int64),
            repeated=applied - self.position,
            sums=values,
            rates=rates,
            fed=len(fed),
            fed_hash=hash_of(fed),
            seconds=time.perf_counter() - started,
            waited=waited,
        )

    def score(self, batches: Batches) -> dict[str, float]:
        """Return means over batches by name, which the workers score; sums are added in the batches' order."""
        return self._scores(batches, all_outputs=False)[0]

    def outputs(self, batches: Batches, keep: Keep) -> tuple[dict[str, float], Arrays]:
        """Return the same means, and what is kept of the outputs for each row."""
        means, outputs = self._scores(batches, all_outputs=True)
        size = len(batches[0]["weight"])
        kept = [keep(each, number * size) for number, each in enumerate(outputs)]
        return means, {name: np.concatenate([each[name] for each in kept]) for name in kept[0]}

    def _scores(self, batches: Batches, *, all_outputs: bool) -> tuple[dict[str, float], list[np.ndarray]]:
        meter, found = Meter(), []
        with lost_processes():
            numbers = range(len(batches))
            scheduled = [self._coordinator.schedule(self._score, (tensors(batches[k]), all_outputs)) for k in numbers]
            self._coordinator.join()
            for number, (scored, outputs) in enumerate(self._coordinator.fetch(scheduled)):
                if number == 0:
                    self.samples = whole(first(outputs) if all_outputs else outputs, batches[0])
                found.append(np.asarray(outputs))
                for name in self._scored:
                    meter.sums[name] = meter.sums.get(name, 0.0) + float(scored[name])
        return meter.means(), found

    def weights(self) -> Arrays:
        """Return the model's variables, numbered in Keras' order."""
        with lost_processes():
            return self._shards.arrays()

    def begin_with(self, weights: Arrays) -> None:
        """Assign a result of `weights`, before the first step."""
        with lost_processes():
            self._shards.assign(weights)

    def state(self) -> Arrays:
        """Return all variables of model and optimizer, as of one device."""
        with lost_processes():
            return {**self._shards.arrays(), **self._slots.arrays()}

    def load(self, state: Arrays) -> None:
        """Assign every variable from a result of `state`."""
        with lost_processes():
            self._shards.assign(state)
            self._slots.assign(state)

    def close(self) -> None:
        """End the prefetching thread."""
        self.feed.close()


def count_atomically(optimizer: keras.optimizers.Optimizer) -> None:
    """Let the optimizer count its updates by an atomic addition; Keras reads, adds and writes, and loses some.

    A method of a Keras variable is replaced.
    """
    counter = inner(optimizer).iterations
    add = lambda value: counter.value.assign_add(tf.cast(value, counter.value.dtype))  # noqa: E731
    object.__setattr__(counter, "assign_add", add)


def build(
    config: TrainConfig, model_config: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> ParameterServerEngine:
    """Connect to the workers and servers, and create the engine."""
    assert isinstance(config.strategy, ParameterServer)
    with lost_processes():
        strategy = connect(config.strategy, cluster)
        objective = make_objective(model_config.task, config, snapshot)
        with tf.device("/job:chief/replica:0/task:0/device:CPU:0"), policy(POLICY[config.precision]):
            model = model_config.build(snapshot.features, seed)
            adapt(model, config, seed)
        check_layers(model, config)
        shards = Shards(model, config.strategy.servers, config.strategy.min_shard_bytes)
        with tf.device(on_server(0)):
            optimizer = make_optimizer(config.optimizer, shards.flat, config.precision, paths=shards.paths)
        settings = (model, optimizer, objective, config.clip_norm, config.accumulate)
        step = ServedStep(*settings, padded=trimmed(config.order, snapshot.features), shards=shards)
        return ParameterServerEngine(step, strategy, Feed(snapshot, plan, seed, augment=config.augment))
