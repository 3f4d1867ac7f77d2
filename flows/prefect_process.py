"""`python -m flows.prefect_process -m MODULE …`, or FILE …: a program of Prefect that imports Millrace's flows first.

Prefect has the working directory on the import path while it imports a flow: a `json.py` in a folder of data would be
executed. A flow that is imported already is not looked for.
"""

from __future__ import annotations

import atexit
import runpy
import shutil
import sys
import tempfile

import flows.dataset
import flows.deploying
import flows.housekeeping
import flows.pipeline
import flows.release
import flows.training  # noqa: F401


def use_own_temporary_folder() -> None:
    """Give this process a temporary folder of its own.

    A worker of Prefect (3.8) has its files in `runner_storage` below the temporary folder, which belongs to the user
    whose worker was first on the machine: that of another user cannot start. Its runs keep the folder of the machine.
    """
    tempfile.tempdir = tempfile.mkdtemp(prefix="millrace-worker-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)


def run(words: list[str]) -> None:
    """Run a module or a file as Python would, with the words that follow as its arguments."""
    if words[:3] == ["-m", "prefect", "worker"]:
        use_own_temporary_folder()
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    run(sys.argv[1:])
