"""`millrace init`: the preset that it writes for raw data runs unchanged."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flows.preset_text import TEXT_SIZES, preset_of
from tasks.artifacts import Records
from tasks.compression.methods.quantise import Int8Dynamic
from tasks.config.compose import load
from tasks.errors import Refused
from tasks.guess import Choices, guess_source
from tasks.models.architectures.transformer import TransformerModel
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.sources.kinds.folders import ImageFolderSource, TextFilesSource
from tests.support.documents import blocks, run_script
from tests.support.homes import ROOT, CommandHome, init
from tests.support.raw_data import pictures, texts


@pytest.mark.slow
def test_a_folder_of_images_becomes_a_preset_that_runs(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "My Shapes")
    answer = init(folder, tmp_path, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["preset"] == str(tmp_path / "my_shapes.yaml")
    assert answer.json["source"] == {"kind": "image_folder", "name": "my_shapes", "path": str(folder)}
    assert answer.json["counts"] == {"round": 12, "square": 12}
    config = load(tmp_path / "my_shapes.yaml")
    assert (config.snapshot.kind, config.model.kind, config.train.batch_size) == ("image", "convnet", 8)
    assert (config.snapshot.height, config.snapshot.width, config.snapshot.channels) == (20, 32, 3)

    home = CommandHome(tmp_path / "home")
    ran = home.here("run", "dataset", tmp_path / "my_shapes.yaml", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["metrics"]["convert/examples"] == 24

    again = init(folder, tmp_path, "--json")
    assert again.code == 2
    assert again.json["error"]["saw"] == "it exists"


@pytest.mark.parametrize("count", [3, 6, 20])
def test_no_split_of_few_examples_is_empty(tmp_path: Path, bench: Workbench, count: int) -> None:
    preset = guess_source(pictures(tmp_path / "few", count))
    (tmp_path / "few.yaml").write_text(preset_of(preset, Path("few.yaml")))
    config = load(tmp_path / "few.yaml")
    assert len(config.source.open().fingerprint()) == count
    counts = conversion.build(bench, config.source, config.records).counts
    assert counts["examples"] == count and all(counts[split] for split in config.records.names)


def test_sizes_are_those_of_the_images_within_reason(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    for number in range(6):
        path = folder / f"class{number % 2}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (600, 300), number).save(path)
    (folder / "class0/broken.png").write_bytes(b"broken")
    preset = guess_source(folder)
    assert preset.shape == (32, 64, 1)
    assert preset.sizes == "300 x 600"


def test_text_is_known_by_its_content(tmp_path: Path) -> None:
    preset = guess_source(texts(tmp_path / "book"))
    assert (preset.what, preset.source["glob"], preset.counts) == ("text", "**/*.md", {".md": 12})


@pytest.mark.parametrize(("count", "words", "block"), [(3, 1, 16), (12, 20, 16), (12, 200, 64), (60, 1000, 128)])
def test_texts_become_rows_of_tokens_in_every_split(
    tmp_path: Path, benches: Callable[[str], Workbench], publish: Callable, count: int, words: int, block: int
) -> None:
    """The preset is valid and suits the amount of text, and its first stages work, whatever empty or broken files."""
    folder = texts(tmp_path / "null", count, words)
    (folder / "latin.md").write_bytes("Überschrift".encode("latin-1"))
    (folder / "empty.md").touch()
    (tmp_path / "null.yaml").write_text(preset_of(guess_source(folder), Path("null.yaml")))
    config = load(tmp_path / "null.yaml")
    assert config.name == "null"
    assert (config.snapshot.kind, config.snapshot.block, config.model.kind) == ("tokens", block, "transformer")
    assert 100 <= config.train.steps <= 500
    bench = benches("records")
    made = publish(Records, bench, conversion.build(bench, config.source, config.records))
    assert made.manifest["counts"]["skipped"] == 1
    outcome = snapshots.build(benches("snapshot"), made, config.snapshot)
    rows = {split: row["tokens"] for split, row in outcome.statistics["splits"].items()}
    assert min(rows.values()) > 0
    assert outcome.counts["train"] * block >= rows["train"]


def test_every_line_of_a_preset_says_what_it_is_for(tmp_path: Path) -> None:
    """But for those that speak for themselves; comments stand in one column, and no path is broken by them."""
    for preset_read in (guess_source(texts(tmp_path / "a  # b")), guess_source(pictures(tmp_path / "c"))):
        preset = preset_of(preset_read, Path("x.yaml"))
        (tmp_path / "x.yaml").write_text(preset)
        assert load(tmp_path / "x.yaml").source.path == preset_read.source["path"]
        lines = [line for line in preset.splitlines() if ": " in line and not line.startswith("#")]
        plain = {line.split(":")[0].strip() for line in lines if "  # " not in line}
        assert plain <= {"kind", "width", "optimizer"}


def test_texts_that_tfds_prepared_become_a_preset(tmp_path: Path, bench: Workbench) -> None:
    """Records of ours lie as it lays them."""
    source = TextFilesSource(name="notes", path=str(texts(tmp_path / "notes")), glob="**/*.md")
    conversion.build(bench, source, RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3}))
    preset = guess_source(bench.staging.root / "dataset_info.json")
    assert (preset.what, preset.source["kind"], preset.examples) == ("text", "tfds", 12)
    assert preset.bytes == sum(path.stat().st_size for path in (tmp_path / "notes").rglob("*.md"))
    (tmp_path / "notes.yaml").write_text(preset_of(preset, Path("notes.yaml")))
    config = load(tmp_path / "notes.yaml")
    assert (config.model.kind, config.source.open().partitions()[0].where[2] > 0) == ("transformer", True)


def test_of_much_text_little_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "much").mkdir()
    for number in range(40):
        (tmp_path / f"much/{number}.txt").write_bytes(b"%04d " % number * 100_000)
    preset = guess_source(tmp_path / "much")
    assert preset.bytes == 20_000_000
    assert preset.splits.shares == {"train": 0.94, "validation": 0.03, "test": 0.03}


def test_records_of_ours_are_a_prepared_data_set(tmp_path: Path, bench: Workbench) -> None:
    """Records lie as tensorflow-datasets lays them, so they can be a source again."""
    source = ImageFolderSource(name="shapes", path=str(pictures(tmp_path / "shapes")))
    conversion.build(bench, source, RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3}))
    preset = guess_source(bench.staging.root)
    assert (preset.what, preset.examples, preset.classes) == ("images", 24, ["round", "square"])
    (tmp_path / "again.yaml").write_text(preset_of(preset, Path("again.yaml")))
    again = load(tmp_path / "again.yaml").source.open()
    assert sum(len(rows.keys) for piece in again.partitions() for rows in again.read(piece)) == 24


def test_of_two_kinds_of_files_one_is_asked_for_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    both = texts(pictures(tmp_path / "both"))
    asks = r"24 images, 12 .md; a preset reads one kind of files; add --suffix .png, or --suffix .md"
    answer = init(both, tmp_path)
    assert answer.code == 2 and asks in answer.stderr, answer.stderr
    assert guess_source(both, Choices(".png")).left_out == {".md": 12, ".csv": 1}
    answer = init(both, tmp_path, "--suffix", ".md")
    assert answer.code == 0 and "left out: .png 16, .JPG 8, .csv 1\n" in answer.stdout
    with pytest.raises(Refused, match=r"--suffix: .rst; .*choose one of images, .md"):
        guess_source(both, Choices(".rst"))
    few = pictures(tmp_path / "few")
    (few / "readme.md").write_text("# Shapes\n")
    assert (guess_source(few).what, guess_source(few).left_out) == ("images", {".md": 1})


def test_a_tar_file_of_class_folders_that_is_compressed_is_refused(tmp_path: Path) -> None:
    """As tar files of samples of a WebDataset may be compressed, it was taken for one."""
    folder = pictures(tmp_path / "shapes")
    for name, mode in (("plain.tar", "w"), ("packed.tar.gz", "w:gz")):
        with tarfile.open(tmp_path / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(folder, "shapes")
    assert guess_source(tmp_path / "plain.tar").classes == ["round", "square"]
    with pytest.raises(Refused, match=r"packed.tar.gz: compressed as a whole; .*gunzip packed.tar.gz"):
        guess_source(tmp_path / "packed.tar.gz")
    with tarfile.open(tmp_path / "rows.tar.gz", "w:gz") as archive:
        for number in range(40):
            content = json.dumps({"x": number * 1.5, "label": "ab"[number % 2]}).encode()
            member = tarfile.TarInfo(f"{number:05}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert guess_source(tmp_path / "rows.tar.gz").classes == ["a", "b"], "samples of one file are samples, too"


def test_of_two_data_sets_one_is_asked_for(tmp_path: Path) -> None:
    for name in ("shapes", "flowers"):
        pictures(tmp_path / "all" / name)
    with pytest.raises(
        Refused, match=r"flowers, shapes, each with folders of images: flowers/round, square; .* init flowers"
    ):
        guess_source(tmp_path / "all")
    assert guess_source(tmp_path / "all/shapes").classes == ["round", "square"]


def test_few_files_are_split_as_few_rows_are(tmp_path: Path) -> None:
    """Of 24 images a tenth are two: no model is better than a baseline by more than noise."""
    guess = guess_source(pictures(tmp_path / "few"))
    assert guess.splits.shares == {"train": 0.6, "validation": 0.2, "test": 0.2}
    assert "few images: 20% each for validation and test, and wide intervals in the report" in guess.said


def test_what_is_not_understood_is_refused_with_what_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/x.csv").write_text("a,b\n")
    (tmp_path / "tables/y.bin").write_bytes(os.urandom(99))
    (tmp_path / "story.md").write_text("Once upon a time.\n")
    (tmp_path / "rows.data").write_text("a\tb\n1\t2\n3\t4\n")
    (tmp_path / "rows.json").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    pictures(tmp_path / "outer/inner")
    (tmp_path / "data.zip").write_bytes(b"PK")
    (tmp_path / "data.rar").write_bytes(b"Rar!")
    (tmp_path / "set").mkdir()
    (tmp_path / "set/dataset_info.json").write_text("{}")
    (tmp_path / "set/x.tfrecord").touch()
    one = pictures(tmp_path / "one")
    for path in (one / "round").iterdir():
        path.unlink()
    splits = tmp_path / "splits"
    pictures(splits)
    (splits / "round").rename(splits / "train")
    (splits / "square").rename(splits / "test")
    loose = pictures(tmp_path / "loose")
    (loose / "extra.png").write_bytes((loose / "square/1.png").read_bytes())
    pair = texts(tmp_path / "pair", 2)
    (pair / "table.csv").unlink()
    for path, says in [
        (tmp_path / "nowhere", "no such file, folder or prepared data set"),
        (tmp_path / "empty", "no files; understood are: a file or folder of CSV"),
        (tmp_path / "tables", "no rows; a table has rows"),
        (tmp_path / "tables/x.csv", "no rows; a table has rows"),
        (one / "square/1.png", "one image; .*name the folder that holds the class folders"),
        (tmp_path / "story.md", "one text; texts are split by file.*split -n l/50 --additional-suffix=.md story.md"),
        (tmp_path / "rows.data", r"2 cells on each line, separated by '\\t'; .*name it so: cp rows.data rows.csv"),
        (tmp_path / "rows.json", "a JSON object on each line; .*name it so: cp rows.json rows.jsonl"),
        (tmp_path / "book.xlsx", "a spreadsheet; .*save the sheet as CSV"),
        (tmp_path / "data.zip", "File is not a zip file"),
        (tmp_path / "data.rar", "packed; .*unpack it"),
        (tmp_path / "set/x.tfrecord", "a file of a prepared data set; .*name its folder, .*set"),
        (pair, "2 examples; .*name a folder of several, or cut it up"),
        (one, "one class only, square"),
        (tmp_path / "outer", "where round, square in inner are the classes or splits, .*millrace init .*outer/inner"),
        (loose, "1 images in no class folder"),
        (splits, "images in no class folder, but in those of splits: test, train"),
        (pictures(tmp_path / "two", 2), "2 examples; train, validation and test need one each"),
    ]:
        with pytest.raises(Refused, match=says):
            guess_source(path)
    answer = init(tmp_path / "tables", tmp_path, "--json")
    assert (answer.code, answer.json["status"]) == (2, "refused")
    assert len(answer.messages) == 1
    assert json.loads(answer.stdout)["error"]["field"] == "PATH"
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.slow
def test_texts_become_a_preset_that_runs(tmp_path: Path) -> None:
    """From a few texts to a release. Of four test files nothing is better than a bigram model by more than noise."""
    assert init(texts(tmp_path / "book", 12, 200), tmp_path).code == 0
    flags = ("--promote.baseline", "none", "--json")
    answer = CommandHome(tmp_path / "home").here("run", "pipeline", tmp_path / "book.yaml", *flags)
    assert answer.code == 0, answer.stderr
    metrics = answer.json["metrics"]
    assert metrics["test/bits_per_byte"] < metrics["test/gzip_bits_per_byte"]


@pytest.mark.slow
def test_the_page_on_starting_works_as_it_stands(tmp_path: Path) -> None:
    [block] = blocks("docs/how-to-start.md")
    completed = run_script(block, ROOT, MILLRACE_HOME=tmp_path / "home", TMPDIR=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "wrote shapes.yaml" in completed.stdout
    assert "Traceback" not in completed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [sizes for _, sizes in TEXT_SIZES], ids=lambda sizes: str(sizes["width"]))
def test_the_int8_of_a_text_preset_passes_its_size_gate(sizes: dict[str, int], tmp_path: Path, tf: object) -> None:
    """By the model's size alone; zeros, which are stored once, are replaced, as training does."""
    from tasks.compression.methods import quantise
    from tasks.exporting import FORMATS

    config = TransformerModel(**{name: sizes[name] for name in ("width", "layers", "heads", "hidden")})
    model = config.build({"tokens": {"vocabulary": sizes["vocabulary"]}}, seed=1)
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=weight.shape) for weight in model.get_weights()])
    FORMATS["saved_model"].write(model, None, None, tmp_path / "saved_model")
    FORMATS["litert"].write(model, None, tmp_path / "saved_model", tmp_path / "float.tflite")
    content = (tmp_path / "float.tflite").read_bytes()
    assert len(quantise.int8(content)) / len(content) < Int8Dynamic.size_ratio - 0.005


def test_an_image_preset_keeps_the_best_and_stops_early(tmp_path: Path) -> None:
    (tmp_path / "shapes.yaml").write_text(preset_of(guess_source(pictures(tmp_path / "shapes")), Path("shapes.yaml")))
    train = load(tmp_path / "shapes.yaml").train
    assert train.select == "best" and train.early_stopping is not None
    assert train.steps is not None
    assert train.early_stopping.patience * train.evaluate_every < train.steps / 2
