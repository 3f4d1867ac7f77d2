"""A table whose cells name files beside it, by path or without folder or ending, is found from itself and from the
folder; `predict` reads its rows as the snapshot does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from flows.preset_text import preset_of
from tasks.artifacts import Records
from tasks.config.base import identity
from tasks.config.compose import load
from tasks.errors import Refused
from tasks.guess import Choices, guess_source
from tasks.processes.workbench import Workbench
from tasks.reader import Reader
from tasks.records import conversion
from tasks.snapshots import work as snapshots


def pictures(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / name)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """As the Hub has image folders."""
    names = [f"{number:03d}.png" for number in range(40)]
    pictures(tmp_path / "hub/images", names)
    rows = (f"images/{name},{('cat', 'dog')[number % 2]}" for number, name in enumerate(names))
    (tmp_path / "hub/metadata.csv").write_text("\n".join(["file_name,label", *rows]))
    return tmp_path / "hub"


@pytest.fixture
def plants(tmp_path: Path) -> Path:
    """As competitions have them: without folder and ending, with a column of 0 and 1 for each label."""
    pictures(tmp_path / "plants/train", [f"p{number}.jpg" for number in range(40)])
    rows = (f"p{number},{number % 2},{number // 2 % 2},{number // 4 % 2}" for number in range(40))
    (tmp_path / "plants/train.csv").write_text("\n".join(["image_id,healthy,rust,scab", *rows]))
    return tmp_path / "plants"


@pytest.mark.parametrize("start", ["", "metadata.csv"])
def test_paths_of_the_hub_are_images_with_labels(hub: Path, start: str) -> None:
    guess = guess_source(hub / start)
    assert guess.what == "images" and guess.counts == {"cat": 20, "dog": 20}
    assert guess.columns.types == {"file_name": "image", "label": "category"}
    assert guess.columns.key is None and "files" not in guess.source
    assert "file_name: image, files beside the table" in guess.said
    assert not guess.left_out


@pytest.mark.parametrize("start", ["", "train.csv"])
def test_cells_without_folder_and_ending_are_joined_and_columns_of_0_and_1_are_labels(
    plants: Path, start: str, benches: Callable[[str], Workbench], publish: Callable
) -> None:
    guess = guess_source(plants / start)
    assert guess.source["files"] == {"image_id": "train/{}.jpg"}
    assert guess.columns.targets == ("healthy", "rust", "scab")
    path = plants.parent / "plants.yaml"
    path.write_text(preset_of(guess, path))
    assert yaml.safe_load(path.read_text())["model"]["task"] == "multilabel"
    config = load(path)
    bench = benches("records")
    made = publish(Records, bench, conversion.build(bench, config.source, config.records))
    manifest = json.loads((made.path / "manifest.json").read_bytes())
    manifest["inputs"] = {"config": {"source": identity(config.source)}}  # as a run has it
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    where = benches("snapshot")
    assert sum(snapshots.build(where, made, config.snapshot).counts.values()) == 40
    served = Reader.open(where.staging.root / "transform")([{"image_id": "p7"}], plants)
    with Image.open(plants / "train/p7.jpg") as image:
        np.testing.assert_array_equal(served["image_id"][0], np.asarray(image))


def test_what_has_no_file_and_what_has_no_row_is_named_and_counted(plants: Path) -> None:
    (plants / "train/p3.jpg").rename(plants / "train/other.jpg")
    said = guess_source(plants).said
    assert "1 rows have no file and are bad: correct them, or raise records.bad_budget (p3)" in said
    assert "1 files are in no row and are left out (train/other.jpg)" in said


def test_a_chosen_label_or_key_is_taken(plants: Path) -> None:
    guess = guess_source(plants / "train.csv", Choices(label="rust"))
    assert (guess.columns.label, guess.columns.targets, guess.task) == ("rust", (), "classification")
    assert "files" not in guess_source(plants / "train.csv", Choices(label="rust", key="image_id")).source


def test_a_folder_without_such_a_table_is_refused(plants: Path) -> None:
    (plants / "train.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Refused, match="images in no class folder, but in those of splits: train"):
        guess_source(plants)


def test_the_folder_of_files_is_refused_with_the_table_above_it(plants: Path) -> None:
    with pytest.raises(Refused, match="40 images in no class folder") as refused:
        guess_source(plants / "train")
    assert refused.value.remedy == f"name it: millrace init {plants / 'train.csv'}"
    (plants / "train.csv").unlink()
    with pytest.raises(Refused, match="bring it into one of these forms"):
        guess_source(plants / "train")


def test_numbers_that_are_the_names_of_some_files_by_chance_are_numbers(tmp_path: Path) -> None:
    pictures(tmp_path / "else/odd", [f"{2 * number + 1}.png" for number in range(20)])
    (tmp_path / "t.csv").write_text("size,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(12)))
    guess = guess_source(tmp_path / "t.csv")
    assert "files" not in guess.source and guess.columns.types["size"] != "image"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"rust": "{}.jpg"}, "source.files.rust: number; is for columns of type image or audio"),
        ({"c": "{}.jpg"}, "source.files.c: no such column; is for columns of type image or audio"),
        ({"image_id": "x.jpg"}, "source.files.image_id: x.jpg; must be a path with {} in place of the cell"),
    ],
)
def test_a_pattern_is_of_a_column_of_files(plants: Path, files: dict[str, str], says: str) -> None:
    path = plants / "plants.yaml"
    preset = yaml.safe_load(preset_of(guess_source(plants), path))
    preset["source"]["files"] = files
    path.write_text(yaml.safe_dump(preset))
    with pytest.raises(Refused, match=f"^{re.escape(says)}"):
        load(path)
