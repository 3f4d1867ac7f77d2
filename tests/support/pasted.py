"""The code of READMEs, pasted into one fresh process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.fresh import in_fresh_process

RUN = """
import contextlib, io, json, os, sys
outputs = []
for folder, blocks in json.loads(sys.stdin.read()).items():
    os.chdir(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "reader"]:
        del sys.modules[name]  # of the export before
    sys.path_importer_cache.clear()
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block, folder, "exec"), {"__name__": "__main__"})
        outputs.append(printed.getvalue())
assert not {"tasks", "flows", "infra"} & set(sys.modules)
print(json.dumps(outputs))
"""


def pasted(blocks: Mapping[Path, Sequence[str]]) -> list[str]:
    """What each block prints in its folder, with names of its own, in a process without our code."""
    asked = json.dumps({str(folder): list(each) for folder, each in blocks.items()})
    answer: list[str] = json.loads(in_fresh_process(RUN, given=asked).splitlines()[-1])
    return answer
