"""A model on disk, as files that Keras alone can load and whose bytes are reproducible.

Files of `model.save` differ each time: they contain the date, zip timestamps and object addresses. Here the date is
fixed, zip timestamps are 1980 and shared objects are numbered by first use (measured on Keras 3.15.1).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.task import TASKS
from tasks.models.architecture import CODE, Architecture, stored_model
from tasks.store.files import ZIP_DATE, canonical, pretty

if TYPE_CHECKING:
    import keras

    from tasks.models.forward import Function
    from tasks.store.staging import Staging

log = logging.getLogger(__name__)

MODEL = "model.keras"
WEIGHTS = "model.weights.h5"
ARCHITECTURE = "architecture.json"

NO_LOSSES: Mapping[str, str] = MappingProxyType({})

SAVED_DATE = "1980-01-01@00:00:00"


def save(
    model: keras.Model,
    staging: Staging,
    config: Architecture,
    features: dict[str, Any],
    seed: int,
    loss: str | None = None,
    losses: Mapping[str, str] = NO_LOSSES,
) -> dict[str, Any]:
    """Write `model.keras`, `model.weights.h5` and `architecture.json` to the staging, each with reproducible bytes.

    A class of the user's without `get_config`, which Keras cannot describe, has no `model.keras`.

    Args:
        model: not compiled: an optimizer would triple the files and belongs to the training state.
        features: the snapshot's.
        loss: the loss that was minimised; None for the task's default.
        losses: those of further outputs, by column.

    Returns:
        `{"weights_sha256": ...}`, for the manifest.
    """
    scratch = staging.scratch("keras")
    try:
        model.save(scratch / MODEL)
    except NotImplementedError as error:
        named = next((line.strip() for line in str(error).splitlines() if line.strip()), "no get_config")
        log.warning("the model has no %s: %s, a class without get_config", MODEL, " ".join(named.split()[:2]))
    else:
        with staging.piece(MODEL) as piece:
            canonicalise(scratch / MODEL, piece.path)
    model.save_weights(scratch / WEIGHTS)
    with staging.piece(WEIGHTS) as piece:
        os.replace(scratch / WEIGHTS, piece.path)
    described = config.at(Path()).model_dump(mode="json", exclude=config.later())
    architecture_json = {"model": described, "features": features, "seed": seed}
    architecture_json["loss"] = loss or TASKS[config.task].losses[0]
    if losses:
        architecture_json["losses"] = dict(losses)
    staging.put(ARCHITECTURE, pretty(architecture_json))
    for name, content in config.own_files().items():
        staging.put(f"{CODE}/{name}", content)
    shutil.rmtree(scratch)
    return {"weights_sha256": weights_sha256(model)}


def load(path: Path) -> keras.Model:
    """Rebuild the model of an artifact folder from its architecture and load its weights.

    Args:
        path: a folder with `architecture.json` and `model.weights.h5`.

    Returns:
        The trained model with all of its outputs, not compiled.
    """
    architecture_json = architecture(path)
    config = stored_model(architecture_json["model"]).at(path)
    model = config.build(architecture_json["features"], architecture_json["seed"])
    model.load_weights(path / WEIGHTS)
    return model


def functions_of(path: Path, model: keras.Model) -> list[Function]:
    """Return the further functions of the model of an artifact folder, over the variables of `model`."""
    architecture_json = architecture(path)
    return stored_model(architecture_json["model"]).functions(architecture_json["features"], model)


def architecture(path: Path) -> dict[str, Any]:
    """Read what a model was built from: `{"model": config, "features": the snapshot's, "seed": int, "loss": name}`, and
    `"losses": {column: name}` where it has further outputs."""
    architecture_json: dict[str, Any] = json.loads((path / ARCHITECTURE).read_bytes())
    return architecture_json


def weights_sha256(model: keras.Model) -> str:
    """Return the SHA-256 of the weights in path order: path, dtype, shape and little-endian bytes of each.

    Seed states of dropout, whose paths Keras numbers by process, are not weights and not included.
    """
    total = hashlib.sha256()
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        values = np.asarray(weight.value)
        values = values.astype(values.dtype.newbyteorder("<"), copy=False)  # `tobytes` is in order C
        total.update(canonical([weight.path, values.dtype.name, list(values.shape)]))
        total.update(values.tobytes())
    return total.hexdigest()


def canonicalise(source: Path, target: Path) -> None:
    """Copy a `.keras` file without its dates and memory addresses."""
    rewrite = {"metadata.json": _without_date, "config.json": _without_addresses}
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as after:
        for name in sorted(before.namelist()):
            entry = zipfile.ZipInfo(name, ZIP_DATE)
            if name in rewrite:
                after.writestr(entry, json.dumps(rewrite[name](json.loads(before.read(name)))))
            else:
                with before.open(name) as reader, after.open(entry, "w", force_zip64=True) as writer:
                    shutil.copyfileobj(reader, writer)


def _without_date(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "date_saved": SAVED_DATE}


def _without_addresses(config: dict[str, Any]) -> dict[str, Any]:
    numbers: dict[int, int] = {}

    def visit(value: Any) -> Any:
        if isinstance(value, list):
            return [visit(item) for item in value]
        if not isinstance(value, dict):
            return value
        # Whether two layers share a dtype policy object depends on Keras' caches; policies are equal by value.
        policy = value.get("class_name") == "DTypePolicy"
        return {
            key: numbers.setdefault(item, len(numbers)) if key == "shared_object_id" else visit(item)
            for key, item in value.items()
            if not (policy and key == "shared_object_id")
        }

    return {key: visit(value) for key, value in config.items()}
