"""Files of Keras from anywhere, read in Keras' safe mode: layers of Keras alone, no code.

What a file could do to the memory or the disk is refused before Keras reads it, by field, value, rule and remedy.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from tasks.errors import Failed, Refused, UserError

if TYPE_CHECKING:
    import keras

FIELD = "model.path"
"""The setting that names the file of a model."""

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
"""The architecture and the weights within a `.keras` file."""

MOST_ARCHITECTURE = 64 << 20
"""Bytes of an architecture; a larger one is no model but an attack on the memory."""
MOST_BYTES = 8 << 30
"""Bytes of a model's variables, and of an archive's files when they are unpacked."""
MOST_FILES = 10_000
"""Files of an archive."""
COPIES = 4
"""Times the bytes of a model that a file of its weights may have: an optimizer keeps up to three values beside each."""
OTHERS = 1 << 20
"""Bytes of a file of weights beside these: counters, rates, seeds."""
MOST_NUMBER = 1 << 33
"""The largest number in a description; a file of some bytes can name sizes that no memory holds."""
MOST_LAYERS = 20_000
"""Objects in a description: each is built before any size is known."""
MOST_VALUE = 1 << 30
"""Bytes of a layer's output for one example."""

DAMAGED = (zipfile.BadZipFile, zlib.error, KeyError, OSError, ValueError, RuntimeError, EOFError)
"""What reading a damaged, encrypted or unknown archive raises."""
TRUST = "use a file from a source that you trust"


def load(path: Path, field: str) -> keras.Model:
    """Return the model of a file as it was saved, with its weights, for the field that names it; raises `Failed`."""
    size = bytes_of(lambda: described(path, field), field, path.name)
    model = described(path, field)
    load_weights(model, path, field, size)
    return model


def load_weights(model: keras.Model, path: Path, field: str, size: int) -> None:
    """Load the weights of a `.keras` or `.weights.h5` file into a model of `size` bytes; raises `Failed`."""
    try:
        with weights_in(path, field, size) as weights:
            if path.suffix == ".h5":  # of a `.keras` file the model is that of the weights
                refuse_other_weights(model, path, field)
            model.load_weights(weights)
    except Failed:
        raise
    except Exception as error:  # of Keras, h5py or zipfile
        raise unreadable(field, path, error) from error


def refuse_other_weights(model: keras.Model, path: Path, field: str) -> None:
    """Raise `Failed` where a `.weights.h5` has layers or shapes that this model has not: Keras takes weights by their
    place, whatever the layers are called."""
    try:
        found = layers_of(path)
        with tempfile.TemporaryDirectory(prefix="weights-") as folder:
            own = Path(folder) / WEIGHTS
            model.save_weights(own)
            expected = layers_of(own)
    except OSError as error:  # of h5py
        raise unreadable(field, path, error) from error
    for place in (place for place in [*expected, *found] if found.get(place) != expected.get(place)):
        rule = f"this model has {expected.get(place, 'no such layer')} there, and weights are taken by their place"
        remedy = "name weights of this model, or the whole model (.keras), whose layers train.init maps by name"
        raise Failed(field, f"{path.name}: {place} is {found.get(place, 'not there')}", rule, remedy)


def layers_of(path: Path) -> dict[str, str]:
    """Return name and shapes of each layer with weights by its place in a `.weights.h5`, without states of random
    numbers and of optimizers. Numbers that Keras gave to names are left out: they count the layers of a process."""
    import h5py

    layers: dict[str, str] = {}

    def add(place: str, group: Any) -> None:
        if place.rpartition("/")[2] != "vars" or "seed_generator" in place or place.startswith("optimizer/"):
            return
        if isinstance(group, h5py.Group) and len(group):
            shapes = ", ".join(str(list(group[key].shape)) for key in sorted(group, key=int))
            name = re.sub(r"_\d+$", "", str(group.attrs.get("name", "")))
            layers[place.removesuffix("/vars")] = f"{name} {shapes}"

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return layers


