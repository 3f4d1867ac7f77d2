"""Kinds of files in a folder of raw data: images, sounds, files of rows, and texts by suffix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tasks.config.sources import TextFilesSource
from tasks.errors import Refused
from tasks.guess.samples import ENDINGS, kind_of_file
from tasks.sources import audio_folder
from tasks.sources.audio_folder import is_sound
from tasks.sources.image_folder import SUFFIXES, is_image
from tasks.sources.trees import Tree

IMAGES, SOUNDS = "images", "sounds"
COMPARABLE = 0.25
"""A kind of files with this share of the files of the most frequent kind may be what the user wants."""
NO_TEXT = {".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml", ".toml", ".ini", ".svg", ".log", ".lock"}
"""Suffixes of files that are UTF-8 but not texts to learn from."""

EXCLUDED = set(TextFilesSource.model_fields["exclude"].default)
SAMPLED_FILES, SAMPLED_BYTES = 8, 1 << 16
"""Number of files of a suffix, and bytes of each, that decide whether they are text."""


def kinds_of(names: list[str], tree: Tree, rows: bool = True) -> dict[str, list[str]]:
    """Return the files that can be read, by kind, the most frequent first: images, sounds, and texts by suffix.

    Args:
        rows: whether files of rows are among them.
    """
    kinds: dict[str, list[str]] = {}
    others = []
    for name in names:
        kind = IMAGES if is_image(name) else SOUNDS if is_sound(name) else None
        if kind is None and not EXCLUDED & set(name.split("/")):
            others.append(name)
            kind = kind_of_file(name) if rows else None
        if kind is not None:
            kinds.setdefault(kind, []).append(name)
    kinds |= _text_files(others, tree)
    return dict(sorted(kinds.items(), key=lambda item: -len(item[1])))


def choose_kind(path: Path, kinds: dict[str, list[str]], suffix: str | None) -> str:
    """Return the kind of files that the source reads; raise `Refused` where several are about as frequent."""
    first, *others = kinds
    if suffix is not None:
        kind = IMAGES if is_image(suffix) else SOUNDS if is_sound(suffix) else kind_of_file(suffix) or suffix
        if kind not in kinds:
            rule = f"it is the suffix of files that Millrace can read in {path}"
            raise Refused("--suffix", suffix, rule, f"choose one of {', '.join(kinds)}")
        return kind
    if comparable := [kind for kind in others if len(kinds[kind]) >= COMPARABLE * len(kinds[first])]:
        counts = ", ".join(f"{len(kinds[kind]):,} {kind}" for kind in (first, *comparable))
        endings = {
            IMAGES: SUFFIXES[0],
            SOUNDS: audio_folder.SUFFIXES[0],
            **{kind: ends[0] for kind, ends in ENDINGS.items()},
        }
        remedy = "add " + ", or ".join(f"--suffix {endings.get(kind, kind)}" for kind in (first, *comparable))
        raise Refused("PATH", f"{path}: {counts}", "a preset reads one kind of files", remedy)
    return first


def by_suffix(names: Iterable[str]) -> dict[str, int]:
    """Return the number of files of each suffix, the most frequent first."""
    return dict(Counter(suffix_of(name) or "without suffix" for name in names).most_common())


def _text_files(names: list[str], tree: Tree) -> dict[str, list[str]]:
    """Return the files of each suffix that is text, the most frequent first."""
    of_suffix: dict[str, list[str]] = {}
    for suffix, _ in Counter(map(suffix_of, names)).most_common():
        same_suffix = [name for name in names if suffix_of(name) == suffix]
        if suffix and suffix not in NO_TEXT:
            sampled = [is_text(tree.head(name, SAMPLED_BYTES)) for name in same_suffix[:SAMPLED_FILES]]
            if 2 * sum(sampled) > len(sampled):  # a few may have another encoding
                of_suffix[suffix] = same_suffix
    return of_suffix


def is_text(head: bytes) -> bool:
    """Return whether the first `SAMPLED_BYTES` of a file, or fewer, are UTF-8."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # otherwise the sample ends within a character
            return False
    return b"\0" not in head


def suffix_of(name: str) -> str:
    """Return the suffix of a file name, with its dot; empty without one."""
    return Path(name).suffix
