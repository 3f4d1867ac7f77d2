"""What a model says of a text, whatever padding follows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.models.architectures.encoder import EncoderModel
from tasks.models.layers import PADDING

TEXT = {"dtype": "int32", "shape": [12], "sizes": [40], "padding": PADDING}
FEATURES: dict[str, dict[str, Any]] = {
    "classification": {"text": TEXT, "label": {"dtype": "int64", "shape": [], "classes": ["a", "b", "c"]}},
    "tagging": {"text": TEXT, "label": {"dtype": "int32", "shape": [12], "classes": ["O", "B-A", "I-A"]}},
}


@pytest.mark.parametrize("task", FEATURES)
@pytest.mark.parametrize("layers", [1, 2])
def test_an_encoder_reads_a_text_and_not_the_padding_behind_it(task: Any, layers: int) -> None:
    model = EncoderModel(task=task, width=16, layers=layers, heads=2, hidden=24).build(FEATURES[task], seed=3)
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:  # heads begin at 0
        variable.assign(np.asarray(variable) + random.normal(0, 0.2, variable.shape))
    texts = random.integers(PADDING + 2, 40, (5, 6)).astype(np.int32)
    longer = np.concatenate([texts, np.full((5, 6), PADDING, np.int32)], axis=1)
    alone, padded = (np.asarray(model(each, training=False)) for each in (texts, longer))
    if task == "tagging":
        assert np.ptp(padded[:, 6:], axis=(0, 1)).max() < 1e-6, "a constant at padding"
        padded = padded[:, :6]
    np.testing.assert_allclose(alone, padded, atol=1e-5)
    assert np.ptp(alone, axis=0).max() > 0.01
