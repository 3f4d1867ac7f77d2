"""Records of digits: their content, and readers that understand them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Outcome, Records
from tasks.processes.workbench import Workbench
from tasks.records.config import RecordsConfig
from tasks.records.conversion import build
from tasks.records.reading import RecordsReader
from tasks.sources.kinds.catalogues import SklearnSource

CONFIG = RecordsConfig(splits={"train": 0.6, "validation": 0.1, "test": 0.3}, shards=2)


@pytest.fixture
def outcome(bench: Workbench) -> Outcome:
    return build(bench, SklearnSource(), CONFIG)


@pytest.fixture
def records(bench: Workbench, outcome: Outcome, publish: Callable[..., Records]) -> Records:
    return publish(Records, bench, outcome)


def rows_of_sklearn() -> Iterator[tuple[str, np.ndarray, int]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        yield (f"digits/{number:05d}", np.rint(image * 255 / 16).astype(np.uint8), int(label))


def test_every_digit_of_sklearn_is_in_exactly_one_split_pixel_for_pixel(records: Records) -> None:
    reader = RecordsReader(records.path)
    collected = {}
    for split in reader.counts:
        for example in reader.iterate(split):
            pixels = np.asarray(Image.open(io.BytesIO(example["image"][0])))
            collected[example["key"][0].decode()] = (pixels, int(example["label"][0]))
    assert sum(reader.counts.values()) == len(collected) == 1797
    for key, pixels, label in rows_of_sklearn():
        np.testing.assert_array_equal(collected[key][0], pixels)
        assert collected[key][1] == label


def test_counts_and_statistics_describe_the_splits(outcome: Outcome) -> None:
    counts = outcome.counts
    assert counts["examples"] == 1797 == counts["train"] + counts["validation"] + counts["test"]
    assert counts["quarantined"] == 0
    train = outcome.statistics["splits"]["train"]
    assert train["image"]["shapes"] == {"8x8x1": counts["train"]}
    assert sum(train["label"]["classes"].values()) == counts["train"]
    total = sum(int(pixels.sum()) for _, pixels, _ in rows_of_sklearn())
    mean = sum(
        outcome.statistics["splits"][split]["image"]["pixels"]["1"]["mean"][0] * counts[split] * 64
        for split in ("train", "validation", "test")
    )
    assert mean == pytest.approx(total)
    json.dumps(outcome.statistics, allow_nan=False)


def test_tensorflow_reads_the_same_examples(records: Records, tf: Any) -> None:
    reader = RecordsReader(records.path)
    files = sorted(str(path) for path in records.path.glob("digits-test.tfrecord-*"))
    theirs = [raw.numpy() for raw in tf.data.TFRecordDataset(files)]
    assert theirs == [reader.raw("test", index) for index in range(reader.counts["test"])]
    schema = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(theirs[0], schema)
    ours = reader.example("test", 0)
    assert parsed["image"].numpy() == ours["image"][0]
    assert parsed["label"].numpy() == ours["label"][0]


@pytest.mark.usefixtures("tf")
def test_tfds_reads_the_folder(records: Records) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(records.path))
    reader = RecordsReader(records.path)
    assert {split: builder.info.splits[split].num_examples for split in builder.info.splits} == reader.counts
    assert builder.info.features["label"].names == [str(digit) for digit in range(10)]
    dataset = builder.as_dataset(split="validation", read_config=tfds.ReadConfig(interleave_cycle_length=1))
    for index, example in enumerate(dataset):
        ours = reader.example("validation", index)
        assert example["key"].numpy() == ours["key"][0]
        assert example["image"].shape == (8, 8, 1)
        assert example["label"].numpy() == ours["label"][0]
    assert index + 1 == reader.counts["validation"]


def test_the_index_leads_to_every_frame(records: Records) -> None:
    for path in records.path.glob("*.tfrecord-*"):
        offsets = np.load(Path(records.path, "index", f"{path.name}.npy"))
        assert offsets.dtype == np.uint64
        assert offsets[0] == 0
        assert offsets[-1] == path.stat().st_size
