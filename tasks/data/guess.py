"""Inspection of raw data for `millrace init`: which source it is, its size, and a first config for it."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from tasks.config import TfdsSource
from tasks.data.assignment import usual
from tasks.data.file_kinds import IMAGES, NO_TEXT, by_suffix, choose_kind, is_text, kinds_of, suffix_of
from tasks.data.guess_columns import Columns, guess_columns
from tasks.data.guess_splits import (
    FEW_EXAMPLES,
    SHARES,
    choose_splits,
    contents_of,
    entry_of,
    file_contents,
    shares_of_text,
)
from tasks.data.guess_tables import DATABASES, ENDINGS, Sample, kind_of_file, sample_database, sample_files
from tasks.data.reader.decoding import BROKEN
from tasks.data.sources import open_source
from tasks.data.sources.files import find
from tasks.data.sources.image_folder import is_image
from tasks.data.sources.tfds_schema import INFO, Prepared
from tasks.data.split import digests
from tasks.errors import Refused

SUPPORTED = (
    "understood are: a file or folder of CSV, JSON lines or Parquet; a database; a folder with a folder of images "
    "for each class; a folder of text files; a data set that tensorflow-datasets has prepared"
)
ARCHIVES = {".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"}
SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev"}

SAMPLED_IMAGES = 200
"""Number of images whose size is read."""
SIDES = (8, 64)
"""Smallest and largest side of the snapshot's images, in pixels."""
MUCH_MISSING = 0.4
"""Share of missing values that is said."""
FEW_OF_CLASS = 20
"""Rows of the sample below which a class gets no weight: it would be that of a few examples."""
IMBALANCE = 5
"""Ratio of the most to the least frequent class above which classes are weighted."""
TEXT_PARTS = 50
"""Number of files to split a single text into, as the error message suggests."""


@dataclass(frozen=True)
class Guess:
    """The result of `guess_source`. `what`: images, text or table; `source`: config section; `counts`: examples by
    class, suffix or split."""

    what: str
    name: str
    source: dict[str, Any]
    counts: dict[str, int]
    description: str
    """One line for the user."""
    splits: dict[str, float] | None
    """Share of each split; None for the splits that the source has."""
    split_seed: int
    """Value of `records.split_seed` with which no split is empty."""
    shape: tuple[int, int, int] = (0, 0, 0)
    """Height, width and channels for the snapshot."""
    sizes: str = ""
    """Range of the images' sizes, for the user."""
    classes: list[str] = field(default_factory=list)
    bytes: int = 0
    """Size of all texts."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of files that the source does not read, by suffix."""
    rows: int = 0
    """Number of rows of a table, about."""
    columns: Columns | None = None
    """Types and roles of a table's columns."""
    sample: dict[str, pa.Array] = field(default_factory=dict)
    """Raw rows of a table, by column."""
    said: tuple[str, ...] = ()
    """Further lines for the user: what was seen, and what was chosen why."""

    @property
    def examples(self) -> int:
        """Number of examples."""
        return self.rows or sum(self.counts.values())

    @property
    def train_share(self) -> float:
        """Share of train, about."""
        return SHARES[0]["train"] if self.splits is None else self.splits["train"]

    @property
    def task(self) -> str:
        """The task that fits what is predicted."""
        if self.what == "text":
            return "language_model"
        return "regression" if self.columns is not None and self.columns.targets else "classification"


@dataclass(frozen=True)
class Choices:
    """What the user decides."""

    suffix: str | None = None
    """Selects one of several kinds of files."""
    label: str | None = None
    """The column that is predicted."""
    key: str | None = None
    """The column that is the key."""
    table: str | None = None
    """The table of a database."""


def guess_source(path: str | Path, choices: Choices = Choices()) -> Guess:
    """Guess the source of a path, or of the URL of a database.

    Raises:
        Refused: it is not a supported source, has several, or cannot be read.
    """
    try:
        if "://" in str(path):
            return _guess_table(sample_database(str(path), choices.table, _name(Path(str(path)))), choices)
        return _guess(Path(path), choices)
    except OSError as error:
        saw = f"{error.filename or path}: {error.strerror}"
        raise Refused("PATH", saw, "init reads what it looks at", "fix its permissions or name another") from None


