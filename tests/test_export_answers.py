"""What a prediction is made of: temperature and thresholds, the capacity of a cache, and layers that begin at 0."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tasks.exporting import prediction
from tasks.exporting.predict import CAPACITY, Cached, capacity_for
from tasks.exporting.prediction import Classification, Multilabel
from tasks.models.architectures.user_models import KerasFileModel
from tasks.models.decoding import LOGITS, POSITION
from tasks.models.features import TOKENS
from tasks.models.layers import initialise


def test_labels_are_probabilities_at_the_fitted_temperature() -> None:
    outputs, plain = np.array([2.0, -1.0]), {"targets": ["a", "b"]}
    at = {**plain, "temperature": 4.0, "thresholds": {"a": 0.6, "b": 0.5}}
    assert list(Multilabel.row(outputs, plain)["labels"].values()) == pytest.approx(1 / (1 + np.exp(-outputs)))
    answer = Multilabel.row(outputs, at)
    assert list(answer["labels"].values()) == pytest.approx(1 / (1 + np.exp(-outputs / 4)))
    assert answer["predicted"] == ["a"]  # 0.62, and 0.88 without the temperature
    assert Multilabel.row(outputs, {**at, "thresholds": {"a": 0.63, "b": 0.5}})["predicted"] == []


def test_a_class_is_the_most_probable_one_unless_a_threshold_says_otherwise() -> None:
    transform: dict[str, Any] = {"classes": ["no", "yes"], "temperature": 2.0}
    outputs = np.array([1.0, 0.0])
    yes = 1 / (1 + np.exp(0.5))  # 0.378
    assert Classification.row(outputs, transform)["class"] == "no"
    assert Classification.row(outputs, {**transform, "thresholds": {"yes": 0.37}})["class"] == "yes"
    chosen = Classification.row(outputs, {**transform, "thresholds": {"yes": 0.38}})
    assert chosen["class"] == "no" and chosen["confidence"] == pytest.approx(1 - yes)
    assert Classification.row(outputs, {**transform, "thresholds": {"no": 0.63}})["class"] == "yes"


COUNTING = '''
class Counting(Answer):
    """The rate of a count."""

    task = "counting"
    about = "How many are expected."
    code = ""

    @staticmethod
    def row(outputs, transform):
        """Return the expected number."""
        return {"expected": float(np.exp(outputs[0]))}


ANSWERS: '''


def test_another_task_is_answered_by_one_class_also_where_millrace_is_not_installed(tmp_path: Path) -> None:
    source = Path(prediction.__file__).read_text()
    assert source.count("\nANSWERS: ") == 1 and "\nimport tasks" not in source and "\nfrom tasks" not in source
    (tmp_path / "stored.py").write_text(source.replace("\nANSWERS: ", COUNTING))
    stored = runpy.run_path(str(tmp_path / "stored.py"))
    answers = stored["predictions"](np.zeros((2, 1)), {"task": "counting"}, {})
    assert answers == [{"expected": 1.0}] * 2 and list(stored["ANSWERS"])[-1] == "counting"


@pytest.mark.parametrize(("length", "capacity"), [(1, 64), (64, 64), (65, 128), (128, 128), (129, 256)])
def test_a_cache_has_room_for_the_next_token(length: int, capacity: int) -> None:
    assert capacity_for(length) == capacity


def test_the_cache_grows_before_it_is_full() -> None:
    """A model that is called with one token more each time, past the first two capacities."""
    seen: list[tuple[int, int]] = []

    class Model:
        def run(self, signature: str, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            if POSITION in batch:
                seen.append((int(batch[POSITION][0]), batch["keys"].shape[-2]))
                return {LOGITS: np.zeros((1, 1, 3)), "keys": batch["keys"]}
            return {LOGITS: np.zeros((1, 1, 3)), "keys": np.zeros((1, batch[TOKENS].shape[1], 4))}

    cached = Cached(Model())
    for length in range(CAPACITY - 2, 2 * CAPACITY + 2):
        cached({TOKENS: np.ones((1, length), np.int32)})
    assert len(seen) == CAPACITY + 3
    assert all(position < capacity for position, capacity in seen)


def test_an_initializer_leaves_what_begins_at_0_and_the_output() -> None:
    layers = [
        keras.layers.Dense(4, name="dense"),
        keras.layers.Dense(4, kernel_initializer="zeros", name="end_of_block"),
        keras.layers.Dense(2, name="logits"),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    before = [np.array(layer.kernel) for layer in layers]
    initialise(model, "HeNormal", 3)
    after = [np.array(layer.kernel) for layer in layers]
    assert (before[0] != after[0]).any() and not after[1].any()
    np.testing.assert_array_equal(before[2], after[2])
    again = keras.models.clone_model(model)
    initialise(again, "HeNormal", 3)
    np.testing.assert_array_equal(again.layers[0].kernel, after[0])


def test_the_weights_that_a_model_begins_with_decide_its_digest(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="logits")])
    paths = [tmp_path / "one" / "m.keras", tmp_path / "other" / "m.keras"]
    found = []
    for value, path in enumerate(paths):
        path.parent.mkdir()
        model.layers[-1].bias.assign(np.full(2, value, np.float32))
        model.save(path)
        for weights in (False, True):
            found.append(dict(KerasFileModel(path=str(path), weights=weights).source_files()))
    without, with_weights = found[::2], found[1::2]
    assert "weights" not in without[0]
    assert with_weights[0]["weights"] != with_weights[1]["weights"]
    assert {name for name in with_weights[0] if with_weights[0][name] != with_weights[1][name]} >= {"weights"}
