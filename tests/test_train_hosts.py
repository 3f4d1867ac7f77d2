"""Training on several hosts: found by the environment, equal on all, and exact after any of them is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.artifacts import Model, Snapshot
from tasks.config.compose import validate
from tasks.errors import Failed, Lost, Refused, Stopped
from tasks.processes.config import ClusterConfig, Place, expanded, find_place
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.member import End, Member
from tasks.processes.messages import error_from_json, error_to_json, from_json, request_from_json, to_json
from tasks.processes.rendezvous import Rendezvous
from tasks.processes.workbench import Work, Workbench
from tasks.runner import hosts
from tasks.runs.home import Home
from tasks.store.journal import read
from tasks.store.store import Store, digest_of
from tasks.training.config import TrainConfig
from tasks.training.optimizers import Sgd
from tasks.training.schedules import Cosine
from tasks.training.strategies import MultiWorker
from tests.support.homes import DIGITS, CommandHome, compute_processes
from tests.support.stacks import wait
from tests.support.tiny import write_snapshot

TWO = TrainConfig(steps=10, strategy=MultiWorker(workers=2))


def place_of(train: TrainConfig, variables: dict[str, str]) -> Place:
    return find_place(train.cluster, train.strategy.kind, train.strategy.processes, variables)


JOB = {"cluster": {"chief": ["a:2222"], "worker": ["b:2222"]}, "task": {"type": "worker", "index": 0}}


@pytest.mark.parametrize(
    ("variables", "hosts", "rank"),
    [
        ({"TF_CONFIG": json.dumps(JOB)}, ("a:2222", "b:2222"), 1),
        ({"SLURM_JOB_NODELIST": "gpu[07-08]", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, ("gpu07", "gpu08"), 1),
        ({"JOB_COMPLETION_INDEX": "1"}, ("job-0.svc.ns", "job-1.svc.ns"), 1),
    ],
)
def test_the_environment_names_the_hosts(
    variables: dict[str, str], hosts: tuple[str, ...], rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "job-1.svc.ns")
    place = place_of(TWO, variables)
    assert (place.cluster.hosts, place.rank) == (hosts, rank)


def test_hosts_of_the_preset_are_found_by_name_or_address() -> None:
    named = TWO.model_copy(update={"cluster": ClusterConfig(hosts=("elsewhere.invalid", socket.gethostname()))})
    assert place_of(named, {}).rank == 1
    loopback = TWO.model_copy(update={"cluster": ClusterConfig(hosts=("127.0.0.1", "192.0.2.1"), port=7555)})
    assert place_of(loopback, {}).rank == 0
    assert place_of(loopback, {"JOB_COMPLETION_INDEX": "1"}).rank == 1
    port_alone = TWO.model_copy(update={"cluster": ClusterConfig(port=7555)})
    assert place_of(port_alone, {"TF_CONFIG": json.dumps(JOB)}).cluster.port == 7555


@pytest.mark.parametrize(
    ("strategy", "hosts", "words"),
    [
        (
            {"kind": "one_device"},
            [],
            "train.cluster: hosts of a training; is for several processes, and one_device has",
        ),
        (
            {"kind": "multi_worker", "workers": 2},
            ["a", "b", "c"],
            "train.cluster.hosts: 3; a strategy multi_worker of 2",
        ),
        ({"kind": "multi_worker", "workers": 2}, ["a", "a"], "each process has a host of its own, or host:port"),
    ],
)
def test_hosts_that_do_not_fit_the_strategy_are_refused(strategy: dict[str, Any], hosts: list[str], words: str) -> None:
    with pytest.raises(Refused) as refused:
        validate({"name": "a", "train": {"steps": 3, "strategy": strategy, "cluster": {"hosts": hosts}}})
    assert words in str(refused.value)


def test_lists_of_slurm_nodes_are_expanded() -> None:
    assert expanded("a") == ["a"]
    assert expanded("gpu[01-03,7],login") == ["gpu01", "gpu02", "gpu03", "gpu7", "login"]
    assert expanded("r1[08-10]-ib,b[2]") == ["r108-ib", "r109-ib", "r110-ib", "b2"]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "train.cluster: nothing; the hosts are those of"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG: {; it has cluster.worker"),
        ({"SLURM_JOB_NODELIST": "a", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "SLURM_NTASKS: 2; a host has one"),
        ({"SLURM_JOB_NODELIST": "a[1-3]", "SLURM_PROCID": "0", "SLURM_NTASKS": "3"}, "of 2 processes; Slurm names 3"),
        ({"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETION_INDEX: 0 on here; a pod of an Indexed Job"),
    ],
)
def test_a_place_that_is_not_clear_is_refused(
    variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "here")
    with pytest.raises(Refused) as refused:
        place_of(TWO, variables)
    assert words in str(refused.value)


def test_arguments_and_errors_arrive_as_they_were() -> None:
    config = TrainConfig(steps=3, optimizer=Sgd(momentum=0.5), schedule=Cosine(warmup=1), strategy=MultiWorker())
    for value in (config, config.strategy, 7, "bfloat16", None):
        assert from_json(json.loads(json.dumps(to_json(value))), hosts.table(), lambda reference: None) == value
    handle = Snapshot("d" * 64, Path("/store/snapshot/d"), "digits")
    assert from_json(to_json(handle), hosts.table(), lambda reference: reference["digest"]) == "d" * 64
    assert from_json(to_json(Model("e", Path("m"), "m")), hosts.table(), lambda reference: None) is None
    for error in (Lost("a", "b", "c", "d"), Failed("a", "1", "c", "d")):
        assert str(error_from_json(error_to_json(error), "host")) == str(error)


@pytest.mark.parametrize("section", ["os:environ", "tasks.config.compose:load", "Table", "", 3])
def test_what_another_host_sends_is_a_section_of_the_config_or_refused(section: Any) -> None:
    with pytest.raises(Failed, match="an argument is a section of the config"):
        from_json({"section": section, "values": {}}, hosts.table(), lambda reference: None)


def test_only_trainings_are_done_for_another_host() -> None:
    request = {"arguments": [], "role": "worker", "rank": 1, "peers": [], "addresses": [], "hosts": [], "key": "k"}
    for work in ("os:system", "tasks.training.fit:evaluate_beside", "choose"):
        with pytest.raises(Failed, match="trainings are all that several hosts do together"):
            request_from_json({**request, "work": work}, hosts.table(), 1, lambda reference: None)
    functions = hosts.table().functions
    assert functions.keys() == {"fit", "test_strategy", "train"}
    for work, function in functions.items():
        made = request_from_json({**request, "work": work}, hosts.table(), 1, lambda reference: None)
        assert (made.rank, made.key, made.work.function) == (1, "k", function)
    assert type(error_from_json({"kind": "System", "field": "", "saw": "", "rule": "", "remedy": ""}, "h")) is Failed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_snapshot_is_found_in_the_own_store_or_at_the_path_of_the_chief(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"kind": "snapshot", "parents": {}}
    with Store(tmp_path / "chief/store").claim(Snapshot, digest_of(inputs), "digits", print, lambda: None) as claim:
        made = claim.publish(inputs, write_snapshot(SimpleNamespace(staging=claim.staging)), {"layout": {}})  # type: ignore[arg-type]
    place, home = Place(ClusterConfig(hosts=("a", "b")), 1, "test"), Home(tmp_path / "b")
    shared = hosts.find(to_json(made), home, place)
    assert shared is not None and shared.path == made.path
    damaged = next(made.path.glob("train/image*"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + b"x")
    with pytest.raises(Failed, match=f"{damaged.name} has sha256"):
        hosts.find(to_json(made), Home(tmp_path / "c"), place)
    assert damaged.exists(), "only the chief moves what is damaged in its store"
    damaged.write_bytes(content)
    with pytest.raises(Failed, match="rank 1 reads it from its own store, or from a path shared with a; copy"):
        hosts.find({**to_json(made), "path": "/nowhere/store/snapshot/0"}, home, place)
    elsewhere = Model("e", Path("m"), "m")
    assert hosts.find(to_json(elsewhere), home, place) == elsewhere, "as a rule the chief alone reads a model"


class Hosts:
    """A rendezvous on this host."""

    def __init__(self, expects: dict[str, Any], wait: int = 60) -> None:
        self.cluster = ClusterConfig(hosts=("127.0.0.1", "127.0.0.2"), port=free_port(), wait=wait)
        self.rendezvous = Rendezvous(self.cluster, expects)

    def member(self, folder: Path, expects: dict[str, Any], stop: Callable[[], int] = lambda: 0) -> Member:
        return Member(
            self.cluster, 1, expects, folder, 1, hosts.table(), lambda reference: None, stop, lambda line: None
        )


def test_a_host_with_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    pair = Hosts({"train.steps": 10, "keras": "3.15.1"}, wait=1)
    try:
        with pytest.raises(Refused, match=r"train\.steps: 20 on .*; 127\.0\.0\.1, which runs the flow, has 10"):
            pair.member(tmp_path, {"train.steps": 20, "keras": "3.15.1"}).serve()
        said: list[str] = []
        with pytest.raises(Failed, match=r"rank 1 on 127\.0\.0\.2 \(train\.steps: 20 on .*\) has not joined"):
            pair.rendezvous.wait(said.append)
        assert "(train.steps: 20 on" in said[0]
    finally:
        pair.rendezvous.close(0, None)


def test_whoever_does_not_speak_the_protocol_is_left_out_and_nothing_is_executed(tmp_path: Path) -> None:
    pair = Hosts({})
    try:
        for content in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02[]", b""):
            address = ("127.0.0.1", pair.cluster.port)
            # a connection is closed as soon as a message is not one of ours
            with contextlib.suppress(OSError), socket.create_connection(address) as stranger:
                stranger.sendall(content)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(100) == b""
        assert pair.rendezvous.missing() == [1]
    finally:
        pair.rendezvous.close(0, None)


def test_a_host_that_does_not_come_is_named() -> None:
    pair = Hosts({}, wait=1)
    said: set[str] = set()
    try:
        with pytest.raises(Failed, match=r"rank 1 on 127\.0\.0\.2 has not joined; all hosts must join within 1 s"):
            pair.rendezvous.wait(said.add)
        assert said == {f"waiting for rank 1 on 127.0.0.2 to join at 127.0.0.1:{pair.cluster.port}"}
    finally:
        pair.rendezvous.close(0, None)


def test_a_host_leaves_with_the_run_and_by_a_signal(tmp_path: Path) -> None:
    pair = Hosts({})
    stopped = pair.member(tmp_path, {}, lambda: signal.SIGTERM)
    with pytest.raises(Stopped):
        stopped.serve()
    ends: list[End] = []
    thread = threading.Thread(target=lambda: ends.append(pair.member(tmp_path, {}).serve()))
    thread.start()
    pair.rendezvous.wait(lambda line: None)
    pair.rendezvous.close(3, None)
    thread.join(10)
    assert ends == [End(3, None)]


def deaf(bench: Workbench) -> None:
    """Do not notice the first signal, as while TensorFlow connects the processes; then work until one comes."""
    own = signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(signal.SIGTERM, own))
    while not bench.stopping():
        time.sleep(0.02)
    raise Stopped(bench.stopping())


def test_a_signal_that_is_lost_is_sent_again(tmp_path: Path) -> None:
    begun = time.monotonic()
    stop = lambda: signal.SIGTERM if time.monotonic() - begun > 4 else 0  # noqa: E731
    limits = Limits(grace=10, reminders=1)
    with ProcessLauncher(tmp_path, 1).gang("test", MultiWorker().roles) as gang, pytest.raises(Stopped):
        work = Work(deaf)
        gang.call(work, None, tmp_path / "journal", limits=limits, on_report=lambda *_: None, stop=stop)
    assert time.monotonic() - begun < 12, "stopped by the end of its grace"


class TwoHosts:
    """Two homes, as on two hosts of a Slurm job; a flow by `millrace worker` on each."""

    def __init__(
        self,
        folder: Path,
        flow: str = "training",
        steps: int = 400,
        more: Sequence[str] = (),
        strategy: str = "{kind: multi_worker, workers: 2}",
    ) -> None:
        port = free_port()
        self.homes = [CommandHome(folder / name, given=self._variables(rank)) for rank, name in enumerate("ab")]
        self.flags = [
            "--train.strategy",
            strategy,
            "--train.steps",
            f"{steps}",
            "--train.checkpoint.every",
            "20",
            *more,
        ]
        self.flags += ["--resources.threads", "1"]
        self.words = ["worker", flow, DIGITS, *self.flags, "--train.cluster", f"{{port: {port}}}"]
        self.started: list[subprocess.Popen[str]] = []

    def _variables(self, rank: int) -> dict[str, str]:
        return {"SLURM_JOB_NODELIST": "127.0.0.[1-2]", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2"}

    def start(self, rank: int) -> subprocess.Popen[str]:
        process = self.homes[rank].start(*self.words)
        self.started.append(process)
        return process

    def ran(self) -> tuple[int, list[str]]:
        """Start both and wait; return the exit code of the chief, which the other one's is too, and what each said."""
        try:
            both = [self.start(rank) for rank in (0, 1)]
            ends = [process.communicate(timeout=300)[1] for process in both]
        finally:
            self.close()
        assert both[0].returncode in (0, 3) and both[1].returncode == both[0].returncode, ends
        return both[0].returncode, ends

    def trained(self, step: int) -> Callable[[], bool]:
        journals = self.homes[0].root.glob
        return lambda: any(point.step >= step for path in journals("runs/*/metrics.jsonl") for point in read(path))

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.mark.slow
def test_hosts_that_are_lost_come_back_and_the_model_has_the_same_bytes(tmp_path: Path) -> None:
    """A worker's process is killed, then its host's command, then the chief's; then SIGTERM to a host, then again."""
    two = TwoHosts(tmp_path)
    try:
        chief, other = two.start(0), two.start(1)
        wait(two.trained(60))
        [worker] = compute_processes(two.homes[1].root)
        worker.kill()  # the command on its host goes on
        wait(two.trained(120))
        os.killpg(other.pid, signal.SIGKILL)
        other.communicate()
        other = two.start(1)
        wait(two.trained(180))
        os.killpg(chief.pid, signal.SIGKILL)
        _, said = chief.communicate()
        assert "rank 1 on " in said and "was killed by signal 9" in said and "its connection has ended" in said
        chief = two.start(0)
        wait(two.trained(260))
        other.send_signal(signal.SIGTERM)
        ends = [process.communicate(timeout=100)[1] for process in (chief, other)]
        assert (chief.returncode, other.returncode) == (75, 75), ends
        chief, other = two.start(0), two.start(1)
        ends = [process.communicate(timeout=200)[1] for process in (chief, other)]
        assert (chief.returncode, other.returncode) == (0, 0), ends
    finally:
        two.close()
    assert not (two.homes[1].root / "store" / "model").exists()
    unbroken = CommandHome(tmp_path / "unbroken")
    threads = ["--resources.threads", "2"]  # of two processes on one host, each has one
    answer = unbroken("run", "training", DIGITS, *two.flags[:-2], *threads, "--json")
    assert answer.code == 0, answer.stderr
    assert two.homes[0].artifacts() == unbroken.artifacts()


