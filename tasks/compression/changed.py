"""Models that methods change, as models in the store: they are exported and compressed like any other.

A method changes weights at once (`build`), or trains: the model is prepared, trained as any other, and finished.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.compression.methods.method import ModelMethod
from tasks.errors import Failed
from tasks.models.architecture import stored_model
from tasks.models.features import Arrays
from tasks.models.keras_file import architecture, load, save
from tasks.models.usage import Usage
from tasks.training.config import TrainConfig

if TYPE_CHECKING:
    import keras

    from tasks.processes.workbench import Workbench


def build(bench: Workbench, method: ModelMethod, model: Model) -> Outcome:
    """Change a model by a method; writes `model.keras`, `model.weights.h5` and `architecture.json`, without a training
    state.

    Raises:
        Failed: the method does not fit the model.
    """
    network = load(model.path)
    method.change(network)
    return saved(bench, model, network, config_of(model))


def prepare(bench: Workbench, method: ModelMethod, model: Model, seed: int) -> Outcome:
    """Make the model that a method trains; writes what `build` writes.

    Raises:
        Failed: the method does not fit the model.
    """
    prepared, weights = method.prepare(config_of(model), load(model.path))
    features = architecture(model.path)["features"]
    network = with_weights(prepared.build(features, seed), weights)
    return saved(bench, model, network, prepared, seed)


def train(
    bench: Workbench,
    name: str,
    examples: Snapshot,
    prepared: Model,
    teacher: Model | None,
    config: TrainConfig,
    seed: int,
) -> Outcome | None:
    """Train a model that a method has prepared, as `tasks.training.fit` does; points and measurements have its name.

    Args:
        config: its `init` is the prepared model.
        teacher: the model that it learns from, where the method has one.
    """
    from tasks.training.fit import fit

    def measure(figure: str, value: Any) -> None:
        bench.measure(f"{name}/{figure}", value)

    for model in (prepared, *([] if teacher is None else [teacher])):
        if not (model.path / "manifest.json").exists():  # on another host than the chief's
            saw = f"not at {model.path} on {bench.hosts[bench.rank]}, nor in the store there"
            rule, remedy = "all hosts read the models that a method trains and learns from", "share MILLRACE_HOME"
            raise Failed(str(model), saw, rule, f"{remedy}, or copy its folder there, and run again")
    described = config_of(prepared)
    if teacher is not None:
        task = architecture(teacher.path)["model"]["task"]
        if task != described.task:
            rule = "a teacher's outputs mean what the student's do"
            raise Failed("compress.methods", f"a teacher of the task {task}", rule, f"name one of {described.task}")
        described = described.model_copy(update={"teacher": str(teacher.path)})
    own = replace(bench, journal=bench.journal.of(name), measure=measure)
    return fit(own, examples, described, config, seed, start=prepared)


def finish(bench: Workbench, method: ModelMethod, trained: Model) -> Outcome:
    """Make the result of a method of the model that it has trained; writes what `build` writes."""
    finished, weights = method.finish(config_of(trained), load(trained.path))
    plan = architecture(trained.path)
    finished = finished.at(trained.path)
    network = finished.build(plan["features"], plan["seed"])
    missing = {variable.path for variable in network.weights} - weights.keys()
    assert not missing, f"{method.kind} gives no weights for {sorted(missing)}"
    return saved(bench, trained, with_weights(network, weights), finished)


def config_of(model: Model) -> Any:
    """Return the config of a model in the store, with the artifact's copies of the user's files."""
    return stored_model(architecture(model.path)["model"]).at(model.path)


def with_weights(network: keras.Model, weights: Arrays) -> keras.Model:
    """Return a model with weights by path; variables of other paths stay as they are."""
    for variable in network.variables:
        if variable.path in weights:
            variable.assign(weights[variable.path])
    return network


def saved(bench: Workbench, before: Model, network: keras.Model, config: Any, seed: int | None = None) -> Outcome:
    """Write the files of a model, with features, loss and counts of the one before, and with its seed or another."""
    from tasks.compression.keras_layers import kernels
    from tasks.models.layers import count_weights

    plan = architecture(before.path)
    seed = plan["seed"] if seed is None else seed
    files = save(network, bench.staging, config, plan["features"], seed, plan.get("loss"))
    Usage.of_model(before.path).write(bench.staging)
    counts = {
        **before.manifest["counts"],
        "parameters": count_weights(network),
        "zeros": sum(int((np.asarray(kernel) == 0).sum()) for kernel in kernels(network)),
    }
    return Outcome(counts=counts, features=plan["features"], also={**files, "steps": before.manifest["steps"]})
