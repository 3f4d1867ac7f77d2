"""The deployable forms (variants) of a model, and the methods of compression that make them."""

VARIANT_VERSION = 13
"""Incremented when the same model and snapshot would give another variant."""

VARIANT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "ai-edge-litert", "ai-edge-quantizer")
"""Packages whose versions decide a variant's bytes."""

MODEL_LIBRARIES = ("tensorflow", "keras", "numpy", "scikit-learn")
"""Packages whose versions decide the bytes of a model that a method has changed."""
