"""Where there is too much for a page, what matters most stays: the best, the largest, the worst; the rest is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.search.space import FloatRange, SpaceConfig
from tasks.search.table import COMPLETE, PRUNED, Table, Trial
from tasks.view import charts, columns, comparison, examples, report, rows, summary, trainings
from tasks.view import examples as samples
from tasks.view import sections as data
from tasks.view.report_rows import Sample
from tests.support.stand_ins import facts


def facts_of(test: dict[str, Any]) -> Any:
    return facts(report={"splits": {"test": test}})


def shuffled(count: int) -> list[int]:
    """1 to `count` in an order that is neither up nor down."""
    return (np.random.default_rng(0).permutation(count) + 1).tolist()


def names_of(rows: Iterable[Any]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.parametrize("more", [0, 1, 25])
def test_of_many_classes_those_with_the_most_examples_are_shown(more: int) -> None:
    supports = shuffled(report.CLASSES + more)
    rows = [{"class": f"c{support}", "support": support} for support in supports]
    shown = names_of(facts_of({"classes": rows}).test.largest_classes)
    largest = [f"c{support}" for support in sorted(supports, reverse=True)[: report.CLASSES]]
    assert shown == (largest if more else [f"c{support}" for support in supports])


def test_types_of_entities_are_shown_before_the_classes_of_their_tags() -> None:
    rows = [{"class": f"c{support}", "support": support} for support in shuffled(report.CLASSES)]
    entities = [{"class": "person", "support": 2}]
    few = facts_of({"entities": entities, "classes": rows[:-1]}).test.largest_classes
    assert names_of(few) == [row["class"] for row in entities + rows[:-1]]
    many = facts_of({"entities": [{"class": "person", "support": 20}], "classes": rows}).test.largest_classes
    assert len(many) == report.CLASSES and many[20].name == "person" and many[-1].support == 2


@pytest.mark.parametrize("more", [0, 1, 45])
def test_of_many_slices_the_largest_are_shown_and_the_others_named(more: int) -> None:
    """As many as are shown are named of the others, too."""
    sizes = shuffled(report.CLASSES + more)
    rows = [
        {"slice": f"s{size}", "examples": size, "value": 0.5, "low": 0.4, "high": 0.6, "units": size} for size in sizes
    ]
    test = facts_of({"slices": rows}).test
    shown = names_of(test.scored_slices)
    largest = [f"s{size}" for size in sorted(sizes, reverse=True)[: report.CLASSES]]
    assert shown == (largest if more else [f"s{size}" for size in sizes])
    others = [size for size in sizes if f"s{size}" not in shown]
    named = ", ".join(f"s{size} ({size}, not among the largest)" for size in others[: report.CLASSES])
    left = more - report.CLASSES
    assert test.slices_without_score == named + (f" and {left} more, in report.json" if left > 0 else "")


@pytest.mark.parametrize("worst", [1, examples.PASSAGES, examples.PASSAGES + 2])
def test_passages_are_of_the_worst_files(worst: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of each the window with the highest loss."""
    length = examples.WINDOW + 5
    nats = np.zeros((worst, length), np.float32)
    nats[:, -1] = 9.0
    (tmp_path / "predictions").mkdir()
    np.save(tmp_path / "predictions/test.npy", nats)
    tokens = np.concatenate([np.zeros((worst, 1), int), np.full((worst, length), 97)], axis=1)
    reader = SimpleNamespace(arrays=lambda split: {examples.TOKENS: tokens})
    codec = SimpleNamespace(bos=256, decode=bytes)
    monkeypatch.setattr(examples, "open_snapshot", lambda path: reader)
    monkeypatch.setattr(examples, "Codec", SimpleNamespace(open=lambda path: codec))
    documents = np.repeat(np.arange(worst)[:, None], length, axis=1)
    monkeypatch.setattr(examples, "document_of_targets", lambda reader, split: documents)
    rows = [{"key": f"f{row}", "bits_per_byte": 9.0 - row, "row": row} for row in range(worst)]
    of = facts_of({"worst": rows})
    of.one = lambda kind: SimpleNamespace(path=tmp_path)
    shown = examples.passages(of)
    assert [row.key for row in shown] == [f"f{row}" for row in range(min(worst, examples.PASSAGES))]
    for row in shown:
        assert len(row.tokens) == examples.WINDOW and row.begins == "…"
        assert row.tokens[-1] == ("a", 4) and {shade for _, shade in row.tokens[:-1]} == {0}


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("more", [0, 1, 9])
def test_of_many_trials_the_best_are_shown(more: int, higher: bool) -> None:
    count = charts.MOST_TRIALS + more
    ranks = shuffled(count)  # 1 is the best
    made = [
        Trial(number, COMPLETE, {"rate": 0.1}, (-rank if higher else rank) / 1.0, 10, 1.0, None, False, None)
        for number, rank in enumerate(ranks)
    ]
    made.append(replace(made[0], number=count, state=PRUNED, value=-9999.0))
    space: dict[str, SpaceConfig] = {"rate": FloatRange(low=0.01, high=1.0)}
    table = Table("s", "loss", higher, made)
    best = sorted(range(count), key=ranks.__getitem__)[: charts.MOST_TRIALS]
    assert [row.number for row in trainings.by_rank(table)][: charts.MOST_TRIALS] == best
    [_, (_, parallel)] = trainings.pictures(table, space)
    assert parallel.count("<polyline") == charts.MOST_TRIALS


