"""Models that trainings begin with: those of the store, and those that methods of compression make, stage by stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.compression import changed
from tasks.compression.methods.method import FineTune, ModelMethod
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.processes.workbench import work
from tasks.runner import identities
from tasks.runner.attempt import current
from tasks.runner.identities import installed
from tasks.runner.stages import model_of_store, parent_of, run_stage, runner
from tasks.store.files import pretty, write
from tasks.store.store import digest_of
from tasks.training import MODEL_LIBRARIES, SELF_TEST_VERSION
from tasks.training.config import TrainConfig
from tasks.training.fit import test_strategy
from tasks.training.initial import ModelInit
from tasks.training.ledger import LEDGER
from tasks.view import terminal


def base_model(
    config: TrainConfig, sections: dict[str, Any], examples: Snapshot, evaluate: EvaluateConfig | None = None
) -> Model | None:
    """Return the model of `train.continue_from`; raise `Refused` if the result would not equal one longer training."""
    from tasks.training.starting import check_base

    base = continued_model(config)
    if base is not None:
        begun = (config, sections["seed"], None, initial_model(config), evaluate)
        anew = identities.model(examples, sections["model"], *begun)
        check_base(base, examples, sections, anew.inputs(Model))
    return base


def continued_model(config: TrainConfig) -> Model | None:
    """Return the model of `train.continue_from`, unchecked."""
    return None if config.continue_from is None else model_of_store(config.continue_from, "train.continue_from")


def initial_model(config: TrainConfig) -> Model | None:
    """Return the model of the store whose weights `train.init` takes."""
    stored = None if config.init is None else config.init.artifact
    return None if stored is None else model_of_store(stored, "train.init.model")


def check_strategy(config: TrainConfig) -> None:
    """Test the strategy and precision of a config, unless that was done before, and record the result in the run.

    One device computes float32 and bfloat16 as Keras does, and an asynchronous strategy has no result to compare with:
    there is nothing to test.

    Raises:
        Failed: the arithmetic is wrong.
    """
    strategy = config.strategy.as_tested
    if not strategy.exact:
        terminal.say(
            f"  … train     {config.strategy.kind} is asynchronous: it can be resumed, and its result is not repeatable"
        )
        return
    if strategy.processes * strategy.devices_of_each == 1 and config.precision != "float16":
        return
    attempt = current.get()
    verdicts = attempt.run.home.root / "self_tests.json"
    inputs = {
        "libraries": {name: installed(name) for name in (*MODEL_LIBRARIES, *config.strategy.packages)},
        "strategy": strategy.model_dump(mode="json"),
        "precision": config.precision,
        "version": SELF_TEST_VERSION,
    }
    known, key = read_verdicts(verdicts), digest_of(inputs)[:16]
    if key not in known:
        terminal.say(f"  … train     testing the arithmetic of {config.strategy.kind}, {config.precision}")
        testing = work(test_strategy, strategy, config.precision)
        result = attempt.work("train", testing, None, roles=strategy.roles)
        known = {**read_verdicts(verdicts), key: {**inputs, "result": result}}
        write(verdicts, pretty(known))
    attempt.run.measure("train/self_test", known[key])


def read_verdicts(path: Path) -> dict[str, Any]:
    """Return the verdicts of a home by key; none where the file is missing or damaged."""
    try:
        verdicts: dict[str, Any] = json.loads(path.read_bytes())
        return verdicts
    except (OSError, ValueError):
        return {}


def change_model(
    method: ModelMethod, before: Model, examples: Snapshot, name: str, train: TrainConfig, seed: int
) -> Model:
    """Return the model that a method makes of another one; `name` is that of the methods up to this one."""
    if method.training is not None:
        before = trained(method, method.training, before, examples, name, train, seed)
    return run_stage(
        "compress",
        Model,
        identities.changed(before, examples, method),
        work(changed.build if method.training is None else changed.finish, method, before),
        name=f"{name}-model",
    )


def trained(
    method: ModelMethod, training: FineTune, before: Model, examples: Snapshot, name: str, train: TrainConfig, seed: int
) -> Model:
    """Return the model that a method has prepared and trained."""
    prepared = run_stage(
        "compress",
        Model,
        identities.prepared(before, examples, method, seed),
        work(changed.prepare, method, before, seed),
        name=f"{name}-prepared",
    )
    teacher = None if method.teacher_model is None else before
    if method.teacher_model:
        teacher = model_of_store(method.teacher_model, "compress.methods")
        if runner().computes:
            check_teacher(teacher, examples)
    config = training.of(train).model_copy(update={"init": ModelInit(model=prepared.digest)})
    return run_stage(
        "compress",
        Model,
        identities.retrained(prepared, examples, config, seed, teacher),
        work(changed.train, name, examples, prepared, teacher, config, seed),
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
