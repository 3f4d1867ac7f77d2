"""The work of stage `train`: set-up in the order of execution, the loop, the model's files."""

from __future__ import annotations

from tasks.artifacts import Snapshot
from tasks.config import ModelConfig, TrainConfig
from tasks.data import open_snapshot
from tasks.errors import Stopped
from tasks.training.actions import Evaluate, Guard, Log, Progress, Save
from tasks.training.checkpoints import STATE, StagedCheckpoints, pack
from tasks.training.feeding import Feed
from tasks.training.ledger import LEDGER, SPAN
from tasks.training.loop import Action, train
from tasks.training.meter import Meter
from tasks.training.plan import make_plan
from tasks.workbench import Outcome, Workbench


def fit(bench: Workbench, examples: Snapshot, model_config: ModelConfig, config: TrainConfig, seed: int) -> Outcome:
    """Train from the newest checkpoint in the staging, or from the start; write the model when all steps are taken.

    Raises `Stopped` after a signal, the state saved; `Failed` on a loss that is not finite.
    """
    from tasks import runtime
    from tasks.models import build, keras_file
    from tasks.training.optimizers import make_optimizer
    from tasks.training.step import OBJECTIVES
    from tasks.training.tensorflow_engine import TensorFlowEngine

    runtime.pin(bench.threads)
    snapshot = open_snapshot(examples.path)
    pauses = (config.log_every, config.evaluate_every, config.checkpoint.every, SPAN)
    plan = make_plan(config, snapshot.counts["train"], pauses)

    model = build(model_config, snapshot.features, seed)
    optimizer = make_optimizer(config.optimizer, model)
    feed = Feed(snapshot, plan, seed)
    engine = TensorFlowEngine(model, optimizer, OBJECTIVES[model_config.task], feed, config.clip_norm)

    checkpoints = StagedCheckpoints(bench.staging, config.checkpoint.keep, bench.measure)
    meter = Meter()
    actions: list[Action] = [
        Guard(),
        Progress(plan, bench.progress, bench.measure),
        Log(config.log_every, bench.journal, config.batch_size),
        Evaluate(config.evaluate_every, snapshot, bench.journal),
        Save(config.checkpoint.every, checkpoints),
    ]
    step = train(engine, plan, checkpoints, meter, actions, bench.stopping)
    feed.close()
    if step < plan.steps:
        raise Stopped(bench.stopping())

    saved = keras_file.save(model, bench.staging, model_config, snapshot.features, seed)
    bench.staging.put(STATE, pack(step, meter.state(), engine.state()))
    bench.staging.put(LEDGER, meter.ledger.text())
    return Outcome(
        counts={"steps": step, "parameters": int(model.count_params()), "examples": plan.examples},
        features=snapshot.features,
        also={**saved, "steps": step},
    )
