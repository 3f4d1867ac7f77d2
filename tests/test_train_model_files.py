"""The files of a model: reproducible bytes, readable by Keras alone, rebuilt exactly."""

import keras
import numpy as np

from tasks.models.architectures.convnet import ConvnetModel
from tasks.models.forward import Batch, predict
from tasks.models.keras_file import load, save, weights_sha256

FEATURES = {
    "image": {"shape": [8, 8, 1], "dtype": "uint8"},
    "label": {"shape": [], "dtype": "int64", "classes": [str(digit) for digit in range(10)]},
}
CONFIG = ConvnetModel(filters=(4, 8), dense=16)


def test_saved_model_rebuilds_with_the_same_weights_and_repeats_its_bytes(benches):
    folders = []
    for name in ("one", "two"):
        staging = benches(name).staging
        model = CONFIG.build(FEATURES, seed=3)
        saved = save(model, staging, CONFIG, FEATURES, seed=3)
        folders.append(staging.root)
        assert saved == {"weights_sha256": weights_sha256(model)}
        assert weights_sha256(load(staging.root)) == weights_sha256(model)
    for file in ("model.keras", "model.weights.h5", "architecture.json"):
        assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes(), file


def test_keras_alone_reads_the_file_and_answers_alike(bench):
    model = CONFIG.build(FEATURES, seed=3)
    save(model, bench.staging, CONFIG, FEATURES, seed=3)
    images = Batch({"image": np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), "uint8")})
    alone = keras.models.load_model(bench.staging.root / "model.keras")
    np.testing.assert_array_equal(predict(alone, images), predict(model, images))
    np.testing.assert_array_equal(predict(model, images, batch_size=5), predict(load(bench.staging.root), images))
