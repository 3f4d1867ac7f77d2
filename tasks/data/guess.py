"""A look at raw data: which source it is, how much there is of it, and what a first try with it needs."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tasks.config import TextFilesSource, TfdsSource
from tasks.data.images import BROKEN
from tasks.data.sources import Item
from tasks.data.sources.files import find
from tasks.data.sources.image_folder import is_image
from tasks.data.sources.tfds import INFO, Prepared
from tasks.data.split import bounds, split_of
from tasks.data.wire import Frames
from tasks.errors import Refused

UNDERSTOOD = (
    "understood are: a folder with a folder of JPEG or PNG files for each class; a folder of text files; a data set "
    "that tensorflow-datasets has prepared as tfrecord"
)
PACKED = {".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"}
NO_TEXT = {".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml", ".toml", ".ini", ".svg", ".log", ".lock"}
"""Suffixes of files that are text and whose content is something else."""

LEFT_OUT = set(TextFilesSource.model_fields["exclude"].default)
SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev"}

LOOKED_AT = 200
"""Images whose size is looked at."""
SAMPLED, HEAD = 8, 1 << 16
"""Files of a suffix, and bytes of each, by which it is found to be text."""
SIDES = (8, 64)
"""Smallest and largest side of the images of a first try."""
SHARES = ({"train": 0.8, "validation": 0.1, "test": 0.1}, {"train": 0.6, "validation": 0.2, "test": 0.2})
HELD_OUT = 500_000
"""Bytes of text that are enough to judge by: more of them make a first try longer and no wiser."""
FEW_TEXTS = 30
SEEDS = 1000
FEW = 1000
"""With fewer examples a split may be empty by chance, so that seeds are tried and texts looked at one by one."""
PARTS = 50
"""Into which a single text is best cut."""


@dataclass(frozen=True)
class Guess:
    """What was found. `what`: images or text; `source`: the section of a preset; `counts`: of what there is."""

    what: str
    name: str
    source: dict[str, Any]
    counts: dict[str, int]
    said: str
    """In a line, for people."""
    splits: dict[str, float]
    split_seed: int
    """Under which no split is empty."""
    shape: tuple[int, int, int] = (0, 0, 0)
    """Height, width and channels that suit the images."""
    sizes: str = ""
    """What sizes they have."""
    classes: list[str] = field(default_factory=list)
    bytes: int = 0
    """Of all texts."""

    @property
    def examples(self) -> int:
        """All of them."""
        return sum(self.counts.values())


def look(path: Path) -> Guess:
    """Guess the source. Raises `Refused`, with what is understood, where it is none of these."""
    try:
        return _look(path)
    except OSError as error:
        saw = f"{error.filename or path}: {error.strerror}"
        raise Refused("PATH", saw, "init reads what it looks at", "mend its permissions or name another") from None


def _look(path: Path) -> Guess:
    if not path.exists():
        raise Refused("PATH", path, "no such file or folder", "correct it")
    root = (path.parent if path.name == INFO else path).resolve()
    if not root.is_dir():
        raise _one_file(path)
    if found := _prepared(root):
        return _tfds(found)
    names = _files(root)
    images = [name for name in names if is_image(name)]
    texts = _texts(root, [name for name in names if not is_image(name) and not LEFT_OUT & set(name.split("/"))])
    if images and len(images) >= len(texts):
        return _images(root, images)
    if texts:
        return _text(root, texts, len(names))
    kinds = ", ".join(f"{count} {suffix}" for suffix, count in Counter(map(_suffix, names)).most_common(5))
    raise _refused(path, kinds or "no files")


def _images(root: Path, names: list[str]) -> Guess:
    classes = Counter(name.partition("/")[0] for name in names if "/" in name)
    loose = len(names) - sum(classes.values())
    if loose or len(classes) < 2:
        saw = f"{loose} images in no class folder" if loose else f"images of one class only, {next(iter(classes))}"
        raise _refused(root, saw)
    if set(classes) <= SPLITS:
        rule = "Millrace splits by itself; a class is a folder"
        raise Refused("PATH", f"{root}: classes {', '.join(classes)}", rule, "name the folder that holds the classes")
    chosen = [names[int(place)] for place in np.linspace(0, len(names) - 1, min(LOOKED_AT, len(names)))]
    shape, sizes = _shape((root / name).read_bytes() for name in chosen)
    name = _name(root)
    shares, seed = _splits(_items(root, names), SHARES, "add images")
    source = {"kind": "image_folder", "name": name, "path": str(root)}
    said = f"{len(names):,} images of {len(classes)} classes"
    counts = dict(sorted(classes.items()))
    return Guess("images", name, source, counts, said, shares, seed, shape, sizes, sorted(classes))


def _text(root: Path, names: list[str], among: int) -> Guess:
    suffix = _suffix(names[0])
    sizes = {name: (root / name).stat().st_size for name in names}
    kept = [name for name, size in sizes.items() if size and (len(names) >= FEW or _is_text(root / name))]
    size = sum(sizes.values())
    shares, seed = _splits(_items(root, kept), _shares_of_text(size, len(kept)), _cut(f"FILE{suffix}"))
    name = _name(root)
    source = {"kind": "text_files", "name": name, "path": str(root), "glob": f"**/*{suffix}", "undecodable": "skip"}
    said = f"{len(names):,} text files ({suffix}) among {among:,} files"
    return Guess("text", name, source, {suffix: len(names)}, said, shares, seed, bytes=size)


def _tfds(folder: Path) -> Guess:
    config = TfdsSource(dataset=_info_name(folder), data_dir=str(folder))
    found = Prepared(folder, config)
    lengths = {split: [len(Frames(folder / shard)) for shard in shards] for split, shards in found.shards.items()}
    counts = {split: sum(each) for split, each in lengths.items()}
    name = _name(Path(config.dataset))
    source = {"kind": "tfds", "name": name, "dataset": config.dataset, "data_dir": str(folder)}
    frames = [frames for shards in found.shards.values() for shard in shards if (frames := Frames(folder / shard))]
    items = _prepared_items(found, frames)
    feature = "image" if "image" in found.features else "text"
    payloads = [found.example(payload)[feature] for payload in islice(chain.from_iterable(frames), LOOKED_AT)]
    contents = [payload for payload in payloads if isinstance(payload, bytes)]
    if feature == "text":
        size = sum(map(len, contents)) * len(items) // max(len(contents), 1)
        shares, seed = _splits(items, _shares_of_text(size, len(items)), "add texts")
        said = f"{len(items):,} texts of {config.dataset}"
        return Guess("text", name, source, counts, said, shares, seed, bytes=size)
    shares, seed = _splits(items, SHARES, "add images")
    shape, sizes = _shape(contents)
    if "label" not in found.features:
        raise _refused(folder, f"{len(items):,} images of {config.dataset} without a class label")
    classes = list(found.features["label"].classes or ())
    said = f"{len(items):,} images of {len(classes)} classes in {config.dataset}"
    return Guess("images", name, source, counts, said, shares, seed, shape, sizes, classes)


def _shape(payloads: Iterable[bytes]) -> tuple[tuple[int, int, int], str]:
    """Sides that suit these images, at most 64 and a multiple of 4, and what they are; grey only where all are."""
    sides, grey = [], True
    for payload in payloads:
        try:
            with Image.open(io.BytesIO(payload)) as image:
                sides.append((image.height, image.width))
                grey = grey and image.mode in ("1", "L", "LA", "I;16")
        except BROKEN:
            continue  # `convert` will name it
    if not sides:
        raise Refused("PATH", "no image that can be read", UNDERSTOOD, "see what these files are")
    height, width = np.median(np.array(sides), axis=0)
    scale = min(1.0, SIDES[1] / max(height, width))
    fitted = [max(SIDES[0], round(side * scale / 4) * 4) for side in (height, width)]
    low, high = min(sides), max(sides)
    sizes = f"{low[0]} x {low[1]}" if low == high else f"{low[0]} x {low[1]} to {high[0]} x {high[1]}"
    return (fitted[0], fitted[1], 1 if grey else 3), sizes


def _shares_of_text(size: int, count: int) -> tuple[dict[str, float], ...]:
    """Less is held out of much text; of few texts more of them."""
    held = float(f"{min(0.1, HELD_OUT / max(size, 1)):.1g}")
    much = {"train": round(1 - 2 * held, 9), "validation": held, "test": held}
    return SHARES[1:] if count < FEW_TEXTS else (much, *SHARES)


def _items(root: Path, names: list[str]) -> list[Item]:
    """The files as `convert` lists them; of many the names will do for their content: any uniform hash does."""
    few = len(names) < FEW
    return [Item(name, sha256((root / name).read_bytes()).hexdigest() if few else name) for name in names]


def _prepared_items(found: Prepared, frames: list[Frames]) -> list[Item]:
    if sum(map(len, frames)) >= FEW:
        return [Item("", str(number)) for number in range(sum(map(len, frames)))]
    return [Item("", sha256(found.shown(payload) or b"").hexdigest()) for each in frames for payload in each]


def _splits(items: Sequence[Item], shares: Iterable[dict[str, float]], remedy: str) -> tuple[dict[str, float], int]:
    """The first of these shares, and a seed, under which no split is empty; of few, none smaller than its share."""
    for tried in shares:
        ends = bounds(tried)
        held_out = {name: round(share * len(items)) if len(items) < FEW else 1 for name, share in tried.items()}
        least = {**held_out, "train": 1}
        for seed in range(SEEDS if len(items) < FEW else 1):
            found = Counter(split_of(item, ends, seed) for item in items)
            if all(found[name] >= max(1, count) for name, count in least.items()):
                return tried, seed
    raise Refused("PATH", f"{len(items)} examples", "train, validation and test need one each", remedy)


def _texts(root: Path, names: list[str]) -> list[str]:
    """The files of the most frequent suffix that is text."""
    for suffix, _ in Counter(map(_suffix, names)).most_common():
        alike = [name for name in names if _suffix(name) == suffix]
        if suffix and suffix not in NO_TEXT:
            sampled = [_is_text(root / name) for name in alike[:SAMPLED]]
            if 2 * sum(sampled) > len(sampled):  # a few may be in another encoding: they are skipped
                return alike
    return []


def _is_text(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(HEAD)
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else it was cut in the middle of a sign
            return False
    return b"\0" not in head


def _files(root: Path) -> list[str]:
    try:
        return find(root, "**/*", ("__pycache__", "site-packages", "dist-packages"))
    except Refused as refused:
        if "matches" in str(refused.saw):
            return []
        raise


def _prepared(root: Path) -> Path | None:
    """The folder of the one data set of tensorflow-datasets that lies here."""
    found = [path.parent for depth in ("", "*/", "*/*/", "*/*/*/") for path in root.glob(f"{depth}{INFO}")]
    if len(found) > 1:
        several = ", ".join(str(path.relative_to(root)) for path in sorted(found)[:8])
        raise Refused(
            "PATH", f"several prepared data sets: {several}", "init looks at one", "name one of these folders"
        )
    return found[0] if found else None


def _info_name(folder: Path) -> str:
    return str(json.loads((folder / INFO).read_bytes())["name"])


def _suffix(name: str) -> str:
    return Path(name).suffix


def _name(path: Path) -> str:
    """A folder's name as a config takes it."""
    plain = re.sub(r"[^a-z0-9]+", "_", path.name.lower()).strip("_")
    return plain if plain[:1].isalpha() else f"data_{plain}".rstrip("_")


