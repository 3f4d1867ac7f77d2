"""A free port for a process of a gang, which no other program gets before the process listens on it."""

from __future__ import annotations

import socket

from tasks.errors import Failed


class HeldPort:
    """A bound socket that does not listen: the kernel gives its port to nobody who asks for a free one.

    With SO_REUSEADDR on both sides a process may listen on such a port, as gRPC does.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Bind a port, or any free one where it is 0; raises `Failed` where that cannot be."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            rule = "the host is this one, and the port is free"
            raise Failed("train.cluster.hosts", f"{host}:{port}: {error.strerror}", rule, "correct it") from error
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        """`host:port`."""

    def close(self) -> None:
        """Release the port."""
        self._socket.close()
