"""Inspection of raw data for `millrace init`: which source it is, its size, and a first config for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tasks.data.guess import tfds
from tasks.data.guess.file_kinds import IMAGES, NO_TEXT, SOUNDS, by_suffix, choose_kind, is_text, kinds_of, suffix_of
from tasks.data.guess.folders import Read, guess_images, guess_sounds, guess_texts, split_command
from tasks.data.guess.found import Choices, Guess, name_of, refuse
from tasks.data.guess.samples import DATABASES, ENDINGS, kind_of_file, sample_database, sample_files
from tasks.data.guess.tables import guess_table
from tasks.data.sources.files import find
from tasks.data.sources.image_folder import is_image
from tasks.data.sources.tfds_schema import INFO
from tasks.errors import Refused

__all__ = ["Choices", "Guess", "guess_source"]

CLASS_FOLDERS: dict[str, Callable[[Path, list[str], Read], Guess]] = {IMAGES: guess_images, SOUNDS: guess_sounds}
ARCHIVES = {".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"}


def guess_source(path: str | Path, choices: Choices = Choices()) -> Guess:
    """Guess the source of a path, of the URL of a database, or of the name of a prepared data set.

    Raises:
        Refused: it is not a supported source, has several, or cannot be read.
    """
    text = str(path)
    try:
        if "://" in text:
            return guess_table(sample_database(text, choices.table, name_of(text)), choices)
        if not Path(path).exists() and (name := tfds.named(text)) is not None:
            return tfds.guess_name(name, choices)
        return _guess(Path(path), choices)
    except OSError as error:
        saw = f"{error.filename or path}: {error.strerror}"
        raise Refused("PATH", saw, "init reads what it looks at", "fix its permissions or name another") from None


def _guess(path: Path, choices: Choices) -> Guess:
    if not path.exists():
        raise Refused("PATH", path, "no such file, folder or prepared data set", "correct it")
    root = (path.parent if path.name == INFO else path).resolve()
    if not root.is_dir():
        return _guess_file(path, root, choices)
    names = _files(root)
    if choices.suffix is None and (prepared := tfds.find_prepared(root)):
        outside = [name for name in names if not (root / name).is_relative_to(prepared)]
        return replace(tfds.guess_folder(prepared, choices), left_out=by_suffix(outside))
    kinds = kinds_of(root, names)
    if not kinds:
        seen = ", ".join(f"{count} {suffix}" for suffix, count in Counter(map(suffix_of, names)).most_common(5))
        raise refuse(path, seen or "no files")
    kind = choose_kind(path, kinds, choices.suffix)
    if kind in ENDINGS:
        guess = guess_table(sample_files(root, kind, name_of(root)), choices)
    elif kind in CLASS_FOLDERS:
        guess = CLASS_FOLDERS[kind](root, kinds[kind], lambda name: (root / name).read_bytes())
    else:
        sizes = [(root / name).stat().st_size for name in kinds[kind]]
        guess = guess_texts(root, kinds[kind], sizes, len(names))
    return replace(guess, left_out=by_suffix(set(names) - set(kinds[kind])))


def _guess_file(path: Path, root: Path, choices: Choices) -> Guess:
    if path.suffix.lower() in DATABASES:
        return guess_table(sample_database(f"sqlite:///{root}", choices.table, name_of(path.stem)), choices)
    if (path.parent / INFO).is_file():
        rule = "a data set is taken whole"
        raise Refused("PATH", f"{path}: a file of a prepared data set", rule, f"name its folder, {path.parent}")
    if (kind := kind_of_file(path.name)) is not None:
        return guess_table(sample_files(root, kind, name_of(path.name.partition(".")[0])), choices)
    raise _refuse_file(path)


def _files(root: Path) -> list[str]:
    try:
        return find(root, "**/*", ("__pycache__", "site-packages", "dist-packages"))
    except Refused as refused:
        if "matches" in str(refused.saw):
            return []
        raise


def _refuse_file(path: Path) -> Refused:
    """Return the error for a single file, which is not a source."""
    if not path.is_file():
        return refuse(path, "neither a file nor a folder")
    if path.suffix.lower() in ARCHIVES:
        return Refused("PATH", f"{path}: packed", "init looks at files as they are", "unpack it and name the folder")
    if is_image(path.name):
        rule = "a classifier learns from a folder of images for each class"
        return Refused("PATH", f"{path}: one image", rule, "name the folder that holds the class folders")
    if path.suffix not in NO_TEXT and path.stat().st_size and is_text(path):
        rule = "texts are split by file, so there must be several"
        return Refused("PATH", f"{path}: one text", rule, split_command(path.name))
    return refuse(path, "a single file")
