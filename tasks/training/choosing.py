"""The work that makes one model of those of several seeds: scores, the best or the average, the model's files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Model, Outcome, Records, Snapshot
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import over_seeds
from tasks.evaluation.judging import Judge, contributions_of, metric_of, run_model
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.models import ModelConfig, keras_file
from tasks.models.forward import inference_function
from tasks.models.usage import Usage
from tasks.store.files import pretty
from tasks.training.config import TrainConfig
from tasks.training.seeds import AVERAGE, CHOICE, SPLITS, Choice, name_of, seed_of

if TYPE_CHECKING:
    import keras

    from tasks.processes.workbench import Workbench

log = logging.getLogger(__name__)


STATE = "state/"
"""Files of a training, which a chosen model does not have."""


def choose(
    bench: Workbench,
    trained: Sequence[Model],
    examples: Snapshot,
    records: Records,
    model_config: ModelConfig,
    config: TrainConfig,
    seed: int,
    evaluate: EvaluateConfig,
) -> Outcome:
    """Score the models of several seeds and write the best one, or the average of their weights.

    The best one has the best primary metric on the validation split, of equal ones the lowest loss, of these the lowest
    number. With `train.select: average` the mean of their weights is chosen where it is better than that one.

    Writes the files of a model without `state/`, which is that of one training, and `seeds.json`.

    Raises:
        Failed: a split is empty, or outputs are not finite.
    """
    plan = keras_file.architecture(trained[0].path)
    task, loss = plan["model"]["task"], plan["loss"]
    metric, higher = evaluate.primary_of(task)
    judges = {
        split: make_judge(task, SnapshotSplit(examples.path, records.path, split), evaluate, loss) for split in SPLITS
    }
    names = [name_of(number) for number in range(len(trained))]
    scores = {}
    for number, (name, model) in enumerate(zip(names, trained, strict=True)):
        bench.progress(number, len(trained), "models")
        scores[name] = scored(keras_file.load(model.path), judges, metric, evaluate)
    average = mean_of(trained) if config.select == AVERAGE else None
    if average is not None:
        scores[AVERAGE] = scored(average, judges, metric, evaluate)
    better = partial(rank, metric=metric, higher=higher)
    chosen = min(scores, key=lambda name: better(scores[name]))  # of equal ones the first: the average is the last
    steps = [model.manifest["steps"] for model in trained]
    choice = Choice(
        metric=metric,
        chosen=chosen,
        select=config.select,
        seeds={
            name: {"seed": seed_of(seed, number), "steps": count, "metrics": scores[name]}
            for number, (name, count) in enumerate(zip(names, steps, strict=True))
        },
        average=scores.get(AVERAGE),
        over_seeds={key: over_seeds([scores[name][key] for name in names]).ends for key in scores[names[0]]},
    )
    log.info("chosen: %s", choice.verdict)
    bench.staging.put(CHOICE, pretty(asdict(choice)))
    if chosen == AVERAGE:
        assert average is not None
        saved = keras_file.save(average, bench.staging, model_config, plan["features"], seed, loss)
        reduce(or_, (Usage.of_model(model.path) for model in trained)).write(bench.staging)
        counts = {**trained[0].manifest["counts"], "steps": max(steps)}
    else:
        best = trained[names.index(chosen)]
        copy_files(best, bench)
        saved = {"weights_sha256": best.manifest["weights_sha256"]}
        counts = dict(best.manifest["counts"])
    return Outcome(
        counts={**counts, "seeds": len(trained)},
        features=plan["features"],
        statistics={"metrics": choice.metrics, "chosen": chosen},
        also={**saved, "steps": counts["steps"]},
    )


def scored(model: keras.Model, judges: dict[str, Judge], metric: str, evaluate: EvaluateConfig) -> dict[str, float]:
    """Return the primary metric and the loss of a model on each split, by flat name."""
    call = inference_function(model)
    found: dict[str, float] = {}
    for split, judge in judges.items():
        values = contributions_of(judge, run_model(judge, call, name=split).kept, evaluate)
        found |= {f"{split}/{name}": metric_of(judge, name).of(values[name]) for name in (metric, "loss")}
    return found


def rank(scores: dict[str, float], metric: str, higher: bool) -> tuple[float, float]:
    """Return a key that is lower for a better model: by the primary metric on validation, then by the loss."""
    value = scores[f"validation/{metric}"]
    return -value if higher else value, scores["validation/loss"]


def mean_of(trained: Sequence[Model]) -> keras.Model:
    """Return a model with the mean of the weights of several, by path, computed in float64.

    Wortsman et al., "Model soups" (arXiv 2203.05482). All floats are averaged, also the moving mean and variance of a
    BatchNormalization, which are then near those of the averaged model and not equal to them (Izmailov et al., arXiv
    1803.05407, measure them anew): the score decides. Integers, such as counters, and the states of seeds stay those of
    the first one.

    Raises:
        Failed: the models have other weights.
    """
    model = keras_file.load(trained[0].path)
    variables = {variable.path: variable for variable in model.weights}
    floats = [path for path, variable in variables.items() if "float" in str(variable.dtype)]
    sums: dict[str, NDArray[Any]] = {path: np.asarray(variables[path]).astype(np.float64) for path in floats}
    for other in trained[1:]:
        others = {variable.path: np.asarray(variable) for variable in keras_file.load(other.path).weights}
        if others.keys() != variables.keys():
            saw = f"weights of {other} have other names: {sorted(others.keys() ^ variables.keys())[0]}"
            raise Failed("train.select", saw, "an average is made by the names of weights", "use last or best")
        for path in floats:
            sums[path] += others[path]
    for path in floats:
        variables[path].assign((sums[path] / len(trained)).astype(np.float32))
    return model


def copy_files(model: Model, bench: Workbench) -> None:
    """Write the files of a model to the staging, without those of its training."""
    for name in (file["path"] for file in model.manifest["files"]):
        if not name.startswith(STATE):
            with bench.staging.piece(name) as piece:
                shutil.copyfile(model.path / name, piece.path)
