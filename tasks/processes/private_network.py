"""A network of its own for the processes of a gang on one host: a loopback that nobody else reaches.

TensorFlow's server listens on all interfaces, whatever its address is, and answers whoever connects: it would read and
write files as the user. In a network namespace (network_namespaces(7)) only the gang's processes reach it, and they
reach nothing else. A user may make one within a user namespace, where the kernel allows these.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

CLONE_NEWUSER, CLONE_NEWNET = 0x1000_0000, 0x4000_0000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
PR_SET_DUMPABLE = 4

SECONDS = 20.0
"""Seconds in which the namespaces must be made."""


class PrivateNetwork:
    """The namespaces, as file descriptors; they last as long as these are open, or a process is in them."""

    def __init__(self) -> None:
        """Make them; raises `OSError` where the system does not allow it."""
        maker = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],  # of the standard library alone
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.descriptors: list[int] = []
        """User namespace, where there is one of its own, and network namespace, in the order in which to enter them."""
        with maker:
            try:
                said = _line(maker)
                if not said.startswith("made"):
                    raise OSError(said or "it has ended")
                for kind in said.split()[1:]:
                    self.descriptors.append(os.open(f"/proc/{maker.pid}/ns/{kind}", os.O_RDONLY))
            except BaseException:
                self.close()
                raise
            finally:
                maker.kill()

    def close(self) -> None:
        """Let go of them."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def __enter__(self) -> PrivateNetwork:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def enter(descriptors: Sequence[int]) -> None:
    """Move this process, which has one thread, into namespaces.

    Raises:
        OSError: the system does not allow it.
    """
    if not descriptors:
        return
    for descriptor in descriptors:
        _call("setns", descriptor, 0)
    _call("prctl", PR_SET_DUMPABLE, 1)  # in a new user namespace it is not, and /proc hides it from its own user


def _line(process: subprocess.Popen[bytes]) -> str:
    """Return the first line that a process prints; nothing where it does not come in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], SECONDS)
    return process.stdout.readline().decode(errors="replace").strip() if ready else ""


def _call(name: str, *given: int) -> None:
    """Call a function of the C library that Python 3.11 lacks; raises `OSError` with its name."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*given):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def make() -> str:
    """Move this process into new namespaces with a loopback; return their kinds."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", CLONE_NEWNET)
        kinds = "net"
    except PermissionError:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(content)
        kinds = "user net"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0)
        [flags] = struct.unpack_from("h", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))
    _call("prctl", PR_SET_DUMPABLE, 1)
    return kinds


def main() -> None:
    """Make namespaces, say so, and keep them until whoever asked for them has opened them."""
    try:
        print("made", make(), flush=True)
    except OSError as error:
        print(error, flush=True)
        return
    with suppress(KeyboardInterrupt):
        sys.stdin.read()


if __name__ == "__main__":
    main()
