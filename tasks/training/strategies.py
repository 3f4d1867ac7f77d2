"""The layout of a training step over devices, processes and hosts: a class a strategy, with what carries it out."""

from __future__ import annotations

import os
import socket
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from tasks.config.base import NOT_IDENTITY, Conflict
from tasks.config.kinds import Kind, any_of
from tasks.errors import Failed
from tasks.processes.config import CHIEF, WORKER, Role

if TYPE_CHECKING:
    from tasks.training.engines.tensorflow.strategies import Placement
    from tasks.training.group import Cluster

CONNECT_SECONDS = 10.0
"""Seconds to wait for a TPU's address, of which TensorFlow itself waits for ever."""


class Strategy(Kind):
    """The distribution of a step over devices."""

    asynchronous: ClassVar[bool] = False
    """Whether workers update parameters that servers hold, each when it is ready."""
    exact: ClassVar[bool] = True
    """Whether the result depends on the config and the examples alone; then a strategy is not part of the digest."""
    compiled: ClassVar[bool] = True
    """Whether `train.jit` can compile its step."""
    any_length: ClassVar[bool] = True
    """Whether batches may differ in length."""
    alone: ClassVar[bool] = True
    """Whether a process computes the gradients of a replica alone."""
    watched: ClassVar[bool] = True
    """Whether norms by group of layers are measured at some steps."""
    adds_losses: ClassVar[bool] = True
    """Whether what a model adds to the loss (balance of experts, `add_loss`, regularizers) is part of its step."""

    @property
    def processes(self) -> int:
        """Compute processes of a training: the field `workers` of the strategies that have it."""
        return getattr(self, "workers", 1)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parts of its processes, by rank."""
        return CHIEF, *[WORKER] * (self.processes - 1)

    @property
    def devices_of_each(self) -> int:
        """Devices of each process: the field `devices` of the strategies that have it."""
        return getattr(self, "devices", 1)

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.processes * self.devices_of_each

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages that only this strategy needs."""
        return ()

    def check_packages(self) -> None:
        """Raise `Conflict` where one of them is not installed; nothing is imported."""

    @property
    def micro_batches_of_each(self) -> int:
        """Micro-batches that a replica computes at once: the field `micro_batches` of the strategies that have it."""
        return getattr(self, "micro_batches", 1)

    @property
    def as_tested(self) -> Strategy:
        """The strategy with which its arithmetic is tested (`tasks.runner.starting_models`)."""
        return self

    def create(self, cluster: Cluster) -> Placement:
        """Configure the devices of this process, before TensorFlow is initialised, and connect to the other processes.

        Of a synchronous strategy, which the engine of TensorFlow computes.

        Raises:
            Failed: there are not the devices that it needs.
            Lost: another process does not answer.
        """
        raise NotImplementedError


class OneDevice(Strategy):
    """One process, one device."""

    kind: Literal["one_device"] = "one_device"
    """Distribution of a step over devices."""

    def create(self, cluster: Cluster) -> Placement:
        """Take TensorFlow's default device."""
        from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy

        return OneDeviceStrategy()


class Mirrored(Strategy):
    """One process, several devices of one host, each with a copy of the model (tf.distribute.MirroredStrategy)."""

    kind: Literal["mirrored"] = "mirrored"
    """Distribution of a step over devices."""
    devices: Annotated[int, Field(ge=2, le=64)] = 2
    """Devices; without that many accelerators, logical ones of the CPU."""

    def create(self, cluster: Cluster) -> Placement:
        """Take accelerators, or split the CPU into logical devices."""
        import tensorflow as tf

        from tasks.training.engines.tensorflow.strategies.replicated import Replicated, device_names

        return Replicated(tf.distribute.MirroredStrategy(device_names(self.devices)), self.devices)


