"""One check for every stage: interrupted at a piece of any kind and run again, it makes the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tasks.processes.workbench import Workbench
from tasks.store import staging
from tasks.store.staging import SIDECARS, Piece, Staging
from tests.support.benches import contents


class Interrupted(BaseException):
    """The end of an attempt."""


def goes_on_from_any_piece(build: Callable[[Workbench], Any], bench_of: Callable[[str], Workbench], least: int) -> None:
    """Interrupt `build(bench)` at the first piece of each kind, each time on a new workbench, and run it again.

    A piece is complete with its sidecar. The attempt ends before the file of a piece has its name, or between that and
    its sidecar, as a kill may: that file must be written again. A kind is a name without numbers and splits; there are
    `least` at least, or this shows little.
    """
    whole, names = bench_of("whole"), list[str]()
    expected = _until(lambda name: names.append(name) or False, build, whole)
    bytes_of_all = contents(whole.staging.root)
    kinds = {re.sub(r"\d+|train|validation|test", "", name): name for name in reversed(names)}
    assert len(kinds) >= least
    for number, (first, until) in enumerate(product(kinds.values(), (_until, _until_before))):
        bench = bench_of(f"interrupted-{number}")
        with pytest.raises(Interrupted):
            until(first.__eq__, build, bench)
        assert build(bench) == expected, f"at {first}"
        assert contents(bench.staging.root) == bytes_of_all, f"at {first}"


def _until(ends: Callable[[str], Any], build: Callable[[Workbench], Any], bench: Workbench) -> Any:
    """Build until the sidecar of a piece whose name `ends` it."""
    real, sidecars = staging.write, bench.staging.root / SIDECARS

    def write(path: Path, content: bytes) -> None:
        if ends(path.relative_to(sidecars).as_posix().removesuffix(".json")):
            raise Interrupted
        real(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "write", write)
        return build(bench)


def _until_before(ends: Callable[[str], Any], build: Callable[[Workbench], Any], bench: Workbench) -> Any:
    """Build until the file of a piece whose name `ends` it is written, and has not got that name."""
    real = Staging.piece

    @contextmanager
    def piece(self: Staging, name: str, **note: Any) -> Iterator[Piece]:
        with real(self, name, **note) as written:
            yield written
            if ends(name):
                raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "piece", piece)
        return build(bench)
