"""Free ports for the processes of a gang, which no other program gets before they listen on them."""

from __future__ import annotations

import socket


class HeldPorts:
    """Bound sockets that do not listen: the kernel gives their ports to nobody who asks for a free one.

    With SO_REUSEADDR on both sides a process may listen on such a port, as gRPC does.
    """

    def __init__(self, count: int, host: str = "127.0.0.1") -> None:
        self._sockets = [socket.socket() for _ in range(count)]
        for held in self._sockets:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host, 0))
        self.addresses = tuple(f"{host}:{held.getsockname()[1]}" for held in self._sockets)
        """`host:port` of each."""

    def close(self) -> None:
        """Release the ports."""
        for held in self._sockets:
            held.close()
