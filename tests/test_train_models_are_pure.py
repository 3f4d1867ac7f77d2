"""A model is a pure function of (config, features, seed); features that do not fit are refused in one line."""

import keras
import numpy as np
import pytest

from tasks.errors import Failed
from tasks.models.architectures.convnet import ConvnetModel
from tasks.models.architectures.mlp import MlpModel

FEATURES = {
    "image": {"shape": [8, 8, 1], "dtype": "uint8"},
    "label": {"shape": [], "dtype": "int64", "classes": [str(digit) for digit in range(10)]},
}


@pytest.mark.parametrize("config", [ConvnetModel(filters=(4, 8), dense=16), MlpModel(units=(16,), dropout=0.5)])
def test_weights_are_a_function_of_the_seed_alone(config):
    keras.utils.set_random_seed(1)
    first = config.build(FEATURES, seed=7)
    keras.utils.set_random_seed(2)
    second, other = config.build(FEATURES, seed=7), config.build(FEATURES, seed=8)
    assert [weight.path for weight in first.weights] == [weight.path for weight in second.weights]
    for one, two in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(one.value.numpy(), two.value.numpy())
    assert not np.array_equal(first.weights[0].value.numpy(), other.weights[0].value.numpy())


@pytest.mark.parametrize("config", [ConvnetModel(filters=(4, 8), dense=16), MlpModel(units=(16,))])
def test_model_reads_the_feature_as_stored_and_gives_float32_logits(config):
    model = config.build(FEATURES, seed=0)
    assert [tensor.name for tensor in model.inputs] == ["image"]
    assert model.inputs[0].dtype == "uint8"
    assert model.layers[-1].name == "logits"
    outputs = model(np.zeros((3, 8, 8, 1), "uint8"))
    assert (tuple(outputs.shape), keras.backend.standardize_dtype(outputs.dtype)) == ((3, 10), "float32")


def test_too_many_blocks_for_the_image_are_named():
    with pytest.raises(Failed, match="8 x 8 pixels have room for 3"):
        ConvnetModel(filters=(4, 4, 4, 4)).build(FEATURES, seed=0)
