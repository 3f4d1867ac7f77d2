"""Deployable forms of a model: one format per file, running them, and the proof in a fresh process."""

EXPORT_VERSION = 2
"""Counts up when the same model and variants would give another export."""

EXPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "ai-edge-litert")
"""Distributions whose versions decide an export's bytes."""

SAVED_MODEL = "saved_model"
LITERT = "litert"

FILES = {SAVED_MODEL: "saved_model", LITERT: "model.tflite"}
"""What each format's file or folder is called in a variant and in an export."""

REFERENCE = "reference.npz"
"""What Keras answered on the test split, beside a float form: by it are judged the variants made from that form."""

OUTPUT = "logits"
"""Name of the one output of every form."""