@pytest.mark.slow
def test_each_host_has_a_pipeline(tmp_path: Path) -> None:
    """A method of compression trains on both, too."""
    more = ["--train.schedule.warmup", "5", "--export.formats", "[saved_model]"]
    more += ["--compress.methods", "[[{kind: prune, share: 0.5, fine_tune: {steps: 6}}]]"]
    two = TwoHosts(tmp_path, "pipeline", 40, more, "{kind: pipeline, devices: 2, micro_batches: 2, workers: 2}")
    code, ends = two.ran()
    together = CommandHome(tmp_path / "together")
    answer = together("run", "pipeline", DIGITS, *two.flags[:-2], "--resources.threads", "2", "--json")
    assert answer.code == code, answer.stderr
    models = [
        {name: content for name, content in home.artifacts().items() if name.startswith("model/")}
        for home in (two.homes[0], together)
    ]
    assert models[0] == models[1] and "prune_trained_50-trained" in ends[0]


@pytest.mark.slow
def test_a_method_of_compression_trains_on_both_hosts(tmp_path: Path) -> None:
    """With a teacher, the model before it, which the other host reads at the path that it has on the first one."""
    method = "[[{kind: distill, student: {kind: mlp, task: classification, units: [16]}, fine_tune: {steps: 6}}]]"
    more = ["--train.schedule.warmup", "5", "--compress.methods", method, "--export.formats", "[saved_model]"]
    two = TwoHosts(tmp_path, "pipeline", 20, more)
    _, ends = two.ran()
    made = [row["name"] for row in two.homes[0].newest_run("pipeline")["stages"]["compress"]]
    assert "distill_mlp-trained" in made, made
    assert "rank 1 of 2" in ends[1] and ends[1].count("computing as rank 1 of 2") >= 2, ends[1]
