"""Identical content goes into one split, is counted, and named where its labels differ; a growing source moves none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.artifacts import Artifact, Outcome, Records
from tasks.processes.workbench import Workbench
from tasks.records.assignment import Assignment
from tasks.records.config import RecordsConfig
from tasks.records.conversion import build, convert
from tasks.records.reading import RecordsReader
from tasks.sources.features import Feature
from tasks.sources.hashes import digests
from tasks.sources.kinds.folders import ImageFolderSource
from tasks.view.words import describe
from tests.support.raw_data import png

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def splits(rows: list[str], groups: list[str] | None = None) -> list[str]:
    """The split of each row, given what it says."""
    config = RecordsConfig(splits=SHARES, split_seed=3)
    writer = {"writer": Feature("category", "string", role="group")} if groups else {}
    raw = {"writer": pa.array(groups or [""] * len(rows))}
    assignment = Assignment(config, writer, ())
    numbers, _ = assignment.numbers(pa.table(raw), raw, digests([row.encode() for row in rows])[:, 0], None, {})
    return [assignment.names[number] for number in numbers]


def test_groups_decide_where_they_are_given() -> None:
    rows = [f"row {number}" for number in range(50)]
    assert len(set(splits(rows))) == 3
    groups = [f"writer{number % 9}" for number in range(50)]
    homes = set(zip(groups, splits(rows, groups), strict=True))
    assert len(homes) == 9 and len({home for _, home in homes}) > 1


def test_shares_are_met() -> None:
    found = Counter(splits([str(number) for number in range(20_000)]))
    assert {name: round(count / 20_000, 2) for name, count in found.items()} == pytest.approx(SHARES, abs=0.011)


@pytest.fixture
def source(rows_source: Callable) -> Callable:
    """Rows whose content is their payload: 120 of them, 30 of which stand twice; two pairs have two labels."""

    rows = {f"row/{number:03d}": (png(number % 90), number % 90 % 2) for number in range(120)}
    rows["row/095"] = (png(5), 0)
    rows["row/100"] = (png(10), 1)
    return lambda **changed: rows_source(rows | changed)


def converted(bench: Workbench, source: object, publish: Callable, **config: object) -> tuple[Outcome, Artifact]:
    outcome = convert(bench, "rows", source, RecordsConfig(splits=SHARES, split_seed=3, **config))  # type: ignore[arg-type]
    return outcome, publish(Records, bench, outcome)


def test_copies_are_kept_in_one_split_counted_and_named(bench: Workbench, source: Callable, publish: Callable) -> None:
    outcome, made = converted(bench, source(), publish)
    assert (outcome.counts["examples"], outcome.counts["duplicates"]) == (120, 30)
    assert outcome.statistics["duplicates"] == {
        "handling": "group",
        "contents": 30,
        "examples": 30,
        "across_splits": 0,
        "label_conflicts": 2,
        "conflicts": [
            {"labels": ["class1", "class0"], "keys": ["row/005", "row/095"]},
            {"labels": ["class0", "class1"], "keys": ["row/010", "row/100"]},
        ],
    }
    assert outcome.statistics["metrics"]["convert/duplicates"] == 30
    assert outcome.statistics["metrics"]["convert/label_conflicts"] == 2
    assert describe(made).endswith("30 copies kept in one split")
    reader = RecordsReader(made.path)
    homes: dict[bytes, set[str]] = {}
    for split, count in reader.counts.items():
        for row in range(count):
            homes.setdefault(bytes(reader.example(split, row)["image"][0]), set()).add(split)
    assert all(len(home) == 1 for home in homes.values())


def test_dropped_copies_leave_the_first_by_key(bench: Workbench, source: Callable, publish: Callable) -> None:
    outcome, made = converted(bench, source(), publish, duplicates="drop")
    assert (outcome.counts["examples"], outcome.counts["duplicates"]) == (90, 30)
    assert outcome.statistics["duplicates"]["label_conflicts"] == 2, "a dropped label is a label that disagrees"
    reader = RecordsReader(made.path)
    keys = {reader.key(split, row) for split, count in reader.counts.items() for row in range(count)}
    assert keys == {f"row/{number:03d}" for number in range(90)}


def test_what_is_read_is_what_is_counted(bench: Workbench, source: Callable, publish: Callable) -> None:
    """Also where a copy is broken: read = examples + quarantined + filtered."""
    broken = {"row/003": (b"no image", 1), "row/093": (b"no image", 1)}
    outcome, _ = converted(bench, source(**broken), publish, duplicates="drop", bad_budget=2)
    counts = outcome.counts
    assert (counts["quarantined"], counts["filtered"], counts["read"]) == (2, counts["duplicates"], 120)
    assert counts["examples"] + counts["quarantined"] + counts["filtered"] == 120


def test_kept_copies_stay_in_their_own_splits_and_are_counted(
    bench: Workbench, source: Callable, publish: Callable
) -> None:
    """Those with another label, that is: rows that are equal as a whole have one hash."""
    changed = {f"row/{number:03d}": (png(number % 90), 1 - number % 90 % 2) for number in range(90, 120)}
    outcome, _ = converted(bench, source(**changed), publish, duplicates="keep")
    assert outcome.counts["examples"] == 120
    assert outcome.statistics["duplicates"]["across_splits"] > 5
    again, _ = converted(bench, source(), publish, duplicates="keep")
    assert again.statistics["duplicates"]["across_splits"] <= again.statistics["duplicates"]["label_conflicts"] == 2


def test_a_shard_is_made_again_where_a_copy_comes_in_another_shard(
    bench: Workbench, benches: Callable, source: Callable
) -> None:
    """An adopted shard would not know of the copy."""
    config = RecordsConfig(splits=SHARES, split_seed=3, shards=8)
    convert(bench, "rows", source(), config)
    grown = source(**{"row/200": (png(40), 1)})
    again = convert(bench, "rows", grown, config)
    assert again == convert(benches("fresh"), "rows", grown, config)
    assert again.counts["duplicates"] == 31


def test_an_image_under_two_classes_is_one_content(tmp_path: Path, bench: Workbench) -> None:
    for folder in ("cat", "dog"):
        (tmp_path / folder).mkdir()
        for number in range(30):
            (tmp_path / folder / f"{number:02d}.png").write_bytes(png(number))
    outcome = build(bench, ImageFolderSource(path=str(tmp_path)), RecordsConfig(splits=SHARES))
    duplicates = outcome.statistics["duplicates"]
    assert (duplicates["contents"], duplicates["label_conflicts"]) == (30, 30)
    assert duplicates["conflicts"][0] == {"labels": ["cat", "dog"], "keys": ["cat/00.png", "dog/00.png"]}


def test_memory_is_bounded_by_parts_of_the_hash_space(
    bench: Workbench, source: Callable, publish: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = converted(bench, source(), publish)
    monkeypatch.setattr("tasks.records.duplicates.PART", 7)
    again, _ = converted(bench, source(), publish)
    assert again.statistics["duplicates"] == whole.statistics["duplicates"]
