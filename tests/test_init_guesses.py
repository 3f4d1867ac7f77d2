"""What columns, splits and sizes `millrace init` takes for what, at the edge of each rule."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from PIL import Image

from tasks.errors import Refused
from tasks.guess.candidates import tagged
from tasks.guess.column import FEW_CLASSES, Column, look, payload_kind
from tasks.guess.columns import guess_columns
from tasks.guess.examples import image_shape
from tasks.guess.forms import Form
from tasks.guess.found import Choices, Columns, Tagged
from tasks.guess.samples import Sample, kind_of_file
from tasks.guess.splits import (
    FEW_EXAMPLES,
    FEW_TEXTS,
    SHARES,
    Drawn,
    Splits,
    choose,
    examples_of,
    keep_splits,
    shares_of_text,
)
from tasks.guess.tables import few_to_judge, guess_table, weighted, worries_of_classes
from tasks.records.config import RecordsConfig
from tasks.sources.hashes import digests, split_numbers

HERE = Path()


def column(values: Any, root: Path = HERE) -> Column:
    return look(values if isinstance(values, pa.Array) else pa.array(values), root)


def test_types_of_columns_are_those_of_all_their_values() -> None:
    assert column(["1", "2.5", None, "NA"]).type == "number" and not column(["1", "2.5"]).whole
    assert column(["1", "2", "-3e2"]).whole and column([1.0, 2.0, None]).whole and not column([0.5]).whole
    assert column(["2024-01-01", "2024-05-31T18:30"]).type == "time" == column([datetime(2024, 1, 1)]).type
    assert column([True, False]).values == ("false", "true") and column([None, None]).type != "text"
    mostly = column([str(number) for number in range(50)] + ["x"])
    assert (mostly.type, mostly.missing, mostly.placeholders) == ("number", 1, {"x": 1})
    many = column([str(number) for number in range(50)] + ["x1", "x2", "x3"])
    assert many.type == "category" and many.why == "3 of its values are no numbers"
    assert (column(["1,5", "2"]).type, column(["1,5", "2"]).format) == ("number", {"decimal": ","})
    assert column([[1.0, 2.0], [3.0, 4.0]]).type == "number[2]" and column([[[1], [2]], None]).type == "number[2, 1]"
    assert column([[1.0], [1.0, 2.0]]).why == "its lists are of different lengths"


def test_a_text_has_four_words_or_forty_characters_and_many_values() -> None:
    many = FEW_CLASSES + 1
    assert column([f"one two three {number}" for number in range(many)]).type == "text"
    assert column([f"one two {number}" for number in range(many)]).type == "category"
    assert column([f"{number:040d}x" for number in range(many)]).type == "text"
    few = column([f"one two three {number % FEW_CLASSES}" for number in range(100)])
    assert few.type == "category" and len(few.values) == FEW_CLASSES
    assert column([f"v{number}" for number in range(many)]).values == (), "of many none are listed"


def test_files_are_known_by_their_first_bytes_or_as_paths_that_are_there(tmp_path: Path) -> None:
    assert payload_kind([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"]) == "image" == payload_kind([b"RIFFxxxxWEBP"])
    assert payload_kind([b"RIFFxxxxWAVE", b"fLaC"]) == "audio"
    for octets in (pa.binary(), pa.large_binary()):
        assert column(pa.array([b"\x89PNG\r\n\x1a\n", None], octets)).type == "image"
    tone = np.zeros(4000, np.float32)
    for form, kind in (("tiff", "image"), ("gif", "image"), ("ogg", "audio"), ("mp3", "audio")):
        file = io.BytesIO()
        Image.new("L", (8, 8)).save(file, form) if kind == "image" else soundfile.write(file, tone, 8000, format=form)
        assert payload_kind([file.getvalue()]) == kind, form
    assert payload_kind([]) == payload_kind([b"\x89PNG\r\n", b"text"]) == payload_kind([b"PNG"]) == "ignore"
    (tmp_path / "a.png").write_bytes(b"")
    assert column(["a.png"], tmp_path).type == "image" and column(["a.png", "b.png"], tmp_path).type == "category"


def guess(chosen: str | None = None, **columns: Any) -> Any:
    return guess_columns({name: pa.array(values) for name, values in columns.items()}, HERE, chosen)


SIZES = [float(number % 17) + 0.5 for number in range(60)]


def test_roles_are_those_of_names_and_values() -> None:
    found = guess(
        id=[f"r{n}" for n in range(60)], size=SIZES, constant=["x"] * 60, empty=pa.nulls(60), label=["a", "b"] * 30
    )
    assert (found.key, found.label, found.inputs, found.task) == ("id", "label", ["size"], "classification")
    assert found.types["constant"] == found.types["empty"] == "ignore" and found.classes == {"a": 30, "b": 30}
    assert any("constant: ignored, as all its values are equal" in line for line in found.said)
    repeated = guess(id=["r0"] * 2 + [f"r{n}" for n in range(58)], size=SIZES, label=["a", "b"] * 30)
    assert (repeated.key, repeated.group) == (None, "id"), "the two rows of r0 belong together"
    missing = guess(id=[None, *[f"r{n}" for n in range(59)]], size=SIZES, label=["a", "b"] * 30)
    assert missing.key is None


def test_what_is_to_be_predicted_is_no_split_though_it_is_called_one() -> None:
    splits = ["train", "test"] * 30
    found = guess(split=splits, size=SIZES, kind=["a", "b"] * 30)
    assert (found.split, found.splits, found.label) == ("split", ("test", "train"), "kind")
    chosen = guess("split", split=splits, size=SIZES)
    assert (chosen.split, chosen.label, chosen.inputs) == (None, "split", ["size"])


def test_columns_beside_words_and_their_tags_are_ignored_by_name() -> None:
    columns = {
        "id": [1, 2, 3],
        "words": [["a", "b"], ["c"], ["d"]],
        "tags": [["O", "B"], ["O"], ["B"]],
        "size": [1.0] * 3,
    }
    found = guess(**columns)
    assert (found.label, found.key, found.types) == (
        "tags",
        "id",
        {"id": "category", "words": "words", "tags": "tags", "size": "ignore"},
    )
    assert found.said[-1] == "ignored, as a tagger reads words: size"


@pytest.mark.parametrize(("rows", "shares"), [(FEW_EXAMPLES - 1, SHARES[1]), (FEW_EXAMPLES, SHARES[0])])
def test_of_few_rows_more_are_held_out(rows: int, shares: dict[str, float]) -> None:
    columns = {"label": pa.array(["a", "b"] * 30), "x": pa.array(SIZES)}
    form = Form({"label": "category", "x": "number"})
    sample = Sample({"kind": "csv", "path": "x.csv", "name": "x"}, columns, rows, False, HERE, form)
    found = guess_table(sample, Choices())
    assert found.splits.shares == shares and found.description == f"about {rows:,} rows of 2 columns"


def test_a_key_is_read_as_a_text_a_number_or_a_category() -> None:
    keys = {
        "text": [f"one two three four {n}" for n in range(60)],
        "number": list(range(60)),
        "category": [f"r{n}" for n in range(60)],
    }
    for kind, values in keys.items():
        found = guess_columns({"id": pa.array(values), "size": pa.array(SIZES)}, HERE, key="id")
        assert (found.key, found.types["id"], found.said[-2]) == ("id", kind, "id: the key")
    times = [f"2024-01-01T00:00:{n:02d}" for n in range(60)]
    found = guess_columns({"id": pa.array(times), "size": pa.array(SIZES)}, HERE, key="id")
    assert found.types["id"] == "category", "a time is no key, and its text is one"


def test_the_columns_that_are_ignored_are_named_where_none_is_left() -> None:
    columns = {"label": pa.array(["a", "b"] * 30), "x": pa.array(["x"] * 60), "y": pa.nulls(60)}
    form = Form(dict.fromkeys(columns, "text"))
    sample = Sample({"kind": "csv", "path": "x.csv", "name": "x"}, columns, 60, True, HERE, form)
    with pytest.raises(Refused) as refused:
        guess_table(sample, Choices())
    assert (
        refused.value.saw.startswith("no column beside label (x: ignored, ") and "; y: ignored, " in refused.value.saw
    )


@pytest.mark.parametrize(
    ("kind", "endings"),
    [
        ("csv", [f"{end}{packed}" for end in (".csv", ".tsv", ".CSV") for packed in ("", ".gz", ".zst", ".bz2")]),
        ("jsonl", [f"{end}{packed}" for end in (".jsonl", ".ndjson") for packed in ("", ".gz", ".zst", ".bz2")]),
        ("parquet", [".parquet", ".Parquet"]),
        ("tfrecord", [".tfrecord", ".tfrecord-00000-of-00002"]),
        ("webdataset", [".tar", ".tgz"]),
        (None, [".parquet.gz", ".json", ".csv.xz", ".csv.bak", ".gz", ""]),
    ],
)
def test_a_file_of_rows_is_known_by_its_ending(kind: str | None, endings: list[str]) -> None:
    assert {ending: kind_of_file(f"rows{ending}") for ending in endings} == dict.fromkeys(endings, kind)


def test_few_whole_numbers_are_classes_and_others_a_quantity() -> None:
    few = guess(size=SIZES, target=[n % FEW_CLASSES for n in range(60)])
    assert (few.label, few.task) == ("target", "classification") and list(few.classes)[:2] == ["0", "1"]
    many = guess(size=SIZES, target=[n % (FEW_CLASSES + 1) for n in range(60)])
    assert (many.targets, many.task, many.label) == (("target",), "regression", None)
    assert few.said == ("target: predicted as one of 20 classes (classification)",)
    assert many.said == ("target: predicted as a number, as it has 21 values (regression)",)
    halves = guess(size=SIZES, target=[(n % 4) / 2 for n in range(60)])
    assert halves.task == "regression"


def test_the_last_column_is_predicted_where_no_name_says_which() -> None:
    assert guess(kind=["a", "b"] * 30, size=SIZES).targets == ("size",)
    assert guess(size=SIZES, kind=["a", "b"] * 30).label == "kind"
    assert guess("kind", kind=["a", "b"] * 30, size=SIZES).label == "kind"
    unlike = guess(size=SIZES, kind=[f"v{n}" for n in range(60)])
    assert unlike.label is None, "as many classes as rows"
    assert guess(size=SIZES, kind=[f"v{n % 15}" for n in range(60)]).label == "kind", "four rows of each"
    assert guess(size=SIZES, kind=[f"v{n % 16}" for n in range(60)]).label is None


HASHES = digests([str(number).encode() for number in range(60)])[:, 0]


def test_a_seed_is_taken_with_which_every_split_is_large_enough() -> None:
    seeds = []
    for start in range(0, 600, 60):
        hashes = digests([str(number).encode() for number in range(start, start + 60)])[:, 0]
        shares, seed = choose(Drawn(hashes), SHARES) or ({}, -1)
        seeds.append(seed)
        filled = [np.bincount(split_numbers(hashes, shares, each), minlength=3)[[0, 2]] for each in range(seed + 1)]
        assert shares == SHARES[0] and (filled[-1] >= 6).all(), "6 of test and 6 of validation"
        assert all((each < 6).any() for each in filled[:-1]), "the first such seed"
    assert any(seeds)
    assert choose(Drawn(HASHES[:2]), SHARES) is None and choose(Drawn(HASHES[:3]), SHARES) is not None
    assert choose(Drawn(np.repeat(HASHES[:1], 50)), SHARES) is None, "of one content"
    many = digests([str(number).encode() for number in range(FEW_EXAMPLES)])[:, 0]
    assert choose(Drawn(many), SHARES) == (SHARES[0], 0)


def test_the_seed_has_most_classes_in_every_split() -> None:
    """Of four rows of a class test has none with the first seed of large splits."""
    labels = np.asarray([1] * 4 + [0] * 56)
    chosen = choose(Drawn(HASHES, labels), SHARES)
    assert chosen is not None and chosen != choose(Drawn(HASHES), SHARES)
    splits = split_numbers(HASHES, *chosen)
    assert all(len(np.unique(labels[splits == split])) == 2 for split in range(3))
    assert (np.bincount(splits)[[0, 2]] >= 6).all(), "and none is too small"
    labels[:4] = [1, 1, -1, -1]
    chosen = choose(Drawn(HASHES, labels), SHARES)
    assert chosen is not None
    splits = split_numbers(HASHES, *chosen)
    assert len({(split, label) for split, label in zip(splits, labels, strict=True) if label >= 0}) == 5, "two of three"


def test_of_much_text_a_smaller_share_is_held_out() -> None:
    assert shares_of_text(10_000_000, FEW_TEXTS)[0] == {"train": 0.9, "validation": 0.05, "test": 0.05}
    assert shares_of_text(1, FEW_TEXTS)[0] == {"train": 0.8, "validation": 0.1, "test": 0.1}
    assert shares_of_text(10_000_000, FEW_TEXTS - 1) == SHARES[1:]


def test_splits_of_the_source_are_kept_where_train_is_one_of_several() -> None:
    def kept(*names: str) -> Splits | None:
        return keep_splits({}, names, 10**6)

    assert kept("train") is None and kept("val", "test") is None
    assert kept("Train", "val", "test") == Splits(None, said="its splits are kept: Train, test, val")
    without_test = kept("train", "dev")
    assert without_test is not None and without_test.official == {"train": ["train"], "test": ["dev"]}
    assert "dev becomes test, as there is none; 10% of train becomes validation" in without_test.said
    without_validation = kept("train", "test")
    assert without_validation is not None and without_validation.official == {} and without_validation.shares is None
    assert without_validation.train_share == 0.8 == Splits(dict(SHARES[0])).train_share


@pytest.mark.parametrize("first", [0, 80, 90])
def test_of_few_examples_in_train_the_seed_leaves_some_for_validation(first: int, tmp_path: Path) -> None:
    """Whatever there is beside train, it is no part of validation: with seed 0 that is empty for the last two."""
    rows = [{"x": first + number, "split": "train" if number < 10 else "test"} for number in range(200)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({**row, "y": row["x"] / 7}) + "\n" for row in rows))
    source = {
        "kind": "jsonl",
        "path": str(tmp_path),
        "columns": {"x": "number", "y": "number", "split": "category"},
        "targets": ["y"],
        "split": "split",
    }
    kept = keep_splits(source, ("train", "test"), 200)
    assert kept is not None
    shares = {"train": 1 - RecordsConfig().validation_share, "validation": RecordsConfig().validation_share}
    drawn = examples_of(source, ["train"])
    assert len(drawn.hashes) == 10 and choose(drawn, [shares]) == (shares, kept.seed)
    assert (kept.seed > 0) == (first > 0)
    assert np.bincount(split_numbers(drawn.hashes, shares, kept.seed), minlength=2).all()


@pytest.mark.parametrize(
    ("classes", "weighs", "worries"),
    [
        ({"a": 101, "b": 20}, True, ["imbalanced classes (1 to 5)", "83% are of one class: average precision of b"]),
        ({"a": 100, "b": 20}, False, ["83% are of one class"]),
        ({"a": 101, "b": 19}, False, ["a class with 19 of the examples looked at"]),
        ({"a": 140, "b": 60}, False, []),
        ({"a": 142, "b": 60}, False, ["70% are of one class"]),
        ({"a": 142, "b": 30, "c": 30}, False, ["70% are of one class: macro f1 decides"]),
        ({}, False, []),
    ],
)
def test_classes_weigh_where_one_is_five_times_another_of_twenty(
    classes: dict[str, int], weighs: bool, worries: list[str]
) -> None:
    assert weighted(classes) is weighs
    said = list(worries_of_classes(classes))
    assert len(said) == len(worries) and all(map(str.startswith, said, worries))


@pytest.mark.parametrize(
    ("classes", "rows", "few"),
    [
        ({"no": 600, "yes": 400}, FEW_EXAMPLES, ""),
        ({"no": 600, "yes": 400}, FEW_EXAMPLES - 1, "few rows"),
        ({"no": 750, "yes": 250}, 1000, ""),
        ({"no": 751, "yes": 249}, 1000, "few rows of yes"),
        ({"no": 9600, "yes": 400}, 10_000, ""),
        ({"no": 9600, "yes": 400}, 6_000, "few rows of yes"),  # 240 of them
        ({"no": 981, "yes": 19}, 1000, ""),  # none decides
    ],
)
def test_splits_are_larger_where_few_rows_or_few_of_the_rare_class_would_be_judged(
    classes: dict[str, int], rows: int, few: str
) -> None:
    assert few_to_judge(Columns({}, classes=classes), rows) == few
    tagged = Columns({}, classes=classes, tagged=Tagged("words", "tags", classes, 9, 9))
    assert few_to_judge(tagged, rows) == ("few rows" if rows < FEW_EXAMPLES else ""), "macro F1 decides there always"


def picture(height: int, width: int, mode: str = "L") -> bytes:
    payload = io.BytesIO()
    Image.new(mode, (width, height)).save(payload, format="PNG")
    return payload.getvalue()


def test_images_are_fitted_by_their_median_side_up_to_64() -> None:
    assert image_shape([picture(30, 41)] * 2) == ((32, 40, 1), "30 x 41")
    assert image_shape([picture(100, 200), picture(100, 200, "RGB"), b"broken"])[0] == (32, 64, 3)
    sizes = [picture(8, 8), picture(20, 24), picture(60, 60)]
    assert image_shape(sizes) == ((20, 24, 1), "8 x 8 to 60 x 60")


def test_tags_are_lists_as_long_as_their_words_called_or_chosen_so() -> None:
    words = pa.array([["a", "b", "c"], ["d"], ["e", "f"]])
    tags = pa.array([["O", "B", "O"], ["O"], ["B", "O"]])
    found = tagged({"words": words, "tags": tags}, None)
    assert found is not None and (found.words, found.tags, found.classes) == ("words", "tags", {"B": 2, "O": 4})
    assert (found.longest, found.length, found.numbered) == (3, 16, False)
    assert tagged({"words": words, "others": tags}, None) is None
    chosen = tagged({"words": words, "others": tags}, "others")
    assert chosen is not None and chosen.tags == "others"
    shorter = pa.array([["O", "B"], ["O"], ["B", "O"]])
    assert tagged({"words": words, "tags": shorter}, None) is None
    assert tagged({"words": words, "tags": pa.array([["O"] * 3, ["O"], ["O"] * 2])}, None) is None, "one tag only"
    numbered = tagged({"words": words, "tags": pa.array([[10, 2, 2], [10], [2, 2]])}, None)
    assert numbered is not None and list(numbered.classes) == ["2", "10"] and numbered.numbered
    long = {
        "words": pa.array([["w"] * 17] * 200 + [["x"] * 600]),
        "tags": pa.array([["O", *["B"] * 16]] * 200 + [["O"] * 600]),
    }
    cut = tagged(long, None)
    assert cut is not None and (cut.length, cut.longest) == (32, 600), "a hundredth of the rows may be cut"
    longer = tagged({name: values.slice(195) for name, values in long.items()}, None)
    assert longer is not None and longer.length == 512, "no row is longer"


def test_a_model_reads_the_columns_that_have_no_role() -> None:
    types = dict.fromkeys(("id", "fold", "y", "z", "a"), "number") | {"left": "ignore"}
    assert Columns(types, "id", split="fold", targets=("y", "z")).inputs == ["a"]
    assert Columns(types, None, label="y").inputs == ["id", "fold", "z", "a"]


def test_roles_are_of_columns_that_can_have_them(tmp_path: Path) -> None:
    sample = {
        "id": pa.array([0.5 + number for number in range(12)]),
        "size": pa.array([1.5, 2.5, 3.5] * 4),
        "class": pa.array(["x", None] * 6),
        "shape": pa.array(["round", "square", None] * 4),
        "split": pa.array(["train", "test"] * 6),
    }
    found = guess_columns(sample, tmp_path)
    assert (found.key, found.label, found.split) == (None, "shape", "split"), "a fraction is no key, a split no class"
    assert found.classes == {"round": 4, "square": 4}, "a missing class is none"
    assert found.inputs == ["size", "class"], "what is there or not may tell something, but has one class"
    assert found.splits == ("test", "train")
    other = guess_columns({**sample, "split": pa.array(["train", "held back"] * 6)}, tmp_path)
    assert other.split is None and "split" in (*other.inputs, other.label)
    whole = guess_columns({**sample, "id": pa.array(range(12))}, tmp_path)
    assert whole.key == "id"
