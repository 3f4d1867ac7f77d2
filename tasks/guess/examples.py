"""Examples within files: payloads of images and sounds, their sizes, samples of WebDataset and TFRecord."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.errors import Refused
from tasks.guess.column import payload_kind
from tasks.guess.forms import Form, leaves_of
from tasks.guess.found import SUPPORTED
from tasks.reader.image import BROKEN, DEEP, deep_levels
from tasks.records.column_types.media import BLOCK
from tasks.snapshots.transforms.media import range_of
from tasks.snapshots.transforms.statistics import NumberSample
from tasks.sources.record_files import decode
from tasks.sources.tfrecord import payloads
from tasks.sources.webdataset import Sample, is_json, is_webdataset, samples

SIDES = (8, 64)
"""Smallest and largest side of the snapshot's images, in pixels."""
RATE, SECONDS = 16_000, 10.0
"""Samples per second, and seconds, at most."""
FRAMES, HOP, WINDOW = 100, 0.01, 0.025
"""Frames of a sound, about, at most; seconds between them, and of each, at least."""
MELS = 40
FEW_LEVELS = 128
"""Levels of 256 below which the range of levels is chosen by the data."""
COVERED = 0.95
"""Share of the sounds that are not cut."""


def image_shape(payloads: Iterable[bytes]) -> tuple[tuple[int, int, int], str]:
    """Return (height, width, channels) for a snapshot, sides at most 64 and a multiple of 4, and the images' sizes."""
    sides, grey = [], True
    for payload in payloads:
        try:
            with Image.open(io.BytesIO(payload)) as image:
                sides.append((image.height, image.width))
                grey = grey and image.mode in ("1", "L", "LA", *DEEP)
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


