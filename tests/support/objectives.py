"""Every objective on one batch, on the backend of Keras that `KERAS_BACKEND` names; `python -m` prints the sums."""

from __future__ import annotations

import json
import sys

import numpy as np


def sums_of_each() -> dict[str, dict[str, float]]:
    """Return the sums of each objective by name, with options and without."""
    from tasks.feed.augmenter import MIXED, OTHER_LABEL
    from tasks.training.engines.objectives import (
        Classification,
        LanguageModel,
        Multilabel,
        Objective,
        Regression,
        Tagging,
        weighted_sum,
    )

    random = np.random.default_rng(0)
    weight = np.array([1, 0.5, 2, 0], np.float32)
    label, tokens = random.integers(0, 5, 4), random.integers(0, 5, (4, 7)).astype(np.uint16)
    tags = np.where(random.random((4, 6)) < 0.3, -1, random.integers(0, 5, (4, 6)))
    mixed = {OTHER_LABEL: random.integers(0, 5, 4), MIXED: random.random(4).astype(np.float32)}
    classes = np.array([1, 2, 0.5, 1, 3], np.float32)
    logits, of_tokens = (random.normal(size=(4, *more, 5)).astype(np.float32) for more in ((), (6,)))
    target, numbers = (random.random((4, 5)) < 0.4).astype(np.float32), random.normal(size=(4, 5)).astype(np.float32)
    cases: dict[str, tuple[Objective, dict[str, np.ndarray], np.ndarray]] = {
        "classification": (Classification("cross_entropy"), {"label": label}, logits),
        "mixed": (Classification("cross_entropy", 0.1, class_weights=classes), {"label": label, **mixed}, logits),
        "tagging": (Tagging("cross_entropy", class_weights=classes), {"label": tags}, of_tokens[:, :4]),
        "multilabel": (Multilabel("binary_cross_entropy", 0.1), {"target": target}, logits),
        "squared": (Regression("squared_error"), {"target": numbers}, logits),
        "absolute": (Regression("absolute_error"), {"target": numbers}, logits),
        "language model": (LanguageModel("cross_entropy", 0.1, bos=2), {"tokens": tokens}, of_tokens),
    }
    from keras import ops

    found = {}
    for name, (objective, given, outputs) in cases.items():
        batch = {key: ops.convert_to_tensor(values) for key, values in {**given, "weight": weight}.items()}
        scored = objective(batch, ops.convert_to_tensor(outputs))
        added = weighted_sum([scored.losses, ops.convert_to_tensor(np.float32(0.5))], scored.weights)
        found[name] = {key: float(value) for key, value in {**scored.sums(), "added": added}.items()}
    return found


if __name__ == "__main__":
    result = sums_of_each()
    assert "tensorflow" not in sys.modules
    print(json.dumps(result))
