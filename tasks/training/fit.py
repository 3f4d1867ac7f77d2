"""The work of stage `train`: set-up, the loop, the model's files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from tasks.artifacts import Model, Outcome, Records, Snapshot
from tasks.errors import Stopped
from tasks.evaluation.config import EvaluateConfig
from tasks.feed import open_snapshot
from tasks.models import ModelConfig
from tasks.processes.config import SIDECAR
from tasks.training import sidecar as beside
from tasks.training.actions import Evaluate, Guard, LogCurves, Progress, Save
from tasks.training.board import FOLDER, TRAINING, Board
from tasks.training.checkpoints import STATE, StagedCheckpoints
from tasks.training.config import Precision, TrainConfig
from tasks.training.engines import Arrays, Engine, ScorerOfWeights
from tasks.training.feeding import names_of
from tasks.training.group import Cluster
from tasks.training.ledger import LEDGER, SPAN
from tasks.training.loop import Action, Plan, make_plan, train
from tasks.training.memory import explained, micro_batches
from tasks.training.meter import Meter, Spikes
from tasks.training.primary import BestWeights, Judged, Primary, evaluated
from tasks.training.probing import check_repeatable
from tasks.training.samples import FILE as SAMPLES
from tasks.training.samples import Samples
from tasks.training.sidecar import Sidecar
from tasks.training.speed import Goodput, Ranks, Speed
from tasks.training.starting import begin, usage_before
from tasks.training.strategies import StrategyConfig

if TYPE_CHECKING:
    import keras

    from tasks.feed.snapshot_reader import BatchReader, SnapshotReader
    from tasks.processes.workbench import Workbench
    from tasks.store.staging import Staging


def fit(
    bench: Workbench,
    examples: Snapshot,
    model_config: ModelConfig,
    config: TrainConfig,
    seed: int,
    base: Model | None = None,
    start: Model | None = None,
    records: Records | None = None,
    evaluation: EvaluateConfig | None = None,
    name: str | None = None,
) -> Outcome | None:
    """Train from the newest checkpoint in the staging, from the state of `base`, or from the start; write the model.

    Evaluations decide by the primary metric of `evaluation`, for which records are read; without both by the loss.
    The start has the weights of `train.init`, of `start` where that is a model in the store, or random ones.

    Of one of several trainings of a run, points of the curves are under its `name`.

    Of several processes the chief writes and returns the outcome; the others return None.

    Writes `model.keras`, `model.weights.h5`, `architecture.json`, `usage/` (the rows that it has used),
    `state/state.npz` and `state/ledger.jsonl`.

    Raises:
        Stopped: a signal came; the chief has saved the state, and reported it.
        Failed: a loss or gradient is not finite.
    """
    from tasks.models import keras_file
    from tasks.models.features import positions
    from tasks.models.layers import count_weights
    from tasks.models.usage import Usage

    if name is not None:
        bench = replace(bench, journal=bench.journal.of(name))
    snapshot = open_snapshot(examples.path)
    role, addresses = config.roles[bench.rank], bench.addresses[: config.strategy.processes]
    cluster = Cluster(bench.rank, addresses)
    judged = None if records is None or evaluation is None else Judged(records, evaluation)
    primary = None if judged is None else judged.primary(examples, model_config.task, config)
    if role is SIDECAR:
        evaluate_beside(bench, snapshot, model_config, config, seed, primary)
    if role.serves:
        serve(config, cluster, bench.stopping)  # until it is killed
    pauses = (config.log_every, config.evaluate_every, config.checkpoint.every, SPAN)
    plan = make_plan(config, snapshot.counts["train"], pauses)
    progress, goodput = Progress(plan, bench.progress, bench.measure), Goodput(bench.measure, bench.journal.reached)
    progress.begin()
    engine = make_engine(config, model_config, snapshot, plan, seed, cluster)
    if (model_config.own or config.own_losses) and cluster.rank == 0:
        check_repeatable(model_config, config, snapshot, seed)
    if config.init is not None:
        begin(engine, config.init, start, model_config, snapshot.features, seed)

    folder, board = bench.journal.folder, None
    if config.tensorboard is not None and folder is not None:  # after the engine, which configures devices
        board = Board(folder / FOLDER / TRAINING, config.tensorboard, config.evaluate_every)
    journal = bench.journal if board is None else board.curves(bench.journal)
    watched = ("loss", False) if judged is None else judged.watched(model_config.task, config)
    best, meter = BestWeights(config, watched), Meter(spikes=Spikes(config.on_spike))
    evaluate = Evaluate(config.evaluate_every, validation(snapshot), journal, best, primary)
    sidecar = make_sidecar(bench, config, evaluate, meter)
    chief = cluster.rank == 0
    staging = bench.staging if chief else None
    samples = None if folder is None else Samples(config.evaluate_every, folder / SAMPLES, model_config.task)

    def sync() -> None:
        bench.journal.sync()
        if samples is not None:
            samples.sync()

    checkpoints = make_checkpoints(bench, staging, engine, config, plan, best, base, sidecar, sync)
    speed = Speed(config.batch_size, positions(snapshot.features))
    ranks = Ranks(config.log_every, bench.hosts, bench.measure)
    evaluations: list[Action] = [evaluate] if sidecar is None else [sidecar] if chief else []
    actions: list[Action] = [
        Guard(names_of(examples, snapshot, plan, seed)),
        progress,
        goodput,
        ranks,
        LogCurves(config.log_every, journal, speed, goodput),
        *(goodput.timed("evaluating", evaluation) for evaluation in evaluations),
        *([] if board is None else board.actions),
        *([] if samples is None else [samples]),
        goodput.timed("saving", Save(config.checkpoint.every, checkpoints)),
    ]
    with explained(engine, config, bench):
        step = train(engine, plan, checkpoints, meter, actions, bench.stopping)
    engine.close()
    if board is not None:
        board.close()
    if step < plan.steps and not meter.ended:
        raise Stopped(bench.stopping() or signal.SIGTERM)  # or another process got one
    progress.end()
    ranks.end()
    if staging is None:
        return None

    meter.clear()  # sums since the last point depend on log_every, which does not decide the model
    staging.put(STATE, checkpoints.content(engine, meter, step))
    staging.put(LEDGER, meter.ledger.text())
    finished = with_weights({**engine.weights(), **best.best()}, model_config, snapshot, seed)
    goodput.report()
    losses = {column: output.reported for column, output in config.losses.items()}
    saved = keras_file.save(finished, staging, model_config, snapshot.features, seed, engine.loss, losses)
    reduce(or_, usage_before(config, model_config, base, start), Usage.of(snapshot)).write(staging)
    return Outcome(
        counts={"steps": step, "parameters": count_weights(finished), "examples": plan.examples},
        features=snapshot.features,
        also={**saved, "steps": step},
        layout=engine.layout,
        layouts=checkpoints.layouts if len(checkpoints.layouts) > 1 else [],
    )


def make_sidecar(bench: Workbench, config: TrainConfig, evaluate: Evaluate, meter: Meter) -> Sidecar | None:
    """Return what has the weights evaluated by another process, whose scores `evaluate` takes; None without one."""
    if SIDECAR not in config.roles:
        return None
    return Sidecar(bench.addresses[-1], bench.key, config.evaluate_every, partial(evaluate.take, meter=meter))


def make_checkpoints(
    bench: Workbench,
    staging: Staging | None,
    engine: Engine,
    config: TrainConfig,
    plan: Plan,
    best: BestWeights,
    base: Model | None,
    sidecar: Sidecar | None,
    sync: Callable[[], None],
) -> StagedCheckpoints:
    """Return the checkpoints of the training, which begin with the state of `base`; reserve their space on the disk."""
    number = micro_batches(engine, config, bench)
    layout = bench.layout | engine.layout | ({"accumulate": number} if number > 1 else {})
    if staging is not None:
        state_bytes = sum(array.nbytes for array in engine.state().values())
        # and one being written, the model, its weights
        staging.reserve((config.checkpoint.most(plan.steps) + 3) * state_bytes)
    base_state = base.path / STATE if base is not None else None
    settle = None if sidecar is None else sidecar.settle
    return StagedCheckpoints(
        staging, config.checkpoint, best, bench.measure, bench.saving, bench.saved, base_state, layout, settle, sync
    )


def with_weights(trained: Arrays, model_config: ModelConfig, snapshot: SnapshotReader, seed: int) -> keras.Model:
    """Return the model in float32, outside of any strategy, with a result of an engine's `weights`."""
    finished = model_config.build(snapshot.features, seed)
    for variable, values in zip(finished.variables, (trained[name] for name in sorted(trained)), strict=True):
        if not variable.path.endswith("seed_generator_state"):
            variable.assign(values)
    return finished


