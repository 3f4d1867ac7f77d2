"""A model that a method has changed, as a model in the store: it is exported and compressed like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter

from tasks.artifacts import Model, Outcome
from tasks.compression import model_method
from tasks.compression.kernels import kernels
from tasks.config import ModelConfig
from tasks.config.methods import Method
from tasks.models import brought
from tasks.models.keras_file import architecture, load, save

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


def build(bench: Workbench, method: Method, model: Model) -> Outcome:
    """Change a model by a method; writes `model.keras`, `model.weights.h5` and `architecture.json`, without a training
    state.

    Raises:
        Failed: the method does not fit the model.
    """
    network, plan = load(model.path), architecture(model.path)
    model_method(method.kind).change(method, network)
    config: ModelConfig = TypeAdapter(ModelConfig).validate_python(plan["model"])
    saved = save(
        network, bench.staging, brought.at(config, model.path), plan["features"], plan["seed"], plan.get("loss")
    )
    zeros = sum(int((np.asarray(kernel) == 0).sum()) for kernel in kernels(network))
    counts = {**model.manifest["counts"], "zeros": zeros}
    return Outcome(counts=counts, features=plan["features"], also={**saved, "steps": model.manifest["steps"]})
