"""Less memory for a training: activations that are computed again, micro-batches that fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from pydantic import ValidationError

from tasks.artifacts import Snapshot
from tasks.config.base import Conflict
from tasks.config.compose import Config
from tasks.environment import hardware
from tasks.errors import Failed, Stopped
from tasks.feed import open_snapshot
from tasks.models.architectures.convnet import ResNetModel
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.user_models import ImportedModel
from tasks.models.stages import cheapest, packed, segments
from tasks.processes.workbench import Workbench
from tasks.training.config import TrainConfig
from tasks.training.engines import Engine
from tasks.training.engines.tensorflow.costs import activations
from tasks.training.fit import fit, make_engine
from tasks.training.group import Cluster
from tasks.training.loop import make_plan
from tasks.training.memory import FITTED, candidates, micro_batches
from tasks.training.schedules import Constant
from tasks.training.strategies import Mirrored, Pipeline
from tests.support.tiny import CONFIG, files, stopping_after
from tests.support.training import raise_conflict

DEEP = ResNetModel(blocks=(1,), filters=8, groups=2, dropout=0.3)
DROPS = MlpModel(units=(8, 8, 8), dropout=0.5)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        pytest.param(DEEP, {"precision": "bfloat16", "accumulate": 2}, marks=pytest.mark.slow, id="bfloat16"),
        pytest.param(DROPS, {"precision": "float16", "ema": 0.9}, id="float16"),
    ],
)
def test_activations_that_are_computed_again_give_the_same_bytes(
    model: Any, options: dict[str, Any], tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    config = CONFIG.model_copy(update=options)
    kept, again = benches("kept"), benches("again")
    fit(kept, tiny, model, config, seed=5)
    fit(again, tiny, model, config.model_copy(update={"remat": True}), seed=5)
    assert files(again) == files(kept)


def test_the_estimate_of_activations_counts_the_layers_of_a_model_within_a_model() -> None:
    inputs, layers = keras.Input((16,)), [keras.layers.Dense(8), keras.layers.Dense(4)]
    within = keras.Model(inputs, keras.Sequential(layers)(inputs))
    assert activations(within.outputs) == 4 * (16 + 16 + 8 + 4), "its input is one more"


def test_segments_keep_little_and_compute_little_at_once() -> None:
    assert packed([1, 1, 1, 1], 2) == [(0, 2), (2, 4)]
    assert packed([1, 1], 9) == [(0, 1), (1, 2)], "two at least"
    assert cheapest([4] * 8, [2] * 8) == [(0, 2), (2, 4), (4, 6), (6, 8)], "6 kept and 8 at once"
    assert cheapest([4, 4, 4, 4], [100, 1, 100, 1]) == [(0, 2), (2, 4)], "not at the large outputs"


def test_a_model_without_parts_is_refused() -> None:
    with pytest.raises(Failed, match="train.remat: true, and whole has no two parts"):
        segments(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="whole"))
    with pytest.raises(ValidationError, match="balance_weight.*train.remat computes no loss but that of the outputs"):
        Config.model_validate(
            {
                "name": "experts",
                "source": {"kind": "text_files", "path": "texts"},
                "snapshot": {"kind": "tokens"},
                "model": {"kind": "transformer", "experts": 2},
                "train": {"steps": 200, "remat": True},
            }
        )
    with pytest.raises(Conflict, match="is not there for pipeline"):
        raise_conflict(lambda: TrainConfig(steps=3, remat=True, strategy=Pipeline(devices=2, micro_batches=2)))


LARGE = CONFIG.model_copy(update={"steps": 2, "batch_size": 1 << 13, "schedule": Constant(), "log_every": 1})
WIDE = MlpModel(units=(64, 64, 64))


REMEDY = "set it to (\\d+), which fits, or set train.fit_memory: true"


def test_too_much_for_the_memory_is_an_error_that_names_what_fits(
    tiny: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available", lambda: 4 << 20)
    with pytest.raises(Failed) as failed:
        fit(benches("large"), tiny, WIDE, LARGE, seed=5)
    assert failed.value.field == "train.accumulate"
    assert failed.value.saw == "1, which is too much for the 4 MiB that are free"
    accumulate = re.fullmatch(REMEDY, failed.value.remedy)
    assert accumulate and int(accumulate[1]) in (2, 4, 8, 16)


REPEATED = """
import keras
from keras import ops

def make():
    inputs = keras.Input((4, 4, 1), dtype="uint8", name="image")
    x = keras.layers.Flatten()(keras.layers.Rescaling(0.1)(inputs))
    x = ops.sum(ops.tile(ops.expand_dims(x, -1), (1, 1, 65536)), axis=-1)
    return keras.Model(inputs, keras.layers.Dense(2)(x))