def _guess(path: Path, choices: Choices) -> Guess:
    suffix = choices.suffix
    if not path.exists():
        raise Refused("PATH", path, "no such file or folder", "correct it")
    root = (path.parent if path.name == INFO else path).resolve()
    if not root.is_dir():
        if path.suffix.lower() in DATABASES:
            url = f"sqlite:///{root}"
            return _guess_table(sample_database(url, choices.table, _name(Path(path.stem))), choices)
        if (form := kind_of_file(path.name)) is not None:
            return _guess_table(sample_files(root, form, _name(Path(path.name.partition(".")[0]))), choices)
        raise _refuse_file(path)
    names = _files(root)
    if suffix is None and (prepared := _find_prepared(root)):
        outside = [name for name in names if not (root / name).is_relative_to(prepared)]
        return replace(_guess_tfds(prepared), left_out=by_suffix(outside))
    kinds = kinds_of(root, names)
    if not kinds:
        seen = ", ".join(f"{count} {suffix}" for suffix, count in Counter(map(suffix_of, names)).most_common(5))
        raise _refuse(path, seen or "no files")
    kind = choose_kind(path, kinds, suffix)
    read = kinds[kind]
    if kind in ENDINGS:
        guess = _guess_table(sample_files(root, kind, _name(root)), choices)
    else:
        guess = _guess_images(root, read) if kind == IMAGES else _guess_text(root, read, len(names))
    return replace(guess, left_out=by_suffix(set(names) - set(read)))


def _guess_table(sample: Sample, choices: Choices) -> Guess:
    for name, chosen in (("--label", choices.label), ("--key", choices.key)):
        if chosen is not None and chosen not in sample.columns:
            raise Refused(name, chosen, f"must be one of {', '.join(sample.columns)}", "correct it")
    columns = guess_columns(sample.columns, sample.root, choices.label, sample.source.get("key") or choices.key)
    if columns.label is None and not columns.targets:
        rule, names = "one column is predicted from the others", ", ".join(sample.columns)
        raise Refused("--label", f"nothing, and the columns are {names}", rule, "name it: --label COLUMN")
    source = {**sample.source, "columns": columns.types}
    roles = {"key": columns.key, "label": columns.label, "targets": list(columns.targets)}
    source |= {role: name for role, name in roles.items() if name}
    if columns.label is not None:
        source["classes"] = list(columns.classes)
    contents = digests([str(number).encode() for number in range(min(sample.rows, FEW_EXAMPLES))])[:, 0]
    shares, seed = choose_splits(contents, SHARES[sample.rows < FEW_EXAMPLES :], "add rows")
    about = "" if sample.exact else "about "
    description = f"{about}{sample.rows:,} rows of {len(sample.columns)} columns"
    said = (*sample.said, *columns.said, *_worries(columns, sample))
    counts = columns.classes or {"rows": sample.rows}
    return Guess(
        *("table", sample.source["name"], source, counts, description, shares, 0 if sample.exact and seed else seed),
        classes=list(columns.classes), rows=sample.rows, columns=columns, said=said,
        sample=sample.columns,
    )  # fmt: skip


def weighted(classes: dict[str, int]) -> bool:
    """Return whether classes differ so much in size that the loss weighs them, and none is too small for it."""
    sizes = list(classes.values())
    return bool(sizes) and max(sizes) > IMBALANCE * min(sizes) and min(sizes) >= FEW_OF_CLASS


def _worries(columns: Columns, sample: Sample) -> Iterator[str]:
    """Yield what of the data deserves attention."""
    for name, kind in columns.types.items():
        missing = sample.columns[name].null_count / max(len(sample.columns[name]), 1)
        if kind != "ignore" and missing >= MUCH_MISSING:
            yield f"{name}: {missing:.0%} are missing"
    if columns.classes:
        least, most = min(columns.classes.values()), max(columns.classes.values())
        if weighted(columns.classes):
            yield f"imbalanced classes (1 to {most / least:.0f}): each class gets the same weight in the loss"
        elif most > IMBALANCE * least:
            yield f"a class with {least} of the rows looked at: too few to be learned, so classes have no weights"
    if sample.rows < FEW_EXAMPLES:
        yield f"few rows: {SHARES[1]['validation']:.0%} each for validation and test, and wide intervals in the report"


