"""As many accelerators as a strategy asks for are enough, and one fewer is not, on machines as TensorFlow sees them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tasks.environment import hardware
from tasks.errors import Failed
from tasks.training import strategies
from tasks.training.group import Cluster
from tasks.training.strategies import Horovod, Mirrored, MultiWorker, Pipeline, Strategy, Tpu

OF_HOROVOD = "tasks.training.engines.tensorflow.strategies.horovod"


class Connected(Exception):
    """The strategy was accepted, and would now connect to the other processes."""


class Machine:
    """What TensorFlow sees of a machine with some accelerators, and what it was told to use."""

    def __init__(self, accelerators: int) -> None:
        self.accelerators = accelerators
        self.logical: list[Any] = []
        self.visible: list[str] = []
        self.replicas: list[str] = []

    def devices(self, kind: str) -> list[str]:
        return [f"{kind} {number}" for number in range({"GPU": self.accelerators, "CPU": 1}.get(kind, 0))]

    def split(self, device: str, parts: list[Any]) -> None:
        self.logical.append((device, len(parts)))

    def see(self, device: str, kind: str) -> None:
        self.visible.append(device)
        raise Connected

    def mirror(self, names: list[str]) -> None:
        self.replicas = names


def connect(**options: Any) -> None:
    raise Connected


@pytest.fixture
def machine(tf: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Machine]:
    def made(accelerators: int) -> Machine:
        machine = Machine(accelerators)
        monkeypatch.setattr(tf.config, "list_physical_devices", machine.devices)
        monkeypatch.setattr(tf.config, "set_logical_device_configuration", machine.split)
        monkeypatch.setattr(tf.config, "set_visible_devices", machine.see)
        monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", lambda threads: None)
        monkeypatch.setattr(tf.config.threading, "set_inter_op_parallelism_threads", lambda threads: None)
        monkeypatch.setattr(tf.distribute, "MirroredStrategy", machine.mirror)
        monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", connect)
        monkeypatch.setenv("TF_CONFIG", "")
        return machine

    return made


def create(config: Strategy, cluster: Cluster = Cluster()) -> Any:
    return config.create(cluster)


@pytest.mark.parametrize(
    ("accelerators", "devices", "kind"),
    [(0, 2, "CPU"), (1, 2, "CPU"), (2, 2, "GPU"), (3, 2, "GPU"), (3, 4, "CPU"), (4, 4, "GPU"), (8, 4, "GPU")],
)
def test_where_there_are_as_many_accelerators_as_devices_they_are_used(
    accelerators: int, devices: int, kind: str, machine: Callable[[int], Machine]
) -> None:
    """Otherwise all are logical ones of the CPU, and none an accelerator."""
    expected = [f"{kind}:{number}" for number in range(devices)]
    split = [("CPU 0", devices)] if kind == "CPU" else []
    mirrored = machine(accelerators)
    assert create(Mirrored(devices=devices)).devices == devices
    assert (mirrored.replicas, mirrored.logical) == (expected, split)
    pipelined = machine(accelerators)
    made = create(Pipeline(devices=devices, micro_batches=3))
    assert (list(made.names), made.micro_batches, pipelined.logical) == (expected, 3, split)


@pytest.mark.parametrize(
    ("accelerators", "given", "field"),
    [
        (0, {"devices": 1}, None),
        (0, {"devices": 2}, "train.strategy.devices"),
        (1, {"devices": 1}, None),
        (4, {"devices": 4}, None),
        (4, {"devices": 5}, "train.strategy.devices"),
        (0, {"communication": "nccl"}, "train.strategy.communication"),
        (1, {"communication": "nccl"}, None),
        (0, {"communication": "ring"}, None),
    ],
)
def test_a_worker_has_an_accelerator_for_each_of_its_devices(
    accelerators: int, given: dict[str, Any], field: str | None, machine: Callable[[int], Machine]
) -> None:
    machine(accelerators)
    config, cluster = MultiWorker.model_validate(given), Cluster(1, ("a:1", "b:2"))
    if field is not None:
        with pytest.raises(Failed) as failed:
            create(config, cluster)
        assert failed.value.field == field and not os.environ["TF_CONFIG"]
        return
    with pytest.raises(Connected):
        create(config, cluster)
    task = {"type": "worker", "index": 1}
    assert json.loads(os.environ["TF_CONFIG"]) == {"cluster": {"worker": ["a:1", "b:2"]}, "task": task}


@pytest.mark.parametrize(("accelerators", "used"), [(1, None), (2, "GPU 1"), (3, "GPU 1")])
def test_each_process_of_a_host_has_an_accelerator_of_its_own(
    accelerators: int, used: str | None, machine: Callable[[int], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three processes the last two are on one host; Horovod itself is not asked."""
    library, part = ModuleType("horovod"), ModuleType("horovod.tensorflow")
    library.tensorflow = part  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "horovod", library)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", part)
    monkeypatch.delitem(sys.modules, OF_HOROVOD, raising=False)
    host = machine(accelerators)
    cluster = Cluster(2, ("one:1", "two:1", "two:2"))
    with pytest.raises(Failed if used is None else Connected) as raised:
        create(Horovod(workers=3), cluster)
    assert host.visible == ([] if used is None else [used])
    if used is None:
        assert (raised.value.field, raised.value.saw) == ("train.strategy.workers", 2)  # type: ignore[attr-defined]
    sys.modules.pop(OF_HOROVOD, None)


@pytest.mark.parametrize("address", ["local", "grpc://127.0.0.1:8470"])
@pytest.mark.parametrize(("cores", "accepted"), [(8, True), (4, False), (16, False)])
def test_a_tpu_has_exactly_the_cores_that_are_asked_for(
    cores: int, accepted: bool, address: str, tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    resolver = SimpleNamespace(master=lambda: address)
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", lambda tpu: asked.append(tpu) or resolver)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda given: asked.append("connected"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda given: asked.append("reset"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda given: SimpleNamespace(num_replicas_in_sync=cores))
    monkeypatch.setattr(strategies, "check_address", lambda given: asked.append(given))
    if accepted:
        assert create(Tpu(address=address, devices=8)).devices == 8
    else:
        with pytest.raises(Failed) as failed:
            create(Tpu(address=address, devices=8))
        assert (failed.value.field, failed.value.saw) == ("train.strategy.devices", 8)
    assert asked == ([address, "reset"] if address == "local" else [address, address, "connected", "reset"])


def test_gpus_give_the_same_bits_and_are_part_of_the_layout(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    types = {"gpu 0": "H100", "gpu 1": "H100", "gpu 2": "A100"}
    visible: list[str] = []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: visible)
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: told.append("determinism"))
    monkeypatch.setattr(
        tf.config.experimental, "enable_tensor_float_32_execution", lambda on: told.append(("tf32", on))
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda device: {"device_name": types[device]} if device in types else {},
    )
    hardware.prepare()
    assert told == [] and hardware.layout() == {}, "operations of the host give the same bits as they are"
    visible[:] = ["gpu 2", "gpu 0", "gpu 1"]
    hardware.prepare()
    assert told == ["determinism", ("tf32", True)]
    assert hardware.layout() == {"accelerators": "A100, H100", "tf32": True}
    visible[:] = ["unnamed"]
    assert hardware.layout() == {"accelerators": "GPU", "tf32": True}
