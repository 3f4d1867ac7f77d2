"""The numbers that `millrace init` writes into a preset: sizes, steps and batches by how much there is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.preset_text import preset_of
from tasks.evaluation.config import EvaluateConfig
from tasks.guess.found import Columns, Guess, Tagged
from tasks.guess.splits import Splits

SPLITS = Splits({"train": 0.8, "validation": 0.1, "test": 0.1}, seed=3)
LABELLED = Columns({"a": "number", "kind": "category"}, label="kind", classes={"x": 5, "y": 5})
TAGGED = Columns({"words": "words", "tags": "tags"}, tagged=Tagged("words", "tags", {"B": 1, "O": 1}, 9, 9))
SOURCE = {"kind": "csv", "path": "data/a b.csv", "name": "irises", "columns": {"a": "number", "kind": "category"}}


def guess_of(what: Any, examples: int, columns: Columns = LABELLED, **more: Any) -> Guess:
    found = {"source": SOURCE, "counts": {}, "description": "150 rows", "splits": SPLITS, "columns": columns, **more}
    return Guess(what=what, examples=examples, **found)


def written(guess: Guess, rules: Path | None = None) -> tuple[dict[str, Any], str]:
    """The preset, and its text."""
    text = preset_of(guess, Path("presets/x.yaml"), rules)
    return yaml.safe_load(text), text


def numbers(guess: Guess) -> tuple[Any, ...]:
    """Steps, batch, warm-up, steps between evaluations, and about how many passes over how much."""
    preset, text = written(guess)
    train = preset["train"]
    assert train["checkpoint"]["every"] == train["evaluate_every"]
    [said] = re.findall(r"steps: \d+ +# about (.+) over (\S+)", text)
    return train["steps"], train["batch_size"], train["schedule"]["warmup"], train["evaluate_every"], *said


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (10, (200, 8, 10, 10, "200 passes", "8")),  # the least steps and the smallest batch
        (200, (200, 40, 10, 10, "50 passes", "160")),  # four batches are a pass
        (5_000, (1250, 64, 50, 62, "20 passes", "4,000")),
        (100_000, (4000, 64, 50, 200, "3 passes", "80,000")),  # the most steps
    ],
)
def test_images_have_twenty_passes_within_reason(examples: int, expected: tuple[Any, ...]) -> None:
    assert numbers(guess_of("images", examples, shape=(32, 32, 3))) == expected


@pytest.mark.parametrize(
    ("examples", "expected", "dropout"),
    [
        (999, (998, 32, 49, 49, "40 passes", "799"), 0.3),
        (1_000, (1000, 32, 50, 50, "40 passes", "800"), 0.1),
        (2_500, (2500, 32, 50, 125, "40 passes", "2,000"), 0.1),
        (2_502, (625, 128, 31, 31, "40 passes", "2,001"), 0.1),
        (62_500, (15625, 128, 50, 781, "40 passes", "50,000"), 0.1),
        (62_502, (1953, 1024, 50, 97, "40 passes", "50,001"), 0.1),
        (9_000_000, (20000, 1024, 50, 1000, "3 passes", "7,200,000"), 0.1),
    ],
)
def test_tables_have_forty_passes_within_reason(examples: int, expected: tuple[Any, ...], dropout: float) -> None:
    guess = guess_of("table", examples)
    assert numbers(guess) == expected and written(guess)[0]["model"]["dropout"] == dropout


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (2_500, (2500, 16, 50, 125, "20 passes", "2,000")),
        (2_502, (1250, 32, 50, 62, "20 passes", "2,001")),
        (100, (200, 16, 10, 10, "40 passes", "80")),
    ],
)
def test_sequences_have_twenty_passes_within_reason(examples: int, expected: tuple[Any, ...]) -> None:
    transforms = {"words": {"kind": "tokens", "length": 9}}
    guess = guess_of("words", examples, TAGGED, transforms=transforms)
    assert numbers(guess) == expected
    assert written(guess)[0]["snapshot"]["transforms"] == transforms


@pytest.mark.parametrize(
    ("size", "block", "width", "expected"),
    [
        (125, 16, 96, (100, 8, 10, 25, "388 passes", "0.1 kB")),
        (3_000, 32, 96, (100, 8, 10, 25, "32 passes", "2.4 kB")),
        (125_000, 64, 96, (500, 8, 50, 125, "8 passes", "100.0 kB")),
        (125_100, 128, 128, (500, 8, 50, 125, "15 passes", "100.1 kB")),
        (3_750_000, 128, 128, (500, 8, 50, 125, "0.5 of a pass", "3.0 MB")),
        (3_760_000, 256, 256, (500, 8, 50, 125, "1 of a pass", "3.0 MB")),
    ],
)
def test_a_text_has_a_model_of_its_size_and_rows_enough(
    size: int, block: int, width: int, expected: tuple[Any, ...]
) -> None:
    guess = guess_of("text", 1, bytes=size)
    preset, text = written(guess)
    train = preset["train"]
    assert (preset["snapshot"]["block"], preset["model"]["width"]) == (block, width)
    assert preset["model"]["width"] % preset["model"]["heads"] == 0
    [said] = re.findall(r"steps: \d+ +# about (.+) over (.+) of text", text)
    found = (train["steps"], train["batch_size"], train["schedule"]["warmup"], train["evaluate_every"], *said)
    assert found == expected and train["checkpoint"]["every"] == train["evaluate_every"]


@pytest.mark.parametrize(("shape", "filters"), [((31, 64, 1), 2), ((64, 31, 1), 2), ((32, 32, 3), 3)])
def test_a_small_image_is_halved_less_often(shape: tuple[int, int, int], filters: int) -> None:
    preset, _ = written(guess_of("images", 500, shape=shape))
    snapshot = preset["snapshot"]
    assert (snapshot["height"], snapshot["width"], snapshot["channels"]) == shape
    assert preset["model"]["filters"] == [32, 64, 128][:filters]


@pytest.mark.parametrize(
    ("sizes", "weighs"), [({"x": 50, "y": 50}, False), ({"x": 500, "y": 20}, True), ({"x": 500, "y": 1}, False)]
)
@pytest.mark.parametrize("what", ["images", "table"])
def test_classes_of_unlike_sizes_are_weighed_and_very_rare_ones_are_not(
    what: str, sizes: dict[str, int], weighs: bool
) -> None:
    preset, _ = written(guess_of(what, 600, replace(LABELLED, classes=sizes), shape=(32, 32, 1)))
    assert preset["train"].get("class_weights") == ("balanced" if weighs else None)


@pytest.mark.parametrize(
    ("sizes", "decides", "share"),
    [
        ({"no": 700, "yes": 300}, None, ""),  # the share is not above 0.7
        ({"no": 710, "yes": 290}, {"primary": "average_precision", "positive": "yes"}, "71% are no"),
        ({"bad": 40, "good": 960}, {"primary": "average_precision", "positive": "bad"}, "96% are good"),
        ({"0": 900, "1": 100}, {"primary": "average_precision", "positive": "1"}, "90% are 0"),
        ({"bad": 19, "good": 960}, None, ""),  # too few to be judged by
        ({"a": 800, "b": 100, "c": 100}, {"primary": "macro_f1"}, "80% are a"),
        ({"a": 700, "b": 200, "c": 100}, None, ""),
        ({}, None, ""),  # of a regression
    ],
)
@pytest.mark.parametrize("what", ["images", "table"])
def test_where_most_are_of_one_class_another_metric_than_accuracy_decides_and_says_why(
    what: str, sizes: dict[str, int], decides: dict[str, str] | None, share: str
) -> None:
    preset, text = written(guess_of(what, 1000, replace(LABELLED, classes=sizes), shape=(32, 32, 1)))
    assert preset.get("evaluate") == decides
    said = [line.partition("#")[2].strip() for line in text.splitlines() if "  primary: " in line]
    assert said == ([f"accuracy says little: {share}"] if decides else [])
    EvaluateConfig(**(decides or {})).fit("classification")


def test_a_preset_has_the_source_the_splits_and_the_rules_that_were_found() -> None:
    preset, text = written(guess_of("table", 500, transforms={"a b": {"kind": "bins", "count": 8}}))
    assert preset["source"] == SOURCE and preset["name"] == "irises" and preset["seed"] == 1
    assert preset["records"] == {"splits": SPLITS.shares, "split_seed": 3, "bad_budget": 0}
    assert preset["snapshot"] == {"kind": "table", "transforms": {"a b": {"kind": "bins", "count": 8}}}
    assert "millrace run presets/x.yaml\n" in text
    ruled, _ = written(guess_of("table", 500), Path("x.schema.yaml"))
    assert ruled["records"]["schema_file"] == "x.schema.yaml" and ruled["snapshot"] == {"kind": "table"}
    for named in ({}, {"train": ["a"], "test": ["b", "c"]}):
        kept, _ = written(replace(guess_of("table", 500), splits=Splits(None, official=named)))
        official = {"official": named} if named else {}
        assert kept["records"] == {"splits": "official", **official, "split_seed": 0, "bad_budget": 0}


@pytest.mark.parametrize("word", ["yes", "null", "1e3", "a b", "ä", "a: b", "0x1", "plain_name", "'", "#"])
def test_a_name_is_read_as_it_was_written_whatever_yaml_makes_of_it(word: str) -> None:
    source = {**SOURCE, "name": word, "columns": {word: "number"}}
    preset, _ = written(replace(guess_of("table", 500), source=source))
    assert (preset["name"], preset["source"]["columns"]) == (word, {word: "number"})


def test_what_is_predicted_is_named_and_of_many_classes_the_first() -> None:
    def of(what: str, **columns: Any) -> str:
        _, text = written(guess_of(what, 500, replace(LABELLED, **columns), shape=(32, 32, 1), task="regression"))
        [line] = [line for line in text.splitlines() if line.startswith("  task: ")]
        return line.partition("#")[2].strip()

    many = {str(number): 5 for number in range(7)}
    assert of("images", classes=many) == "0, 1, 2, 3, 4, 5, …"
    assert of("images", classes={name: many[name] for name in list(many)[:6]}) == "0, 1, 2, 3, 4, 5"
    assert of("images", classes={}, targets=("u", "v")) == "u, v"
    assert of("table") == "of kind" and of("table", label=None, targets=("u", "v")) == "of u, v"