def _guess_images(root: Path, names: list[str]) -> Guess:
    in_splits = usual({name.partition("/")[0] for name in names}) and all(name.count("/") > 1 for name in names)
    classes = Counter(name.split("/")[int(in_splits)] for name in names if "/" in name)
    without_class = len(names) - sum(classes.values())
    if without_class or len(classes) < 2:
        saw = (
            f"{without_class} images in no class folder"
            if without_class
            else f"images of one class only, {next(iter(classes))}"
        )
        raise _refuse(root, saw)
    if set(classes) <= SPLITS:
        rule = "Millrace splits by itself; a class is a folder"
        raise Refused("PATH", f"{root}: classes {', '.join(classes)}", rule, "name the folder that holds the classes")
    if not in_splits:
        _refuse_data_sets(root, names)
    sample = [names[int(place)] for place in np.linspace(0, len(names) - 1, min(SAMPLED_IMAGES, len(names)))]
    shape, sizes = _shape((root / name).read_bytes() for name in sample)
    name = _name(root)
    source: dict[str, Any] = {"kind": "image_folder", "name": name, "path": str(root)}
    description = f"{len(names):,} images of {len(classes)} classes"
    counts = dict(sorted(classes.items()))
    if in_splits:
        said = ("the folders' splits are kept (records.splits: official)",)
        source["split_folders"] = True
        return Guess("images", name, source, counts, description, None, 0, shape, sizes, sorted(classes), said=said)
    shares, seed = choose_splits(file_contents(root, names, "image"), SHARES, "add images")
    return Guess("images", name, source, counts, description, shares, seed, shape, sizes, sorted(classes))


def _refuse_data_sets(root: Path, names: list[str]) -> None:
    """Raise `Refused` where every folder has folders with images, as several data sets side by side have."""
    folders: dict[str, set[str]] = {}
    for name in names:
        top, *below, _ = name.split("/")
        folders.setdefault(top, set()).add(below[0] if below else "")
    if all(len(below) > 1 and "" not in below for below in folders.values()):
        tops, top = sorted(folders), min(folders)
        saw = f"{root}: {', '.join(tops[:8])}, each with folders of images: {top}/{', '.join(sorted(folders[top])[:4])}"
        rule, remedy = "a class is a folder with images", f"name one data set: millrace init {shlex.quote(tops[0])}"
        raise Refused("PATH", saw, rule, f"{remedy}; where these folders are the classes, write a preset by hand")


def _guess_text(root: Path, names: list[str], among: int) -> Guess:
    suffix = suffix_of(names[0])
    sizes = {name: (root / name).stat().st_size for name in names}
    kept = [name for name, size in sizes.items() if size and (len(names) >= FEW_EXAMPLES or is_text(root / name))]
    size = sum(sizes.values())
    shares, seed = choose_splits(
        file_contents(root, kept, "text"), shares_of_text(size, len(kept)), _split_command(f"FILE{suffix}")
    )
    name = _name(root)
    source = {"kind": "text_files", "name": name, "path": str(root), "glob": f"**/*{suffix}", "undecodable": "skip"}
    description = f"{len(names):,} text files ({suffix}) among {among:,} files"
    return Guess("text", name, source, {suffix: len(names)}, description, shares, seed, bytes=size)


def _guess_tfds(folder: Path) -> Guess:
    config = TfdsSource(dataset=_info_name(folder), data_dir=str(folder))
    prepared = Prepared(folder, config)
    counts = {split: sum(length for _, length in shards) for split, shards in prepared.shards.items()}
    count = sum(counts.values())
    name = _name(Path(config.dataset))
    source = {"kind": "tfds", "name": name, "dataset": config.dataset, "data_dir": str(folder)}
    opened = open_source(config)
    [feature], label = prepared.columns.inputs, prepared.columns.label

    def payloads() -> Iterator[bytes]:
        for piece in opened.pieces():
            for rows in opened.read(piece):
                yield from (value or b"" for value in rows.columns[feature].to_pylist())

    contents = contents_of(count, lambda: (entry_of(feature, payload) for payload in payloads()))
    sample = list(islice(payloads(), SAMPLED_IMAGES))
    if prepared.columns.columns[feature] == "text":
        size = sum(map(len, sample)) * count // max(len(sample), 1)
        shares, seed = choose_splits(contents, shares_of_text(size, count), "add texts")
        description = f"{count:,} texts of {config.dataset}"
        return Guess("text", name, source, counts, description, shares, seed, bytes=size)
    shares, seed = choose_splits(contents, SHARES, "add images")
    shape, sizes = _shape(sample)
    if label is None:
        raise _refuse(folder, f"{count:,} images of {config.dataset} without a class label")
    classes = list(prepared.classes(label) or ())
    description = f"{count:,} images of {len(classes)} classes in {config.dataset}"
    return Guess("images", name, source, counts, description, shares, seed, shape, sizes, classes)


