"""Accelerators: what decides the last bits of what they compute is set before the first operation, and recorded.

A GPU's threads add up in the order in which they come to it; TensorFlow has other operations, which give the same bits
each time and are slower (`tf.config.experimental.enable_op_determinism`). TensorFloat-32 rounds the factors of float32
products to 10 bits of mantissa; TensorFlow has it on, and so is it here. TensorFlow is imported on use.
"""

from __future__ import annotations

from typing import Any

TF32 = True


def prepare() -> None:
    """Let the GPUs of this process give the same bits each time; without one nothing needs to be set."""
    import tensorflow as tf

    if tf.config.get_visible_devices("GPU"):
        tf.config.experimental.enable_op_determinism()
        tf.config.experimental.enable_tensor_float_32_execution(TF32)


def layout() -> dict[str, Any]:
    """Return what a layout records of the GPUs of this process, by their types; nothing without one."""
    import tensorflow as tf

    details = (tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU"))
    names = sorted({str(each.get("device_name", "GPU")) for each in details})
    return {"accelerators": ", ".join(names), "tf32": TF32} if names else {}


def leave() -> None:
    """Compute on the host alone, in a process that has not computed: its results are compared with another host's."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
