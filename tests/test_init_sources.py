"""`millrace init` on files that other libraries wrote: it says what it saw, and its preset is valid and converts."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

from flows.preset_text import preset_of
from tasks.artifacts import Outcome, Records
from tasks.config.compose import Config, load
from tasks.errors import Refused
from tasks.guess import Choices, Guess, examples, guess_source
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.snapshots import work as snapshots
from tests.support.fresh import in_fresh_process
from tests.support.homes import CommandHome, init
from tests.support.raw_data import pictures, rows, texts, write_csv

RATE = 8000
Written = Callable[[Guess], tuple[Config, Outcome]]


@pytest.fixture
def convert(tmp_path: Path, benches: Callable[[str], Workbench], publish: Callable) -> Written:
    """Writes the preset of a guess, and converts and preprocesses its data."""

    def converted(guess: Guess) -> tuple[Config, Outcome]:
        (tmp_path / f"{guess.name}.yaml").write_text(preset_of(guess, Path(f"{guess.name}.yaml")))
        config = load(tmp_path / f"{guess.name}.yaml")
        bench = benches(f"records-{guess.name}")
        outcome = conversion.build(bench, config.source, config.records)
        assert outcome.counts["quarantined"] == 0 and all(outcome.counts[split] for split in config.records.names)
        made = publish(Records, bench, outcome)
        snapshots.build(benches(f"snapshot-{guess.name}"), made, config.snapshot)
        return config, outcome

    return converted


def tone(number: int, seconds: float = 0.3) -> np.ndarray:
    return 0.5 * np.sin(np.arange(int(seconds * RATE)) * (0.05 if number % 2 else 0.4)) + 0.001 * number


def sounds(root: Path, count: int = 24, folder: Callable[[int], str] = lambda number: "") -> Path:
    for number in range(count):
        path = root / folder(number) / ("high", "low")[number % 2] / f"{number}.{('wav', 'flac')[number % 3 == 0]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, tone(number), RATE)
    return root


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 99, (12, 16, 3), np.uint8) + np.uint8(120 * (number % 2))
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def tfrecord(path: Path, examples: list[dict[str, Any]]) -> Path:
    """A file as TensorFlow writes it, in a process of its own."""
    import tensorflow as tf

    def feature(value: Any) -> Any:
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            features = tf.train.Features(feature={name: feature(value) for name, value in example.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path


def tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_a_folder_of_sounds(tmp_path: Path, convert: Written) -> None:
    guess = guess_source(sounds(tmp_path / "tones"))
    assert guess.counts == {"high": 12, "low": 12}
    assert "sounds of 0.3 s at 8,000 Hz" in guess.said[0]
    config, outcome = convert(guess)
    assert (config.source.kind, config.snapshot.kind, config.model.kind) == ("audio_folder", "table", "mlp")
    transform = config.snapshot.transforms["audio"]
    assert (transform.rate, transform.seconds, transform.shape) == (8000, 0.3, (28, 40))
    assert outcome.counts["examples"] == 24


def test_long_sounds_of_several_rates_are_cut_and_have_few_frames(tmp_path: Path) -> None:
    root = sounds(tmp_path / "long", 18)
    for number in range(6):
        soundfile.write(root / f"low/long{number}.wav", np.zeros(12 * 44_100), 44_100)
    guess = guess_source(root)
    transform = guess.transforms["audio"]
    assert (transform["seconds"], transform["hop"], transform["rate"]) == (10.0, 0.1, 8000)
    assert "0.3 to 12 s at 8,000, 44,100 Hz; 25% of them are cut at 10 s" in guess.said[0]


def test_folders_of_splits_of_sounds_are_kept(tmp_path: Path, convert: Written) -> None:
    root = sounds(tmp_path / "kept", 40, lambda number: "train" if number % 4 else "val")
    guess = guess_source(root)
    assert guess.splits.said == (
        "its splits are kept: train, val; val becomes test, as there is none; 10% of train becomes validation"
    )
    config, outcome = convert(guess)
    assert config.source.split_folders and config.records.splits == "official"
    assert (outcome.counts["test"], outcome.counts["train"] + outcome.counts["validation"]) == (10, 30)


def test_tfrecord_files_of_rows(tmp_path: Path, convert: Written) -> None:
    examples = [
        {"age": number % 40 + 0.5, "pixels": [number, number + 1, 2], "city": f"city{number % 3}".encode()}
        | {"tags": [1] * (number % 3 + 1), "raw": b"\xff\x00" * 5, "label": number % 4}
        for number in range(80)
    ]
    guess = guess_source(tfrecord(tmp_path / "rows.tfrecord-00000-of-00001", examples))
    assert guess.columns.types == {
        "age": "number",
        "city": "category",
        "label": "category",
        "pixels": "number[3]",
        "raw": "ignore",
        "tags": "ignore",
    }
    said = "\n".join(guess.said)
    assert "tags: ignored, as it has 1 to 3 values" in said
    assert "raw: ignored, as its bytes are neither text nor an image nor a sound" in said
    config, _ = convert(guess)
    assert (config.source.kind, config.source.label, config.model.kind) == ("tfrecord", "label", "mlp")


def test_tfrecord_files_of_images_in_a_folder(tmp_path: Path, convert: Written) -> None:
    (tmp_path / "images").mkdir()
    for part in range(2):
        examples = [
            {
                "image/encoded": png(number),
                "image/height": number,
                "image/format": b"png",
                "image/class/label": number % 2,
            }
            for number in range(part, 60, 2)
        ]
        tfrecord(tmp_path / f"images/x.tfrecord-{part:05d}-of-00002", examples)
    guess = guess_source(tmp_path / "images")
    assert (guess.what, guess.columns.inputs, guess.shape) == ("images", ["image/encoded"], (12, 16, 3))
    assert "image/height: ignored, as it describes image/encoded" in guess.said
    config, _ = convert(guess)
    assert (config.snapshot.kind, config.model.kind) == ("image", "convnet")


def test_tfrecord_files_of_texts_alone(tmp_path: Path, convert: Written) -> None:
    texts = [
        {"text": f"{number}: rain falls gently upon every mountain, and on {number * 7}".encode()}
        for number in range(60)
    ]
    guess = guess_source(tfrecord(tmp_path / "texts.tfrecord", texts))
    assert (guess.what, guess.task) == ("text", "language_model")
    config, _ = convert(guess)
    assert (config.snapshot.kind, config.model.kind) == ("tokens", "transformer")


def test_what_is_no_example_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.tfrecord").write_bytes(b"nothing of the kind")
    with pytest.raises(Exception, match="TFRecord must be whole"):
        guess_source(tmp_path / "broken.tfrecord")


def test_a_tar_of_samples(tmp_path: Path, convert: Written) -> None:
    files: dict[str, bytes] = {}
    array = io.BytesIO()
    np.save(array, np.ones((2, 3), np.float32))
    for number in range(40):
        about = {"size": number, "by": {"name": f"ann{number % 2}"}}
        files |= {f"{number:03d}.png": png(number), f"{number:03d}.cls": b"%d" % (number % 2)}
        files |= {f"{number:03d}.json": json.dumps(about).encode(), f"{number:03d}.npy": array.getvalue()}
    guess = guess_source(tar(tmp_path / "samples.tar", files))
    types = {
        "cls": "category",
        "json.by.name": "category",
        "json.size": "ignore",
        "npy": "number[2, 3]",
        "png": "image",
    }
    assert guess.columns.types == types and guess.columns.label == "cls"
    assert guess.transforms == {"png": {"kind": "image", "height": 12, "width": 16, "channels": 3}}
    config, _ = convert(guess)
    assert (config.source.kind, config.snapshot.kind) == ("webdataset", "table")


def npy(*shape: int, kind: str = "float32") -> bytes:
    array = io.BytesIO()
    np.save(array, np.ones(shape, kind))
    return array.getvalue()


OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([{}], object), allow_pickle=True)


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        ([npy(3), npy(3), npy(3)], "number[3]"),
        ([npy(2, 3), npy(2, 3)], "number[2, 3]"),
        ([npy(1)], "number[1]"),
        ([npy(2, 3, kind="int64"), npy(2, 3)], "number[2, 3]"),
        ([npy(2, 3), npy(3, 2)], "ignore"),
        ([npy(6), npy(2, 3)], "ignore"),
        ([npy(3), npy(3), npy(4)], "ignore"),
        ([npy(4), npy(3), npy(4)], "ignore"),
        ([npy(), npy()], "ignore"),
        ([npy(), npy(3)], "ignore"),
        ([npy(3), npy(3)[:-2]], "ignore"),
        ([OBJECTS.getvalue()], "ignore"),
        ([b"no array"], "ignore"),
    ],
)
def test_arrays_in_a_tar_are_a_column_where_all_are_of_one_shape(
    contents: list[bytes], kind: str, tmp_path: Path
) -> None:
    """Otherwise all but those of one shape would be quarantined; it is ignored, and the reason is said."""
    files = {f"{number}.npy": content for number, content in enumerate(contents)}
    form = examples.webdataset(tar(tmp_path / "a.tar", files))
    assert form.types == {"npy": kind} and (set(form.unread) == {"npy"}) is (kind == "ignore")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1.0], [2.0]], "number"),
        ([[1.0, 2.0], [3.0, 4.0]], "number[2]"),
        ([[1.0, 2.0], [], [3.0, 4.0]], "number[2]"),  # one that lacks it
        ([[1.0], [1.0, 2.0]], "ignore"),
        ([[1.0, 2.0], [1.0]], "ignore"),
        ([[], []], "ignore"),
        ([[1, 2, 3], [4, 5, 6]], "number[3]"),
        ([[b"one"], [b"two"]], "text"),
        ([[b"one", b"two"], [b"three", b"four"]], "ignore"),
        ([[b"one"], [b"two", b"three"]], "ignore"),
        ([[b"one"], [b"\xff\xfe"]], "ignore"),
        ([[png(1)], [png(2)]], "image"),
        ([[png(1)], [b"one"]], "ignore"),
    ],
)
def test_values_of_an_example_are_a_column_where_there_are_always_as_many(values: list[Any], kind: str) -> None:
    of_feature = [value if value and isinstance(value[0], bytes) else np.array(value) for value in values]
    found, why = examples._feature([value for value in of_feature if len(value)])
    assert found == kind and bool(why) is (kind == "ignore")


def test_a_folder_of_tars_of_images_with_a_class(tmp_path: Path, convert: Written) -> None:
    (tmp_path / "tars").mkdir()
    for part in range(2):
        files = {
            f"{part}{n:03d}.{e}": c for n in range(20) for e, c in (("png", png(n + part)), ("cls", b"%d" % (n % 2)))
        }
        tar(tmp_path / f"tars/{part}.tar", files)
    guess = guess_source(tmp_path / "tars")
    assert (guess.what, guess.examples, guess.counts) == ("images", 40, {"0": 20, "1": 20})
    convert(guess)


@pytest.mark.parametrize("suffix", ["zip", "tar"])
def test_an_archive_of_class_folders(tmp_path: Path, convert: Written, suffix: str) -> None:
    shutil.make_archive(str(tmp_path / "shapes"), suffix, pictures(tmp_path / "top/My Shapes").parent)
    guess = guess_source(tmp_path / f"shapes.{suffix}")
    assert guess.source == {
        "kind": "image_folder",
        "name": "shapes",
        "path": str(tmp_path / f"shapes.{suffix}/My Shapes"),
    }
    assert guess.counts == {"round": 12, "square": 12}
    _, outcome = convert(guess)
    assert outcome.counts["examples"] == 24


def test_archives_of_sounds_and_texts(tmp_path: Path, convert: Written) -> None:
    shutil.make_archive(str(tmp_path / "tones"), "zip", sounds(tmp_path / "high and low"))
    assert convert(guess_source(tmp_path / "tones.zip"))[0].source.kind == "audio_folder"
    shutil.make_archive(str(tmp_path / "book"), "tar", texts(tmp_path / "parts"))
    guess = guess_source(tmp_path / "book.tar")
    assert (guess.what, guess.left_out, guess.name) == ("text", {".csv": 1}, "book")
    convert(guess)
    (tmp_path / "tables").mkdir()
    write_csv(tmp_path / "tables/a.csv", rows())
    shutil.make_archive(str(tmp_path / "tables"), "zip", tmp_path / "tables")
    with pytest.raises(Refused, match="1 .csv; understood are"):
        guess_source(tmp_path / "tables.zip")


PREPARED = '''
import sys
import numpy as np
import tensorflow_datasets as tfds

class Flowers(tfds.core.GeneratorBasedBuilder):
    """Numbers of flowers of two kinds."""
    VERSION = tfds.core.Version("1.0.0")
    more = False

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
            "features": tfds.features.Tensor(shape=(4,), dtype=np.float32),
            "kind": tfds.features.ClassLabel(names=["rose", "aster"]),
            **({"place": tfds.features.Text()} if self.more else {}),
        }))

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(*span) for name, span in
                {"train": (0, 60), "test": (60, 80), "extra": (80, 90)}.items()}

    def _generate_examples(self, start, stop):
        for n in range(start, stop):
            more = {"place": f"field {n % 5 // 2}"} if self.more else {}
            yield n, {"features": np.full(4, n, np.float32), "kind": n % 2, **more}

for Flowers.more in (False, True):
    Flowers(data_dir=f"{sys.argv[1]}/{('plain', 'more')[Flowers.more]}").download_and_prepare()
'''


@pytest.fixture(scope="module")
def prepared_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of a prepared data set, whose process loads TensorFlow once."""
    folder = tmp_path_factory.mktemp("sets")
    in_fresh_process(PREPARED, folder)
    return folder


