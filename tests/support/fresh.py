"""Fresh processes that have TensorFlow imported already: forked from one interpreter in which nothing has computed.

A new interpreter spends five seconds on the imports, as often as a test asks for one.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.support.homes import ROOT, surroundings

HASH_SEED = "1"
"""What texts are hashed with there; a test's own process draws its seed at random."""

FORKS = """
import json, os, sys
sys.path.remove(sys.argv[1])
import keras, numpy, tensorflow
import PIL.Image

for line in sys.stdin:
    asked = json.loads(line)
    if (process := os.fork()) == 0:
        files = [os.open(asked["stdin"], os.O_RDONLY)]
        files += [os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("stdout", "stderr")]
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin = open(0, closefd=False)
        os.chdir(asked["folder"])
        sys.path[:0] = asked["paths"]
        sys.argv = ["-c", *asked["words"]]
        exec(compile(asked["script"], "<script>", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
"""An editable install lets our code in; here it is let in for a script that asks for it."""


@cache
def forks() -> subprocess.Popen[str]:
    """The interpreter that this test process forks fresh ones from."""
    given = {name: value for name, value in surroundings().items() if not name.startswith("PYTHON")}
    server = subprocess.Popen(
        [sys.executable, "-P", "-c", FORKS, str(ROOT)],
        env={**given, "PYTHONHASHSEED": HASH_SEED, "TF_CPP_MIN_LOG_LEVEL": "2", "MLFLOW_DISABLE_TELEMETRY": "true"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


class Fresh:
    """A script that runs in a fresh process, one at a time; our code can be imported there only where it is `ours`."""

    def __init__(
        self, script: str, *words: str | Path, folder: Path = ROOT, ours: bool = False, given: str = ""
    ) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="millrace-fresh-")
        files = {name: Path(self._place.name) / name for name in ("stdin", "stdout", "stderr")}
        files["stdin"].write_text(given)
        asked = {
            **{name: str(path) for name, path in files.items()},
            "folder": str(folder),
            "paths": [str(ROOT)] if ours else [],
            "words": [str(word) for word in words],
            "script": script,
        }
        print(json.dumps(asked), file=forks().stdin, flush=True)

    def answer(self) -> str:
        """What it printed; AssertionError, with the end of its messages, unless it ended well."""
        stdout = forks().stdout
        assert stdout is not None
        code = stdout.readline()
        with self._place as place:
            said = {name: (Path(place) / name).read_text() for name in ("stdout", "stderr")}
        assert code == "0\n", said["stderr"][-4000:] or "the interpreter that forks has ended"
        return said["stdout"]


def in_fresh_process(script: str, *words: str | Path, folder: Path = ROOT, ours: bool = False, given: str = "") -> str:
    """What a script prints in a fresh process; AssertionError unless it ends well.

    Args:
        words: what it finds in `sys.argv[1:]`.
        folder: where it runs.
        ours: whether our code can be imported there.
        given: what it reads from standard input.
    """
    return Fresh(script, *words, folder=folder, ours=ours, given=given).answer()
