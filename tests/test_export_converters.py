"""What converters change in silence is found by the comparison with Keras; what is random in training is not exported.

TensorFlow 2.21 drops `relu` after a product of two matrices that are both computed; tf2onnx 1.17 divides whole numbers
towards zero; Keras 3.15 exports augmenting layers as they are in training (findings/).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from tasks.compression import variants
from tasks.compression.verdicts import parity
from tasks.exporting import FORMATS
from tasks.exporting.export import GOLDEN, fault_of
from tasks.exporting.fresh_process import fresh_process
from tasks.exporting.verify import INPUTS, OUTPUTS
from tasks.models.features import TOKENS, Input
from tasks.models.forward import Batch, inference_function
from tasks.store.files import write_arrays

LIMIT = 1e-4
KERNEL = np.array([[1, 2], [2, 1], [1, 1]], np.float32)
POSITIVE = {"numbers": np.random.default_rng(1).uniform(1, 9, (16, 3)).astype("float32")}
NUMBERS = Input("numbers", (3,), "float32")


def product_and_relu(numbers: Any) -> Any:
    """The matrix is computed from the inputs, by a factor of 1; after one that is constant, `relu` stays."""
    return ops.relu(ops.matmul(numbers, ops.mean(ops.softmax(numbers)) * (3 * KERNEL)))


def whole_numbers_divided(numbers: Any) -> Any:
    return ops.cast(ops.floor_divide(ops.cast(ops.round(numbers), "int32"), 4), "float32")


CHANGING: dict[str, Callable[[Any], Any]] = {"litert": product_and_relu, "onnx": whole_numbers_divided}
"""By format what its converter changes."""


@pytest.fixture(scope="module")
def converted(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[keras.Model, Path]]:
    """By format the model, and the folder of the file that is not it."""
    root, found = tmp_path_factory.mktemp("converted"), {}
    for name, changed in CHANGING.items():
        numbers = keras.Input((3,), name="numbers")
        model = keras.Model(numbers, layers.Identity(name="logits")(changed(numbers)))
        parent, folder = root / f"{name}_parent", root / name
        folder.mkdir()
        FORMATS["saved_model"].write(model, None, None, parent)
        FORMATS[name].write(model, None, parent, folder / FORMATS[name].file)
        (folder / "variant.json").write_text(json.dumps({"format": name, "file": FORMATS[name].file}))
        found[name] = model, folder
    return found


@pytest.mark.parametrize("name", CHANGING)
def test_an_operation_that_no_example_needs_is_missed_on_drawn_inputs(
    name: str, converted: dict[str, tuple[keras.Model, Path]]
) -> None:
    model, folder = converted[name]
    expected, file = inference_function(model), FORMATS[name](folder / FORMATS[name].file, 1)
    assert np.abs(expected(POSITIVE) - file(POSITIVE)).max() < 1e-5, "no example has it"
    against = variants.difference(expected, file, variants.draw([NUMBERS], POSITIVE), LIMIT)
    verdict = parity({"against_float": {"max_abs_difference": 0.0, "largest": 9.0, "drawn": against}}, LIMIT)
    assert not verdict.passed
    assert verdict.text.startswith("outputs for drawn inputs differ from Keras' by at most ")
    assert "; over the limit 0.0001; leave it out, write the operation otherwise, or raise" in verdict.text
    assert variants.compared(expected, file, [NUMBERS], Batch(POSITIVE), 3, LIMIT) == against
    same = variants.difference(expected, expected, variants.draw([NUMBERS], POSITIVE), LIMIT)
    assert same["max_abs_difference"] == 0.0 and same["largest"] == against["largest"] > 1


@pytest.mark.parametrize("name", CHANGING)
def test_the_fresh_process_finds_what_an_example_needs(
    name: str, converted: dict[str, tuple[keras.Model, Path]], tmp_path: Path
) -> None:
    model, folder = converted[name]
    inputs = {"numbers": np.concatenate([POSITIVE["numbers"], -POSITIVE["numbers"]])}
    golden = {f"{INPUTS}numbers": inputs["numbers"], OUTPUTS: inference_function(model)(inputs)}
    write_arrays(folder.parent / GOLDEN, golden)
    with fresh_process(folder, FORMATS[name], tmp_path) as verify_variant:
        fault = fault_of(verify_variant(), LIMIT, "")
    assert str(fault).startswith("outputs differ from Keras' by at most "), fault


def test_numbers_are_drawn_with_either_sign_and_ids_pixels_and_texts_as_they_may_be() -> None:
    inputs = [
        NUMBERS,
        Input("ids", (2,), "int32", sizes=(3, 50)),
        Input("image", (4, 4, 1), "uint8"),
        Input(TOKENS, (5,), "int32"),
        Input("text", (5,), "int32", sizes=(9,), padded=True),
    ]
    texts = np.ones((16, 5), np.int32)
    examples = {
        "numbers": POSITIVE["numbers"],
        "ids": np.zeros((16, 2), np.int32),
        "image": np.full((16, 4, 4, 1), 7, np.uint8),
        TOKENS: texts,
        "text": texts,
    }
    found = variants.draw(inputs, examples)
    again = variants.draw(inputs, examples)
    for name, values in examples.items():
        assert (found[name].shape, found[name].dtype) == (values.shape, values.dtype)
        np.testing.assert_array_equal(found[name], again[name])
    assert set(np.unique(found["numbers"] / examples["numbers"]).round(3)) == {-4, -1, 1, 4}
    assert set(found["ids"][:, 0]) == {0, 1, 2} and 20 < found["ids"][:, 1].max() < 50
    assert found["image"].max() > 200 and found["image"].min() < 50
    assert (found[TOKENS] == 1).all() and (found["text"] == 1).all()
    model: Any = None
    assert variants.compared(model, model, inputs[3:], model, 1, LIMIT) is None, "of texts nothing is drawn"
    assert parity({"against_float": {"max_abs_difference": 0.0, "largest": 1.0, "drawn": None}}, LIMIT).passed


def test_rows_on_which_the_model_is_not_finite_or_not_steady_say_nothing_of_a_file() -> None:
    """The sine of a large number is another for the next float32."""
    inputs = {"x": np.array([[1.0], [-1.0], [1e9]], np.float32)}

    def model(batch: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return np.where(batch["x"] < 0, np.sqrt(batch["x"]), np.sin(batch["x"])).astype("f4")

    def file(batch: Any) -> Any:
        return np.where(batch["x"] == 1, model(batch), np.float32(7))

    assert variants.difference(model, file, inputs, LIMIT)["max_abs_difference"] == 0.0
    wrong = variants.difference(model, lambda batch: np.full((3, 1), np.nan, "f4"), inputs, LIMIT)
    assert wrong["max_abs_difference"] > 1e38 and json.dumps(wrong, allow_nan=False)
    assert variants.difference(model, file, {"x": inputs["x"][1:2]}, LIMIT) == {
        "max_abs_difference": 0.0,
        "largest": 0.0,
    }


@pytest.mark.parametrize("name", ["saved_model", "litert", "keras"])
def test_augmenting_layers_are_off_in_what_is_exported(name: str, augmenting: keras.Model, tmp_path: Path) -> None:
    """Though Keras' own `export` has them on."""
    images = np.random.default_rng(1).integers(0, 256, (4, 8, 8, 1)).astype("uint8")
    expected = np.asarray(augmenting(images, training=False))
    assert np.abs(np.asarray(augmenting(images, training=True)) - expected).max() > 0.1
    assert np.abs(np.asarray(augmenting(images)) - expected).max() > 0.1, "Keras' default"
    FORMATS["saved_model"].write(augmenting, None, None, tmp_path / "saved_model")
    file = tmp_path / FORMATS[name].file
    if name != "saved_model":
        FORMATS[name].write(augmenting, None, tmp_path / "saved_model", file)
    run = FORMATS[name](file, 1)
    for _ in range(2):
        np.testing.assert_allclose(run({"image": images}), expected, atol=1e-5)


@pytest.fixture(scope="module")
def augmenting() -> keras.Model:
    image = keras.Input((8, 8, 1), dtype="uint8", name="image")
    x = layers.RandomContrast(0.9)(layers.RandomRotation(0.4)(layers.RandomFlip()(layers.Rescaling(1 / 255)(image))))
    return keras.Model(image, layers.Dense(3, name="logits")(layers.Flatten()(x)))
