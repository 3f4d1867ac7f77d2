"""Each kind of model has the layers, numbers, initial distributions and names that it had when others were trained.

A fault here trains, and comes out in no other check: a model that is a little worse, or that begins otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from tasks.compression.stored import FactoredModel
from tasks.errors import Failed
from tasks.models.architectures.convnet import ConvnetModel, ResNetModel
from tasks.models.architectures.encoder import EncoderModel, ViTModel
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.features import classes, model_inputs, output_size, positions, targets
from tasks.models.keras_archive import outside
from tests.support.golden import pinned
from tests.test_model_parts import IMAGE, LABEL, MODELS, TABLE, TEXT, TOKENS

MEASURED = {"dtype": "float32", "shape": [2], "mean": [1.0, -2.0], "variance": [4.0, 0.25]}
ONE = {"dtype": "float32", "shape": [1], "mean": [10.0], "variance": [9.0]}
TAGS = {"dtype": "int64", "shape": [12], "classes": ["O", "B", "I"], "padding": -1}

PINNED: dict[str, tuple[Any, dict[str, Any]]] = {
    **MODELS,
    "convnet of kernels by another initializer": (
        ConvnetModel(filters=(4,), dense=8, dropout=0.0, initializer="lecun_normal"),
        IMAGE,
    ),
    "convnet of factored layers": (
        FactoredModel(
            task="classification",
            model=ConvnetModel(filters=(4,), dense=8, dropout=0.0),
            ranks={"block0_conv1": 2, "dense": 3},
        ),
        IMAGE,
    ),
    "encoder of tags": (EncoderModel(task="tagging", width=8, layers=1, heads=2), {"text": TEXT, "label": TAGS}),
    "encoder of another base": (
        EncoderModel(width=8, layers=1, heads=1, head_dim=4, rope_base=500.0),
        {"text": TEXT, "label": LABEL},
    ),
    "mlp of measured numbers": (
        MlpModel(task="regression", units=(4,), embedding=2),
        {**TABLE, "numbers": MEASURED, "target": MEASURED},
    ),
    "mlp of one target": (MlpModel(task="regression", units=(4,)), {"numbers": MEASURED, "target": ONE}),
    "mlp of several labels": (MlpModel(task="multilabel", units=(4,)), {"numbers": MEASURED, "target": MEASURED}),
    "resnet of one group": (ResNetModel(blocks=(1, 1, 1), filters=4, groups=1, inner_groups=2), IMAGE),
    "resnet of two blocks in a later stage": (ResNetModel(blocks=(1, 2), filters=4, groups=2), IMAGE),
    "transformer of one document at a time": (
        TransformerModel(width=8, layers=1, heads=2, head_dim=2, document_mask=True),
        TOKENS,
    ),
    "vit of grey pictures": (
        ViTModel(patch=2, width=8, layers=1, heads=2),
        {"image": {"dtype": "uint8", "shape": [4, 6, 1]}, "label": LABEL},
    ),
}

USUAL = {
    *("trainable=True", "dtype=float32", "use_bias=True", "bias_initializer=Zeros()", "activation=linear"),
    *("data_format=channels_last", "groups=1", "dilation_rate=[1]", "dilation_rate=[1, 1]", "mean=0"),
}


def layers(model: keras.Model) -> Iterator[str]:
    """A line for each layer and operation: what it is, its settings, what it is applied to, its number of weights."""
    config = model.get_config()
    sizes = {layer.name: sum(int(np.prod(each.shape)) for each in layer.weights) for layer in model.layers}
    yield f"  {model.name}: inputs {spelt(config['input_layers'])}, outputs {spelt(config['output_layers'])}"
    for layer in config["layers"]:
        settings = settings_of({key: value for key, value in layer["config"].items() if key != "name"})
        applied = [spelt(node["args"]) + settings_of(node["kwargs"]) for node in layer["inbound_nodes"]]
        weights = f", {sizes[layer['name']]} weights" if sizes.get(layer["name"]) else ""
        yield f"  {layer['name']} = {layer['class_name']}({settings}) of {' and '.join(applied) or 'given'}{weights}"


def settings_of(config: dict[str, Any]) -> str:
    """Settings without what is usual in Keras, and without seeds, which the name decides."""
    given = {key: value for key, value in sorted(config.items()) if value is not None and value is not False}
    words = [f"{key}={spelt(value)}" for key, value in given.items() if key != "seed"]
    return ", ".join(word for word in words if word not in USUAL)


def spelt(value: Any) -> str:
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        name, _, output = value["config"]["keras_history"]
        return f"{name}[{output}]" if output else str(name)
    if isinstance(value, dict) and "class_name" in value and "config" in value:
        if value["class_name"] == "DTypePolicy":
            return str(value["config"]["name"])
        return f"{value['class_name']}({settings_of(value['config']) if isinstance(value['config'], dict) else ''})"
    if isinstance(value, dict):
        return f"{{{settings_of(value)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(spelt, value))}]"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def described() -> Iterator[str]:
    for name, (config, features) in PINNED.items():
        yield name
        model = config.build(features, seed=1)
        yield from layers(model)
        if config.kind == "transformer" and config.document_mask is True:
            for function in config.functions(features, model):
                yield f"{name}: {function.name} to {' '.join(function.outputs)}"
                yield from layers(function.graph)


def test_layers_of_each_architecture() -> None:
    pinned("architectures.txt", described())


def test_kernels_begin_by_the_initializer_that_is_named() -> None:
    """LeCun's normal numbers have a variance of one by the inputs of a unit; the outputs stay as they are."""
    config = MlpModel(units=(400, 300), initializer="lecun_normal")
    features = {"numbers": {"dtype": "float32", "shape": [500]}, "label": LABEL}
    named, plain = (each.build(features, seed=1) for each in (config, config.model_copy(update={"initializer": None})))
    for layer, inputs in (("dense0", 500), ("dense1", 400)):
        deviation = np.asarray(named.get_layer(layer).kernel).std()
        assert deviation == pytest.approx(inputs**-0.5, rel=0.02)
        assert np.asarray(plain.get_layer(layer).kernel).std() == pytest.approx((2 / inputs) ** 0.5, rel=0.02)
    kernels = [np.asarray(model.get_layer("logits").kernel) for model in (named, plain)]
    np.testing.assert_array_equal(kernels[0], kernels[1])