def validation(snapshot: SnapshotReader) -> BatchReader:
    """Return a reader of the validation split in stored order."""
    from tasks.models.features import output_size
    from tasks.models.forward import max_batch_size

    batch_size = max_batch_size(output_size(snapshot.features))
    return snapshot.reader("validation", batch_size, order="stored")


def evaluate_beside(
    bench: Workbench,
    snapshot: SnapshotReader,
    model_config: ModelConfig,
    config: TrainConfig,
    seed: int,
    primary: Primary | None,
) -> None:
    """Evaluate the weights that the chief sends, until this process is killed."""
    scorer, batches = make_scorer(config, model_config, snapshot, seed), validation(snapshot)

    def score(weights: Arrays) -> dict[str, float]:
        scorer.load(weights)
        return evaluated(scorer, batches, primary)

    beside.serve(bench.addresses[bench.rank], bench.key, score, bench.stopping)


def make_engine(
    config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> Engine:
    """Create the engine of a config, with a model initialised by the seed."""
    if config.strategy.asynchronous:
        from tasks.training.engines import parameter_server

        return parameter_server.build(config, model, snapshot, plan, seed, cluster)
    from tasks.training.engines.tensorflow import engine

    return engine.build(config, model, snapshot, plan, seed, cluster)


def make_scorer(config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, seed: int) -> ScorerOfWeights:
    """Create what scores weights of a training in another process, as the engine's `score` does."""
    from tasks.training.engines.tensorflow import engine

    return engine.scorer(config, model, snapshot, seed)


def serve(config: TrainConfig, cluster: Cluster, stopping: Callable[[], int]) -> None:
    """Work for the chief until this process is killed, as a process whose role serves; raises `Stopped`."""
    from tasks.training.engines import parameter_server

    parameter_server.serve(config, cluster, stopping)


def test_strategy(bench: Workbench, strategy: StrategyConfig, precision: Precision) -> dict[str, float]:
    """Test the arithmetic of a strategy (`engines.tensorflow.self_test.run`), in a compute process."""
    from tasks.training.engines.tensorflow import self_test

    return self_test.run(bench, strategy, precision)
