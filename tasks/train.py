"""train: examples to a model."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.artifacts import Model, Snapshot
from tasks.config import ModelConfig, TrainConfig
from tasks.stage import Code, Identity, run_stage


@task(name="train", cache_policy=NO_CACHE, persist_result=False)
def train(examples: Snapshot, model: ModelConfig, config: TrainConfig, seed: int) -> Model:
    """A Keras model fitted on the train split, from its last checkpoint on if an earlier attempt left one.

    The order of examples, the initial weights and dropout are arithmetic in (seed, step): killed anywhere and run
    again, the weights are those of an unbroken run, bit for bit. Fails on a loss that is not finite.
    """
    from tasks.training import MODEL_LIBRARIES, MODEL_VERSION

    return run_stage(
        "train",
        Model,
        Identity(
            {"model": model, "train": config, "seed": seed},
            parents={"snapshot": examples},
            code=Code(MODEL_VERSION, MODEL_LIBRARIES),
        ),
        work="tasks.training.fit:fit",
        arguments=(examples, model, config, seed),
        fresh=True,
    )
