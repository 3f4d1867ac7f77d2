"""Ports of this machine, and who listens on them."""

from __future__ import annotations

import contextlib
import socket

import psutil


def port_in_use(host: str, port: int) -> bool:
    """Return whether a process listens on a port."""
    with (
        socket.socket() as probe,
        contextlib.suppress(socket.gaierror),
    ):  # an unknown name: starting the server reports it
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1" if host == "0.0.0.0" else host, port)) == 0
    return False


def holder(port: int) -> str:
    """Return which process listens on a port."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.Error, OSError):
        pass
    return "a process of another user"
