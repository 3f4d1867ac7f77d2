"""Training: the loop, the engines, actions, checkpoints and the ledger of examples."""

from __future__ import annotations

from tasks.training.config import TrainConfig

MODEL_VERSION = 10
"""Incremented when the same examples, config and seed would give other weights."""

SELF_TEST_VERSION = 1
"""Incremented when the step or the test of its arithmetic changes; verdicts are kept by version."""

MODEL_LIBRARIES = ("keras", "numpy", "tensorflow")
"""Packages whose versions decide the weights' last bits."""


def libraries_of(config: TrainConfig) -> tuple[str, ...]:
    """Return the packages whose versions decide the result of a training, sorted."""
    needed = [*(each.libraries for each in config.augment), *([config.init.libraries] if config.init else [])]
    return tuple(sorted({*MODEL_LIBRARIES, *(name for libraries in needed for name in libraries)}))
