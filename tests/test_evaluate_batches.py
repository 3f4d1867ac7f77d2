"""Running a model: the same bits in any batches, and memory that does not grow with the rows."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Kept, run_model
from tasks.evaluation.tasks import make_judge
from tasks.exporting.score import RawSplit
from tasks.models import ModelConfig
from tasks.models.architectures.convnet import ConvnetModel, ResNetModel
from tasks.models.architectures.encoder import ViTModel
from tasks.models.architectures.mlp import MlpModel
from tasks.models.forward import inference_function

ROWS = 129  # a last batch of one example, with 2, 16 and 64
FEATURES = {
    "image": {"dtype": "uint8", "shape": [12, 12, 3]},
    "label": {"dtype": "int64", "shape": [], "classes": ["a", "b", "c"]},
}


def judge_of(rows: int, images: Any, folder: Path) -> Any:
    arrays = {"image": images, "label": np.arange(rows) % 3}
    return make_judge("classification", RawSplit("test", FEATURES, arrays, folder), EvaluateConfig())


def kept_by(config: ModelConfig, tmp_path: Path) -> dict[int, Kept]:
    """What is kept of the outputs of a model, by batch size."""
    images = np.random.default_rng(0).integers(0, 256, (ROWS, 12, 12, 3), np.uint8)
    judge, call = judge_of(ROWS, images, tmp_path), inference_function(config.build(FEATURES, seed=3))
    return {size: run_model(judge, call, batch_size=size).kept for size in (256, 64, 16, 7, 2)}


@pytest.mark.parametrize(
    "config",
    [ConvnetModel(), ResNetModel(filters=8, blocks=(1, 1)), MlpModel(units=(32,))],
    ids=["convnet", "resnet", "mlp"],
)
def test_what_is_kept_is_the_same_in_any_batches_to_the_bit(tf: Any, config: Any, tmp_path: Path) -> None:
    kept = kept_by(config, tmp_path)
    for size, arrays in kept.items():
        assert arrays["logits"].tobytes() == kept[256]["logits"].tobytes(), size


def test_products_of_attention_differ_in_the_last_bits_at_most(tf: Any, tmp_path: Path) -> None:
    """TensorFlow chooses their kernels by the size of the batch, which is a function of the model alone."""
    kept = kept_by(ViTModel(patch=4, width=16, layers=1, heads=2, hidden=32), tmp_path)
    for arrays in kept.values():
        assert np.abs(arrays["logits"] - kept[256]["logits"]).max() < 1e-6


def test_memory_grows_by_what_is_kept_alone(tmp_path: Path) -> None:
    """The images are on disk and 432 times as large as the logits."""

    def peak(rows: int) -> float:
        path = tmp_path / f"{rows}.npy"
        images = np.lib.format.open_memmap(path, "w+", np.uint8, (rows, 12, 12, 3))
        judge = judge_of(rows, images, tmp_path)
        tracemalloc.start()
        kept = run_model(
            judge, lambda batch: batch["image"].astype(np.float64).mean(axis=(1, 2)).astype(np.float32)
        ).kept
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most - 2 * kept["logits"].nbytes  # of the batches, and joined

    small, large = peak(2_000), peak(16_000)
    assert large < 1.3 * small, (small, large)
    assert large < 16_000 * 432 / 2, "less than the images"
