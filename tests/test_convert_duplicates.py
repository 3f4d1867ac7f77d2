"""Identical content goes into one split, is counted, and named where its labels differ; a growing source moves none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import Artifact, Outcome, Records
from tasks.config import ImageFolderSource, RecordsConfig
from tasks.data.assignment import Assignment
from tasks.data.features import Feature
from tasks.data.reading import RecordsReader
from tasks.data.records import build, convert
from tasks.data.split import Handling, digests
from tasks.display.words import describe
from tasks.processes.workbench import Workbench
from tests.support.raw_data import png

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def splits(
    rows: Mapping[str, str], duplicates: Handling = "group", groups: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The split of each key, given the content of each."""
    config = RecordsConfig(splits=SHARES, split_seed=3, duplicates=duplicates)
    writer = {"writer": Feature("category", "string", role="group")} if groups else {}
    table = pa.table({"writer": [(groups or {}).get(key, "") for key in rows]})
    contents, keys = (digests([text.encode() for text in texts])[:, 0] for texts in (rows.values(), rows))
    assignment = Assignment(config, writer, ())
    numbers = assignment.numbers(table, contents, keys, None, {})
    return {key: assignment.names[number] for key, number in zip(rows, numbers, strict=True)}


contents = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@given(contents, contents, st.sampled_from(["group", "drop"]))
def test_copies_stand_in_one_split_and_growth_moves_none(old: list[int], new: list[int], handling: Handling) -> None:
    """Whether what comes is new, a copy of what stood alone, or earlier by key."""
    rows = {f"m{number}": f"{content:x}" for number, content in enumerate(old)}
    more = {f"{'az'[number % 2]}{number}": f"{content:x}" for number, content in enumerate(new)}
    before, after = splits(rows, handling), splits(rows | more, handling)
    assert {key: after[key] for key in before} == before
    homes: dict[str, set[str]] = {}
    for key, content in (rows | more).items():
        homes.setdefault(content, set()).add(after[key])
    assert all(len(home) == 1 for home in homes.values())


def test_kept_copies_and_groups_are_split_by_key_and_group() -> None:
    rows = {f"k{number}": "same" for number in range(50)}
    assert len(set(splits(rows, "keep").values())) == 3
    groups = {key: f"writer{number % 9}" for number, key in enumerate(rows)}
    homes = {(groups[key], split) for key, split in splits(rows, groups=groups).items()}
    assert len(homes) == 9 and len({home for _, home in homes}) > 1, "source.group decides where it is given"


def test_shares_are_met() -> None:
    found = Counter(splits({str(number): str(number) for number in range(20_000)}).values())
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


def test_kept_copies_are_counted_across_splits(bench: Workbench, source: Callable, publish: Callable) -> None:
    outcome, _ = converted(bench, source(), publish, duplicates="keep")
    assert outcome.counts["examples"] == 120
    assert outcome.statistics["duplicates"]["across_splits"] > 5


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
    monkeypatch.setattr("tasks.data.parts.PART", 7)
    again, _ = converted(bench, source(), publish)
    assert again.statistics["duplicates"] == whole.statistics["duplicates"]
