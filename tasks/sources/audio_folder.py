"""A folder of sounds for each class, perhaps in a folder for each split: the bytes of WAV, FLAC, Ogg and MP3 files."""

from __future__ import annotations

from tasks.sources.class_folders import ClassFolders
from tasks.sources.features import DTYPES, Feature

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")


def is_sound(name: str) -> bool:
    """Return whether a file name is that of a sound."""
    return name.lower().endswith(SUFFIXES)


class AudioFolder(ClassFolders):
    """Has the features `audio`, the bytes of a file as it is, and `label`."""

    name, noun = "audio", "a sound"
    feature = Feature("audio", DTYPES["audio"])
    accepts = staticmethod(is_sound)
