"""Training: the loop, the engines, actions, checkpoints and the ledger of examples."""

MODEL_VERSION = 5
"""Incremented when the same examples, config and seed would give other weights."""

SELF_TEST_VERSION = 1
"""Incremented when the step or the test of its arithmetic changes; verdicts are kept by version."""

MODEL_LIBRARIES = ("keras", "numpy", "tensorflow")
"""Packages whose versions decide the weights' last bits."""
