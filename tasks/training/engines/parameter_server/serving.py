"""The processes of an asynchronous training, by TensorFlow's names: chief, worker, ps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import tensorflow as tf

from tasks.config.strategy import ParameterServer
from tasks.config.train import TrainConfig
from tasks.errors import Stopped
from tasks.training.group import Cluster

CONCURRENT = 8
"""Operations that a worker or server runs at the same time: requests of several others wait for one another."""


_running: list[tf.distribute.Server] = []
"""The server of this process."""


def jobs(strategy: ParameterServer, cluster: Cluster) -> dict[str, list[str]]:
    """Return the addresses by job, in the order of the ranks: the chief, the workers, the servers."""
    first_server = 1 + strategy.workers
    addresses = list(cluster.addresses)
    return {"chief": addresses[:1], "worker": addresses[1:first_server], "ps": addresses[first_server:]}


def connect(strategy: ParameterServer, cluster: Cluster) -> tf.distribute.ParameterServerStrategy:
    """Connect the chief to all workers and servers."""
    use_grpc()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs(strategy, cluster)), rpc_layer="grpc", task_type="chief", task_id=0
    )
    return tf.distribute.ParameterServerStrategy(resolver)


def serve(config: TrainConfig, cluster: Cluster, stopping: Callable[[], int]) -> None:
    """Run TensorFlow's server of a worker or of a parameter server, until this process is killed.

    Raises:
        Stopped: a signal came. The server goes on: the chief saves what it holds.
    """
    use_grpc()
    assert isinstance(config.strategy, ParameterServer)
    workers = config.strategy.workers
    job, index = ("worker", cluster.rank - 1) if cluster.rank <= workers else ("ps", cluster.rank - 1 - workers)
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=CONCURRENT,
    )
    spec = tf.train.ClusterSpec(jobs(config.strategy, cluster))
    _running.append(tf.distribute.Server(spec, job_name=job, task_index=index, protocol="grpc", config=options))
    while not (number := stopping()):
        time.sleep(0.1)
    raise Stopped(number)


def use_grpc() -> None:
    """Let a call to a process that was lost fail at once instead of waiting for it."""
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