def _one_file(path: Path) -> Refused:
    """A single file is no source; what it is, and what would be one."""
    if not path.is_file():
        return _refused(path, "neither a file nor a folder")
    if (path.parent / INFO).is_file():
        rule = "a data set is taken whole"
        return Refused("PATH", f"{path}: a file of a prepared data set", rule, f"name its folder, {path.parent}")
    if path.suffix.lower() in PACKED:
        return Refused("PATH", f"{path}: packed", "init looks at files as they are", "unpack it and name the folder")
    if is_image(path.name):
        rule = "a classifier learns from a folder of images for each class"
        return Refused("PATH", f"{path}: one image", rule, "name the folder that holds the class folders")
    if path.suffix not in NO_TEXT and path.stat().st_size and _is_text(path):
        rule = "texts are split by file, so there must be several"
        return Refused("PATH", f"{path}: one text", rule, _cut(path.name))
    return _refused(path, "a single file")


def _cut(name: str) -> str:
    """How one text becomes several."""
    suffix = _suffix(name) or ".txt"
    command = f"mkdir parts && split -n l/{PARTS} --additional-suffix={suffix} {shlex.quote(name)} parts/"
    return f"name a folder of several, or cut it up: {command}"


def _refused(path: Path, saw: str) -> Refused:
    return Refused("PATH", f"{path}: {saw}", UNDERSTOOD, "bring it into one of these forms, or write a preset by hand")
