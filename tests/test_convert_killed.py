"""A conversion shared by processes: killed, it leaves none of them, and goes on to the bytes of an unbroken one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tasks.errors import Failed, Lost
from tasks.processes.threads import AHEAD, in_processes
from tasks.records import conversion, sorting
from tasks.records.config import RecordsConfig
from tasks.sources import Piece, Rows
from tasks.store.files import checksums
from tests.support.raw_data import png

SCRIPT = """
import sys
from pathlib import Path
from tasks.sources.kinds.tables import CsvSource
from tasks.records.config import RecordsConfig
from tasks.records import conversion
from tasks.sources import table_files
from tasks.processes.workbench import Silence, Workbench
from tasks.store.staging import Staging

conversion.ALONE_BYTES, table_files.PIECE_BYTES = 0, 2000
columns = {"id": "category", "age": "number", "kind": "category"}
source = CsvSource.model_validate({"path": sys.argv[1], "columns": columns, "key": "id", "label": "kind"})
root = Path(sys.argv[2])
root.mkdir(exist_ok=True)
lock = root.with_name(f"{root.name}.lock")
lock.write_text('{"token": 1}')
nothing = lambda *values, **named: None
bench = Workbench(Staging(root, lock, 1), Silence(), nothing, nothing, lambda: 0, threads=2)
outcome = conversion.build(bench, source, RecordsConfig())
print(outcome.counts)
"""


def command(table: Path, staging: Path) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(table), str(staging)]


def files(root: Path) -> dict[str, str]:
    """The records, by name."""
    paths = [path for path in root.rglob("*") if path.is_file() and not path.relative_to(root).parts[0].startswith(".")]
    return {
        path.relative_to(root).as_posix(): checksums(path).sha256
        for path in paths
        if "checkpoints" not in path.parts and not path.name.endswith(".partial")
    }


def test_a_killed_conversion_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("id,age,kind\n" + "".join(f"p{n:05d},{n * 7 % 90},{'abc'[n % 3]}\n" for n in range(6000)))
    whole = subprocess.run(command(table, tmp_path / "whole"), capture_output=True, text=True, check=True)
    staging = tmp_path / "killed"
    for wanted in ("checkpoints/runs/000020-0000.arrow", "table-test.tfrecord-00000-of-00002"):
        process = subprocess.Popen(command(table, staging), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and not (staging / wanted).exists():
            time.sleep(0.002)
        workers = psutil.Process(process.pid).children() if process.poll() is None else []
        process.kill()
        process.communicate()
        _, alive = psutil.wait_procs(workers, timeout=10)
        assert not alive, "the processes that shared the work end with their parent"
    ended = subprocess.run(command(table, staging), capture_output=True, text=True, check=True)
    assert ended.stdout == whole.stdout
    assert files(staging) == files(tmp_path / "whole")


def test_results_come_in_order_and_an_error_in_its_turn() -> None:
    assert list(in_processes(lambda number: (number, os.getpid()), [3, 1, 2], 1)) == [
        (n, os.getpid()) for n in (3, 1, 2)
    ]
    shared = list(in_processes(lambda number: (number * 2, os.getpid()), list(range(20)), 2))
    assert [doubled for doubled, _ in shared] == list(range(0, 40, 2))
    assert os.getpid() not in {process for _, process in shared}

    def work(number: int) -> int:
        if number == 3:
            raise Failed("row", number, "must not be 3", "choose another")
        return number

    results: list[int] = []
    with pytest.raises(Failed, match="must not be 3"):
        results.extend(in_processes(work, list(range(6)), 2))


def test_no_more_items_are_begun_than_are_waited_for(tmp_path: Path) -> None:
    """However many there are: their results would be in memory at once."""

    def work(number: int) -> bytes:
        (tmp_path / f"{number}").touch()
        return bytes(number)

    shared = in_processes(work, range(10_000), 2)
    assert [len(next(shared)) for _ in range(3)] == [0, 1, 2]
    time.sleep(0.2)  # for all that wait to be done
    assert len(list(tmp_path.iterdir())) <= 3 + 2 * AHEAD
    shared.close()  # type: ignore[attr-defined]


def test_a_killed_process_is_a_loss_that_may_be_tried_again() -> None:
    def work(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(Lost, match="one of the processes was killed"):
        list(in_processes(work, list(range(4)), 2))


def test_a_signal_of_the_terminal_is_left_to_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(number: int) -> Callable | int:
        os.kill(os.getpid(), signal.SIGINT)
        return number

    assert list(in_processes(work, [1, 2], 2)) == [1, 2]


def test_a_piece_that_is_larger_than_memory_has_several_runs(
    benches: Callable, rows_source: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is read in one piece, ten rows at a time, of which some are bad."""

    class OnePiece(rows_source):  # type: ignore[valid-type, misc]
        reads = 0

        def pieces(self) -> list[Piece]:
            return [Piece("all", 1, tuple(sorted(self.rows)))]

        def read(self, piece: Piece) -> Iterator[Rows]:
            OnePiece.reads += 1
            for start in range(0, len(piece.where), 10):
                yield from super().read(Piece("some", 1, piece.where[start : start + 10]))

    rows = {f"row/{number:03d}": (None if number % 9 == 8 else png(number), number % 2) for number in range(100)}
    config, made = RecordsConfig(bad_budget=11, splits={"train": 0.5, "validation": 0.2, "test": 0.3}), []
    for limit in (1 << 30, 0):
        monkeypatch.setattr(sorting, "RUN_BYTES", limit)
        bench = benches(f"limit{limit}")
        outcome = conversion.convert(bench, "rows", OnePiece(rows), config)
        root = bench.staging.root
        bad = b"".join(path.read_bytes() for path in sorted(root.glob("quarantine/*.jsonl")))
        made.append((outcome, bad, {path.name: path.read_bytes() for path in root.glob("*.tfrecord-*")}))
        assert len(list(root.glob(f"{sorting.RUNS}/*.arrow"))) == (1 if limit else 10)
    assert made[0] == made[1] and made[0][0].counts["quarantined"] == 11

    reads = OnePiece.reads
    assert conversion.convert(bench, "rows", OnePiece(rows), config) == outcome and OnePiece.reads == reads
    bench.staging.drop(f"{sorting.RUNS}/000000-0009.arrow")
    assert conversion.convert(bench, "rows", OnePiece(rows), config) == outcome
    assert OnePiece.reads == reads + 1, "a piece whose last run is missing is sorted again"
