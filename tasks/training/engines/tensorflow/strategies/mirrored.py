"""A copy of the model on each of several devices of one process (tf.distribute.MirroredStrategy)."""

from __future__ import annotations

import tensorflow as tf

from tasks.training.engines.tensorflow.strategies.replicated import Replicated
from tasks.training.group import Cluster
from tasks.training.strategies import Mirrored


def create(config: Mirrored, cluster: Cluster) -> Replicated:
    """Create the strategy; without accelerators the CPU is split into logical devices."""
    kind = device_type(config.devices)
    strategy = tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(config.devices)])
    return Replicated(strategy, config.devices)


def device_type(devices: int) -> str:
    """Return GPU where there are as many, else CPU, which is split into that many logical devices."""
    if len(tf.config.list_physical_devices("GPU")) >= devices:
        return "GPU"
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    return "CPU"
