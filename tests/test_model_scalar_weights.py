"""A weight of shape () keeps its shape: in the hash of a model's weights, and in safetensors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import keras
import numpy as np
import pytest

from tasks.exporting.formats import keras as keras_format
from tasks.exporting.formats.safetensors import Safetensors
from tasks.models import keras_file


@pytest.fixture
def model() -> keras.Model:
    """Mean, variance and count of the layer are single numbers."""
    layer = keras.layers.Normalization(axis=None, name="scale")
    inputs = keras.Input((3,), name="x")
    made = keras.Model(inputs, layer(inputs), name="model")
    for number, weight in enumerate(made.weights, 1):
        weight.assign(np.full(weight.shape, number))
    assert {tuple(weight.shape) for weight in made.weights} == {()}
    return made


def test_it_is_exported_as_safetensors(model: keras.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model.keras")
    Safetensors.write(model, None, tmp_path / "model.keras", tmp_path / Safetensors.file)
    loaded = Safetensors(tmp_path / Safetensors.file, 1)
    inputs = np.array([[1.0, 2.0, 3.0]], np.float32)
    np.testing.assert_array_equal(np.asarray(loaded.model(inputs)), np.asarray(model(inputs)))


def test_its_shape_is_hashed(model: keras.Model) -> None:
    expected = hashlib.sha256()
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        values = np.asarray(weight)
        expected.update(json.dumps([weight.path, values.dtype.name, []], separators=(",", ":")).encode())
        expected.update(values.tobytes())
    assert keras_file.weights_sha256(model) == keras_format.weights_sha256(model) == expected.hexdigest()
