"""The layout of a training step over devices, processes and hosts."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import NOT_IDENTITY, Conflict
from tasks.config.kinds import Kind, any_of
from tasks.processes.config import CHIEF, WORKER, Role


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
        """Compute processes of a training."""
        return 1

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


class OneDevice(Strategy):
    """One process, one device."""

    kind: Literal["one_device"] = "one_device"
    """Distribution of a step over devices."""


class Mirrored(Strategy):
    """One process, several devices of one host, each with a copy of the model (tf.distribute.MirroredStrategy)."""

    kind: Literal["mirrored"] = "mirrored"
    """Distribution of a step over devices."""
    devices: Annotated[int, Field(ge=2, le=64)] = 2
    """Devices; without that many accelerators, logical ones of the CPU."""


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

    @property
    def processes(self) -> int:
        """Compute processes of a training."""
        return self.workers


class Horovod(Strategy):
    """Several processes, each with a copy of the model on one device, whose gradients Horovod adds up. It is built for
    the installed TensorFlow by `make horovod`. Every process reads its slice of each global batch."""

    kind: Literal["horovod"] = "horovod"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=2, le=1024)] = 2
    """Processes, each with one accelerator; without accelerators they share the CPU threads of a host."""

    @property
    def processes(self) -> int:
        """Compute processes of a training."""
        return self.workers

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


class Pipeline(Strategy):
    """One process, several devices of one host, each with a stage of the model: consecutive layers, their weights, and
    what the optimizer keeps of them (GPipe, Huang et al., arXiv 1811.06965)."""

    compiled: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    adds_losses: ClassVar[bool] = False

    kind: Literal["pipeline"] = "pipeline"
    """Distribution of a step over devices."""
    devices: Annotated[int, Field(ge=2, le=64)] = 2
    """Devices, and stages; without that many accelerators, logical devices of the CPU."""
    micro_batches: Annotated[int, Field(ge=1, le=256)] = 4
    """Parts of a batch that pass through the stages one behind the other; with more of them devices are idle less."""

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return 1

    @property
    def as_tested(self) -> Pipeline:
        """Two stages and a few micro-batches: more of them are computed in the same way."""
        return self.model_copy(update={"devices": 2, "micro_batches": min(self.micro_batches, 4)})


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
