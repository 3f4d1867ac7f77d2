"""The float LiteRT (formerly TensorFlow Lite) file, converted from the SavedModel."""

from __future__ import annotations

from pathlib import Path

SIGNATURE = "serving_default"


def write(saved_model: Path, target: Path) -> None:
    """Convert a SavedModel folder to a `.tflite` file.

    Input and output keep their names, shapes and dtypes; the batch size is 1 until the runtime resizes it.
    """
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(saved_model), signature_keys=[SIGNATURE])
    target.write_bytes(converter.convert())
