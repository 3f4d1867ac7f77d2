"""`millrace init` on folders of images and sounds in further forms that devices write."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from tasks.errors import Refused
from tasks.guess import guess_source
from tasks.sources.kinds.folders import ImageFolderSource
from tests.support.rows import everything


@pytest.mark.parametrize("form", ["MP3", "OGG"])
def test_sounds(tmp_path: Path, form: str) -> None:
    for number in range(20):
        path = tmp_path / "tones" / "xy"[number % 2] / f"{number}.{form.lower()}"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.sin(np.arange(4000) * (0.05 + number / 100)), 8000, format=form)
    guess = guess_source(tmp_path / "tones")
    assert (guess.source["kind"], guess.counts) == ("audio_folder", {"x": 10, "y": 10})


@pytest.mark.parametrize(
    ("kind", "form"), [("uint8", "PNG"), ("uint16", "TIFF"), ("float32", "TIFF")], ids=("8 bits", "16 bits", "floats")
)
def test_a_tiff_is_kept_where_a_png_would_lose_levels(tmp_path: Path, kind: str, form: str) -> None:
    pixels = np.arange(64).reshape(8, 8).astype(kind)
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.fromarray(pixels).save(tmp_path / name / "0.TIF")
    opened = ImageFolderSource(path=str(tmp_path)).open()
    opened.fingerprint()
    with Image.open(io.BytesIO(everything(opened).columns["image"][0])) as image:
        assert image.format == form
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_a_class_that_a_split_lacks_is_said(tmp_path: Path) -> None:
    for number in range(40):
        split = "test" if number % 4 == 0 else "train"
        name = "abc"[number % 3]
        if (split, name) in (("test", "a"), ("train", "c")):
            continue
        path = tmp_path / "holes" / split / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(path)
    said = guess_source(tmp_path / "holes").said
    assert "a: not in test, so that nothing is measured of it there" in said
    assert "c: not in train, so that no model learns it" in said


def test_copies_are_named_where_they_leave_too_few_examples(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / "tones" / "xy"[number % 2] / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.sin(np.arange(4000) * (0.05 + number % 2 / 5)), 8000)
    with pytest.raises(Refused, match="20 examples, 2 of different content; train, validation and test need one each"):
        guess_source(tmp_path / "tones")