@pytest.mark.parametrize("length", [1, samples.CHARACTERS_OF_SAMPLE, samples.CHARACTERS_OF_SAMPLE + 1])
def test_a_text_is_cut_where_it_is_longer_than_a_cell(length: int) -> None:
    text = "a" * length
    most = samples.CHARACTERS_OF_SAMPLE
    assert samples.shortened(f"  {text}\n") == text[:most] + "…" * (length > most)


@pytest.mark.parametrize("length", [1, rows.CHARACTERS, rows.CHARACTERS + 1])
def test_a_text_of_a_row_is_cut_where_it_is_longer_than_a_line(length: int) -> None:
    cut = "a" * min(length, rows.CHARACTERS) + "…" * (length > rows.CHARACTERS)
    assert list(rows._value("note", "a" * length, colours=False)) == [f"  note: {cut}"]


@pytest.mark.parametrize("count", [1, examples.VALUES, examples.VALUES + 1])
def test_of_many_numbers_of_a_row_the_first_are_shown(count: int) -> None:
    shown = ", ".join(map(str, range(min(count, examples.VALUES)))) + ", …" * (count > examples.VALUES)
    assert list(rows._value("x", np.arange(count, dtype=np.float32), colours=False)) == [f"  x: {shown}"]


@pytest.mark.parametrize("count", [1, comparison.MOST, comparison.MOST + 1, comparison.MOST + 30])
def test_of_many_differences_the_first_are_shown_in_the_terminal(count: int) -> None:
    lines = [str(number) for number in range(count)]
    title, *shown = comparison._part("config", lines)
    more = count - comparison.MOST
    expected = [f"  {line}" for line in lines[: comparison.MOST]]
    assert title == "config:" and shown[: comparison.MOST] == expected
    assert shown[comparison.MOST :] == [f"  and {more} more (--json and --html have all)"] * (more > 0)


@pytest.mark.parametrize("count", [1, summary.SAMPLE_LINES, summary.SAMPLE_LINES + 1])
def test_of_a_long_sample_the_first_lines_are_shown_in_their_width(count: int) -> None:
    text = "\n".join(f"{number:02d}" + "x" * 90 for number in range(count))
    lines = list(summary._sample(Sample("", text), width=80))
    shown = [line.rpartition("│ ")[2] for line in lines[: summary.SAMPLE_LINES]]
    assert shown == [f"{number:02d}" + "x" * 64 for number in range(min(count, summary.SAMPLE_LINES))]
    assert lines[summary.SAMPLE_LINES :] == ["│ …"] * (count > summary.SAMPLE_LINES)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_of_many_values_and_shapes_three_are_shown(count: int) -> None:
    values = [f"v{number}" for number in range(count)]
    shown = ", ".join(values[:3])
    assert columns.middle({"histogram": {"values": values}}) == shown + ", …" * (count > 3)
    shapes = dict.fromkeys((f"{number}x9" for number in range(count)), 1)
    first = ", ".join(f"{number} x 9" for number in range(min(count, 3)))
    assert data._shapes(shapes) == first + f" and {count - 3} more" * (count > 3)


@pytest.mark.parametrize("count", [data.CLASSES, data.CLASSES + 1, data.CLASSES + 9])
def test_of_many_classes_of_the_data_the_most_frequent_are_shown(count: int) -> None:
    sizes = shuffled(count)
    rows, left_out = data._balance([{"classes": {f"c{size}": size for size in sizes}}])
    largest = [f"c{size}" for size in sorted(sizes, reverse=True)[: data.CLASSES]]
    assert [name for name, _ in rows] == (largest if count > data.CLASSES else [f"c{size}" for size in sizes])
    assert left_out == count - data.CLASSES


@pytest.mark.parametrize("count", [data.LISTED, data.LISTED + 1])
def test_of_many_examples_that_are_left_out_the_first_are_listed(count: int) -> None:
    rows: Any = [(str(number), "why", "where") for number in range(count)]
    assert [(shown, first) for _, shown, first in data._left_out({"skipped": rows})] == [(count, rows[: data.LISTED])]
