"""Models of a user's, from raw data to a release by the command: KerasHub's, a class, and one of two inputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.homes import CommandHome

pytestmark = pytest.mark.slow

NETS = """
import keras
from keras import layers, ops

class Net(keras.Model):
    def __init__(self, units, outputs):
        super().__init__()
        self.flat, self.hidden = layers.Flatten(), layers.Dense(units, "relu")
        self.drop, self.out = layers.Dropout(0.1), layers.Dense(outputs)

    def call(self, image, training=False):
        x = self.hidden(self.flat(ops.cast(image, self.compute_dtype) / 16))
        return self.out(self.drop(x, training=training))

def net(outputs, units=64):
    return Net(units, outputs)

def two_inputs(features, outputs):
    numbers, ids = features["numbers"], features["categories"]
    age = keras.Input(numbers["shape"], name="numbers")
    city = keras.Input(ids["shape"], dtype="int32", name="categories")
    vector = layers.Flatten()(layers.Embedding(sum(ids["sizes"]), 4)(city))
    scaled = layers.Normalization(mean=numbers["mean"], variance=numbers["variance"])(age)
    x = layers.Dense(8, "relu")(layers.Concatenate()([scaled, vector]))
    return keras.Model({"numbers": age, "categories": city}, layers.Dense(outputs)(x))

class Classifier(keras.Model):
    def __init__(self, vocabulary, outputs):
        import keras_hub
        super().__init__()
        self.backbone = keras_hub.models.BertBackbone(vocabulary, 1, 2, 16, 32, max_sequence_length=64)
        self.out = layers.Dense(outputs)

    def call(self, tokens, training=False):
        present = ops.cast(ops.not_equal(tokens, 0), "int32")
        inputs = {"token_ids": tokens, "padding_mask": present, "segment_ids": ops.zeros_like(tokens)}
        return self.out(self.backbone(inputs, training=training)["pooled_output"])

def bert(features, outputs):
    return Classifier(features["note"]["vocabulary"], outputs)
"""

GOOD, BAD = ["good", "fine", "great", "nice"], ["bad", "poor", "awful", "sad"]
COLUMNS = {"id": "category", "age": "ignore", "city": "ignore", "note": "ignore", "liked": "category"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder: code and a table."""
    folder, draw = tmp_path_factory.mktemp("work"), random.Random(1)
    (folder / "nets.py").write_text(NETS)
    lines = ["id,age,city,note,liked"]
    for number in range(300):
        liked = draw.random() < 0.5
        words = " ".join(draw.choices(GOOD if liked else BAD, k=5))
        city = draw.choice(["Ulm", "Hof"] if liked else ["Bonn", "Kiel"])
        lines.append(f"{number},{draw.gauss(60 if liked else 30, 9):.1f},{city},{words},{'yes' if liked else 'no'}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    return folder


def preset(folder: Path, name: str, **sections: object) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, **sections}))
    return path


def table(**types: str) -> dict[str, object]:
    return {"kind": "csv", "path": "people.csv", "key": "id", "label": "liked", "columns": {**COLUMNS, **types}}


def test_a_backbone_of_kerashub(folder: Path, prepared: Callable[[str], CommandHome]) -> None:
    tokens = {"kind": "table", "transforms": {"note": {"kind": "tokens", "method": "bytes", "length": 32}}}
    written = preset(
        folder,
        "bert",
        source=table(note="text"),
        snapshot=tokens,
        model={"kind": "import", "target": "nets:bert"},
        train={"steps": 60, "batch_size": 32, "learning_rate": 0.01},
        compress={"methods": []},
    )
    answer = prepared("home")("run", "pipeline", written, "--json").json
    assert answer["status"] == "completed" and answer["metrics"]["test/accuracy"] > 0.9
    [model] = answer["artifacts"]["train"]
    assert (Path(model["path"]) / "code/nets.py").read_text() == NETS


def test_a_model_of_two_inputs(folder: Path, prepared: Callable[[str], CommandHome]) -> None:
    written = preset(
        folder,
        "people",
        source=table(age="number", city="category"),
        snapshot={"kind": "table"},
        model={"kind": "import", "target": "nets:two_inputs"},
        train={"steps": 80, "batch_size": 32, "learning_rate": 0.02, "ema": 0.9},
    )
    answer = prepared("home")("run", "pipeline", written, "--json").json
    assert answer["status"] == "completed" and answer["metrics"]["test/accuracy"] > 0.9


def test_a_class_of_the_users_under_two_workers(folder: Path, prepared: Callable[[str], CommandHome]) -> None:
    written = preset(
        folder,
        "digits",
        source={"kind": "sklearn", "dataset": "digits"},
        snapshot={"kind": "image", "height": 8, "width": 8, "channels": 1},
        model={"kind": "import", "target": "nets:net", "arguments": {"units": 48}},
        train={"steps": 120, "batch_size": 64, "learning_rate": 0.005, "precision": "bfloat16"},
        compress={"methods": []},
    )
    two = ["--train.strategy", "{kind: multi_worker, workers: 2}"]
    answer = prepared("home")("run", "pipeline", written, *two, "--json").json
    assert answer["status"] == "completed" and answer["metrics"]["test/accuracy"] > 0.85
