"""What `millrace init` takes a first line, a column of splits and a sample for: at the edge of each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.data.guess import guess_source
from tasks.data.guess.forms import csv


def table(path: Path, head: str, rows: list[str]) -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("head", "named"),
    [("2019,2020,label", True), ("2019,2020,2021", False), ("1.5,-2,3e4", False), ("a,b,c", True), ("1,2,x1", True)],
)
def test_a_line_of_numbers_alone_is_no_line_of_names(head: str, named: bool, tmp_path: Path) -> None:
    form = csv(table(tmp_path / "t.csv", head, [f"{n},{n},{n}" for n in range(5)]))
    assert list(form.types) == (head.split(",") if named else ["column0", "column1", "column2"])
    assert ("header" in form.settings) is not named


@pytest.mark.parametrize(
    ("splits", "taken"),
    [
        (["train", "test"], True),
        (["Train", "val", "test"], True),
        (["train", "test", ""], False),
        (["train"], False),
        (["train", "test", "other"], False),
        (["test", "val"], False),
    ],
)
def test_a_column_is_the_splits_where_every_row_has_one(splits: list[str], taken: bool, tmp_path: Path) -> None:
    rows = [f"{n % 17},{splits[n % len(splits)]},{'ab'[n % 2]}" for n in range(60)]
    guess = guess_source(table(tmp_path / "t.csv", "size,split,label", rows))
    assert (guess.columns is not None) and (guess.columns.split == ("split" if taken else None))


def test_the_first_rows_of_a_small_file_are_not_taken_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in one piece, of which enough rows are read."""
    monkeypatch.setattr("tasks.data.guess.samples.SAMPLED", 50)
    monkeypatch.setattr("tasks.data.sources.delimited.PARSED", 1 << 10)
    path = table(tmp_path / "t.csv", "size,label", [f"{n},{'abc'[n % 3]}" for n in range(1200)])
    guess = guess_source(path)
    assert 400 < guess.examples < 3600
    monkeypatch.setattr("tasks.data.guess.samples.SAMPLED", 5000)
    whole = guess_source(path)
    assert whole.examples == 1200 and whole.counts == {"a": 400, "b": 400, "c": 400}
