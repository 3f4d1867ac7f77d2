"""One check for every stage: interrupted at any of its pieces and run again, it makes the bytes of an unbroken run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tasks.processes.workbench import Workbench
from tasks.store import staging
from tests.support.benches import contents


class Interrupted(BaseException):
    """The end of an attempt."""


def goes_on_from_any_piece(
    build: Callable[[Workbench], Any], bench_of: Callable[[str], Workbench], least: int, every: int = 1
) -> None:
    """Interrupt `build(bench)` after 0, `every`, 2 `every`, ... pieces, each time on a new workbench, and run it again.

    A piece is complete with its sidecar. The attempt ends between the file of the next one and its sidecar, as a kill
    may: that file must be written again. `least`: how many pieces there are at least, or this shows little.
    """
    whole = bench_of("whole")
    expected = build(whole)
    bytes_of_all, real = contents(whole.staging.root), staging.write
    for allowed in count(0, every):
        bench, done = bench_of(f"interrupted-{allowed}"), 0

        def write(path: Path, content: bytes, allowed: int = allowed) -> None:
            nonlocal done
            if done == allowed:
                raise Interrupted
            done += 1
            real(path, content)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(staging, "write", write)
            try:
                build(bench)
            except Interrupted:
                pass
            else:
                assert allowed >= least
                return
        assert build(bench) == expected, f"after {allowed} pieces"
        assert contents(bench.staging.root) == bytes_of_all, f"after {allowed} pieces"
