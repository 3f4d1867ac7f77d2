"""What a training logs beside its loss: norms by group of layers, FLOPs, use of the devices, tokens a second."""

from __future__ import annotations

import re
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from tasks.artifacts import Snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.processes.workbench import Workbench
from tasks.training import speed
from tasks.training.checkpoints import unpack
from tasks.training.engines.tensorflow.costs import PEAKS, forward_flops, measured_flops
from tasks.training.engines.tensorflow.watching import MOST, OTHERS, grouped
from tasks.training.fit import fit
from tasks.training.optimizers import Sgd
from tasks.training.schedules import Constant
from tests.support.homes import ROOT
from tests.support.tiny import CONFIG, MODEL

GROUPS = ("dense0", "dense1", "logits")


@pytest.fixture(scope="module")
def points(tiny: Snapshot, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable) -> dict[int, dict]:
    """The points of a training of two layers by plain gradient descent, one for each step."""
    patch = pytest.MonkeyPatch()
    patch.setattr(speed, "SETTLED", 0.0)
    bench = workbench_at(tmp_path_factory.mktemp("figures") / "staging")
    plain = {"optimizer": Sgd(), "schedule": Constant(), "learning_rate": 0.1, "clip_norm": None, "log_every": 1}
    config = CONFIG.model_copy(update={**plain, "steps": 3})
    fit(bench, tiny, MlpModel(units=(8, 8)), config, seed=5)
    patch.undo()
    return {step: metrics for step, metrics in bench.journal.points if "train/loss" in metrics}


def test_the_norms_of_the_groups_are_parts_of_the_whole(points: dict[int, dict]) -> None:
    for metrics in points.values():
        parts = [metrics[f"train/gradient_norm/{name}"] for name in GROUPS]
        assert np.sqrt(np.square(parts).sum()) == pytest.approx(metrics["train/gradient_norm"], rel=1e-5)


def test_an_update_is_the_rate_times_the_gradient(points: dict[int, dict]) -> None:
    """So that ratio times weights is rate times gradient, for each group."""
    metrics = points[1]
    weights = {name: metrics[f"train/gradient_norm/{name}"] / metrics[f"train/update_ratio/{name}"] for name in GROUPS}
    whole = 0.1 * metrics["train/gradient_norm"] / metrics["train/update_ratio"]
    assert np.sqrt(sum((0.1 * norm) ** 2 for norm in weights.values())) == pytest.approx(whole, rel=1e-4)


def test_flops_are_those_of_the_products(points: dict[int, dict]) -> None:
    metrics = points[3]
    assert metrics["train/model_flops_per_second"] == pytest.approx(
        3 * 2 * (16 * 8 + 8 * 8 + 8 * 2) * metrics["train/examples_per_second"]
    )
    assert 0 < metrics["train/mfu"] < 1
    assert metrics["train/memory_bytes"] > 100e6 and 0 < metrics["train/goodput"] < 1
    assert "train/mfu" not in points[1], "the first call compiles, and is not timed"


@pytest.mark.parametrize(
    ("layer", "shape", "flops"),
    [
        (keras.layers.Conv2D(6, 3, padding="same"), (8, 8, 4), 2 * 8 * 8 * 6 * 3 * 3 * 4),
        (keras.layers.Conv2D(6, 3, padding="same", groups=2), (8, 8, 4), 2 * 8 * 8 * 6 * 3 * 3 * 2),
        (keras.layers.DepthwiseConv2D(3, padding="same"), (8, 8, 4), 2 * 8 * 8 * 4 * 3 * 3),
        (keras.layers.Conv1D(6, 3, padding="same"), (8, 4), 2 * 8 * 6 * 3 * 4),
        (keras.layers.EinsumDense("abc,cd->abd", (None, 7)), (5, 3), 2 * 5 * 3 * 7),
        (keras.layers.Dot((2, 2)), None, 2 * 4 * 6 * 5),
    ],
    ids=["convolution", "groups", "depthwise", "series", "einsum", "attention"],
)
def test_each_product_counts(layer: keras.Layer, shape: tuple[int, ...] | None, flops: int) -> None:
    if shape is None:
        specs = {"a": tf.TensorSpec((1, 4, 5)), "b": tf.TensorSpec((1, 6, 5))}
        assert forward_flops(lambda batch: layer([batch["a"], batch["b"]]), specs) == flops
        return
    inputs = keras.Input(shape)
    model = keras.Model(inputs, layer(inputs))
    assert forward_flops(lambda batch: model(batch["x"]), {"x": tf.TensorSpec((1, *shape))}) == flops


def test_a_processor_is_measured_and_an_accelerator_looked_up() -> None:
    assert 1e9 < measured_flops("float32") < 1e14
    names = [*PEAKS]
    assert all(not later.startswith(name) for at, name in enumerate(names) for later in names[at + 1 :]), (
        "L4 hides L40S"
    )


def test_groups_are_layers_that_begin_alike_and_not_too_many() -> None:
    groups = grouped(["block0_attention_qkv/kernel", "block0_mlp_out/kernel", "embedding/embeddings", "back/enc/bias"])
    assert groups.names == ("block0", "embedding", "back") and groups.numbers == (0, 0, 1, 2)
    many = grouped(f"layer{number}/kernel" for number in range(2 * MOST))
    assert len(many.names) == MOST and many.names[-1] == OTHERS


def test_every_metric_of_a_training_is_defined(points: dict[int, dict]) -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    defined = set(re.findall(r"`(train/[a-z_/A-Z]+)`", text))
    for name in {name for metrics in points.values() for name in metrics}:
        group = re.sub(f"/({'|'.join(GROUPS)})$", "/GROUP", name)
        assert group in defined, group


def test_figures_do_not_change_what_is_trained(tiny: Snapshot, benches: Callable[[str], Workbench]) -> None:
    """Measured at every step, or at none."""
    states = []
    for every in (1, 100):
        bench = benches(f"every{every}")
        fit(bench, tiny, MODEL, CONFIG.model_copy(update={"log_every": every}), seed=5)
        states.append(unpack((bench.staging.root / "state/state.npz").read_bytes())[2])
    assert all(np.array_equal(values, states[1][name]) for name, values in states[0].items())
