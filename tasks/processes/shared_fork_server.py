"""A fork server that several runs share, so that none of them waits for the import of TensorFlow.

`python -m tasks.processes.shared_fork_server FOLDER THREADS` listens at `FOLDER/THREADS.socket` until the process that
started it ends. A run with so many threads connects to it where `MILLRACE_FORK_SERVERS` names the folder. Each
connection gets a fork server of its own, which ends with the connection: a killed run takes its compute processes with
it, as it does where it has started its fork server itself.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from tasks.environment.process import STOP_SIGNALS, exit_with_parent
from tasks.processes.fork_server import Forker, preload


def main() -> None:
    """Import what compute processes need, then fork a fork server for each connection."""
    folder, threads, parent = sys.argv[1:]
    exit_with_parent(int(parent))
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    serve, me = preload(), os.getpid()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(Path(folder, f"{threads}.draft")))
    listener.listen()
    Path(folder, f"{threads}.draft").rename(Path(folder, f"{threads}.socket"))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps what it forks
    while True:
        control, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            exit_with_parent(me)
            Forker(control, serve).run()
            os._exit(0)
        control.close()


if __name__ == "__main__":
    main()
