"""Folders of raw data: images, sounds, texts, or files of rows."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from os.path import commonpath
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import Refused
from tasks.guess.examples import few_levels, image_shape, log_mel
from tasks.guess.found import Columns, Guess, name_of, refuse
from tasks.guess.samples import ENDINGS, kind_of_file
from tasks.guess.splits import SHARES, draw_splits, keep_splits, shares_of_text
from tasks.guess.tables import SAMPLED_FILES, few_to_judge, larger_splits, worries_of_classes
from tasks.records.assignment import usual
from tasks.records.config import USUAL_NAMES
from tasks.sources.archives import Tree
from tasks.sources.features import in_order
from tasks.sources.folders import is_image, is_sound
from tasks.sources.kinds.folders import TextFilesSource

IMAGES, SOUNDS = "images", "sounds"
COMPARABLE = 0.25
"""A kind of files with this share of the files of the most frequent kind may be what the user wants."""
NO_TEXT = {".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml", ".toml", ".ini", ".svg", ".log", ".lock"}
"""Suffixes of files that are UTF-8 but not texts to learn from."""

EXCLUDED = set(TextFilesSource.model_fields["exclude"].default)
SNIFFED_FILES, SNIFFED_BYTES = 8, 1 << 16
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
        endings = [
            next(iter(by_suffix(kinds[kind]))) if kind in (IMAGES, SOUNDS) else ENDINGS.get(kind, (kind,))[0]
            for kind in (first, *comparable)
        ]
        remedy = "add " + ", or ".join(f"--suffix {ending}" for ending in endings)
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
            sampled = [is_text(tree.head(name, SNIFFED_BYTES)) for name in same_suffix[:SNIFFED_FILES]]
            if 2 * sum(sampled) > len(sampled):  # a few may have another encoding
                of_suffix[suffix] = same_suffix
    return of_suffix


def is_text(head: bytes) -> bool:
    """Return whether the first `SNIFFED_BYTES` of a file, or fewer, are UTF-8."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # otherwise the sample ends within a character
            return False
    return b"\0" not in head


def suffix_of(name: str) -> str:
    """Return the suffix of a file name, with its dot; empty without one."""
    return Path(name).suffix


TEXT_PARTS = 50
"""Number of files to split a single text into, as the error message suggests."""


def guess_images(root: Path, names: list[str], tree: Tree) -> Guess:
    """Return a classifier of the images in class folders; raises `Refused` where they are in none."""
    guess = _of_classes(root, names, "image_folder", "images")
    files = list(_some(names, tree))
    shape, sizes = image_shape(files)
    columns = replace(guess.columns, types={"image": "image", "label": "category"})
    return replace(guess, what="images", shape=shape, sizes=sizes, levels=few_levels(files), columns=columns)


def guess_sounds(root: Path, names: list[str], tree: Tree) -> Guess:
    """Return a classifier of the sounds in class folders; raises `Refused` where they are in none."""
    guess = _of_classes(root, names, "audio_folder", "sounds")
    transform, said = log_mel(_some(names, tree))
    columns = replace(guess.columns, types={"audio": "audio", "label": "category"})
    said = f"sounds of {said}: log-mel spectrograms, read by a perceptron (mlp)"
    return replace(guess, transforms={"audio": transform}, columns=columns, said=(said, *guess.said))


def guess_texts(root: Path, names: list[str], tree: Tree, among: int) -> Guess:
    """Return a language model of text files; raises `Refused` where they are too few."""
    sizes = tree.sizes(names)
    suffix, size = suffix_of(names[0]), sum(sizes)
    source = {
        "kind": "text_files",
        "name": name_of(root),
        "path": str(root),
        "glob": f"**/*{suffix}",
        "undecodable": "skip",
    }
    filled = sum(map(bool, sizes))
    return Guess(
        what="text",
        source=source,
        counts={suffix: len(names)},
        description=f"{len(names):,} text files ({suffix}) among {among:,} files",
        splits=draw_splits(source, filled, split_command(f"FILE{suffix}"), shares_of_text(size, filled)),
        examples=len(names),
        task="language_model",
        columns=Columns({"text": "text"}),
        bytes=size,
    )


def split_command(name: str) -> str:
    """Return the remedy that splits one text into several."""
    suffix = suffix_of(name) or ".txt"
    command = f"mkdir parts && split -n l/{TEXT_PARTS} --additional-suffix={suffix} {shlex.quote(name)} parts/"
    return f"name a folder of several, or cut it up: {command}"