def _shape(payloads: Iterable[bytes]) -> tuple[tuple[int, int, int], str]:
    """Return (height, width, channels) for a snapshot, sides at most 64 and a multiple of 4, and the images' sizes."""
    sides, grey = [], True
    for payload in payloads:
        try:
            with Image.open(io.BytesIO(payload)) as image:
                sides.append((image.height, image.width))
                grey = grey and image.mode in ("1", "L", "LA", "I;16")
        except BROKEN:
            continue  # `convert` will name it
    if not sides:
        raise Refused("PATH", "no image that can be read", SUPPORTED, "see what these files are")
    height, width = np.median(np.array(sides), axis=0)
    scale = min(1.0, SIDES[1] / max(height, width))
    fitted = [max(SIDES[0], round(side * scale / 4) * 4) for side in (height, width)]
    low, high = min(sides), max(sides)
    sizes = f"{low[0]} x {low[1]}" if low == high else f"{low[0]} x {low[1]} to {high[0]} x {high[1]}"
    return (fitted[0], fitted[1], 1 if grey else 3), sizes


def _files(root: Path) -> list[str]:
    try:
        return find(root, "**/*", ("__pycache__", "site-packages", "dist-packages"))
    except Refused as refused:
        if "matches" in str(refused.saw):
            return []
        raise


def _find_prepared(root: Path) -> Path | None:
    """Return the folder of the tensorflow-datasets data set in this folder, or None."""
    prepared = [path.parent for depth in ("", "*/", "*/*/", "*/*/*/") for path in root.glob(f"{depth}{INFO}")]
    if len(prepared) > 1:
        several = ", ".join(str(path.relative_to(root)) for path in sorted(prepared)[:8])
        raise Refused(
            "PATH", f"several prepared data sets: {several}", "init looks at one", "name one of these folders"
        )
    return prepared[0] if prepared else None


def _info_name(folder: Path) -> str:
    return str(json.loads((folder / INFO).read_bytes())["name"])


def _name(path: Path) -> str:
    """Return a folder's name as a valid `source.name`."""
    plain = re.sub(r"[^a-z0-9]+", "_", path.name.lower()).strip("_")
    return plain if plain[:1].isalpha() else f"data_{plain}".rstrip("_")


def _refuse_file(path: Path) -> Refused:
    """Return the error for a single file, which is not a source."""
    if not path.is_file():
        return _refuse(path, "neither a file nor a folder")
    if (path.parent / INFO).is_file():
        rule = "a data set is taken whole"
        return Refused("PATH", f"{path}: a file of a prepared data set", rule, f"name its folder, {path.parent}")
    if path.suffix.lower() in ARCHIVES:
        return Refused("PATH", f"{path}: packed", "init looks at files as they are", "unpack it and name the folder")
    if is_image(path.name):
        rule = "a classifier learns from a folder of images for each class"
        return Refused("PATH", f"{path}: one image", rule, "name the folder that holds the class folders")
    if path.suffix not in NO_TEXT and path.stat().st_size and is_text(path):
        rule = "texts are split by file, so there must be several"
        return Refused("PATH", f"{path}: one text", rule, _split_command(path.name))
    return _refuse(path, "a single file")


def _split_command(name: str) -> str:
    """Return the remedy that splits one text into several."""
    suffix = suffix_of(name) or ".txt"
    command = f"mkdir parts && split -n l/{TEXT_PARTS} --additional-suffix={suffix} {shlex.quote(name)} parts/"
    return f"name a folder of several, or cut it up: {command}"


def _refuse(path: Path, saw: str) -> Refused:
    return Refused("PATH", f"{path}: {saw}", SUPPORTED, "bring it into one of these forms, or write a preset by hand")
