"""Tests of model.py: `python -m pytest`."""

import numpy as np
from model import make, relative_error, wrong

FEATURES = {
    "numbers": {"dtype": "float32", "shape": [2], "mean": [5.0, 0.0], "variance": [4.0, 1.0]},
    "ids": {"dtype": "int32", "shape": [2], "sizes": [3, 4]},
    "label": {"dtype": "int64", "shape": [], "classes": ["no", "yes"]},
}
ROWS = {"numbers": np.array([[5, 0], [9, 1]], "float32"), "ids": np.array([[0, 3], [2, 0]], "int32")}


def test_the_model_has_an_output_for_each_class():
    model = make(FEATURES, outputs=2)
    assert model(ROWS).shape == (2, 2)


def test_numbers_are_scaled_by_the_statistics_of_the_training_data():
    numbers = make({"numbers": FEATURES["numbers"]}, outputs=2)
    scaled = numbers.layers[1](ROWS["numbers"])
    np.testing.assert_allclose(scaled, [[0, 0], [2, 1]], atol=1e-6)


def test_metrics_are_numbers_for_each_example():
    assert wrong(np.array([0, 1]), np.array([[2.0, 1.0], [3.0, 1.0]])).tolist() == [0, 1]
    assert relative_error(np.array([[10.0], [4.0]]), np.array([[11.0], [4.0]])).tolist() == [0.1, 0]
