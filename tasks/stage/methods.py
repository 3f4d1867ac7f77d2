"""The models that methods of compression make, stage by stage: changed at once, or prepared, trained and finished."""

from __future__ import annotations

from tasks.artifacts import Model, Snapshot
from tasks.config import TrainConfig
from tasks.config.fine_tune import ModelInit
from tasks.config.method import FineTune, Method
from tasks.stage import identities
from tasks.stage.self_tests import check_strategy
from tasks.stage.stages import model_of_store, run_stage
from tasks.training.ledger import LEDGER

NOUN = "tasks.compression.changed"


def changed(method: Method, before: Model, examples: Snapshot, name: str, train: TrainConfig, seed: int) -> Model:
    """Return the model that a method makes of another one; `name` is that of the methods up to this one."""
    if method.training is not None:
        before = trained(method, method.training, before, examples, name, train, seed)
    return run_stage(
        "compress",
        Model,
        identities.changed(before, examples, method),
        work=f"{NOUN}:{'build' if method.training is None else 'finish'}",
        arguments=(method, before),
        name=f"{name}-model",
    )


def trained(
    method: Method, training: FineTune, before: Model, examples: Snapshot, name: str, train: TrainConfig, seed: int
) -> Model:
    """Return the model that a method has prepared and trained."""
    prepared = run_stage(
        "compress",
        Model,
        identities.prepared(before, examples, method, seed),
        work=f"{NOUN}:prepare",
        arguments=(method, before, seed),
        name=f"{name}-prepared",
    )
    teacher = None if method.teacher_model is None else before
    if method.teacher_model:
        teacher = model_of_store(method.teacher_model, "compress.methods")
    config = training.of(train).model_copy(update={"init": ModelInit(model=prepared.digest)})
    return run_stage(
        "compress",
        Model,
        identities.retrained(prepared, examples, config, seed, teacher),
        work=f"{NOUN}:train",
        arguments=(name, examples, prepared, teacher, config, seed),
        name=f"{name}-trained",
        prepare=lambda: check_strategy(config),
        keep=(LEDGER, f"ledger-{name}.jsonl"),
        roles=config.roles,
        restarts=config.restarts,
    )
