"""Identical content goes into one split, is counted, and named where its labels differ; a growing source moves none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import Artifact, Outcome, Records
from tasks.config import ImageFolderSource, RecordsConfig, SklearnSource
from tasks.data.reading import RecordsReader
from tasks.data.records import build, convert
from tasks.data.sources import Item, open_source
from tasks.data.split import Handling, plan
from tasks.display.words import describe
from tasks.processes.workbench import Workbench
from tests.test_convert_faults import png

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def splits(items: list[Item], duplicates: Handling = "group") -> dict[str, str]:
    """The split of each item, by key."""
    return {item.key: shard.split for shard in plan(items, SHARES, 3, 2, duplicates) for item in shard.items}


contents = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@given(contents, contents, st.sampled_from(["group", "drop"]))
def test_copies_stand_in_one_split_and_growth_moves_none(old: list[int], new: list[int], handling: Handling) -> None:
    """Whether what comes is new, a copy of what stood alone, or earlier by key."""
    items = [Item(f"m{number}", f"{content:x}") for number, content in enumerate(old)]
    more = [Item(f"{'az'[number % 2]}{number}", f"{content:x}") for number, content in enumerate(new)]
    before, after = splits(items, handling), splits([*items, *more], handling)
    assert {key: after[key] for key in before} == before
    homes: dict[str, set[str]] = {}
    for item in (*items, *more):
        homes.setdefault(item.content, set()).add(after[item.key])
    assert all(len(home) == 1 for home in homes.values())


def test_kept_copies_and_groups_are_split_by_key_and_group() -> None:
    items = [Item(f"k{number}", "same", group) for number in range(50) for group in (None,)]
    assert len(set(splits(items, "keep").values())) == 3
    grouped = [Item(f"k{number}", "same", f"writer{number % 9}") for number in range(50)]
    homes = {(item.group, splits(grouped)[item.key]) for item in grouped}
    assert len(homes) == 9 and len({home for _, home in homes}) > 1, "source.group decides where it is given"


@pytest.fixture
def source(rows_source: Callable) -> Callable:
    """Rows whose content is their payload: 120 of them, 30 of which stand twice; two pairs have two labels."""

    class Copies(rows_source):  # type: ignore[misc]
        def listing(self) -> list[Item]:
            shown = {key: hashlib.sha256(payload or b"").hexdigest() for key, (payload, _) in self.rows.items()}
            return [Item(item.key, item.sha256, item.group, shown[item.key]) for item in super().listing()]

    rows = {f"row/{number:03d}": (png(number % 90), number % 90 % 2) for number in range(120)}
    rows["row/095"] = (png(5), 0)
    rows["row/100"] = (png(10), 1)
    return lambda **changed: Copies(rows | changed)


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
    """Also where a copy is broken: read = examples + bad + duplicates."""
    broken = {"row/003": (b"no image", 1), "row/093": (b"no image", 1)}
    outcome, _ = converted(bench, source(**broken), publish, duplicates="drop", bad_budget=2)
    assert outcome.counts["bad"] == 2
    assert outcome.counts["examples"] + outcome.counts["bad"] + outcome.counts["duplicates"] == 120


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


def test_an_image_under_two_classes_is_one_content(tmp_path: Path) -> None:
    for folder in ("cat", "dog"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.png").write_bytes(png(1))
    first, second = open_source(ImageFolderSource(path=str(tmp_path))).listing()
    assert first.content == second.content


def test_the_label_of_a_digit_is_not_its_content(bench: Workbench) -> None:
    """Two rows of the digits that differ in nothing but the label would be copies; the data set has none."""
    item = open_source(SklearnSource()).listing()[0]
    assert item.unlabelled not in (None, item.sha256)
    assert "duplicates" not in build(bench, SklearnSource(), RecordsConfig()).counts