def test_a_name_of_tensorflow_datasets(prepared_sets: Path, convert: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(prepared_sets / "plain"))
    for name in ("tfds:flowers", "flowers", "tfds:flowers:1.0.0"):
        guess = guess_source(name)
        assert (guess.name, guess.counts) == ("flowers", {"aster": 45, "rose": 45})
        assert guess.source == {
            "kind": "tfds",
            "name": "flowers",
            "dataset": name.removeprefix("tfds:"),
            "splits": ["test", "train"],
        }
    assert guess.splits.said == "its splits are kept: test, train; 10% of train becomes validation"
    config, outcome = convert(guess_source("flowers"))
    assert (outcome.counts["test"], outcome.counts["examples"], config.model.kind) == (20, 80, "mlp")
    with pytest.raises(Refused, match=r"mnist is not prepared in .*there: flowers/1.0.0.*prepare it first: tfds build"):
        guess_source("tfds:mnist")


def test_a_prepared_set_of_several_inputs_names_its_columns(prepared_sets: Path, convert: Written) -> None:
    guess = guess_source(prepared_sets / "more/flowers/1.0.0", Choices(label="kind"))
    assert guess.source["columns"] == {"features": "number[4]", "kind": "category", "place": "category"}
    assert "classes" not in guess.source
    config, outcome = convert(guess)
    assert config.source.label == "kind" and outcome.counts["examples"] == 80


