"""Prepared data sets that are not what they seem: uint64 is stored as int64, and a test split has no labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.preset_text import preset_of
from tasks.guess import Choices, guess_source
from tasks.sources.kinds.catalogues import TfdsSource
from tests.support.rows import everything
from tests.test_source_tfrecord import example, framed


def prepared(folder: Path, features: dict[str, Any], **splits: list[dict[str, list[Any]]]) -> Path:
    """The folder of a data set as tensorflow-datasets writes it."""
    folder.mkdir()
    described = {"featuresDict": {"features": features}, "pythonClassName": "FeaturesDict"}
    (folder / "features.json").write_text(json.dumps(described))
    (folder / "kind.labels.txt").write_text("rose\naster\n")
    info = {"name": "flowers", "splits": [{"name": n, "shardLengths": [str(len(rows))]} for n, rows in splits.items()]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    for name, rows in splits.items():
        (folder / f"flowers-{name}.tfrecord-00000-of-00001").write_bytes(framed([example(**row) for row in rows]))
    return folder


def tensor(dtype: str, *shape: int) -> dict[str, Any]:
    sizes = {"dimensions": [str(size) for size in shape]} if shape else {}
    return {"pythonClassName": "tfds.Tensor", "tensor": {"shape": sizes, "dtype": dtype, "encoding": "none"}}


KIND = {"pythonClassName": "tfds.ClassLabel", "classLabel": {"numClasses": "2"}}


def test_uint64_has_no_sign(tmp_path: Path) -> None:
    large = 2**63 + 2**41
    stored = large - 2**64
    folder = prepared(
        tmp_path / "flowers",
        {"one": tensor("uint64"), "two": tensor("uint64", 2), "kind": KIND},
        train=[{"one": [stored], "two": [5, stored], "kind": [0]}, {"one": [7], "two": [1, 2], "kind": [1]}],
    )
    columns = {"one": "number", "two": "number[2]", "kind": "category"}
    opened = TfdsSource(dataset="flowers", data_dir=str(folder), columns=columns, label="kind").open()
    opened.fingerprint()
    read = everything(opened).columns
    assert (read["one"], read["two"]) == ([large, 7], [[5, large], [1, 2]])


@pytest.mark.parametrize("choices", [Choices(), Choices(label="kind")])
def test_a_split_without_labels_is_left_out_and_said(tmp_path: Path, choices: Choices) -> None:
    def rows(first: int, last: int, labelled: bool) -> list[dict[str, list[Any]]]:
        return [{"size": [float(n)], "kind": [n % 2 if labelled else -1]} for n in range(first, last)]

    folder = prepared(
        tmp_path / "flowers",
        {"size": tensor("float32"), "kind": KIND},
        train=rows(0, 60, True),
        validation=rows(60, 80, True),
        test=rows(80, 99, False),
    )
    guess = guess_source(folder, choices)
    assert guess.source["splits"] == ["train", "validation"]
    assert "test: a split that is left out, as it has no labels" in guess.said
    assert (guess.examples, guess.splits.official) == (80, {"train": ["train"], "test": ["validation"]})
    assert preset_of(guess, Path("flowers.yaml"))