def described(path: Path, field: str) -> keras.Model:
    """Return the model that a file describes, with new weights; raises `Failed`."""
    import keras

    try:
        description = json.loads(architecture_of(path, field))
        refuse_large(description, field)
        description.pop("compile_config", None)
        model = keras.saving.deserialize_keras_object(under_policy(description), safe_mode=True)
    except UserError:
        raise
    except Exception as error:  # of Keras or json
        raise unreadable(field, path, error) from error
    if not isinstance(model, keras.Model):
        raise Failed(field, f"{path.name}: a {type(model).__name__}", "must be a model", "save a whole model")
    return model


def unreadable(field: str, path: Path, error: Exception) -> Failed:
    """Return the error of a file that Keras does not read."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    rule = "its layers are those of Keras; functions and classes of others are not run from a file"
    remedy = "use model.kind import with the code that makes it"
    return Failed(field, f"{path.name}: {type(error).__name__}: {said}", rule, remedy)


def under_policy(description: Any) -> Any:
    """Return the description with the dtype policy of the training in place of float32, which the file has saved."""
    import keras

    if isinstance(description, list):
        return [under_policy(each) for each in description]
    if not isinstance(description, dict):
        return description
    if description.get("class_name") == "DTypePolicy" and description.get("config") == {"name": "float32"}:
        return {**description, "config": {"name": keras.config.dtype_policy().name}}
    return {key: under_policy(each) for key, each in description.items()}


def refuse_large(description: Any, field: str) -> None:
    """Raise `Failed` for numbers that could only be sizes beyond any memory, and for more layers than a model has."""
    waiting, layers = [description], 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            layers += "class_name" in value
            waiting += [each for name, each in value.items() if name != "shared_object_id"]  # an address in memory
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > MOST_NUMBER:
            raise Failed(field, f"a number {value:,}", f"no size in a model passes {MOST_NUMBER:,}", TRUST)
    if layers > MOST_LAYERS:
        raise Failed(field, f"{layers:,} layers and their parts", f"a model has {MOST_LAYERS:,} at most", TRUST)


def bytes_of(make: Callable[[], keras.Model], field: str, name: str) -> int:
    """Return the bytes of the variables of a model, which is made without memory for them.

    In a scope without state Keras keeps the shapes of new variables, and would make them at its end; private attributes
    of Keras are used to forget them.

    Raises:
        Failed: the variables, or the output of a layer for one example, are too large.
    """
    import keras
    from keras.src.backend.common import global_state

    before = global_state.get_global_attribute("uninitialized_variables")
    global_state.set_global_attribute("uninitialized_variables", [])
    try:
        with keras.StatelessScope(initialize_variables=False):
            model = make()
    finally:
        global_state.set_global_attribute("uninitialized_variables", before or [])
    size = size_of(model)
    remedy = "use a file that you trust, or model.kind import with the code that makes it"
    if size > MOST_BYTES:
        raise Failed(field, f"{name}: variables of {size:,} bytes", f"{MOST_BYTES:,} at most", remedy)
    for tensor in values_of(model):
        if (needed := math.prod(tensor.shape[1:] if None not in tensor.shape[1:] else [0]) * 4) > MOST_VALUE:
            saw = f"{name}: a value {list(tensor.shape)} between layers, {needed:,} bytes for each example"
            raise Failed(field, saw, f"{MOST_VALUE:,} at most", remedy)
    return size


def size_of(model: keras.Model) -> int:
    """Return the bytes of the variables of a model."""
    return sum(math.prod(variable.shape) * itemsize(variable.dtype) for variable in model.variables)


def values_of(model: keras.Model) -> Iterator[Any]:
    """Yield the symbolic values of the graphs of a model and of the models in it."""
    for layer in model._flatten_layers():
        graph = getattr(layer, "_functional", None) or layer  # of a Sequential model
        for operation in getattr(graph, "operations", ()):
            for node in operation._inbound_nodes:
                yield from node.outputs


def itemsize(dtype: str) -> int:
    """Return the bytes of a value of a Keras dtype, as `float32`."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 8


def architecture_of(path: Path, field: str = FIELD) -> bytes:
    """Return the architecture in a `.keras` file, or the copy of one; `field` is the setting that names it.

    Raises:
        Refused: there is no such file, or it is not of Keras.
        Failed: it is too large, or its names are not of files in it.
    """
    if path.suffix == ".json":
        return path.read_bytes()
    if not path.is_file():
        raise Refused(field, str(path), "no such file", "correct it")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, field, path.name)
            return archive.read(CONFIG)
    except DAMAGED as error:
        rule = "is a file that Keras 3 saved: model.save('model.keras')"
        raise Refused(field, f"{path}: {error}", rule, "save it again") from None


