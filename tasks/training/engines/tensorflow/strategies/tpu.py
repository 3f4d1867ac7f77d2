"""A copy of the model on each core of a TPU (tf.distribute.TPUStrategy)."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import tensorflow as tf

from tasks.errors import Failed
from tasks.training.engines.tensorflow.strategies.replicated import Replicated
from tasks.training.group import Cluster
from tasks.training.strategies import Tpu

CONNECT_SECONDS = 10.0
"""Seconds to wait for a TPU's address, of which TensorFlow itself waits for ever."""


def create(config: Tpu, cluster: Cluster) -> Replicated:
    """Create the strategy, which connects to the TPU and resets it.

    Raises:
        Failed: there is no such TPU, or it has another number of cores.
    """
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=config.address)
        if config.address != "local":
            check_address(resolver.master())
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, tf.errors.OpError) as error:
        saw = f"{config.address}: {str(error).strip().splitlines()[0][:120]}"
        remedy = "correct it (local on a TPU VM), or choose another train.strategy.kind"
        raise Failed("train.strategy.address", saw, "a TPU must answer there", remedy) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    cores = strategy.num_replicas_in_sync
    if cores != config.devices:
        raise Failed("train.strategy.devices", config.devices, f"the TPU has {cores} cores", f"set it to {cores}")
    return Replicated(strategy, cores)


def check_address(address: str) -> None:
    """Raise `OSError` where nothing answers at `grpc://host:port`."""
    where = urlsplit(address)
    socket.create_connection((where.hostname or "", where.port or 8470), CONNECT_SECONDS).close()
