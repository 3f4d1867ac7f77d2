"""Folders of sounds: their bytes are kept, a broken one is named, and folders are classes and splits."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tasks.artifacts import Records
from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.sources.kinds.folders import AudioFolderSource
from tests.support.rows import everything


def sound(number: int, form: str = "WAV") -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.sin(np.arange(800) * (number + 1) / 50), 8000, format=form)
    return buffer.getvalue()


def source(folder: Path, **more: Any) -> AudioFolderSource:
    return AudioFolderSource.model_validate({"path": str(folder), **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 sounds of two classes in two splits."""
    for number in range(60):
        form = "flac" if number % 5 == 0 else "WAV"
        path = tmp_path / f"sounds/{'test' if number % 4 == 3 else 'train'}/{'cd'[number % 2]}at/{number:02d}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sound(number, form))
    (tmp_path / "sounds/train/cat/notes.txt").write_text("no sound")
    return tmp_path / "sounds"


def test_folders_are_classes_and_splits(folder: Path, bench: Workbench, publish: Callable) -> None:
    config = RecordsConfig.model_validate(
        {"splits": "official", "official": {"train": ["train"], "test": ["test"]}, "validation_share": 0.2}
    )
    made = publish(Records, bench, conversion.build(bench, source(folder, split_folders=True), config))
    reader = RecordsReader(made.path)
    assert reader.features["label"].classes == ("cat", "dat")
    found = {e["key"][0].decode(): (s, e["audio"][0], e["label"][0]) for s in reader.counts for e in reader.iterate(s)}
    assert len(found) == 60
    for key, (split, content, label) in found.items():
        assert content == (folder / key).read_bytes()
        assert key.split("/")[0] == ("test" if split == "test" else "train")
        assert key.split("/")[1] == ("cat", "dat")[label]


def test_without_split_folders_the_first_folder_is_the_class(folder: Path) -> None:
    opened = source(folder / "train").open()
    assert (opened.features["label"].classes, opened.official) == (("cat", "dat"), ())
    read = everything(opened_and_listed(opened))
    assert set(read.columns["label"]) == {"cat", "dat"} and len(read.keys) == 45


def opened_and_listed(opened: Any) -> Any:
    opened.fingerprint()
    return opened


@pytest.mark.parametrize("broken", ["cut", "text", "empty"])
def test_a_broken_sound_is_named(folder: Path, bench: Workbench, broken: str) -> None:
    path = folder / "train/cat/00.flac"
    path.write_bytes({"cut": path.read_bytes()[:-700], "text": b"no sound", "empty": b""}[broken])
    with pytest.raises(Failed, match=r"train/cat/00.flac \(audio: "):
        conversion.build(bench, source(folder), RecordsConfig())


def test_a_sound_that_changes_ends_the_run(folder: Path) -> None:
    opened = opened_and_listed(source(folder).open())
    (folder / "train/cat/00.flac").write_bytes(sound(99, "flac"))
    with pytest.raises(Failed, match="other content than was listed"):
        everything(opened)


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="no file of .* matches"):
        source(tmp_path / "empty").open()
    (folder / "lost.wav").write_bytes(sound(1))
    with pytest.raises(Refused, match="lost.wav; a sound is in the folder of its class"):
        source(folder).open()
    (folder / "lost.wav").unlink()
    (folder / "train/cat/gone.wav").symlink_to("/nowhere")
    with pytest.raises(Refused, match="gone.wav: No such file"):
        source(folder).open()
