"""A model in a file of Keras: trained exactly; a hostile file is refused before it costs memory, disk or a secret."""

from __future__ import annotations

import json
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
from keras.src.backend.common import global_state

from tasks.artifacts import Model, Snapshot
from tasks.errors import Failed, Refused
from tasks.models import keras_archive, keras_file
from tasks.models.architectures.user_models import KerasFileModel
from tasks.models.keras_archive import outside
from tasks.processes.workbench import Workbench
from tasks.runner import identities
from tasks.training.fit import fit
from tasks.training.initial import FileInit
from tasks.training.starting import initial_weights
from tests.support.tiny import CONFIG, MODEL, files

HUGE = 1 << 32


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    layers = keras.layers
    model = keras.Sequential([keras.Input((4, 4, 1)), layers.Flatten(), layers.Dense(7), layers.Dense(2)])
    model.save(folder / "plain.keras")
    model.save_weights(folder / "plain.weights.h5")
    wide = [keras.Input((4, 4, 1)), layers.Flatten(), layers.RepeatVector(7), layers.GlobalMaxPooling1D()]
    keras.Sequential([*wide, layers.Dense(2)]).save(folder / "wide.keras")
    keras.Sequential([keras.Input((4, 4, 1)), layers.Lambda(lambda x: x)]).save(folder / "function.keras")
    (folder / "other.keras").write_bytes(b"PK but no archive")
    return folder


