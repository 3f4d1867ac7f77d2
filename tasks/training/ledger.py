"""What was fed, not what should have been: spans of steps with a count and an order-free hash of the example ids.

The lines stand at fixed multiples of steps, wherever a training was interrupted, so that the ledger of a killed and
resumed training is that of an unbroken one. It lies inside every checkpoint: the ledger of a model is the chain
behind its final checkpoint, and nothing that was computed and lost is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.data.order import batch_rows
from tasks.models.features import TOKENS

SPAN = 1000
"""Steps of a line."""

LEDGER = "state/ledger.jsonl"


@dataclass
class Ledger:
    """Lines of `{"from", "to", "count", "hash"}`, the last one open until it spans `SPAN` steps."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, steps: int, rows: NDArray[np.int64]) -> None:
        """Enter a call of some steps; a call never crosses a multiple of `SPAN` (`Plan.pauses` sees to it)."""
        start = self.lines[-1]["to"] if self.lines else 0
        if start % SPAN == 0:
            self.lines.append({"from": start, "to": start, "count": 0, "hash": "0" * 16})
        line = self.lines[-1]
        total = (int(line["hash"], 16) + hash_of(rows)) % 2**64
        line |= {"to": start + steps, "count": line["count"] + len(rows), "hash": f"{total:016x}"}

    def state(self) -> list[dict[str, Any]]:
        """The lines."""
        return [dict(line) for line in self.lines]

    @classmethod
    def from_state(cls, lines: list[dict[str, Any]]) -> Ledger:
        """A ledger that goes on from these lines."""
        return cls([dict(line) for line in lines])

    def text(self) -> bytes:
        """`ledger.jsonl`."""
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.lines).encode()


def hash_of(rows: NDArray[np.int64]) -> int:
    """The sum modulo 2^64 of splitmix64 of each id: the same in any order, another for any other multiset."""
    x = rows.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((x ^ (x >> np.uint64(31))).sum(dtype=np.uint64))


def prove(model: Path, snapshot: Path) -> dict[str, Any]:
    """Hold a model's ledger against the order recomputed from its config.

    Args:
        model: the artifact's folder, with its ledger and manifest.
        snapshot: the folder of the snapshot that it was trained on.

    Returns:
        `examples` (N), `seen` ({times: examples}), `missing`, `repeated`, `steps`, `wrong` (lines that differ) and
        `text`, the verdict in a sentence.
    """
    manifest = json.loads((model / "manifest.json").read_bytes())
    config = manifest["inputs"]["config"]
    fed = json.loads((snapshot / "manifest.json").read_bytes())
    count, what = fed["counts"]["train"], "rows" if TOKENS in fed["features"] else "examples"
    lines = [json.loads(line) for line in (model / LEDGER).read_text().splitlines()]
    times = np.zeros(count, np.int64)
    wrong = []
    for line in lines:
        total, number = 0, 0
        for rows in _fed(line["from"], line["to"], config["train"], count, config["seed"]):
            times += np.bincount(rows, minlength=count)
            total, number = (total + hash_of(rows)) % 2**64, number + len(rows)
        if f"{total:016x}" != line["hash"] or number != line["count"]:
            wrong.append(line)
    steps = lines[-1]["to"] if lines else 0
    low, high = divmod(int(times.sum()), count)
    floor, ceiling = low, low + (high > 0)
    missing, repeated = int((times < floor).sum()), int((times > ceiling).sum())
    seen = {str(n): int((times == n).sum()) for n in np.unique(times)}
    span = f"{steps:,} step{'' if steps == 1 else 's'}"
    text = f"{count:,} {what} over {span}: {in_words(times, floor, ceiling, what)}"
    if wrong:
        text = f"steps {wrong[0]['from']} to {wrong[0]['to']} were fed other {what} than the order says; {text}"
    return {
        "examples": count,
        "steps": steps,
        "seen": seen,
        "missing": missing,
        "repeated": repeated,
        "wrong": wrong,
        "text": text,
    }


def in_words(times: NDArray[np.int64], floor: int, ceiling: int, what: str) -> str:
    """How often the examples were seen, [N], where each should be seen `floor` or `ceiling` times."""
    missing, repeated = int((times < floor).sum()), int((times > ceiling).sum())
    if missing or repeated:
        least, most = int(times.min()), int(times.max())
        told = f"each was to be seen {floor} or {ceiling} times, and was seen {least} to {most} times"
        return f"{told}; {missing:,} missing, {repeated:,} repeated"
    if ceiling == 0:
        return f"no {what.removesuffix('s')} was seen"
    if ceiling == 1 and floor == 0:
        seen = int(times.sum())
        return f"{seen:,} {what} were seen once, the other {len(times) - seen:,} not yet; none was repeated"
    often = "once" if ceiling == floor == 1 else f"{floor} times" if ceiling == floor else f"{floor} or {ceiling} times"
    return f"every {what.removesuffix('s')} was seen {often}; none missing, none repeated"


def _fed(start: int, stop: int, train: dict[str, Any], count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The rows with a weight of each of the steps [start, stop)."""
    for step in range(start, stop):
        rows, weights = batch_rows(step, train["batch_size"], count, seed, "train", epochs=train["epochs"])
        yield rows[weights > 0]