class MultiWorker(Strategy):
    """Several processes, each with a copy of the model on each of its devices
    (tf.distribute.MultiWorkerMirroredStrategy). Every process reads its slice of each global batch."""

    kind: Literal["multi_worker"] = "multi_worker"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=2, le=1024)] = 2
    """Processes; they share the CPU threads of a host."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Accelerators of each process; 1 on a host without accelerators."""
    communication: Literal["auto", "ring", "nccl"] = "auto"
    """How gradients are summed: `nccl` between NVIDIA GPUs, `ring` also between CPUs."""

    def create(self, cluster: Cluster) -> Placement:
        """Connect to the other processes.

        Raises:
            Failed: the machine has fewer accelerators than `devices`, or none for NCCL.
        """
        import tensorflow as tf

        from tasks.training.engines.tensorflow.strategies.replicated import (
            Processes,
            Replicated,
            connected,
            lost_processes,
        )

        accelerators = len(tf.config.list_physical_devices("GPU"))
        if self.devices > max(accelerators, 1):
            rule = f"this machine has {accelerators} accelerators; without any a worker has one device"
            raise Failed("train.strategy.devices", self.devices, rule, "use 1, and more train.strategy.workers")
        if self.communication == "nccl" and not accelerators:
            rule = "NCCL adds up between NVIDIA GPUs, and this machine has none"
            raise Failed("train.strategy.communication", self.communication, rule, "use ring or auto")
        strategy = connected(cluster, self.communication)
        return Replicated(strategy, self.devices, Processes(cluster), lost_processes)


class Horovod(Strategy):
    """Several processes, each with a copy of the model on one device, whose gradients Horovod adds up. It is built for
    the installed TensorFlow by `make horovod`. Every process reads its slice of each global batch."""

    kind: Literal["horovod"] = "horovod"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=2, le=1024)] = 2
    """Processes, each with one accelerator; without accelerators they share the CPU threads of a host."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Horovod."""
        return ("horovod",)

    def check_packages(self) -> None:
        """Raise `Conflict` where Horovod is not installed, or was built for another TensorFlow."""
        needed = f"tensorflow{version('tensorflow')}"
        try:
            found = version("horovod")
        except PackageNotFoundError:
            found = ""
        if not found.endswith(f"+{needed}"):
            rule = f"needs horovod built for {needed}, and {found or 'none'} is installed"
            raise Conflict("train.strategy.kind", self.kind, rule, "run `make horovod`")

    def create(self, cluster: Cluster) -> Placement:
        """Connect to the other processes.

        Raises:
            Failed: the host has accelerators, but not one for each of its processes.
        """
        import horovod.tensorflow as hvd
        import tensorflow as tf

        from tasks.training.engines.tensorflow.strategies.horovod import HorovodStrategy, Processes, lost, reduce
        from tasks.training.engines.tensorflow.strategies.horovod_rendezvous import await_server, serve, slots
        from tasks.training.engines.tensorflow.strategies.replicated import lost_processes

        slot = slots(cluster.addresses)[cluster.rank]
        if accelerators := tf.config.list_physical_devices("GPU"):
            if slot.local_size > len(accelerators):
                rule = f"{slot.hostname} has {len(accelerators)} accelerators, one for each process"
                raise Failed("train.strategy.workers", slot.local_size, rule, "use as many")
            tf.config.set_visible_devices(accelerators[slot.local_rank], "GPU")
        os.environ.update(slot.environment(cluster.addresses[0]))
        if cluster.rank == 0:
            serve(cluster.addresses)
        else:
            await_server(cluster.addresses[0])
        with lost_processes((ValueError,)):  # what `init` raises where another process has died meanwhile
            hvd.init()
        return HorovodStrategy(Processes(cluster), reduce, lost)


class Tpu(Strategy):
    """The cores of a TPU, each with a copy of the model (tf.distribute.TPUStrategy)."""

    any_length: ClassVar[bool] = False
    watched: ClassVar[bool] = False

    kind: Literal["tpu"] = "tpu"
    """Distribution of a step over devices."""
    address: str = "local"
    """`local` on a TPU VM; otherwise the name of a TPU, or `grpc://host:port`."""
    devices: Annotated[int, Field(ge=1, le=4096)] = 8
    """Number of its cores."""

    def create(self, cluster: Cluster) -> Placement:
        """Connect to the TPU and reset it.

        Raises:
            Failed: there is no such TPU, or it has another number of cores.
        """
        import tensorflow as tf

        from tasks.training.engines.tensorflow.strategies.replicated import Replicated

        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=self.address)
            if self.address != "local":
                check_address(resolver.master())
                tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
        except (ValueError, OSError, tf.errors.OpError) as error:
            saw = f"{self.address}: {str(error).strip().splitlines()[0][:120]}"
            remedy = "correct it (local on a TPU VM), or choose another train.strategy.kind"
            raise Failed("train.strategy.address", saw, "a TPU must answer there", remedy) from error
        strategy = tf.distribute.TPUStrategy(resolver)
        cores = strategy.num_replicas_in_sync
        if cores != self.devices:
            raise Failed("train.strategy.devices", self.devices, f"the TPU has {cores} cores", f"set it to {cores}")
        return Replicated(strategy, cores)


