"""`millrace init` on words and their tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.preset_text import preset_of
from tasks.config.compose import load
from tasks.errors import Refused
from tasks.guess import Choices, Guess, guess_source

NAMES = ("O", "B-PER", "I-PER")
SEQUENCES = [
    ([f"word{number}", "Mr", f"Lee{number % 7}", *["Jr"] * (number % 2)], [0, 0, 1, *[2] * (number % 2)])
    for number in range(60)
]


def rows(**columns: Any) -> list[dict[str, Any]]:
    """Rows with words, tags, and constants."""
    return [{"words": words, "tags": [NAMES[tag] for tag in tags], **columns} for words, tags in SEQUENCES]


def guess(path: Path, content: list[dict[str, Any]], label: str | None = None) -> Guess:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))
    return guess_source(str(path), Choices(label=label))


def test_lists_of_one_length_are_words_and_their_tags(tmp_path: Path) -> None:
    found = guess(tmp_path / "names.jsonl", rows(topic="a"))
    assert found.what == "words" and found.task == "tagging"
    assert found.columns.types == {"words": "words", "tags": "tags", "topic": "ignore"}
    assert found.columns.label == "tags" and found.counts == {"B-PER": 60, "I-PER": 30, "O": 120}
    assert found.transforms["words"]["length"] == 16
    preset = tmp_path / "names.yaml"
    preset.write_text(preset_of(found, preset))
    config = load(preset)
    assert (config.model.kind, config.model.task, config.train.order) == ("encoder", "tagging", "lengths")


def test_numbers_of_classes_are_tags_in_their_order(tmp_path: Path) -> None:
    """As Hugging Face writes Parquet; the name decides between two lists that fit."""
    of_files = {"tokens": [words for words, _ in SEQUENCES], "ner_tags": [tags for _, tags in SEQUENCES]}
    capitals = [[int(word[0].isupper()) for word in words] for words, _ in SEQUENCES]
    pq.write_table(pa.table({"capital": capitals, **of_files}), tmp_path / "names.parquet")
    found = guess_source(str(tmp_path / "names.parquet"), Choices())
    assert found.columns.types == {"capital": "ignore", "tokens": "words", "ner_tags": "tags"}
    assert list(found.counts) == ["0", "1", "2"]
    assert any("source.classes" in line for line in found.said)
    chosen = guess_source(str(tmp_path / "names.parquet"), Choices(label="capital"))
    assert chosen.columns.label == "capital"


def test_lists_of_one_length_that_are_not_called_tags_leave_the_label_alone(tmp_path: Path) -> None:
    other = [{"words": row["words"], "parts": row["tags"], "price": n} for n, row in enumerate(rows())]
    found = guess(tmp_path / "names.jsonl", [{**row, "label": "ab"[row["price"] % 2]} for row in other])
    assert found.what == "table" and found.columns.label == "label"


def test_lists_of_other_lengths_are_no_tags(tmp_path: Path) -> None:
    shorter = [{**row, "tags": row["tags"][1:], "kind": "ab"[number % 2]} for number, row in enumerate(rows())]
    with pytest.raises(Refused, match="no column beside kind .*words: ignored, as its lists of words have no tags"):
        guess(tmp_path / "names.jsonl", shorter, "kind")
