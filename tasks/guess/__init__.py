"""Inspection of raw data for `millrace init`: which source it is, its size, and a first config for it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tasks.errors import Refused
from tasks.guess import tfds
from tasks.guess.beside import guess_beside, table_above, table_of
from tasks.guess.examples import is_webdataset_of_samples
from tasks.guess.folders import (
    IMAGES,
    NO_TEXT,
    SNIFFED_BYTES,
    SOUNDS,
    by_suffix,
    choose_kind,
    guess_images,
    guess_sounds,
    guess_texts,
    is_text,
    kinds_of,
    split_command,
    suffix_of,
)
from tasks.guess.forms import rows_in
from tasks.guess.found import Choices, Guess, name_of, refuse
from tasks.guess.samples import DATABASES, ENDINGS, kind_of_file, sample_database, sample_files
from tasks.guess.tables import guess_table
from tasks.sources.archives import TAR, ZIP, Tree, archive_above, open_tree
from tasks.sources.folders import is_image
from tasks.sources.tfds import INFO
from tasks.sources.webdataset import is_webdataset

__all__ = ["Choices", "Guess", "guess_source"]

CLASS_FOLDERS: dict[str, Callable[[Path, list[str], Tree], Guess]] = {IMAGES: guess_images, SOUNDS: guess_sounds}
IN_PLACE = (ZIP, TAR)
PACKED = {".gz", ".bz2", ".xz", ".txz", ".zst", ".7z", ".rar"}
"""Suffixes of files that are packed, and not read in place."""
SHEETS = {".xlsx", ".xls", ".xlsm", ".ods"}


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
    tree = open_tree(root, None)
    names = _names(tree)
    if choices.suffix is None and (prepared := tfds.find_prepared(root)):
        outside = [name for name in names if not (root / name).is_relative_to(prepared)]
        return replace(tfds.guess_folder(prepared, choices), left_out=by_suffix(outside))
    kinds = kinds_of(names, tree)
    kind = _chosen(path, names, kinds, choices)
    if kind in ENDINGS:
        guess = guess_table(sample_files(root, kind, name_of(root)), choices)
    else:
        try:
            guess = _guess_files(root, kind, kinds[kind], tree, len(names))
        except Refused as refused:
            if kind not in CLASS_FOLDERS:
                raise
            if (table := table_of(root, names)) is None:
                raise _with_table(refused, table_above(root)) from None
            guess = guess_beside(table, choices)
    read = {*kinds[kind], Path(str(guess.source["path"])).name}  # a table beside is read too
    return replace(guess, left_out=by_suffix(set(names) - read))


def _guess_file(path: Path, root: Path, choices: Choices) -> Guess:
    if path.suffix.lower() in DATABASES:
        return guess_table(sample_database(f"sqlite:///{root}", choices.table, name_of(path.stem)), choices)
    if (path.parent / INFO).is_file():
        rule = "a data set is taken whole"
        raise Refused("PATH", f"{path}: a file of a prepared data set", rule, f"name its folder, {path.parent}")
    if path.name.lower().endswith(IN_PLACE) and not is_webdataset_of_samples(root):
        return _guess_archive(root, choices)
    if (kind := kind_of_file(path.name)) is not None:
        try:
            return guess_beside(sample_files(root, kind, name_of(path.name.partition(".")[0])), choices)
        except Refused:
            if is_webdataset(path.name) and not is_webdataset_of_samples(root):
                archive_above(root)  # refuses one that is compressed as a whole
            raise
    raise _refuse_file(path)


def _with_table(refused: Refused, table: Path | None) -> Refused:
    """Return the error for a folder, with the table above it that names its files as the remedy."""
    if table is None:
        return refused
    rule = f"what is learnt of them stands in a table that names them, {table.name}"
    return Refused(refused.field, refused.saw, rule, f"name it: millrace init {shlex.quote(str(table))}")


def _guess_archive(path: Path, choices: Choices) -> Guess:
    """Return what the files of an archive are; of one folder that holds all of them, what is in it."""
    root, tree = path, open_tree(path, None)
    names = _names(tree)
    while len({name.partition("/")[0] for name in names}) == 1 and all("/" in name for name in names):
        root /= names[0].partition("/")[0]
        tree = open_tree(root, None)
        names = _names(tree)
    kinds = kinds_of(names, tree, rows=False)
    kind = _chosen(path, names, kinds, choices)
    guess = _guess_files(root, kind, kinds[kind], tree, len(names))
    source = {**guess.source, "name": name_of(path.name.partition(".")[0])}
    return replace(guess, source=source, left_out=by_suffix(set(names) - set(kinds[kind])))


def _guess_files(root: Path, kind: str, names: list[str], tree: Tree, among: int) -> Guess:
    if kind in CLASS_FOLDERS:
        return CLASS_FOLDERS[kind](root, names, tree)
    return guess_texts(root, names, tree, among)


def _chosen(path: Path, names: list[str], kinds: dict[str, list[str]], choices: Choices) -> str:
    if kinds:
        return choose_kind(path, kinds, choices.suffix)
    seen = ", ".join(f"{count} {suffix}" for suffix, count in Counter(map(suffix_of, names)).most_common(5))
    raise refuse(path, seen or "no files")


def _names(tree: Tree) -> list[str]:
    try:
        return tree.find("**/*", ("__pycache__", "site-packages", "dist-packages", "__MACOSX"))
    except Refused as refused:
        if "matches" in str(refused.saw):
            return []
        raise


def _refuse_file(path: Path) -> Refused:
    """Return the error for a single file, which is not a source."""
    if not path.is_file():
        return refuse(path, "neither a file nor a folder")
    if path.suffix.lower() == ".json" and path.read_bytes()[:SNIFFED_BYTES].lstrip()[:1] == b"[":
        rule, remedy = (
            "read are JSON lines, an object on each",
            f"write its items so: jq -c '.[]' {path.name} > rows.jsonl",
        )
        return Refused("PATH", f"{path}: a JSON array", rule, remedy)
    if path.suffix.lower() in PACKED:
        return Refused("PATH", f"{path}: packed", "init looks at files as they are", "unpack it and name the folder")
    if is_image(path.name):
        rule = "a classifier learns from a folder of images for each class"
        return Refused("PATH", f"{path}: one image", rule, "name the folder that holds the class folders")
    if path.suffix.lower() in SHEETS:
        return Refused("PATH", f"{path}: a spreadsheet", "read are CSV files", "save the sheet as CSV, names first")
    head = open_tree(path.parent, None).head(path.name, SNIFFED_BYTES)
    if head and is_text(head) and (rows := rows_in(head)) is not None:
        what, suffix = rows
        rule, renamed = "rows are read from files that say so by their ending", path.with_suffix(suffix).name
        copy = f"cp {shlex.quote(path.name)} {shlex.quote(renamed)}"
        return Refused("PATH", f"{path}: {what}", rule, f"name it so: {copy}")
    if path.suffix not in NO_TEXT and head and is_text(head):
        rule = "texts are split by file, so there must be several"
        return Refused("PATH", f"{path}: one text", rule, split_command(path.name))
    return refuse(path, "a single file")
