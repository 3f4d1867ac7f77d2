"""The ledger at the ends of its spans, and what its proof finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.feed.orders import batch_rows
from tasks.training import ledger
from tasks.training.ledger import LEDGER, SPAN, Ledger, hash_of, in_words, prove, spans
from tests.support.ledgers import ledger_of

BATCH, EXAMPLES, EPOCHS = 4, 10, 2


def test_a_line_ends_at_a_multiple_of_the_span_and_counts_add_up() -> None:
    written = Ledger()
    for steps, fed in ((SPAN - 1, 10), (1, 2), (5, 3), (SPAN - 5, 4), (1, 1)):
        written.add(steps, fed, 5)
    assert [(line["from"], line["to"], line["count"], int(line["hash"], 16)) for line in written.lines] == [
        (0, SPAN, 12, 10),
        (SPAN, 2 * SPAN, 7, 10),
        (2 * SPAN, 2 * SPAN + 1, 1, 5),
    ]


def test_hashes_are_added_modulo_2_to_the_64th() -> None:
    written = Ledger()
    written.add(1, 1, 2**64 - 1)
    written.add(1, 1, 3)
    assert written.lines[0]["hash"] == f"{2:016x}"


def test_skipped_steps_are_cut_at_the_ends_of_spans() -> None:
    written = Ledger()
    written.add(SPAN - 2, 1, 1)
    written.skip(SPAN - 2, 2 * SPAN + 3)
    assert [(line["from"], line["to"], line["skipped"]) for line in written.lines] == [
        (0, SPAN, [[SPAN - 2, SPAN]]),
        (SPAN, 2 * SPAN, [[SPAN, 2 * SPAN]]),
        (2 * SPAN, 2 * SPAN + 3, [[2 * SPAN, 2 * SPAN + 3]]),
    ]
    assert [line["count"] for line in written.lines] == [1, 0, 0]


def test_skipped_steps_of_a_line_are_told_from_those_between_them() -> None:
    line = {"from": 0, "to": 30, "skipped": [[5, 7], [20, 30]]}
    assert list(spans(line)) == [(0, 5, False), (5, 7, True), (7, 20, False), (20, 30, True), (30, 30, False)]


def test_the_state_of_a_ledger_is_a_copy_both_ways() -> None:
    written = Ledger()
    written.add(2, 1, 1)
    state = written.state()
    again = Ledger.from_state(state)
    written.add(2, 1, 1)
    again.add(5, 1, 1)
    assert (state[0]["to"], written.lines[0]["to"], again.lines[0]["to"]) == (2, 4, 7)


def trained(root: Path, **changed: Any) -> tuple[Path, Path]:
    """A model of two epochs of ten examples in batches of four, whose ledger is as the order says, but for changes."""
    rows, weights = batch_rows(0, BATCH, EXAMPLES, 1, "train", steps=5, epochs=EPOCHS)
    used = rows[weights > 0]
    line = {"from": 0, "to": 5, "count": len(used), "hash": f"{hash_of(used):016x}", **changed}
    return ledger_of(root, [line], EXAMPLES, BATCH, EPOCHS)


@pytest.mark.parametrize("at_once", [1, BATCH, 3 * BATCH, 1 << 18])
def test_the_proof_is_that_of_whole_epochs_however_many_rows_are_computed_at_once(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "ROWS_AT_ONCE", at_once)
    proof = prove(*trained(tmp_path))
    assert (proof["wrong"], proof["seen"], proof["missing"], proof["repeated"]) == ([], {"2": EXAMPLES}, 0, 0)


@pytest.mark.parametrize("changed", [{"count": 19}, {"hash": "0" * 16}])
def test_a_line_with_another_number_or_hash_is_wrong(changed: dict[str, Any], tmp_path: Path) -> None:
    proof = prove(*trained(tmp_path, **changed))
    assert len(proof["wrong"]) == 1
    assert proof["text"].startswith("steps 0 to 5 were fed other examples than the order says; 10 examples over 5")


@pytest.mark.parametrize(
    ("seen", "low", "high", "right"),
    [
        ([1, 1, 1], 1, 1, True),
        ([2, 1, 1], 1, 2, True),
        ([0, 0, 1], 0, 1, True),
        ([0, 0, 0], 0, 0, True),
        ([3, 1, 1], 1, 2, False),  # as many in all as there should be, and one too often
        ([0, 2, 2], 1, 2, False),
        ([0, 3, 1], 1, 2, False),
    ],
)
def test_examples_are_missing_or_repeated_each_for_itself(seen: list[int], low: int, high: int, right: bool) -> None:
    said = in_words(np.array(seen), low, high, "rows")
    missing, repeated = sum(times < low for times in seen), sum(times > high for times in seen)
    assert said.endswith(f"; {missing} missing, {repeated} repeated") is not right
    assert (f"seen {min(seen)} to {max(seen)} times" in said) is not right


def test_rows_are_hashed_each_and_not_their_sum() -> None:
    """Rows 1 and 4 are not rows 2 and 3."""
    one, other = (hash_of(np.array(rows)) for rows in ([1, 4], [2, 3]))
    assert one != other and one == hash_of(np.array([[4], [1]]))


def test_steps_of_any_line_are_skipped_or_wrong(tmp_path: Path) -> None:
    model, snapshot = trained(tmp_path)
    rows, weights = batch_rows(0, BATCH, EXAMPLES, 1, "train", steps=5, epochs=EPOCHS)
    spans = [(0, 2, [0, 1], {}), (2, 5, [3], {"skipped": [[2, 3], [4, 5]]})]
    lines = []
    for start, stop, steps, more in spans:
        used = rows[steps][weights[steps] > 0]
        lines.append({"from": start, "to": stop, "count": len(used), "hash": f"{hash_of(used):016x}", **more})
    (model / LEDGER).write_text("".join(json.dumps(line) + "\n" for line in lines))
    proof = prove(model, snapshot)
    assert (proof["wrong"], proof["missing"], proof["repeated"], proof["steps"]) == ([], 0, 0, 5)
    assert proof["text"].endswith("; 8 of these times in steps that a rollback skipped (2 to 2, 4 to 4)")
    lines[1]["count"] += 1
    (model / LEDGER).write_text("".join(json.dumps(line) + "\n" for line in lines))
    proof = prove(model, snapshot)
    assert proof["wrong"] == [lines[1]] and proof["text"].startswith("steps 2 to 5 were fed other examples")
