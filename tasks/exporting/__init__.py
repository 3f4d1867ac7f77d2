"""Deployable forms of a model: one format per module, running them, and their verification in a fresh process."""

EXPORT_VERSION = 2
"""Incremented when the same model and variants would give another export."""

EXPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "ai-edge-litert")
"""Packages whose versions decide an export's bytes."""

SAVED_MODEL = "saved_model"
LITERT = "litert"

FILES = {SAVED_MODEL: "saved_model", LITERT: "model.tflite"}
"""Name of each format's file or folder in a variant and in an export."""

OUTPUT = "logits"
"""Name of the output in every form."""