@pytest.mark.parametrize(
    ("names", "official"),
    [(("train", "validation", "TEST"), {}), (("train", "dev"), {"train": ("train",), "test": ("dev",)})],
)
def test_a_column_of_splits_is_kept(tmp_path: Path, convert: Written, names: tuple[str, ...], official: Any) -> None:
    table = [{**row, "split": names[number % len(names)]} for number, row in enumerate(rows())]
    for row in table:
        del row["city"], row["same"], row["name"]
    guess = guess_source(write_csv(tmp_path / "table.csv", table))
    assert guess.columns.split == "split" and "its splits are kept" in guess.splits.said
    config, outcome = convert(guess)
    assert (config.records.splits, config.source.split, config.records.official) == ("official", "split", official)
    assert outcome.counts["test"] == 300 // len(names)


@pytest.mark.parametrize("folds", [[0, 1, 2], ["train", "test", "other"], ["val", "test"], ["train", "training"]])
def test_a_column_of_other_values_is_no_split(tmp_path: Path, folds: list[Any]) -> None:
    table = [{**row, "fold": folds[number % len(folds)]} for number, row in enumerate(rows())]
    guess = guess_source(write_csv(tmp_path / "table.csv", table))
    assert guess.splits.shares is not None


def test_few_rows_leave_no_split_empty(tmp_path: Path, convert: Written) -> None:
    table = [{"a": number * 0.5, "b": "xy"[number % 2], "label": "pq"[number % 2]} for number in range(12)]
    _, outcome = convert(guess_source(write_csv(tmp_path / "few.csv", table)))
    assert min(outcome.counts[split] for split in ("train", "validation", "test")) >= 2


def test_a_very_rare_class_has_no_weight(tmp_path: Path, convert: Written) -> None:
    table = [{"a": n * 0.5, "b": n % 9, "label": "rare" if n % 100 == 0 else "common"} for n in range(400)]
    guess = guess_source(write_csv(tmp_path / "rare.csv", table))
    assert "a class with 4 of the examples looked at: too few to be learned" in "\n".join(guess.said)
    assert convert(guess)[0].train.class_weights is None


@pytest.mark.slow
def test_sounds_become_a_preset_that_beats_the_majority(tmp_path: Path) -> None:
    """By how much, six test examples cannot say."""
    answer = init(sounds(tmp_path / "tones", 60), tmp_path)
    assert answer.code == 0 and "60 sounds of 2 classes: high 30, low 30" in answer.stdout, answer.stderr
    short = ["--train.steps", "60", "--train.schedule.warmup", "5"]
    short += ["--promote.baseline", "none"]
    ran = CommandHome(tmp_path / "home").here("run", "pipeline", tmp_path / "tones.yaml", *short, "--json")
    assert ran.code == 0, ran.stderr
    metrics = ran.json["metrics"]
    assert metrics["test/accuracy"] > metrics["test/majority_accuracy"]