def _of_classes(root: Path, names: list[str], kind: str, noun: str) -> Guess:
    """Return what class folders say of a classifier, and folders of splits above them."""
    tops = {name.partition("/")[0] for name in names}
    in_splits = usual(tops) and all(name.count("/") > 1 for name in names)
    classes = Counter(name.split("/")[int(in_splits)] for name in names if "/" in name)
    if without_class := len(names) - sum(classes.values()):
        raise refuse(root, f"{without_class} {noun} in no class folder")
    if usual(classes):
        saw = f"{root}: {noun} in no class folder, but in those of splits: {', '.join(sorted(classes))}"
        rule = "what is learnt is the class of a file: a folder, or a column of a table beside"
        remedy = "add a folder for each class below those of the splits, or a table of file_name and label"
        raise Refused("PATH", saw, rule, remedy)
    if len(classes) < 2:
        raise _of_one_class(root, names, noun)
    if not in_splits:
        _refuse_data_sets(root, names, noun)
    source: dict[str, Any] = {"kind": kind, "name": name_of(root), "path": str(root)}
    if in_splits:
        source["split_folders"] = True
    counts = {name: classes[name] for name in in_order(classes)}
    kept = keep_splits(source, tops, len(names)) if in_splits else None
    if in_splits and kept is None:
        rule, remedy = "the folders of splits are train and test", "add the other, or name the folder of the classes"
        raise Refused("PATH", f"{root}: {', '.join(sorted(tops))}", rule, remedy)
    columns = Columns({}, label="label", classes=counts)
    few = "" if kept else few_to_judge(columns, len(names), noun)
    return Guess(
        what="table",
        source=source,
        counts=counts,
        description=f"{len(names):,} {noun} of {len(classes)} classes",
        splits=kept or draw_splits(source, len(names), f"add {noun}", SHARES[bool(few) :]),
        examples=len(names),
        columns=columns,
        said=(
            *worries_of_classes(counts),
            *([larger_splits(few)] if few else ()),
            *(_holes(names, counts) if in_splits else ()),
        ),
    )


def _of_one_class(root: Path, names: list[str], noun: str) -> Refused:
    """Return the error for files that are all in one folder; it names the folder further down that has several."""
    folders = {name.rpartition("/")[0] for name in names}
    common = commonpath(folders)
    refused = refuse(root, f"{noun} of one class only, {common.partition('/')[0]}")
    below = sorted({folder.removeprefix(f"{common}/").partition("/")[0] for folder in folders - {common}})
    if len(below) < 2:
        return refused
    command = f"millrace init {shlex.quote(str(root / common))}"
    remedy = f"where {', '.join(below[:8])} in {common} are the classes or splits, name their folder: {command}"
    return Refused(refused.field, refused.saw, "a class is a folder beside that of another", remedy)


def _holes(names: list[str], classes: Iterable[str]) -> Iterator[str]:
    """Yield which classes the folder of a split lacks."""
    present: dict[str, set[str]] = {}
    for name in names:
        split, of_class, *_ = name.split("/")
        present.setdefault(split, set()).add(of_class)
    for split, found in sorted(present.items()):
        for absent in (each for each in classes if each not in found):
            lost = "no model learns it" if USUAL_NAMES[split.lower()] == "train" else "nothing is measured of it there"
            yield f"{absent}: not in {split}, so that {lost}"


def _refuse_data_sets(root: Path, names: list[str], noun: str) -> None:
    """Raise `Refused` where every folder has folders with files, as several data sets side by side have."""
    folders: dict[str, set[str]] = {}
    for name in names:
        top, *below, _ = name.split("/")
        folders.setdefault(top, set()).add(below[0] if below else "")
    if all(len(below) > 1 and "" not in below for below in folders.values()):
        tops, top = sorted(folders), min(folders)
        saw = f"{root}: {', '.join(tops[:8])}, each with folders of {noun}: {top}/{', '.join(sorted(folders[top])[:4])}"
        rule, remedy = f"a class is a folder with {noun}", f"name one data set: millrace init {shlex.quote(tops[0])}"
        raise Refused("PATH", saw, rule, f"{remedy}; where these folders are the classes, write a preset by hand")


def _some(names: list[str], tree: Tree) -> Iterator[bytes]:
    """Yield the content of some files, from the first to the last."""
    for place in np.linspace(0, len(names) - 1, min(SAMPLED_FILES, len(names))):
        name = names[int(place)]
        yield tree.head(name, tree.size([name]))
