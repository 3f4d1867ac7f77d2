"""The ledger of a training: for spans of steps, the number of examples used and an order-free hash of their rows.

Spans begin at fixed multiples of steps, so that the ledger of a killed and resumed training equals that of an
uninterrupted one. It is part of every checkpoint: steps that were computed and lost are not in a model's ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.draws import splitmix64
from tasks.feed.orders import ORDERS, EpochOrder, Ordered, batch_rows
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.models.features import TOKENS
from tasks.records.arrays import row_bytes

SPAN = 1000
"""Steps of a span, which is a line of the ledger."""

LEDGER = "state/ledger.jsonl"

TRAIN = "train"
ROWS_AT_ONCE = 1 << 18
"""Rows that are recomputed at once at most."""


@dataclass
class Ledger:
    """Lines of `{"from", "to", "count", "hash"}`; the last one is extended until it spans `SPAN` steps."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, steps: int, fed: int, fed_hash: int) -> None:
        """Add a call of some steps, the number of its rows and their hash.

        By `Plan.pauses` a call never crosses a multiple of `SPAN`.
        """
        start = self.lines[-1]["to"] if self.lines else 0
        if start % SPAN == 0:
            self.lines.append({"from": start, "to": start, "count": 0, "hash": "0" * 16})
        line = self.lines[-1]
        total = (int(line["hash"], 16) + fed_hash) % 2**64
        line |= {"to": start + steps, "count": line["count"] + fed, "hash": f"{total:016x}"}

    def skip(self, start: int, stop: int) -> None:
        """Add the steps [start, stop) whose examples were skipped."""
        while start < stop:
            until = min(stop, start - start % SPAN + SPAN)
            self.add(until - start, 0, 0)
            self.lines[-1]["skipped"] = [*self.lines[-1].get("skipped", []), [start, until]]
            start = until

    def state(self) -> list[dict[str, Any]]:
        """Return a copy of the lines, for a checkpoint."""
        return [dict(line) for line in self.lines]

    @classmethod
    def from_state(cls, lines: list[dict[str, Any]]) -> Ledger:
        """Create a ledger that continues these lines."""
        return cls([dict(line) for line in lines])

    def text(self) -> bytes:
        """Return the content of `ledger.jsonl`."""
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.lines).encode()


def hash_of(rows: NDArray[np.int64]) -> int:
    """Return the sum modulo 2^64 of splitmix64 of each row number, which does not depend on their order."""
    return int(splitmix64(rows.astype(np.uint64)).sum(dtype=np.uint64))


def prove(model: Path, snapshot: Path) -> dict[str, Any]:
    """Compare a model's ledger with the order of examples recomputed from its config.

    Args:
        model: folder of the model.
        snapshot: folder of the snapshot that it was trained on.

    Returns:
        `examples` (N), `seen` ({times: examples}), `missing`, `repeated`, `steps`, `wrong` (lines that differ) and
        `text`, the verdict in a sentence.
    """
    manifest = json.loads((model / "manifest.json").read_bytes())
    config = manifest["inputs"]["config"]
    snapshot_manifest = json.loads((snapshot / "manifest.json").read_bytes())
    count, unit = (
        snapshot_manifest["counts"]["train"],
        "rows" if TOKENS in snapshot_manifest["features"] else "examples",
    )
    train = config["train"]
    bytes_of_row = row_bytes(snapshot_manifest["features"])
    given = Ordered(train["batch_size"], bytes_of_row, lambda: SnapshotReader(snapshot).lengths(TRAIN))
    order = ORDERS[train.get("order", "shuffled")](given)
    lines = [json.loads(line) for line in (model / LEDGER).read_text().splitlines()]
    times_seen, times_skipped = np.zeros(count, np.int64), np.zeros(count, np.int64)
    wrong = []
    for line in lines:
        total, number = 0, 0
        for start, stop, skipped in spans(line):
            for rows in _weighted_rows(start, stop, train, count, config["seed"], order):
                np.add.at(times_skipped if skipped else times_seen, rows, 1)
                if not skipped:
                    total, number = (total + hash_of(rows)) % 2**64, number + len(rows)
        if f"{total:016x}" != line["hash"] or number != line["count"]:
            wrong.append(line)
    steps = lines[-1]["to"] if lines else 0
    due = times_seen + times_skipped
    low, high = divmod(int(due.sum()), count)
    at_least, at_most = low, low + (high > 0)
    missing, repeated = int((due < at_least).sum()), int((due > at_most).sum())
    seen = {str(n): int((times_seen == n).sum()) for n in np.unique(times_seen)}
    span = f"{steps:,} step{'' if steps == 1 else 's'}"
    text = f"{count:,} {unit} over {span}: {in_words(due, at_least, at_most, unit)}"
    if skips := [f"{start} to {stop - 1}" for line in lines for start, stop in line.get("skipped", ())]:
        text += f"; {int(times_skipped.sum()):,} of these times in steps that a rollback skipped ({', '.join(skips)})"
    if wrong:
        text = f"steps {wrong[0]['from']} to {wrong[0]['to']} were fed other {unit} than the order says; {text}"
    return {
        "examples": count,
        "steps": steps,
        "seen": seen,
        "missing": missing,
        "repeated": repeated,
        "wrong": wrong,
        "text": text,
    }


def in_words(times_seen: NDArray[np.int64], at_least: int, at_most: int, unit: str) -> str:
    """Describe how often the examples were seen, [N], where `at_least` or `at_most` times is right for each."""
    missing, repeated = int((times_seen < at_least).sum()), int((times_seen > at_most).sum())
    if missing or repeated:
        least, most = int(times_seen.min()), int(times_seen.max())
        sentence = f"each was to be seen {at_least} or {at_most} times, and was seen {least} to {most} times"
        return f"{sentence}; {missing:,} missing, {repeated:,} repeated"
    if at_most == 0:
        return f"no {unit.removesuffix('s')} was seen"
    if at_most == 1 and at_least == 0:
        seen = int(times_seen.sum())
        return f"{seen:,} {unit} were seen once, the other {len(times_seen) - seen:,} not yet; none was repeated"
    often = (
        "once"
        if at_most == at_least == 1
        else f"{at_least} times"
        if at_most == at_least
        else f"{at_least} or {at_most} times"
    )
    return f"every {unit.removesuffix('s')} was seen {often}; none missing, none repeated"


def spans(line: dict[str, Any]) -> Iterator[tuple[int, int, bool]]:
    """Yield the steps [start, stop) of a line, and whether their examples were skipped."""
    start = line["from"]
    for skipped in line.get("skipped", ()):
        yield start, skipped[0], False
        yield *skipped, True
        start = skipped[1]
    yield start, line["to"], False


def _weighted_rows(
    start: int, stop: int, train: dict[str, Any], count: int, seed: int, order: EpochOrder
) -> Iterator[NDArray[np.int64]]:
    """Yield the rows with a weight above 0 of the steps [start, stop), about `ROWS_AT_ONCE` at a time."""
    batch, epochs = train["batch_size"], train["epochs"]
    at_once = max(1, ROWS_AT_ONCE // batch)
    for step in range(start, stop, at_once):
        steps = min(at_once, stop - step)
        rows, weights = batch_rows(step, batch, count, seed, TRAIN, steps=steps, epochs=epochs, order=order)
        yield rows[weights > 0]
