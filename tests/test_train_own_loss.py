"""A loss of the user's: in the digest by its source, exact after a stop, and its errors name file and line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.config.base import Conflict
from tasks.config.compose import load
from tasks.errors import Failed, Refused, Stopped
from tasks.models.keras_file import architecture
from tasks.processes.workbench import Workbench
from tasks.runner import identities
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tests.support.tiny import CONFIG, MODEL, files, stopping_after
from tests.support.training import raise_conflict

LOSSES = """
import keras
from keras import ops

def same(label, logits):
    return keras.losses.sparse_categorical_crossentropy(label, logits, from_logits=True)

def focal(label, logits):
    chosen = ops.take_along_axis(ops.softmax(logits), ops.expand_dims(label, -1), axis=-1)[:, 0]
    return -((1 - chosen) ** 2) * ops.log(chosen)

def mean(label, logits):
    return ops.mean(same(label, logits))

def noisy(label, logits):
    return same(label, logits + keras.random.normal(ops.shape(logits)))

calls = []

def counting(label, logits):
    calls.append(1)
    return same(label, logits) * len(calls)

def wrong(label, logits):
    return label.no_such_method()
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], TrainConfig]:
    """`own(function)`: a training with that loss."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/losses.py").write_text(LOSSES)

    def config(function: str) -> TrainConfig:
        return CONFIG.model_copy(update={"loss": f"own.losses:{function}", "folder": str(tmp_path)})

    return config


def weights(bench: Workbench) -> list[np.ndarray]:
    from tasks.models import keras_file

    return [np.asarray(weight) for weight in keras_file.load(bench.staging.root).weights]


def test_the_same_loss_gives_the_same_weights_another_one_others_and_a_stop_changes_no_byte(
    own: Callable[[str], TrainConfig], tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    names = {"stock": CONFIG, "same": own("same"), "focal": own("focal")}
    for name, config in names.items():
        fit(benches(name), tiny, MODEL, config, seed=5)
    stock, same, focal = (weights(benches(name)) for name in names)
    assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(stock, same, strict=True))
    assert not all(np.allclose(one, other, atol=1e-3) for one, other in zip(stock, focal, strict=True))
    assert architecture(benches("focal").staging.root)["loss"] == "cross_entropy", "which reports use"

    broken = benches("broken")
    with pytest.raises(Stopped):
        fit(replace(broken, stopping=stopping_after(2)), tiny, MODEL, names["focal"], seed=5)
    fit(broken, tiny, MODEL, names["focal"], seed=5)
    assert files(broken) == files(benches("focal"))


def test_its_source_is_part_of_the_digest(own: Callable[[str], TrainConfig], tiny: Snapshot, tmp_path: Path) -> None:
    def inputs() -> Any:
        return identities.model(tiny, MODEL, own_focal, 5).inputs(Model)

    own_focal = own("focal")
    before = inputs()
    (tmp_path / "own/losses.py").rename(tmp_path / "own/moved.py")
    with pytest.raises(Refused, match=r"train.loss: no module own.losses in .*correct it, or train.folder"):
        inputs()
    (tmp_path / "own/moved.py").rename(tmp_path / "own/losses.py")
    assert inputs() == before
    (tmp_path / "own/losses.py").write_text(LOSSES.replace("** 2", "** 3"))
    assert inputs() != before


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            "mean",
            r"train.loss: own.losses:mean returns shape \[\] for targets \[4\] and outputs \[4, 2\]; .*take no mean",
        ),
        ("wrong", "train.loss: own/losses.py line 25: AttributeError: .*no_such_method.*; correct the function"),
        ("absent", "train.loss: own.losses:absent: AttributeError: .*absent"),
        ("noisy", "train.loss: outputs of call 2 differ between two runs .*; draw no random numbers in the loss"),
        ("counting", "train.loss: outputs of call 2 differ between two runs"),
    ],
)
def test_an_error_in_it_names_file_and_line_and_what_cannot_be_repeated_is_found(
    function: str, says: str, own: Callable[[str], TrainConfig], tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    with pytest.raises(Failed, match=says):
        fit(benches("broken"), tiny, MODEL, own(function), seed=5)


def test_it_is_found_beside_the_preset(tmp_path: Path) -> None:
    (tmp_path / "preset.yaml").write_text("{name: own, train: {steps: 3, loss: 'losses:focal'}}")
    assert load(tmp_path / "preset.yaml").train.folder == str(tmp_path)
    flag = [("train.folder", "elsewhere")]
    assert load(tmp_path / "preset.yaml", flag).train.folder == str(Path.cwd() / "elsewhere")
    (tmp_path / "preset.yaml").write_text("{name: own, train: {steps: 3}}")
    assert load(tmp_path / "preset.yaml").train.folder is None


def test_settings_of_other_losses_are_refused() -> None:
    with pytest.raises(Conflict, match="label_smoothing .* is ignored by a loss of yours"):
        raise_conflict(lambda: TrainConfig(steps=3, loss="losses:focal", label_smoothing=0.1))