def rewritten(
    source: Path, target: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None
) -> Path:
    """Copy an archive with changed files."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as after:
        for name in before.namelist():
            after.writestr(name, change(name, before.read(name)))
        for name, content in (more or {}).items():
            after.writestr(name, content)
    return target


def replaced(old: str, new: str) -> Callable[[str, bytes], bytes]:
    """Replace a piece of the architecture; a size also in the shapes that the layers after it were built for."""

    def change(name: str, content: bytes) -> bytes:
        if name != "config.json":
            return content
        sizes = (f", {each.rpartition(' ')[2]}]" for each in (old, new)) if old.endswith(": 7") else ("", "")
        shape, other = (size.encode() for size in sizes)
        changed = content.replace(old.encode(), new.encode())
        return changed.replace(b"[null" + shape, b"[null" + other) if shape else changed

    return change


def with_weights(saved: Path, target: Path, make: Callable[[h5py.File], None]) -> Path:
    """An archive whose file of weights is another one."""
    with h5py.File(target.with_suffix(".h5"), "w") as file:
        make(file)
    content = target.with_suffix(".h5").read_bytes()
    return rewritten(saved / "plain.keras", target, lambda name, old: content if name.endswith(".h5") else old)


def built(path: Path, tiny: Snapshot, **options: Any) -> keras.Model:
    return KerasFileModel(path=str(path), **options).build(tiny.manifest["features"], 1)


@pytest.mark.parametrize("weights", [False, True])
def test_a_file_of_keras_is_trained_exactly(
    weights: bool, saved: Path, tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    model = KerasFileModel(path=str(saved / "plain.keras"), weights=weights)
    config = CONFIG.model_copy(update={"learning_rate": 1e-12, "precision": "bfloat16"})
    one, other = benches("one"), benches("other")
    fit(one, tiny, model, config, seed=5)
    if weights:
        fit(other, tiny, model, config, seed=5)
        assert files(one) == files(other)
    theirs = keras.saving.load_model(saved / "plain.keras").get_weights()[0]
    ours = keras_file.load(one.staging.root).get_weights()[0]
    assert np.allclose(ours, theirs, atol=1e-9) == weights
    inputs = identities.model(tiny, model, CONFIG, 5).inputs(Model)["sources"]
    assert [name for name, _ in inputs] == ["code/config.json", "version", *(["weights"] if weights else [])]


def test_a_whole_model_with_optimizer_and_nested_layers_is_read(tmp_path: Path) -> None:
    layers, given = keras.layers, keras.Input((6, 4))
    inner = keras.Sequential([keras.Input((6, 4)), layers.Dense(4), layers.BatchNormalization()])
    x = layers.MultiHeadAttention(2, 4)(inner(given), inner(given))
    x = layers.Bidirectional(layers.LSTM(3))(x)
    model = keras.Model(given, layers.SpectralNormalization(layers.Dense(2))(layers.Dropout(0.5)(x)))
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(np.ones((4, 6, 4)), np.ones((4, 2)), verbose=0)
    model.save(tmp_path / "whole.keras")
    read = keras_archive.load(tmp_path / "whole.keras", "model.path")
    assert all(np.array_equal(a, b) for a, b in zip(read.get_weights(), model.get_weights(), strict=True))
    made = keras_archive.bytes_of(lambda: keras_archive.described(tmp_path / "whole.keras", "x"), "x", "whole")
    assert made == keras_archive.size_of(model)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("function.keras", "model.path: function.keras: .*; its layers are those of Keras; functions and classes"),
        ("other.keras", "model.path: .*other.keras: File is not a zip file; is a file that Keras 3 saved"),
        ("absent.keras", "model.path: .*absent.keras; no such file; correct it"),
    ],
)
def test_a_damaged_file_and_a_function_are_refused(name: str, says: str, saved: Path, tiny: Snapshot) -> None:
    with pytest.raises((Failed, Refused), match=says):
        built(saved / name, tiny)


@pytest.mark.parametrize(
    ("source", "old", "new", "says"),
    [
        ("plain", '"class_name": "Dense"', '"class_name": "Missing"', "plain.keras: ValueError: Could not deserialize"),
        ("plain", '"module": "keras.layers", "class_name": "Dense"', '"module": "os", "class_name": "system"', "Error"),
        (
            "plain",
            '"class_name": "Flatten", "config": {',
            '"class_name": "TFSMLayer", "config": {"filepath": "x",',
            "x",
        ),
        ("plain", '"units": 7', '"units": 9999999999999', "a number 9,999,999,999,999; no size in a model passes"),
        ("plain", '"units": 7', '"units": -7', "plain.keras: .*; its layers are those of Keras"),
        ("plain", '"units": 7', f'"units": {HUGE}', "plain.keras: variables of 326,417,514,504 bytes; 8,589,934,592"),
        (
            "wide",
            '"n": 7',
            '"n": 200000000',
            r"a value \[None, 200000000, 16\] between layers, 12,800,000,000 bytes for",
        ),
    ],
)
def test_a_hostile_architecture_is_refused_before_it_costs_memory(
    source: str, old: str, new: str, says: str, saved: Path, tiny: Snapshot, tmp_path: Path
) -> None:
    path = rewritten(saved / f"{source}.keras", tmp_path / f"{source}.keras", replaced(old, new))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Failed, match=f"model.path: .*{says}"):
        built(path, tiny)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, "kilobytes"
    assert not global_state.get_global_attribute("uninitialized_variables"), "which Keras would make at its next chance"
    built(saved / "plain.keras", tiny)


def test_a_file_that_a_layer_would_read_is_not_read(tiny: Snapshot, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("one\ntwo\n")
    lookup = keras.layers.StringLookup(vocabulary=["one", "two"])
    given = keras.Input((1,), dtype="string")
    keras.Model(given, lookup(given)).save(tmp_path / "lookup.keras")
    change = replaced('"vocabulary": ["one", "two"]', f'"vocabulary": "{tmp_path}/secret.txt"')
    path = rewritten(tmp_path / "lookup.keras", tmp_path / "hostile.keras", change)
    assert "secret.txt" in zipfile.ZipFile(path).read("config.json").decode()
    with pytest.raises(Failed, match="model.path: hostile.keras: "):
        built(path, tiny)


def test_an_archive_is_within_itself_and_within_limits(saved: Path, tiny: Snapshot, tmp_path: Path) -> None:
    assert not outside("assets/vocabulary.txt")
    for number, name in enumerate(["../evil", "/etc/evil", "a/../../evil", "..\\evil", "C:\\evil"]):
        plain = saved / "plain.keras"
        path = rewritten(plain, tmp_path / f"{number}.keras", lambda name, content: content, {name: b"evil"})
        with pytest.raises(Failed, match="model.path: .*; files are within the archive; use a file from a source that"):
            built(path, tiny)
    many = {f"assets/{number}": b"" for number in range(10_001)}
    path = rewritten(saved / "plain.keras", tmp_path / "many.keras", lambda name, content: content, many)
    with pytest.raises(Failed, match="10,004 files; a model has 10,000 at most"):
        built(path, tiny)
    padded = lambda name, content: content + b" " * (65 << 20) if name == "config.json" else content  # noqa: E731
    path = rewritten(saved / "plain.keras", tmp_path / "bomb.keras", padded)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(Failed, match="bomb.keras: 68,[0-9,]* bytes; the architecture in a .keras file has 64 MiB"):
        built(path, tiny)
    with zipfile.ZipFile(tmp_path / "claims.keras", "w") as archive:
        for name in ("config.json", "a", "b", "c"):
            archive.writestr(name, b"{}")
        for entry in archive.filelist[1:]:
            entry.file_size = (4 << 30) - 16
    with pytest.raises(Failed, match="12,884,901,842 bytes when unpacked; a model has 8 GiB at most"):
        built(tmp_path / "claims.keras", tiny)
    layers = {"class_name": "Sequential", "config": {"layers": [{"class_name": "Dense"}] * 30_000}}
    path = rewritten(
        saved / "plain.keras",
        tmp_path / "layers.keras",
        lambda name, content: json.dumps(layers).encode() if name == "config.json" else content,
    )
    with pytest.raises(Failed, match="30,001 layers and their parts; a model has 20,000 at most"):
        built(path, tiny)


def sparse(file: h5py.File) -> None:
    """Four gigabytes that were never written."""
    file.create_dataset("layers/dense/vars/0", (1 << 20, 1 << 10), "float32", chunks=True)


def compressed(file: h5py.File) -> None:
    file.create_dataset("layers/dense/vars/0", data=np.zeros((1 << 10, 1 << 10), "float32"), compression="gzip")


def linked(file: h5py.File) -> None:
    file["layers"] = h5py.ExternalLink("/etc/passwd", "/")


def elsewhere(file: h5py.File) -> None:
    file.create_dataset("layers/dense/vars/0", (16, 7), "float32", external=[("/etc/passwd", 0, 448)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((16, 7), "float32")
    layout[:] = h5py.VirtualSource("/etc/passwd", "values", (16, 7))
    file.create_virtual_dataset("layers/dense/vars/0", layout)


def nothing(file: h5py.File) -> None:
    file.create_group("layers")


WEIGHTS = [
    (
        sparse,
        "weights of 4,294,967,296 bytes when unpacked; the model's variables are 540 bytes, and a file has 4 times",
    ),
    (compressed, "weights of 4,194,304 bytes when unpacked; the model's variables are 540 bytes"),
    (linked, "a link //layers; weights are in the file itself"),
    (elsewhere, "/layers/dense/vars/0, which is in another file; weights are in the file itself"),
    (virtual, "/layers/dense/vars/0, which is in another file; weights are in the file itself"),
    (nothing, "(its layers are those of Keras|layers/dense is not there; this model has)"),
]


@pytest.mark.parametrize(("make", "says"), WEIGHTS)
def test_hostile_weights_are_refused(
    make: Callable[[h5py.File], None], says: str, saved: Path, tiny: Snapshot, tmp_path: Path
) -> None:
    path = with_weights(saved, tmp_path / "hostile.keras", make)
    with pytest.raises(Failed, match=f"model.path: hostile.keras: .*{says}"):
        built(path, tiny, weights=True)
    with pytest.raises(Failed, match=f"train.init.path: hostile.keras: .*{says}"):
        initial_weights(FileInit(path=str(path)), None, MODEL, tiny.manifest["features"], 5)
    bare = tmp_path / "bare.weights.h5"
    path.with_suffix(".h5").rename(bare)
    with pytest.raises(
        Failed, match=f"train.init.path: bare.weights.h5: .*{says.replace('540 bytes', '[0-9,]* bytes')}"
    ):
        initial_weights(FileInit(path=str(bare)), None, MODEL, tiny.manifest["features"], 5)
