"""Several trainings of a config, each with a seed of its own, and the choice among their models.

A verb hands `choose` to a compute process: what it needs is imported where it runs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Artifact, Model, Outcome, Records, Snapshot
from tasks.errors import Failed
from tasks.store.files import pretty
from tasks.training import MODEL_LIBRARIES

if TYPE_CHECKING:
    import keras
    from numpy.typing import NDArray

    from tasks.evaluation.config import EvaluateConfig
    from tasks.evaluation.judging import Judge
    from tasks.models import ModelConfig
    from tasks.processes.workbench import Workbench
    from tasks.training.config import TrainConfig

log = logging.getLogger(__name__)

CHOICE_VERSION = 1
"""Incremented when the same models would give another choice, or another average."""

CHOICE_LIBRARIES = (*MODEL_LIBRARIES, "scipy")

CHOICE = "seeds.json"
"""File of a chosen model with the scores of all."""

SPLITS = ("validation", "test")
"""The first one chooses; the second one is only reported."""

OVER_SEEDS, AVERAGE = "seeds", "average"
"""Beginnings of the flat names of means over seeds, and of the scores of the averaged weights."""


def name_of(number: int) -> str:
    """Return the name of a training by its number, from 0."""
    return f"seed_{number}"


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a training by its number: of number 0 that of the run, of others a 63-bit hash of both."""
    if number == 0:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name_of(number)}".encode(), digest_size=8).digest(), "little") >> 1


@dataclass(frozen=True)
class Choice:
    """What was chosen among the models of several seeds, and their scores."""

    metric: str
    """The task's primary metric."""
    chosen: str
    """The name of the training whose model it is, or `average`."""
    select: str
    """`train.select`."""
    seeds: dict[str, dict[str, Any]]
    """By the name of a training its `seed`, its `steps` and its `metrics` by flat name (`validation/accuracy`)."""
    average: dict[str, float] | None
    """The metrics of the averaged weights; None where `train.select` is not `average`."""
    over_seeds: dict[str, dict[str, float]]
    """Mean (`value`) and 95 % t interval (`low`, `high`) of each metric over the trainings."""

    @property
    def metrics(self) -> dict[str, float]:
        """All numbers by flat name: `seed_0/test/loss`, `seeds/test/loss`, `seeds/test/loss/low`, `.../high`."""
        flat = {f"{name}/{key}": value for name, row in self.seeds.items() for key, value in row["metrics"].items()}
        flat |= {f"{AVERAGE}/{key}": value for key, value in (self.average or {}).items()}
        for key, row in self.over_seeds.items():
            flat[f"{OVER_SEEDS}/{key}"] = row["value"]
            flat |= {f"{OVER_SEEDS}/{key}/{end}": row[end] for end in ("low", "high")}
        return flat

    @property
    def columns(self) -> list[str]:
        """The flat names of the metrics of each model, those that decide first."""
        return [f"{split}/{name}" for split in SPLITS for name in (self.metric, "loss")]

    @property
    def verdict(self) -> str:
        """Which model was chosen, in words."""
        key, word = f"validation/{self.metric}", self.metric.replace("_", " ")
        average = "" if self.average is None else f"{self.average[key]:.4f}"
        if self.chosen == AVERAGE:
            return f"the average of {len(self.seeds)} seeds, validation {word} {average}"
        score = self.seeds[self.chosen]["metrics"][key]
        best = f"{self.chosen}, the best of {len(self.seeds)} seeds, validation {word} {score:.4f}"
        return f"{best}; their average has {average} and is not better" if average else best


def choice_of(model: Artifact) -> Choice | None:
    """Return what was chosen among several seeds; None for the model of one training."""
    path = model.path / CHOICE
    return Choice(**json.loads(path.read_bytes())) if path.exists() else None


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
    from tasks.evaluation.intervals import over_seeds
    from tasks.evaluation.splits import SnapshotSplit
    from tasks.evaluation.tasks import make_judge
    from tasks.models import keras_file
    from tasks.models.outputs import with_main_output
    from tasks.models.usage import Usage

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
        scores[name] = scored(with_main_output(keras_file.load(model.path)), judges, metric, evaluate)
    average = mean_of(trained) if config.select == AVERAGE else None
    if average is not None:
        scores[AVERAGE] = scored(with_main_output(average), judges, metric, evaluate)
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
        losses = plan.get("losses", {})
        saved = keras_file.save(average, bench.staging, model_config, plan["features"], seed, loss, losses)
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
    from tasks.evaluation.judging import contributions_of, metric_of, run_model
    from tasks.models.forward import inference_function

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
    from tasks.models import keras_file

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
