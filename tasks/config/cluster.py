"""The hosts of a training by processes on several hosts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from tasks.config.base import LISTED, Section

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
