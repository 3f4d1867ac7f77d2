"""Parts of architectures, with sides, widths and numbers of heads that differ; each layer has its own seed."""

from __future__ import annotations

import re
from typing import Any

import keras
import numpy as np
import pytest

from tasks.models.architectures.convnet import Convnet1dModel, ConvnetModel, ResNetModel
from tasks.models.architectures.encoder import EncoderModel, ViTModel, positions
from tasks.models.architectures.mlp import DlrmModel, MlpModel, pairs
from tasks.models.architectures.transformer import TransformerModel

LABEL = {"dtype": "int64", "shape": [], "classes": ["a", "b", "c"]}
IMAGE = {"image": {"dtype": "uint8", "shape": [8, 12, 3]}, "label": LABEL}
SOUND = {"sound": {"dtype": "float32", "shape": [16, 4]}, "label": LABEL}
TEXT = {"dtype": "uint16", "shape": [12], "vocabulary": 20, "padding": 0}
TABLE = {
    "categories": {"dtype": "int32", "shape": [2], "sizes": [4, 3]},
    "numbers": {"dtype": "float32", "shape": [3]},
    "text": TEXT,
    "label": LABEL,
}
TOKENS = {"tokens": {"dtype": "uint16", "shape": [17], "vocabulary": 20, "bos": 19}}

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "convnet": (ConvnetModel(filters=(4, 8), dense=16, dropout=0.5), IMAGE),
    "convnet1d": (Convnet1dModel(filters=(8, 6), window=3, dense=8, dropout=0.5), SOUND),
    "dlrm": (DlrmModel(embedding=4, bottom=(8, 6), top=(16, 5), dropout=0.5), TABLE),
    "encoder": (EncoderModel(width=16, layers=2, heads=2, hidden=24, dropout=0.5), {"text": TEXT, "label": LABEL}),
    "experts": (TransformerModel(width=16, layers=2, heads=2, hidden=12, experts=4), TOKENS),
    "mlp": (MlpModel(units=(16, 7), embedding=4, dropout=0.5), TABLE),
    "resnet": (ResNetModel(blocks=(2, 1), filters=8, groups=2, dropout=0.5), IMAGE),
    "transformer": (TransformerModel(width=16, layers=2, heads=4, kv_heads=2, hidden=24), TOKENS),
    "vit": (ViTModel(patch=4, width=16, layers=2, heads=2, hidden=24, dropout=0.5), IMAGE),
}


def values(model: keras.Model) -> dict[str, np.ndarray]:
    """The variables that begin at random, seeds of dropout among them, which Keras numbers from model to model."""
    seeds = re.compile(r".*seed_generator_state$")
    named = ((f"{number} {seeds.sub('seed', each.path)}", each) for number, each in enumerate(model.variables))
    found = {name: np.asarray(variable) for name, variable in named}
    return {name: each for name, each in found.items() if name.endswith(" seed") or np.ptp(each) > 0}


@pytest.mark.parametrize("kind", MODELS)
def test_every_layer_begins_by_the_seed_and_none_as_another_does(kind: str) -> None:
    config, features = MODELS[kind]
    one, again, other = (values(config.build(features, seed)) for seed in (3, 3, 4))
    assert len(one) > 2 and one.keys() == again.keys() == other.keys()
    assert [path for path in one if not np.array_equal(one[path], again[path])] == []
    assert [path for path in one if np.array_equal(one[path], other[path])] == []
    firsts = [tuple(each.ravel()[:2].tolist()) for each in one.values()]
    assert len(set(firsts)) == len(firsts), "two layers draw the same numbers"


def test_patches_are_at_their_row_and_their_column() -> None:
    """Of 8 x 12 pixels: two rows of three patches. Blocks add nothing at first, nor does the head."""
    places = positions(2, 3, 16)[0]
    rows, columns = places[:, :8].reshape(2, 3, 8), places[:, 8:].reshape(2, 3, 8)
    assert (rows == rows[:, :1]).all() and (columns == columns[:1]).all()
    assert np.abs(rows[0] - rows[1]).max() > 0.5 and np.abs(columns[:, 1] - columns[:, 2]).max() > 0.5
    config, features = MODELS["vit"]
    model = config.build(features, 3)
    random = np.random.default_rng(0)
    model.get_layer("logits").kernel.assign(random.normal(size=(16, 3)))
    images = random.integers(0, 256, (5, 8, 12, 3)).astype(np.uint8)
    patches = np.asarray(model.get_layer("patches")(images.astype(np.float32) / 127.5 - 1)).reshape(5, 6, 16)
    x = patches + places
    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    expected = normed.mean(axis=1) @ np.asarray(model.get_layer("logits").kernel)
    np.testing.assert_allclose(np.asarray(model(images, training=False)), expected, atol=1e-4)


def test_products_are_of_each_pair_once_and_of_none_with_itself() -> None:
    inputs = keras.Input((4, 3))
    [outputs] = pairs(inputs)
    given = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    made = np.asarray(keras.Model(inputs, outputs)(given))
    expected = [(given[:, a] * given[:, b]).sum(-1) for a in range(4) for b in range(a + 1, 4)]
    np.testing.assert_allclose(made, np.stack(expected, axis=1), rtol=1e-5)
    assert pairs(keras.Input((1, 3))) == []


def test_a_group_of_heads_shares_the_keys_and_values_beside_each_other() -> None:
    """Two of keys and values for four heads answer as four of which each is there twice, one after the other."""
    size, config = 4, TransformerModel(width=16, layers=1, heads=4, kv_heads=2, hidden=24)
    grouped = config.build(TOKENS, seed=3)
    whole = config.model_copy(update={"kv_heads": None}).build(TOKENS, seed=3)
    random = np.random.default_rng(0)
    for variable in grouped.trainable_variables:
        value = np.asarray(variable) + random.normal(0, 0.2, variable.shape).astype(np.float32)
        variable.assign(value)
        if variable.path == "block0_attention_qkv/kernel":
            q, k, v = np.split(value.reshape(16, -1, size), [4, 6], axis=1)
            value = np.concatenate([q, k.repeat(2, axis=1), v.repeat(2, axis=1)], axis=1).reshape(16, -1)
        next(each for each in whole.trainable_variables if each.path == variable.path).assign(value)
    tokens = random.integers(0, 19, (3, 16)).astype(np.int32)
    one, other = (np.asarray(model(tokens, training=False)) for model in (grouped, whole))
    np.testing.assert_allclose(one, other, atol=1e-4)
    assert np.ptp(one, axis=1).max() > 0.01


def test_a_residual_network_doubles_its_filters_at_each_stage() -> None:
    model = ResNetModel(blocks=(1, 1, 1), filters=4, groups=2).build(IMAGE, seed=3)
    shapes = [tuple(model.get_layer(f"stage{stage}_block0_conv1").output.shape[1:]) for stage in range(3)]
    assert shapes == [(8, 12, 4), (4, 6, 8), (2, 3, 16)]
