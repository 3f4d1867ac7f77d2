"""`millrace show ARTIFACT --rows`: examples as a person reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import Records, Snapshot
from tasks.errors import Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.snapshots.transforms.texts import Tokens
from tasks.sources.kinds.tables import CsvSource
from tasks.view.rows import examples
from tests.support.digits import Digits

ROWS = "\n".join(
    f"p{n},{n}.5,{['Rome', ''][n % 2]},2024-01-0{n % 9 + 1},word{n} and more,{'ab'[n % 2]}" for n in range(60)
)
TYPES = {"id": "category", "age": "number", "city": "category", "when": "time", "note": "text", "kind": "category"}


def test_an_image_is_named_by_its_size_and_drawn_where_there_are_colours(digits: Digits) -> None:
    for artifact in (digits.records, digits.snapshot):
        plain = list(examples(artifact, "test", 2, colours=False))
        drawn = list(examples(artifact, "test", 2, colours=True))
        assert sum(line.startswith("test ") for line in plain) == 2
        assert any("8 x 8 x" in line for line in plain)
        assert set(plain) <= set(drawn) and sum("\u2580" in line for line in drawn) == 2 * 4
        labels = {line for line in plain if line.startswith("  label: ")}
        assert labels <= {f"  label: {digit}" for digit in range(10)} and labels


def test_columns_are_shown_by_name_in_records_and_in_snapshots(
    tmp_path: Path, bench: Workbench, benches: Callable, publish: Callable
) -> None:
    (tmp_path / "p.csv").write_text(f"{','.join(TYPES)}\n{ROWS}\n")
    config = CsvSource.model_validate({"path": str(tmp_path / "p.csv"), "columns": TYPES, "key": "id", "label": "kind"})
    made = publish(Records, bench, conversion.build(bench, config, RecordsConfig()))
    [first, *values] = list(examples(made, "train", 1, colours=False))
    key = first.removeprefix("train 0: ")
    number = int(key[1:])
    assert f"  age: {number}.5" in values and f"  kind: {'ab'[number % 2]}" in values
    assert f"  city: {['Rome', 'missing'][number % 2]}" in values
    assert f"  note: word{number} and more" in values
    bench = benches("snapshot")
    layout = TableSnapshot(transforms={"note": Tokens(method="bytes", length=40)})
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, layout))
    lines = list(examples(snapshot, "train", 1, colours=False))
    assert f"  note: word{number} and more" in lines
    assert any(line.startswith(f"  numbers: age {number}.5, when") for line in lines), lines
    with pytest.raises(Refused, match="dev; must be one of test, train, validation"):
        list(examples(made, "dev", 1, colours=False))
