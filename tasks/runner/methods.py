"""The models that methods of compression make, stage by stage: changed at once, or prepared, trained and finished."""

from __future__ import annotations

from tasks.artifacts import Model, Snapshot
from tasks.compression.methods.method import FineTune, Method
from tasks.config.fine_tune import ModelInit
from tasks.config.train import TrainConfig
from tasks.errors import Failed
from tasks.runner import identities
from tasks.runner.planner import planner
from tasks.runner.self_tests import check_strategy
from tasks.runner.stages import model_of_store, parent_of, run_stage
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
        if planner() is None:
            check_teacher(teacher, examples)
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


def check_teacher(teacher: Model, examples: Snapshot) -> None:
    """Raise `Failed` where classes, categories or tokens of a teacher are not those of the examples."""
    theirs, own = teacher.manifest["features"], examples.manifest["features"]
    remedy = "train the teacher on this snapshot, or name another one"
    for name in own:
        for kind in ("classes", "sizes", "vocabulary", "bos", "padding"):
            if own[name].get(kind) != (other := theirs.get(name, {}).get(kind)):
                saw = f"the teacher {teacher.digest[:12]}, whose {name} has {kind} {other}"
                rule = f"a teacher's outputs mean what the student's do; the snapshot has {kind} {own[name].get(kind)}"
                raise Failed("compress.methods", saw, rule, remedy)
    if teacher.manifest["parents"]["snapshot"] == examples.digest or not (tokenizer := tokenizer_of(examples)):
        return
    if tokenizer_of(parent_of(teacher, "snapshot", Snapshot)) != tokenizer:
        saw = f"the teacher {teacher.digest[:12]}, which was trained with another tokenizer"
        raise Failed("compress.methods", saw, "a teacher's outputs mean what the student's do", remedy)


def tokenizer_of(examples: Snapshot) -> str | None:
    """Return the hash of the tokenizer of a snapshot; None where it has none."""
    sums = {row["path"]: row["sha256"] for row in examples.manifest["files"]}
    return sums.get("transform/tokenizer.json")
