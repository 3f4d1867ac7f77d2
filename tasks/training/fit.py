"""The work of stage `train`: set-up in the order of execution, the loop, the model's files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.config import ModelConfig, TrainConfig
from tasks.config.train import Mirrored
from tasks.data import open_snapshot
from tasks.errors import Stopped
from tasks.evaluation import primary
from tasks.training.actions import Evaluate, Guard, Log, Progress, Save
from tasks.training.best_weights import Choice
from tasks.training.checkpoints import STATE, StagedCheckpoints
from tasks.training.feeding import Feed
from tasks.training.ledger import LEDGER, SPAN
from tasks.training.loop import Action, train
from tasks.training.meter import Meter
from tasks.training.plan import make_plan

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

POLICY = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@contextmanager
def policy(name: str) -> Iterator[None]:
    """Build layers under a dtype policy of Keras'."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def fit(
    bench: Workbench,
    examples: Snapshot,
    model_config: ModelConfig,
    config: TrainConfig,
    seed: int,
    base: Model | None = None,
) -> Outcome:
    """Train from the newest checkpoint in the staging, from `base`'s state, or from the start; write the model.

    Raises `Stopped` after a signal, the state saved; `Failed` on a loss that is not finite.
    """
    from tasks.training.engines.tensorflow.strategies import split_cpu

    split_cpu(config.strategy.devices if isinstance(config.strategy, Mirrored) else 1)

    from tasks.models import build, keras_file
    from tasks.models.features import outputs_of
    from tasks.models.forward import at_once
    from tasks.training.engines.tensorflow.engine import TensorFlowEngine, first_copy
    from tasks.training.engines.tensorflow.objectives import make_objective, rightness
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.engines.tensorflow.step import Step
    from tasks.training.engines.tensorflow.strategies import make_strategy

    snapshot = open_snapshot(examples.path)
    pauses = (config.log_every, config.evaluate_every, config.checkpoint.every, SPAN)
    plan = make_plan(config, snapshot.counts["train"], pauses)
    objective = make_objective(model_config.task, config, snapshot)
    right = rightness(model_config.task)

    feed = Feed(snapshot, plan, seed)
    strategy = make_strategy(config)
    with strategy.scope():
        with policy(POLICY[config.precision]):
            model = build(model_config, snapshot.features, seed)
        optimizer = make_optimizer(config.optimizer, model)
        step_of = Step(model, optimizer, objective, config.clip_norm, config.accumulate, config.jit)
        engine = TensorFlowEngine(step_of, strategy, feed)
    engine.part_seeds()

    choice = Choice(config, primary(model_config.task)[1])
    start = base.path / STATE if base is not None else None
    held = sum(array.nbytes for array in engine.state().values())
    bench.staging.reserve((config.checkpoint.keep + 3) * held)  # one more while it is written; the model, its weights
    checkpoints = StagedCheckpoints(bench.staging, config.checkpoint.keep, choice, bench.measure, start)
    meter = Meter()
    actions: list[Action] = [
        Guard(),
        Progress(plan, bench.progress, bench.measure),
        Log(config.log_every, bench.journal, config.batch_size, right),
        Evaluate(config.evaluate_every, snapshot, bench.journal, choice, right, at_once(outputs_of(snapshot.features))),
        Save(config.checkpoint.every, checkpoints),
    ]
    step = train(engine, plan, checkpoints, meter, actions, bench.stopping)
    feed.close()
    if step < plan.steps and not meter.ended:
        raise Stopped(bench.stopping())

    meter.clear()  # sums since the last point hang on how often points are made
    bench.staging.put(STATE, checkpoints.content(engine, meter, step))
    bench.staging.put(LEDGER, meter.ledger.text())
    engine.load({**engine.state(), **choice.best()})
    finished = build(model_config, snapshot.features, seed)  # in float32, outside of any strategy
    finished.set_weights([first_copy(weight) for weight in model.weights])
    saved = keras_file.save(finished, bench.staging, model_config, snapshot.features, seed, objective.loss)
    return Outcome(
        counts={"steps": step, "parameters": int(finished.count_params()), "examples": plan.examples},
        features=snapshot.features,
        also={**saved, "steps": step},
    )
