"""tensorflow-datasets: prepared ones are read without the package, others only on request, no network is waited for."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records, Snapshot
from tasks.errors import Failed, Refused
from tasks.feed import open_snapshot
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot
from tasks.sources import Rows, Source
from tasks.sources.kinds.catalogues import TfdsSource

CONFIG = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3}, shards=1)

BUILDERS = '''
import numpy as np
import tensorflow_datasets as tfds

class Local(tfds.core.GeneratorBasedBuilder):
    """Pictures of two kinds, by six painters."""
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
            "picture": tfds.features.Image(shape=(None, None, 3)),
            "kind": tfds.features.ClassLabel(names=["night", "day"]),
            "painter": tfds.features.Text(),
            "number": tfds.features.Scalar(np.int32),
            "more": {"nested": tfds.features.Text()},
        }))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(0, 40), "test": self._generate_examples(40, 50)}

    def _generate_examples(self, start, stop):
        for n in range(start, stop):
            picture = np.full((6, 5, 3), 200 if n % 2 else 10, np.uint8)
            picture[0, 0] = n
            yield n, {"picture": picture, "kind": n % 2, "painter": f"p{n % 6}", "number": n, "more": {"nested": "x"}}

class FromAfar(Local):
    def _split_generators(self, dl_manager):
        dl_manager.download("http://127.0.0.1:9/pictures.zip")
'''


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data sets in which `local` was prepared, by `download`, from a module of the user's own."""
    home = tmp_path_factory.mktemp("tfds")
    (home / "builders.py").write_text(BUILDERS)
    module = str(home / "builders.py")
    TfdsSource(dataset="local", data_dir=str(home / "sets"), module=module, download=True).open().fingerprint()
    return home / "sets"


def read(source: Source) -> list[Rows]:
    """All rows."""
    return [rows for piece in source.pieces() for rows in source.read(piece)]


def source(prepared: Path, **more: Any) -> TfdsSource:
    return TfdsSource.model_validate({"dataset": "local", "data_dir": str(prepared), **more})


def test_every_example_of_the_chosen_splits_is_read(prepared: Path, bench: Workbench, publish: Callable) -> None:
    made = publish(Records, bench, conversion.build(bench, source(prepared), CONFIG))
    reader = RecordsReader(made.path)
    assert set(reader.features) == {"key", "picture", "kind"}
    assert reader.features["kind"].classes == ("night", "day")
    collected = {}
    for split in reader.counts:
        for example in reader.iterate(split):
            pixels = np.asarray(Image.open(io.BytesIO(example["picture"][0])))
            assert int(pixels[0, 0, 0]) % 2 == example["kind"][0]
            collected[example["key"][0].decode()] = int(pixels[0, 0, 0])
    assert sorted(collected) == sorted([f"train/{n:07d}" for n in range(40)] + [f"test/{n:07d}" for n in range(10)])
    assert sorted(collected.values()) == list(range(50))
    assert sum(piece.where[-1] - piece.where[-2] for piece in source(prepared, splits=["test"]).open().pieces()) == 10


def test_a_label_of_none_of_the_classes_is_missing(prepared: Path) -> None:
    """Unlabelled test splits have -1."""
    opened: Any = source(prepared).open()
    assert opened._column("kind", [0, 1, -1, 2]).to_pylist() == ["night", "day", None, None]


def test_a_snapshot_is_made_of_them(prepared: Path, bench: Workbench, benches: Callable, publish: Callable) -> None:
    made = publish(Records, bench, conversion.build(bench, source(prepared), CONFIG))
    bench = benches("snapshot")
    layout = ImageSnapshot(height=6, width=5, channels=3)
    snapshot = open_snapshot(publish(Snapshot, bench, snapshots.build(bench, made, layout)).path)
    arrays = snapshot.arrays("train")
    np.testing.assert_array_equal(arrays["picture"][:][:, 0, 0, 0] % 2, arrays["label"][:])


def test_a_feature_is_key_or_group(prepared: Path, bench: Workbench, publish: Callable) -> None:
    with pytest.raises(Failed, match="occurs twice"):
        conversion.build(bench, source(prepared, key="painter"), CONFIG)


def test_the_digest_is_of_the_files_that_are_read(prepared: Path, tmp_path: Path) -> None:
    files = dict(source(prepared, splits=["test"]).open(tmp_path).fingerprint())
    assert sorted(files) == ["features.json", "kind.labels.txt", "local-test.tfrecord-00000-of-00001"]
    assert len(source(prepared).open().fingerprint()) == 4
    direct = TfdsSource(dataset="local", data_dir=str(prepared / "local/1.0.0"), splits=("test",))
    assert dict(direct.open().fingerprint()) == files


def test_what_is_not_there_is_refused_at_once_with_a_remedy(prepared: Path) -> None:
    started = time.monotonic()
    for config, field, says in [
        (
            source(prepared, dataset="mnist"),
            "source.dataset",
            r"not prepared in .* \(there: local/1.0.0\).*source.download",
        ),
        (source(prepared, dataset="local:2.0.0"), "source.dataset", "not prepared"),
        (source(prepared, dataset="no such!"), "source.dataset", "must be NAME"),
        (source(prepared / "nowhere"), "source.dataset", "there: nothing"),
        (
            source(prepared, dataset="new", module="builders", download=True),
            "source.module",
            "builders; a module that is not the path of a file .py must be installed",
        ),
        (source(prepared, dataset="new", module="no/where.py", download=True), "source.module", "no/where.py"),
        (source(prepared, splits=["dev"]), "source.splits", "it has train, test"),
        (
            source(prepared, label="painter"),
            "source.label",
            r"a class label of kind \(category\), more/nested \(text\)",
        ),
        (source(prepared, key="picture"), "source.key", "a text or a number"),
    ]:
        with pytest.raises(Refused, match=says) as refused:
            config.check()
        assert (refused.value.field, refused.value.exit_code) == (field, 2)
    assert time.monotonic() - started < 10


def test_an_unreachable_network_is_said_soon(prepared: Path) -> None:
    config = source(prepared, dataset="from_afar", module=str(prepared.parent / "builders.py"), download=True)
    config.check()
    started = time.monotonic()
    with pytest.raises(Failed, match="from_afar.*127.0.0.1") as failed:
        config.open().fingerprint()
    assert time.monotonic() - started < 120
    assert "\n" not in str(failed.value)
    assert not list(prepared.glob("from_afar/1*"))


def test_a_damaged_shard_is_named(prepared: Path, bench: Workbench, tmp_path: Path) -> None:
    copy = tmp_path / "sets"
    subprocess.run(["cp", "-r", str(prepared), str(copy)], check=True)
    shard = copy / "local/1.0.0/local-train.tfrecord-00000-of-00001"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(Failed, match="local-train.tfrecord-00000-of-00001 at byte"):
        conversion.build(bench, source(copy), CONFIG)
    shard.unlink()
    with pytest.raises(Refused, match="is missing"):
        source(copy).check()


def test_neither_tensorflow_nor_tfds_is_imported(prepared: Path) -> None:
    code = (
        "import sys; from tasks.sources.kinds.catalogues import TfdsSource; "
        f"config = TfdsSource(dataset='local', data_dir={str(prepared)!r}); config.check(); "
        "config.open().fingerprint(); "
        "assert not {'tensorflow', 'tensorflow_datasets', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