def test_a_model_has_an_output_for_each_class_target_tag_or_token() -> None:
    assert output_size(TABLE) == 3 and positions(TABLE) == 0
    assert output_size({"text": TEXT, "label": TAGS}) == 12 * 3
    assert output_size({"numbers": MEASURED, "target": MEASURED}) == 2
    assert output_size(TOKENS) == 16 * 20 and positions(TOKENS) == 16


@pytest.mark.parametrize("names", [[], ["only"]])
def test_a_classifier_needs_two_classes(names: list[str]) -> None:
    assert classes({"label": {"classes": ["no", "yes"]}}) == ["no", "yes"]
    with pytest.raises(Failed) as failed:
        classes({"label": {"classes": names}})
    assert (failed.value.field, failed.value.saw) == ("features.label.classes", names)
    with pytest.raises(Failed):
        classes({})


def test_targets_have_their_names_or_are_numbered() -> None:
    assert targets({"target": {"shape": [2], "names": ["left", "right"]}}) == ["left", "right"]
    assert targets({"target": {"shape": [2]}}) == ["target0", "target1"]
    with pytest.raises(Failed) as failed:
        targets({"numbers": MEASURED})
    assert failed.value.saw == "numbers"


def test_inputs_are_served_in_types_that_every_runtime_has() -> None:
    inputs = {each.name: each for each in model_inputs({**TABLE, "numbers": MEASURED})}
    assert inputs["numbers"].statistics == ([1.0, -2.0], [4.0, 0.25]) and inputs["numbers"].sizes == ()
    assert inputs["categories"].sizes == (4, 3) and not inputs["categories"].padded
    assert inputs["text"].sizes == (20,) and inputs["text"].padded and inputs["text"].dtype == "int32"
    [tokens] = model_inputs(TOKENS)
    assert (tokens.shape, tokens.dtype) == ((16,), "int32"), "the last one is predicted only"


@pytest.mark.parametrize(
    ("name", "leads_out"),
    [
        *(
            (name, True)
            for name in ("/etc/x", "../x", "a/../x", "C:x", "C:\\x", "\\x", "a\\..\\x", "\\\\host\\share\\x")
        ),
        *((name, False) for name in ("x", "a/b.json", "a..b", "...", "ab:c/d")),
    ],
)
def test_a_name_in_an_archive_leads_out_by_a_root_a_drive_or_two_dots(name: str, leads_out: bool) -> None:
    assert outside(name) is leads_out
