"""Columns of TFRecord and WebDataset files, found by the content of their first examples."""

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

from tasks.errors import Refused
from tasks.guess.column import payload_kind
from tasks.guess.forms import Form, leaves_of
from tasks.sources.record_files import decode
from tasks.sources.tfrecord import payloads
from tasks.sources.webdataset import Sample, is_json, is_webdataset, samples

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
