"""Where processes run: the sections `train.cluster` and `resources`, and the roles of a training's processes.

Hosts may be those of the environment: TF_CONFIG is TensorFlow's own variable (Kubeflow sets it); Slurm's are those of
`srun`; Kubernetes' is that of an Indexed Job whose pods have a subdomain (a headless service).
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, field_validator

from tasks.config.base import LISTED, Section
from tasks.errors import Refused

Port = Annotated[int, Field(ge=1, le=65_535)]
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(:[0-9]{1,5})?$")]


class ClusterConfig(Section):
    """The hosts of a training; on each runs `millrace worker PRESET.yaml`."""

    hosts: Annotated[tuple[Address, ...], LISTED, Field(max_length=1024)] = ()
    """Name or address of the host of each process, by rank; default: those of the environment (TF_CONFIG, Slurm,
    Kubernetes). The first one runs the flow and writes the store. `host:port` sets the port on which the process
    listens to the others; otherwise a free one is chosen."""

    port: Port = 7400
    """Port of the first host at which the others meet it."""

    wait: Annotated[int, Field(ge=1)] = 600
    """Seconds to wait for a host that is not there, or that was lost."""

    @field_validator("hosts")
    @classmethod
    def all_different(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(hosts)) != len(hosts):
            raise ValueError("each process has a host of its own, or host:port; give each one once")
        return hosts

    @property
    def chief(self) -> str:
        """Name or address of the first host."""
        return self.hosts[0].partition(":")[0]

    def host(self, rank: int) -> str:
        """Return the name or address of a process' host."""
        return self.hosts[rank].partition(":")[0]

    def port_of(self, rank: int) -> int:
        """Return the port on which a process listens to the others; 0 for a free one."""
        return int(self.hosts[rank].partition(":")[2] or 0)


RANK = "MILLRACE_RANK"
"""Sets the rank where a host cannot find it out."""


@dataclass(frozen=True)
class Place:
    """The hosts of a training, and the rank of this one."""

    cluster: ClusterConfig
    rank: int
    by: str
    """What says so."""


def find_place(cluster: ClusterConfig | None, strategy: str, processes: int, variables: Mapping[str, str]) -> Place:
    """Return the place of this host: hosts by the preset or else the environment, rank by the environment or the name.

    Raises:
        Refused: nothing says so, or not for as many processes as the strategy of this kind has.
    """
    given = next((place for source in SOURCES if (place := source(variables, cluster, processes)) is not None), None)
    if cluster is None or not cluster.hosts:
        if given is None:
            rule = "the hosts are those of train.cluster.hosts, TF_CONFIG, Slurm or a Kubernetes Indexed Job"
            raise Refused("train.cluster", "nothing", rule, "set one of them, or use `millrace run` on one host")
        hosts, rank, by = given
        cluster = (cluster or ClusterConfig()).model_copy(update={"hosts": tuple(hosts)})
    else:
        rank, by = (given[1], given[2]) if given is not None else rank_of(cluster, variables)
    size = len(cluster.hosts)
    if size != processes:
        rule = f"{by} names {size} hosts, and each has one process"
        remedy = "let both be the same"
        raise Refused("train.strategy", f"{strategy} of {processes} processes", rule, remedy)
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


def tf_config(variables: Mapping[str, str], cluster: ClusterConfig | None, processes: int) -> Given | None:
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


def slurm(variables: Mapping[str, str], cluster: ClusterConfig | None, processes: int) -> Given | None:
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


def kubernetes(variables: Mapping[str, str], cluster: ClusterConfig | None, processes: int) -> Given | None:
    """Read the variable of a Kubernetes Indexed Job; a pod's name is `<job>-<index>.<service>...`."""
    if not (text := variables.get("JOB_COMPLETION_INDEX")):
        return None
    rank, name = _integer("JOB_COMPLETION_INDEX", text), socket.getfqdn()
    first, dot, domain = name.partition(".")
    if cluster is not None and cluster.hosts:
        return list(cluster.hosts), rank, "JOB_COMPLETION_INDEX"
    if not first.endswith(f"-{rank}") or not dot:
        rule = f"a pod of an Indexed Job with a subdomain is named JOB-{rank}.SERVICE"
        remedy = "set the pod template's subdomain to a headless service, or train.cluster.hosts"
        raise Refused("JOB_COMPLETION_INDEX", f"{rank} on {name}", rule, remedy)
    job = first.removesuffix(f"-{rank}")
    return [f"{job}-{index}{dot}{domain}" for index in range(processes)], rank, "JOB_COMPLETION_INDEX"


SOURCES = (tf_config, slurm, kubernetes)
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


Seconds = Annotated[int, Field(ge=1)]


class TimeoutsConfig(Section):
    """Seconds after which a stage is ended, by stage; `resources.timeout` where nothing is given."""

    convert: Seconds | None = None
    """Of stage `convert`."""

    snapshot: Seconds | None = None
    """Of stage `snapshot`."""

    train: Seconds | None = None
    """Of stage `train`; it saves first, and the next run resumes from there."""

    evaluate: Seconds | None = None
    """Of stage `evaluate`."""

    compress: Seconds | None = None
    """Of each variant of stage `compress`, and of each training of a method."""

    export: Seconds | None = None
    """Of stage `export`."""

    promote: Seconds | None = None
    """Of each step of stage `promote`: registering, scoring the champion again."""


class ResourcesConfig(Section):
    """Threads and time-outs."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of a compute process; default: the physical cores that affinity and cgroup quota allow. The
    weights' last bits depend on it."""

    timeout: Seconds | None = None
    """Seconds after which a stage's process is asked to save and leave; it has `resources.grace` for that. Default: no
    limit."""

    grace: Seconds = 120
    """Seconds between a signal (SIGTERM, Ctrl-C, a time-out) and the end of a process that has not left by itself:
    a training ends the step that is under way, then saves. While it writes its state it has a second for each 20 MB of
    it besides."""

    timeouts: TimeoutsConfig = TimeoutsConfig()
    """The same by stage."""

    def limit(self, stage: str) -> tuple[str, float]:
        """Return the field that limits a stage, and its seconds; infinity without a limit."""
        own: int | None = getattr(self.timeouts, stage)
        field, seconds = ("resources.timeout", self.timeout) if own is None else (f"resources.timeouts.{stage}", own)
        return field, float("inf") if seconds is None else seconds


class Role(NamedTuple):
    """The part of a process in a gang."""

    name: str
    serves: bool = False
    """Whether it works for the chief until the chief has ended, and has no result of its own."""
    replaced: bool = False
    """Whether it is started again alone where it is lost, while the others go on."""


CHIEF, WORKER, SIDECAR = Role("chief"), Role("worker"), Role("sidecar", serves=True)