def check_archive(archive: zipfile.ZipFile, field: str, name: str) -> None:
    """Raise `Failed` for names outside of an archive, and for more than a model has; nothing is unpacked."""
    entries = archive.infolist()
    for entry in entries:
        if outside(entry.filename):
            raise Failed(field, f"{name}: a file {entry.filename!r}", "files are within the archive", TRUST)
    if len(entries) > MOST_FILES:
        raise Failed(field, f"{name}: {len(entries):,} files", f"a model has {MOST_FILES:,} at most", TRUST)
    sizes = {entry.filename: entry.file_size for entry in entries}
    if sizes.get(CONFIG, 0) > MOST_ARCHITECTURE:
        rule = f"the architecture in a .keras file has {MOST_ARCHITECTURE >> 20} MiB at most"
        raise Failed(field, f"{name}: {sizes[CONFIG]:,} bytes", rule, TRUST)
    if (total := sum(sizes.values())) > MOST_BYTES:
        rule = f"a model has {MOST_BYTES >> 30} GiB at most"
        raise Failed(field, f"{name}: {total:,} bytes when unpacked", rule, TRUST)


def outside(name: str) -> bool:
    """Return whether the name of an archive's file leads out of a folder that it is unpacked to."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return posix.is_absolute() or bool(windows.drive or windows.root) or ".." in (*posix.parts, *windows.parts)


@contextmanager
def weights_in(path: Path, field: str, size: int) -> Iterator[Path]:
    """Unpack the weights of a `.keras` file, or take a `.weights.h5` as it is, checked; yield the file.

    Args:
        path: the file.
        field: the setting that names it.
        size: bytes of the variables that they are for.

    Raises:
        Failed: there are more than `size` allows, or links to other files.
    """
    if path.suffix == ".h5":
        check_weights(path, field, path.name, size)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="weights-") as folder, zipfile.ZipFile(path) as archive:
        check_archive(archive, field, path.name)
        most = COPIES * size + OTHERS
        if (packed := archive.getinfo(WEIGHTS).file_size) > 2 * most:
            raise too_many(field, path.name, packed, size)
        target = Path(folder) / WEIGHTS
        with archive.open(WEIGHTS) as source, open(target, "wb") as file:  # as many bytes as the archive says, at most
            shutil.copyfileobj(source, file)
        check_weights(target, field, path.name, size)
        yield target


def check_weights(path: Path, field: str, name: str, size: int) -> None:
    """Raise `Failed` where a file of HDF5 has more, when read, than variables of `size` bytes need.

    A data set can be a gigabyte in a kilobyte: compressed, or never written. One outside of the file is refused.
    """
    import h5py

    found: list[Any] = []
    with h5py.File(path, "r") as file:
        waiting = [file]
        while waiting:
            group = waiting.pop()
            for key in group:
                if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                    raise Failed(field, f"{name}: a link {group.name}/{key}", "weights are in the file itself", TRUST)
                item = group[key]
                if isinstance(item, h5py.Group):
                    waiting.append(item)
                    continue
                if item.external or item.is_virtual:
                    saw = f"{name}: {item.name}, which is in another file"
                    raise Failed(field, saw, "weights are in the file itself", TRUST)
                found.append(int(item.size or 0) * item.dtype.itemsize)
            if len(waiting) + len(found) > MOST_FILES * 100:
                raise Failed(field, f"{name}: over {MOST_FILES * 100:,} data sets", "no model has so many", TRUST)
    if (total := sum(found)) > COPIES * size + OTHERS:
        raise too_many(field, name, total, size)


def too_many(field: str, name: str, total: int, size: int) -> Failed:
    """Return the error of a file with more weights than the variables need."""
    rule = f"the model's variables are {size:,} bytes, and a file has {COPIES} times as many at most"
    return Failed(field, f"{name}: weights of {total:,} bytes when unpacked", rule, TRUST)