def few_levels(payloads: Iterable[bytes]) -> str:
    """Return what is seen of grey images of more than 8 bits, where too few levels would be left of them without a
    range (`snapshot.range`), in words; else nothing."""
    sample, whole = NumberSample(), True
    for number, payload in enumerate(payloads):
        try:
            with Image.open(io.BytesIO(payload)) as image:
                whole = whole and image.mode != "F"
            for levels in deep_levels(payload):
                rows = np.arange(len(levels), dtype=np.int64) + number * (1 << 32)
                sample.add(levels.astype(np.float32), rows)
        except BROKEN:
            continue  # `convert` will name it
    if (found := range_of(sample)) is None:
        return ""
    low, high = found
    step, most = (256, 65_535) if whole else (1, 255)
    kept = int(min(max(high, 0), most) // step - min(max(low, 0), most) // step) + 1
    return f"grey levels {low:g} to {high:g}, of which full would make {kept} of 256" if kept < FEW_LEVELS else ""


def log_mel(payloads: Iterable[bytes]) -> tuple[dict[str, Any], str]:
    """Return the transform that fits sounds, and what they are: their rates and lengths."""
    from tasks.reader.log_mel import Sound

    rates, lengths = Counter[int](), []
    for payload in payloads:
        try:
            with Sound(payload) as sound:
                frames, rate = sound.length or sound.counted(BLOCK), sound.samplerate
        except (RuntimeError, ValueError, TypeError, OSError):
            continue  # `convert` will name it
        if frames:
            rates[rate] += 1
            lengths.append(frames / rate)
    if not rates:
        raise Refused("PATH", "no sound that can be read", SUPPORTED, "see what these files are")
    rate = min(RATE, rates.most_common(1)[0][0])
    covered = float(np.quantile(lengths, COVERED))
    seconds = min(SECONDS, float(np.ceil(covered * 10) / 10) if covered > 0.1 else round(covered, 3))
    hop = max(HOP, round(seconds / FRAMES, 3))
    window = min(max(WINDOW, round(2 * hop, 3)), seconds)
    cut = sum(length > seconds for length in lengths)
    ends = dict.fromkeys(f"{length:.2g}" for length in (min(lengths), max(lengths)))
    said = f"{' to '.join(ends)} s at {', '.join(f'{each:,}' for each in sorted(rates))} Hz"
    said += f"; {cut / len(lengths):.0%} of them are cut at {seconds:g} s" if cut else ""
    return {"kind": "log_mel", "rate": rate, "seconds": seconds, "window": window, "hop": hop, "mels": MELS}, said


LOOKED_AT = 200
"""Examples by which columns are found."""
RARE = 0.5
"""Share of the samples that have an ending, below which endings are parts of names."""


def tfrecord(path: Path) -> Form:
    """Return the features of a file of `tf.train.Example`; raises `Refused` where it is none."""
    values: dict[str, list[Any]] = {}
    for number, payload in enumerate(islice(payloads(path.parent, path.name), LOOKED_AT), 1):
        try:
            example = decode(payload)
        except ValueError as error:
            saw, rule = f"{path} row {number}: {error}", "a TFRecord file has a tf.train.Example in each record"
            raise Refused("PATH", saw, rule, "write a function that reads it (source.kind: python)") from None
        for name, value in example.items():
            values.setdefault(name, []).append(value)
    if not values:
        raise Refused("PATH", f"{path}: no example with a feature", "an example has features", "name another file")
    found = {name: _feature([value for value in of_feature if len(value)]) for name, of_feature in values.items()}
    return _form(found, f"features of the first {number:,} examples")


def webdataset(path: Path) -> Form:
    """Return the endings of a tar file's samples, and the fields of their JSON; raises `Refused` where it has none."""
    content: dict[str, list[bytes]] = {}
    some = list(islice(samples(path.parent, path.name), LOOKED_AT))
    _refuse_dots(path, some)
    for sample in some:
        for ending, octets in sample.content.items():
            content.setdefault(ending, []).append(octets)
    found: dict[str, tuple[str, str]] = {}
    for ending, contents in content.items():
        found.update(_fields(ending, contents) if is_json(ending) else {ending: _file(ending, contents)})
    if not found:
        raise Refused("PATH", f"{path}: no samples", "the files of a sample have a name and an ending", "name another")
    return _form(found, f"endings of the first samples: {', '.join(content)}")


def _refuse_dots(path: Path, some: list[Sample]) -> None:
    """Raise `Refused` where most endings are in few samples, as of names with further dots (`22.00.png`)."""
    endings = Counter(ending for sample in some for ending in sample.content)
    kinds = {ending.rpartition(".")[2] for ending in endings}
    shared = endings.total() / max(len(some) * len(endings), 1)
    if len(endings) > 2 * len(kinds) and (len(some) == 1 or shared < RARE):
        saw = f"{path}: {len(endings):,} endings in {len(some):,} samples: {', '.join(list(endings)[:4])}, ..."
        rule = "the files of a sample have its name up to the first dot"
        raise Refused("PATH", saw, rule, "replace the other dots of the names by _, and make the archive again")


def is_webdataset_of_samples(path: Path) -> bool:
    """Return whether an archive is a tar file whose first files, several of one name, are samples."""
    if not is_webdataset(path.name):
        return False
    some = list(islice(samples(path.parent, path.name), LOOKED_AT))
    return sum(len(sample.content) > 1 for sample in some) > len(some) / 2


def _form(found: dict[str, tuple[str, str]], said: str) -> Form:
    return Form(
        {name: kind for name, (kind, _) in sorted(found.items())},
        unread={name: why for name, (kind, why) in sorted(found.items()) if kind == "ignore"},
        said=(said,),
    )


def _feature(values: list[list[bytes] | NDArray[Any]]) -> tuple[str, str]:
    """Return the type of a feature, and why it is not read."""
    if not values:
        return "ignore", "as it has no values"
    sizes = {len(value) for value in values}
    if isinstance(values[0], list):
        if sizes != {1}:
            return "ignore", "as it holds several texts or files"
        return _octets([value[0] for value in values if isinstance(value, list)])
    if len(sizes) > 1:
        return "ignore", f"as it has {min(sizes)} to {max(sizes)} values"
    return ("number" if sizes == {1} else f"number[{min(sizes)}]"), ""


def _octets(values: list[bytes]) -> tuple[str, str]:
    """Return the type of bytes: of an image, of a sound, or text."""
    if (kind := payload_kind(values)) != "ignore":
        return kind, ""
    try:
        for value in values:
            value.decode()
    except UnicodeDecodeError:
        return "ignore", "as its bytes are neither text nor an image nor a sound"
    return "text", ""


def _file(ending: str, contents: list[bytes]) -> tuple[str, str]:
    """Return the type of files with an ending; of texts one that is read without the blanks at their ends, which a
    text keeps, as its role is not known yet."""
    if not ending.endswith("npy"):
        kind, why = _octets(contents)
        return ("category" if kind == "text" else kind), why
    try:
        shapes = {np.lib.format.read_array(io.BytesIO(content), allow_pickle=False).shape for content in contents}
    except ValueError:
        return "ignore", "as its arrays cannot be read"
    if len(shapes) > 1 or not min(shapes):
        return "ignore", "as its arrays are of different shapes, or single numbers"
    return f"number[{', '.join(map(str, min(shapes)))}]", ""


def _fields(ending: str, contents: Iterable[bytes]) -> dict[str, tuple[str, str]]:
    """Return the fields of JSON files; those that are no objects have one type."""
    names: dict[str, None] = {}
    for content in contents:
        try:
            row = json.loads(content)
        except (ValueError, RecursionError):
            continue  # `convert` names it
        if not isinstance(row, dict):
            return {ending: ("ignore", "as it is no JSON object")}
        names |= dict.fromkeys(name for name, _ in leaves_of(row, f"{ending}."))
    return dict.fromkeys(names, ("text", ""))
