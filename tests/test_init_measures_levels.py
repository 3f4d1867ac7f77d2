"""`millrace init` measures the grey levels of deep images; a snapshot of images of one level is a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from flows.preset_text import preset_of
from tasks.artifacts import Records
from tasks.config.compose import load
from tasks.guess import guess_source
from tasks.processes.workbench import Workbench
from tasks.reader import Reader
from tasks.records import conversion
from tasks.snapshots import work as snapshots


def scans(folder: Path, suffix: str = ".png", kind: str = "uint16", low: int = 300, high: int = 480) -> Path:
    """Images of two classes, whose levels are few of many."""
    for number in range(24):
        levels = np.linspace(low + number % 2, high, 64).reshape(8, 8).astype(kind)
        path = folder / "ab"[number % 2] / f"{number}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(levels + np.array(number, kind)).save(path)
    return folder


@pytest.mark.parametrize(("suffix", "kind"), [(".png", "uint16"), (".tif", "float32")])
def test_a_range_is_chosen_with_the_reason(tmp_path: Path, suffix: str, kind: str) -> None:
    text = preset_of(guess_source(scans(tmp_path / "scans", suffix, kind)), Path("scans.yaml"))
    assert yaml.safe_load(text)["snapshot"]["range"] == "auto"
    assert "of which full would make 1 of 256\n" in text


@pytest.mark.parametrize(("kind", "low", "high"), [("uint16", 0, 65_000), ("uint8", 0, 200)])
def test_all_levels_are_taken_where_many_of_them_are_kept(tmp_path: Path, kind: str, low: int, high: int) -> None:
    guess = guess_source(scans(tmp_path / "scans", kind=kind, low=low, high=high))
    assert "range" not in yaml.safe_load(preset_of(guess, Path("scans.yaml")))["snapshot"]


def test_the_range_reaches_the_pixels_and_the_export_and_one_level_alone_is_a_warning(
    tmp_path: Path, benches: Callable[[str], Workbench], publish: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    guess = guess_source(scans(tmp_path / "scans"))
    (tmp_path / "scans.yaml").write_text(preset_of(guess, Path("scans.yaml")))
    config = load(tmp_path / "scans.yaml")
    bench = benches("records")
    made = publish(Records, bench, conversion.build(bench, config.source, config.records))

    def pixels_of(levels: str) -> tuple[np.ndarray, Workbench]:
        where = benches(levels)
        snapshots.build(where, made, config.snapshot.model_copy(update={"range": levels}))
        [path] = (where.staging.root / "train").glob("image-*.npy")
        return np.load(path), where

    with caplog.at_level(logging.WARNING):
        pixels, chosen = pixels_of("auto")
        assert not caplog.records
        full, _ = pixels_of("full")
    assert (pixels.min(), pixels.max(), np.unique(full).tolist()) == (0, 255, [1])
    assert "image: the pixels of 24 of 24 images are all equal" in caplog.text
    scan = (tmp_path / "scans/a/0.png").read_bytes()
    [served] = Reader.open(chosen.staging.root / "transform")([{"image": scan}])["image"]
    assert any((served == each).all() for split in ("train", "validation", "test") for each in _images(chosen, split))


def _images(bench: Workbench, split: str) -> np.ndarray:
    [path] = (bench.staging.root / split).glob("image-*.npy")
    return np.load(path)
