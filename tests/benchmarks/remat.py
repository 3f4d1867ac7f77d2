"""Peak memory of the gradients of a step with and without `train.remat`, by TensorFlow's own allocator.

    python -m tests.benchmarks.remat

A processor's allocator counts the tensors from 256 KiB on; the numbers do not depend on how busy the machine is.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from tasks.models.architectures.convnet import ResNetModel
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.stages import segments
from tasks.processes import threads
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.costs import gradients, peak_bytes
from tasks.training.engines.tensorflow.engine import make_objective
from tasks.training.engines.tensorflow.optimizers import make_optimizer
from tasks.training.engines.tensorflow.segmented_steps import RematerialisedStep
from tasks.training.engines.tensorflow.step import Step

LABEL = {"dtype": "int64", "shape": [], "classes": ["even", "odd"]}
CASES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "20 dense layers": (
        MlpModel(units=(32,) * 20),
        {"image": {"dtype": "uint8", "shape": [4, 4, 1]}, "label": LABEL},
        1 << 15,
    ),
    "resnet": (ResNetModel(blocks=(2, 2, 2)), {"image": {"dtype": "uint8", "shape": [32, 32, 3]}, "label": LABEL}, 32),
    "transformer, 6 blocks": (
        TransformerModel(width=128, layers=6, heads=4, hidden=256),
        {"tokens": {"dtype": "uint16", "shape": [129], "vocabulary": 500, "bos": 499}},
        16,
    ),
}


def main() -> None:
    """Print a line for each case."""
    threads.pin(2)
    config = TrainConfig(steps=1)
    for name, (model_config, features, examples) in CASES.items():
        model = model_config.build(features, 1)
        snapshot: Any = SimpleNamespace(features=features)
        objective = make_objective(model_config.task, config, snapshot)
        step = Step(model, make_optimizer(config.optimizer, model.trainable_variables), objective)
        again = RematerialisedStep(**vars(step), segments=tuple(segments(model)))
        specs = {each: tf.TensorSpec(feature["shape"], feature["dtype"]) for each, feature in features.items()}
        specs["weight"] = tf.TensorSpec((), "float32")
        kept, less = (peak_bytes(gradients(each, specs, examples)) / 1e6 for each in (step, again))
        count = len(again.segments)
        print(f"{name:<22} {kept:6.0f} MB, {less:6.0f} MB with train.remat ({count} segments): {less / kept:.2f}x")


if __name__ == "__main__":
    main()
