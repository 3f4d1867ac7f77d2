"""The transformer: causal at any length, read by Keras alone, exported with a free batch and length."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tasks.errors import Failed
from tasks.models import forward
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.keras_file import load, save

FEATURES = {"tokens": {"dtype": "uint16", "shape": [33], "vocabulary": 300, "bos": 299}}
CONFIG = TransformerModel(width=32, layers=2, heads=2, hidden=48)
ALONE = """
import sys, keras, numpy as np
model = keras.models.load_model("model.keras")
np.save("alone.npy", model(np.load("tokens.npy"), training=False))
assert not {"tasks", "flows", "tensorflow"} & {name.partition(".")[0] for name in sys.modules}
"""


@pytest.fixture
def model(tf):
    """As after some training: zero matrices would hide mistakes."""
    built = CONFIG.build(FEATURES, seed=3)
    random = np.random.default_rng(0)
    for weight in built.weights:
        weight.assign(weight + random.normal(0, 0.1, weight.shape).astype("float32"))
    return built


def tokens(*shape):
    return np.random.default_rng(1).integers(0, 300, shape, dtype="int32")


def predict(model, given):
    """The model's outputs for tokens."""
    return forward.predict(model, forward.Batch({"tokens": given}))


def test_no_place_sees_what_comes_after_it(model):
    given = tokens(2, 12)
    changed = given.copy()
    changed[:, 7:] = tokens(2, 5) // 2
    whole, other = predict(model, given), predict(model, changed)
    np.testing.assert_allclose(whole[:, :7], other[:, :7], atol=1e-6)
    assert np.abs(whole[:, 7:] - other[:, 7:]).max() > 0.01
    np.testing.assert_allclose(whole[:, :5], predict(model, given[:, :5]), atol=1e-6)


def test_places_count(model):
    """The same token at two places gets different answers: order is seen."""
    swapped = predict(model, np.array([[1, 2, 3]], "int32")), predict(model, np.array([[2, 1, 3]], "int32"))
    assert np.abs(swapped[0][0, -1] - swapped[1][0, -1]).max() > 1e-3


def test_model_starts_by_knowing_nothing_and_every_layer_has_a_name_of_ours():
    model = CONFIG.build(FEATURES, seed=0)
    logits = predict(model, tokens(2, 9))
    assert logits.shape == (2, 9, 300) and logits.dtype == np.float32
    assert np.abs(logits).max() < 1
    assert model.layers[0].name == "tokens" and model.layers[-1].name == "logits"
    again = CONFIG.build(FEATURES, seed=0)
    assert [operation.name for operation in model.operations] == [operation.name for operation in again.operations]


@pytest.mark.slow
def test_keras_alone_reads_the_file_and_its_bytes_repeat(bench, benches, model, tmp_path):
    save(model, bench.staging, CONFIG, FEATURES, seed=3)
    rebuilt = load(bench.staging.root)
    again = benches("again")
    save(rebuilt, again.staging, CONFIG, FEATURES, seed=3)
    for name in ("model.keras", "model.weights.h5"):
        assert (bench.staging.root / name).read_bytes() == (again.staging.root / name).read_bytes(), name
    folder = bench.staging.root
    np.save(folder / "tokens.npy", tokens(2, 9))
    command, environment = [sys.executable, "-I", "-c", ALONE], {**os.environ, "KERAS_BACKEND": "numpy"}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(folder / "alone.npy"), predict(model, tokens(2, 9)), atol=1e-5)


def test_embeddings_do_not_decay_but_matrices_do(model):
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.optimizers import AdamW

    optimizer = make_optimizer(AdamW(weight_decay=0.1), model.trainable_variables)
    decayed = {v.path for v in model.trainable_variables if optimizer._use_weight_decay(v)}
    assert decayed == {v.path for v in model.trainable_variables if v.path.endswith("kernel")}


def test_what_does_not_fit_is_named():
    with pytest.raises(Failed, match="transformer on image, label"):
        CONFIG.build({"image": {}, "label": {}}, seed=0)
    with pytest.raises(ValueError, match="set model.width to 24 or 32"):
        TransformerModel(width=30, heads=4)
    assert keras.config.dtype_policy().name == "float32"
