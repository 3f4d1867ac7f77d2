"""Where the processes of a gang run: on this host, or on others.

TF_CONFIG is TensorFlow's own variable (Kubeflow sets it); Slurm's are those of `srun`; Kubernetes' is that of an
Indexed Job whose pods have a subdomain (a headless service).
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from tasks.config.cluster import ClusterConfig
from tasks.config.train import TrainConfig
from tasks.errors import Failed, Lost, Refused
from tasks.processes.fork_server import fork_server
from tasks.processes.private_network import PrivateNetwork
from tasks.processes.temporary import Temporary
from tasks.processes.workbench import Request

CLOSE_SECONDS = 10.0
"""Seconds that an idle process may take to exit after its connection is closed."""

TENSORFLOW_LOG = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl")
"""Prefixes of log lines of TensorFlow's C++ code, which stay in the log file and are not shown."""


class Process:
    """A compute process and the connection to it."""

    def __init__(
        self,
        stage: str,
        log: Path,
        threads: int,
        rank: int = 0,
        address: str = "127.0.0.1:0",
        network: PrivateNetwork | None = None,
    ) -> None:
        """Start it; in a network of its own, where one is given."""
        parent_end, child_end = Pipe()
        self.connection: Connection = parent_end
        self.log, self.threads, self.rank, self.address = log, threads, rank, address
        self.host = socket.gethostname()
        self.seen: float | None = None
        log.parent.mkdir(parents=True, exist_ok=True)
        # TensorFlow leaves files in the folder for temporary files, and a process may be killed
        self._temporary = Temporary(stage)
        namespaces = () if network is None else network.descriptors
        server = fork_server(threads, log.with_name("fork-server.log"))
        with open(log, "ab") as output:
            self._read_to = output.tell()
            self.process = server.fork(stage, child_end.fileno(), output.fileno(), self._temporary.name, namespaces)
        child_end.close()

    def call(self, request: Request) -> None:
        """Send a request."""
        self.connection.send(request)

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and its children."""
        if (pid := self.process.begun()) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.connection.close()
        self._temporary.cleanup()

    def close(self) -> None:
        """Close the connection and wait until the process exits; kill it after `CLOSE_SECONDS`."""
        self.connection.close()
        if self.process.wait(CLOSE_SECONDS) is None:
            self.kill()
        self._temporary.cleanup()

    def lines(self) -> Iterator[str]:
        """Yield complete lines written to the log since the last call, without those of TensorFlow's C++ code."""
        if self.log.stat().st_size == self._read_to:
            return
        with open(self.log, "rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read_to += len(line)
                text = line.decode(errors="replace").rstrip()
                if text and not TENSORFLOW_LOG.match(text):
                    yield text

    def death(self, work: str, name: str) -> Failed:
        """Return the error for a process, called `name` in it, that ended without a result."""
        code = self.process.wait()
        assert code is not None
        saw = f"{name} was killed by signal {-code}" if code < 0 else f"{name} left with code {code}"
        lines = self.log.read_text(errors="replace").splitlines()
        last = [line.strip() for line in lines if line.strip() and not TENSORFLOW_LOG.match(line)][-1:]
        kind = Lost if code < 0 else Failed
        of_memory = ", and whether the system was out of memory (dmesg)" if code == -signal.SIGKILL else ""
        rule = "a compute process must answer"
        return kind(work, "; last log line: ".join([saw, *last]), rule, f"see {self.log}{of_memory}")


RANK = "MILLRACE_RANK"
"""Sets the rank where a host cannot find it out."""


@dataclass(frozen=True)
class Place:
    """The hosts of a training, and the rank of this one."""

    cluster: ClusterConfig
    rank: int
    by: str
    """What says so."""


def find_place(config: TrainConfig, variables: Mapping[str, str]) -> Place:
    """Return the place of this host: hosts by the preset or else the environment, rank by the environment or the name.

    Raises:
        Refused: nothing says so, or not for as many processes as the strategy has.
    """
    given = next((place for source in SOURCES if (place := source(variables, config)) is not None), None)
    cluster = config.cluster
    if cluster is None or not cluster.hosts:
        if given is None:
            rule = "the hosts are those of train.cluster.hosts, TF_CONFIG, Slurm or a Kubernetes Indexed Job"
            raise Refused("train.cluster", "nothing", rule, "set one of them, or use `millrace run` on one host")
        hosts, rank, by = given
        cluster = (cluster or ClusterConfig()).model_copy(update={"hosts": tuple(hosts)})
    else:
        rank, by = (given[1], given[2]) if given is not None else rank_of(cluster, variables)
    size, processes = len(cluster.hosts), config.strategy.processes
    if size != processes:
        rule = f"{by} names {size} hosts, and each has one process"
        remedy = "let both be the same"
        raise Refused("train.strategy", f"{config.strategy.kind} of {processes} processes", rule, remedy)
    if not 0 <= rank < size:
        raise Refused(by, f"rank {rank}", f"ranks of {size} hosts are 0 to {size - 1}", "correct it")
    return Place(cluster, rank, by)


def rank_of(cluster: ClusterConfig, variables: Mapping[str, str]) -> tuple[int, str]:
    """Return the rank of this host in `train.cluster.hosts`, by `MILLRACE_RANK`, its name or its addresses."""
    if RANK in variables:
        return _integer(RANK, variables[RANK]), RANK
    names = {socket.gethostname(), socket.getfqdn()}
    ranks = [rank for rank in range(len(cluster.hosts)) if cluster.host(rank) in names]
    if not ranks:
        ranks = [rank for rank in range(len(cluster.hosts)) if is_here(cluster.host(rank))]
    if len(ranks) != 1:
        saw = f"{', '.join(cluster.hosts)}: {'none' if not ranks else len(ranks)} of them is {socket.gethostname()}"
        rule = "this host must be one of them"
        raise Refused("train.cluster.hosts", saw, rule, f"correct them, or set {RANK}")
    return ranks[0], "train.cluster.hosts"


def is_here(host: str) -> bool:
    """Return whether a name or address is of this host: whether a port can be bound there."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


Given = tuple[list[str], int, str]
"""Hosts by rank, this host's rank, and the variable that says so."""


def tf_config(variables: Mapping[str, str], config: TrainConfig) -> Given | None:
    """Read TF_CONFIG: `{"cluster": {"chief": [...], "worker": [...]}, "task": {"type": "worker", "index": 0}}`."""
    if not (text := variables.get("TF_CONFIG")):
        return None
    try:
        values = json.loads(text)
        jobs = [job for job in ("chief", "master", "worker", "ps") if job in values["cluster"]]
        hosts = [(job, index, host) for job in jobs for index, host in enumerate(values["cluster"][job])]
        own = (values["task"]["type"], int(values["task"]["index"]))
        rank = [(job, index) for job, index, _ in hosts].index(own)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        rule = "it has cluster.worker (and cluster.chief), and a task that is one of them"
        raise Refused("TF_CONFIG", text[:200], rule, "correct it, or unset it") from error
    return ([host for _, _, host in hosts], rank, "TF_CONFIG") if len(hosts) > 1 else None


def slurm(variables: Mapping[str, str], config: TrainConfig) -> Given | None:
    """Read the variables of Slurm's `srun` with one task on each node."""
    nodes = variables.get("SLURM_STEP_NODELIST", variables.get("SLURM_JOB_NODELIST"))
    if nodes is None or "SLURM_PROCID" not in variables:
        return None
    hosts = expanded(nodes)
    tasks = _integer("SLURM_NTASKS", variables.get("SLURM_NTASKS", ""))
    if tasks != len(hosts):
        rule = f"a host has one process, and SLURM_JOB_NODELIST has {len(hosts)} ({nodes})"
        raise Refused("SLURM_NTASKS", tasks, rule, "use srun --ntasks-per-node=1")
    return (hosts, _integer("SLURM_PROCID", variables["SLURM_PROCID"]), "Slurm") if tasks > 1 else None


def kubernetes(variables: Mapping[str, str], config: TrainConfig) -> Given | None:
    """Read the variable of a Kubernetes Indexed Job; a pod's name is `<job>-<index>.<service>...`."""
    if not (text := variables.get("JOB_COMPLETION_INDEX")):
        return None
    rank, name = _integer("JOB_COMPLETION_INDEX", text), socket.getfqdn()
    first, dot, domain = name.partition(".")
    if config.cluster is not None and config.cluster.hosts:
        return list(config.cluster.hosts), rank, "JOB_COMPLETION_INDEX"
    if not first.endswith(f"-{rank}") or not dot:
        rule = f"a pod of an Indexed Job with a subdomain is named JOB-{rank}.SERVICE"
        remedy = "set the pod template's subdomain to a headless service, or train.cluster.hosts"
        raise Refused("JOB_COMPLETION_INDEX", f"{rank} on {name}", rule, remedy)
    job = first.removesuffix(f"-{rank}")
    return [f"{job}-{index}{dot}{domain}" for index in range(config.strategy.processes)], rank, "JOB_COMPLETION_INDEX"


SOURCES: tuple[Callable[[Mapping[str, str], TrainConfig], Given | None], ...] = (tf_config, slurm, kubernetes)
"""Tried in this order."""


def expanded(nodes: str) -> list[str]:
    """Return the names of Slurm's list of nodes: `gpu[01-03,7],login` is gpu01, gpu02, gpu03, gpu7, login."""
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)?", nodes):
        prefix, _, rest = part.partition("[")
        numbers, _, suffix = rest.partition("]")
        for span in numbers.split(",") if numbers else [""]:
            first, _, last = span.partition("-")
            members = [f"{n:0{len(first)}d}" for n in range(int(first), int(last or first) + 1)] if first else [""]
            names += [f"{prefix}{number}{suffix}" for number in members]
    return names


def _integer(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refused(variable, text or "not set", "must be a number", "correct it") from None
