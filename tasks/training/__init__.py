"""Training: the loop, the engine, the order of its arithmetic, its checkpoints and its ledger."""

MODEL_VERSION = 2
"""Counts up when the same examples, config and seed would give other weights."""

MODEL_LIBRARIES = ("keras", "numpy", "tensorflow")
"""Distributions whose versions decide the weights' last bits."""