"""


@pytest.mark.slow
def test_a_tensor_that_cannot_be_allocated_is_an_error_that_names_what_fits(
    tiny: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """512 GiB, on a machine that says it has more: TensorFlow tries for ten seconds."""
    monkeypatch.setattr(hardware, "available", lambda: 1 << 50)
    (tmp_path / "repeated.py").write_text(REPEATED)
    model = ImportedModel(target="repeated:make", folder=str(tmp_path))
    with pytest.raises(Failed, match=f"1, which is too much for a tensor .* of type float; .*; {REMEDY}"):
        fit(benches("large"), tiny, model, LARGE.model_copy(update={"batch_size": 1 << 17}), seed=5)


def test_micro_batches_that_fit_are_sought_and_kept(
    tiny: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available", lambda: 4 << 20)
    config = LARGE.model_copy(update={"fit_memory": True})
    fitted, same = benches("fitted"), benches("same")
    with pytest.raises(Stopped):
        fit(replace(fitted, stopping=stopping_after(1)), tiny, WIDE, config, seed=5)
    number = json.loads((fitted.staging.root / FITTED).read_bytes())
    assert 2 <= number <= 16, "three layers of 64 floats, and their gradients, of 8,192 examples: about 10 MiB"
    monkeypatch.setattr(hardware, "available", lambda: 1 << 30)
    fit(fitted, tiny, WIDE, config, seed=5)
    fit(same, tiny, WIDE, LARGE.model_copy(update={"accumulate": number}), seed=5)
    assert files(fitted) == files(same)


NORMED = """
import keras
from keras import layers

def make(outputs):
    image = keras.Input((4, 4, 1), dtype="uint8", name="image")
    x = layers.Dense(256)(layers.Flatten()(layers.Rescaling(1 / 255)(image)))
    return keras.Model(image, layers.Dense(outputs)(layers.BatchNormalization()(x)))
"""


def test_a_batch_norm_has_no_micro_batches_that_fit(
    tiny: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They would have statistics of their own: `train.accumulate` is refused, and nothing else may set it."""
    monkeypatch.setattr(hardware, "available", lambda: 4 << 20)
    (tmp_path / "normed.py").write_text(NORMED)
    model, snapshot = ImportedModel(target="normed:make", folder=str(tmp_path)), open_snapshot(tiny.path)
    plan = make_plan(LARGE, snapshot.counts["train"], ())
    engine = make_engine(LARGE, model, snapshot, plan, 5, Cluster(0, ("127.0.0.1:0",)))
    for fit_memory in (False, True):
        config, bench = LARGE.model_copy(update={"fit_memory": fit_memory}), benches(f"normed_{fit_memory}")
        with pytest.raises(Failed, match="1, which is too much for the 4 MiB that are free") as failed:
            micro_batches(engine, config, bench)
        assert failed.value.remedy == "set train.remat: true, or use a smaller batch or model"
        assert not (bench.staging.root / FITTED).exists()
    engine.close()


def test_memory_that_is_not_counted_is_said_and_nothing_large_is_tried(
    tiny: Snapshot,
    benches: Callable[[str], Workbench],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(hardware, "available", lambda: 1 << 10)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"current": 0, "peak": 0})
    fit(benches("plain"), tiny, MlpModel(units=(8,)), CONFIG.model_copy(update={"fit_memory": True}), seed=5)
    assert "TensorFlow counts no memory on this processor" in caplog.text


def test_micro_batches_divide_the_examples_of_a_replica() -> None:
    def numbers(batch_size: int, above: int = 0, **options: Any) -> list[int]:
        return candidates(TrainConfig(steps=1, batch_size=batch_size, **options), above)

    assert numbers(8) == [1, 2, 4, 8]
    assert numbers(12, accumulate=2) == [2, 4, 12]
    assert numbers(12, 2, accumulate=2) == [3, 6, 12]
    assert numbers(12, strategy=Mirrored(devices=3)) == [1, 2, 4]
    assert numbers(1, 1) == []


def test_memory_is_what_the_system_or_the_control_group_has_left(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder, limit, current in (("a", "900000", "500000"), ("a/b", "max", "1")):
        for name, text in {"max": limit, "current": current, "stat": "anon 1\ninactive_file 40000\n"}.items():
            (tmp_path / folder / f"memory.{name}").write_text(text)
    membership = tmp_path / "cgroup"
    membership.write_text("0::/a/b\n")
    assert hardware.available(tmp_path, membership) == 440000
    membership.write_text("0::/\n")
    assert hardware.available(tmp_path, membership) > 1 << 20


@pytest.mark.slow
def test_activations_that_are_computed_again_need_no_memory(tiny: Snapshot) -> None:
    """Of 20 layers of 32 floats, for 32,768 examples: 80 MiB."""
    snapshot = open_snapshot(tiny.path)

    def engine_of(remat: bool) -> Engine:
        config = LARGE.model_copy(update={"batch_size": 1 << 15, "remat": remat})
        plan = make_plan(config, snapshot.counts["train"], ())
        return make_engine(config, MlpModel(units=(32,) * 20), snapshot, plan, 5, Cluster(0, ("127.0.0.1:0",)))

    again, kept = engine_of(remat=True), engine_of(remat=False)
    assert again.fits(1, 64 << 20)
    assert not kept.fits(1, 64 << 20)
    assert kept.fits(1, 256 << 20)