def check_address(address: str) -> None:
    """Raise `OSError` where nothing answers at `grpc://host:port`."""
    where = urlsplit(address)
    socket.create_connection((where.hostname or "", where.port or 8470), CONNECT_SECONDS).close()


class Pipeline(Strategy):
    """Each process has several devices of one host, each with a stage of the model: consecutive layers, their weights,
    and what the optimizer keeps of them. Of several processes, each has all stages, and reads its slice of each global
    batch."""

    compiled: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    adds_losses: ClassVar[bool] = False

    kind: Literal["pipeline"] = "pipeline"
    """Distribution of a step over devices."""
    devices: Annotated[int, Field(ge=2, le=64)] = 2
    """Devices of each process, and stages; without that many accelerators, logical devices of the CPU."""
    micro_batches: Annotated[int, Field(ge=1, le=256)] = 4
    """Parts of a process' batch that pass through the stages one behind the other; with more of them devices are idle
    less."""
    schedule: Literal["1f1b", "gpipe"] = "1f1b"
    """Order of the passes of a stage; the numbers are the same. `1f1b` alternates forward and backward passes, so that
    a stage keeps the activations of at most as many micro-batches as there are stages from it to the last one; by
    `gpipe` it keeps those of all micro-batches."""
    workers: Annotated[int, Field(ge=1, le=1024)] = 1
    """Processes; their gradients are summed stage by stage. They share the CPU threads of a host."""

    @property
    def replicas(self) -> int:
        """Copies of the model: one in each process."""
        return self.workers

    @property
    def as_tested(self) -> Pipeline:
        """Two stages and a few micro-batches: more of them are computed in the same way."""
        return self.model_copy(update={"devices": 2, "micro_batches": min(self.micro_batches, 4)})

    def create(self, cluster: Cluster) -> Placement:
        """Take accelerators, or split the CPU into logical devices, and connect to the other processes."""
        from tasks.training.engines.tensorflow.strategies.pipeline import PipelineStrategy, share_threads
        from tasks.training.engines.tensorflow.strategies.replicated import (
            Processes,
            connected,
            device_names,
            lost_processes,
        )

        names = device_names(self.devices)
        share_threads(self.devices)
        if self.workers == 1:
            return PipelineStrategy(tuple(names), self.micro_batches, self.schedule)
        connected(cluster, "auto")
        return PipelineStrategy(tuple(names), self.micro_batches, self.schedule, Processes(cluster), lost_processes)


class ParameterServer(Strategy):
    """Asynchronous: servers hold the parameters, each worker computes whole steps
    (tf.distribute.ParameterServerStrategy). Resumable, not exact: the result depends on the order of the updates."""

    asynchronous: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    watched: ClassVar[bool] = False
    compiled: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    adds_losses: ClassVar[bool] = False

    kind: Literal["parameter_server"] = "parameter_server"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=1, le=1024)] = 2
    """Processes that compute steps; one that is lost is replaced while the others go on."""
    servers: Annotated[int, NOT_IDENTITY, Field(ge=1, le=1024)] = 1
    """Processes that hold the parameters and optimizer state."""
    min_shard_bytes: Annotated[int, NOT_IDENTITY, Field(ge=1)] = 256 << 10
    """A variable is cut into pieces of at least so many bytes, one for each server at most."""

    @property
    def processes(self) -> int:
        """The chief, the workers and the servers."""
        return 1 + self.workers + self.servers

    @property
    def replicas(self) -> int:
        """Copies of the model that compute a step together: each worker computes its own."""
        return 1

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parts of its processes, by rank."""
        worker, server = Role("worker", serves=True, replaced=True), Role("server", serves=True)
        return CHIEF, *[worker] * self.workers, *[server] * self.servers


if TYPE_CHECKING:
    StrategyConfig = Strategy
else:
    StrategyConfig = any_of(Strategy.kinds().values())
