"""Packing: every token once, no document cut that fits, attention within documents, prompts not learned."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.artifacts import Records, Snapshot
from tasks.errors import Failed, Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.feed import needs, open_snapshot
from tasks.feed.snapshot_reader import SnapshotReader, document_of_targets
from tasks.models.architectures.transformer import TransformerModel
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import packing
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TokensSnapshot
from tasks.snapshots.text import Codec
from tasks.sources.kinds.folders import TextFilesSource
from tasks.sources.kinds.tables import JsonlSource
from tasks.view.words import describe

BLOCK = 32
PAIRS = TokensSnapshot(vocabulary=400, block=BLOCK, packing="best_fit", prompt="question", shards=2)
SPLITS = RecordsConfig(splits={"train": 0.5, "validation": 0.2, "test": 0.3})


def spelt(packed: packing.Packed, lengths: np.ndarray) -> dict[int, list[int]]:
    """The places of each document that pieces name, in the order of the pieces."""
    places: dict[int, list[int]] = {number: [] for number in range(len(lengths))}
    for record, begin, length, _ in packed.pieces[np.lexsort((packed.pieces[:, 1], packed.pieces[:, 0]))]:
        places[int(record)] += range(begin, begin + length)
    return places


def test_stream_is_by_arithmetic_what_it_is_by_hand() -> None:
    generator = np.random.default_rng(3)
    for block in (1, 2, 5, 64):
        lengths = generator.integers(1, 12, 30)
        owner = np.repeat(np.arange(30), lengths)
        place = np.concatenate([np.arange(length) for length in lengths])
        packed = packing.stream(lengths, block)
        assert packed.rows == -(-(len(owner) - 1) // block)
        assert packed.origin[-1].sum() == len(packed.pieces)
        for row, (first, number) in enumerate(packed.origin):
            here = slice(row * block, row * block + block + 1)
            mine = packed.pieces[first : first + number]
            np.testing.assert_array_equal(np.repeat(mine[:, 0], mine[:, 2]), owner[here])
            by_piece = np.concatenate([np.arange(begin, begin + length) for _, begin, length, _ in mine])
            np.testing.assert_array_equal(by_piece, place[here])
            np.testing.assert_array_equal(mine[:, 3], np.cumsum(mine[:, 2]) - mine[:, 2])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 20), st.booleans())
def test_best_fit_places_every_token_once(sizes: list[int], block: int, cut: bool) -> None:
    lengths, width = np.array(sizes), block + 1
    packed = packing.best_fit(lengths, block, cut)
    for number, places in spelt(packed, lengths).items():
        assert places == list(range(min(sizes[number], width) if cut else sizes[number]))
    used = np.zeros((packed.rows, width), int)
    for row, (first, number) in enumerate(packed.origin):
        for record, begin, length, column in packed.pieces[first : first + number]:
            lead = int(begin > 0)  # a BOS that is not of the document
            used[row, column - lead : column + length] += 1
            assert lead == 0 or sizes[record] > width, "what fits is not cut"
    assert used.max() == 1 and (used[:, 0] == 1).all()
    filled = used.sum(axis=1)
    assert (np.diff(used, axis=1) <= 0).all(), "padding is at the end"
    assert packed.rows == 1 or (filled[:, None] + filled[None, :])[np.triu_indices(packed.rows, 1)].min() > width, (
        "two rows that would fit into one"
    )
    again = packing.best_fit(lengths, block, cut)
    np.testing.assert_array_equal(packed.pieces, again.pieces)


def test_best_fit_takes_the_fullest_row_with_room() -> None:
    packed = packing.best_fit(np.array([3, 6, 4, 2, 5]), 9)
    rows = [sorted(packed.pieces[first : first + number, 0].tolist()) for first, number in packed.origin]
    assert rows == [[1, 2], [0, 3, 4]], "6 + 4, and 5 + 3 + 2"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> tuple[Path, Path]:
    """Records of texts of many lengths, and their best-fit snapshot."""
    root = tmp_path_factory.mktemp("texts")
    for number in range(60):
        (root / f"{number:02d}.txt").write_text(f"{number} words and é. " * (1 + number % 13) + str(number))
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    made = publish(Records, bench, conversion.build(bench, TextFilesSource(path=str(root)), SPLITS))
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    config = TokensSnapshot(vocabulary=300, block=BLOCK, packing="best_fit", shards=2)
    return made.path, publish(Snapshot, bench, snapshots.build(bench, made, config)).path


def test_targets_spell_every_document_byte_for_byte(whole: tuple[Path, Path]) -> None:
    reader, snapshot = RecordsReader(whole[0]), open_snapshot(whole[1])
    codec = Codec.open(whole[1] / "transform")
    for split in snapshot.counts:
        tokens = np.asarray(snapshot.arrays(split)["tokens"])
        assert (tokens[:, 0] == codec.bos).all()
        targets, owners = tokens[:, 1:], document_of_targets(snapshot, split)
        for number in range(reader.counts[split]):
            own = targets[(owners == number) & (targets != codec.bos)]
            parts = snapshot.lineage(split)[1]
            order = np.argsort(parts[parts[:, 0] == number][:, 1])
            content = reader.example(split, number)["text"][0]
            if len(order) == 1:
                assert codec.decode(own) == content
            else:
                assert len(own) == len(codec.encode([content.decode()])[0])
        figures = snapshot.manifest["statistics"]["splits"][split]
        padding = (document_of_targets(snapshot, split) < 0).sum() - (targets[owners < 0] != codec.bos).sum()
        leads = (snapshot.lineage(split)[1][:, 1] > 0).sum()
        assert figures["padding"] >= padding - leads > 0


def test_a_document_is_read_as_if_it_were_alone(whole: tuple[Path, Path]) -> None:

    snapshot = open_snapshot(whole[1])
    features = snapshot.features
    tokens = np.asarray(snapshot.arrays("train")["tokens"])[:, :-1].astype(np.int32)
    bos = features["tokens"]["bos"]
    row = next(row for row in tokens if (row == bos).sum() >= 2 and row[-1] != bos)
    begin = int(np.flatnonzero(row == bos)[1])
    config = TransformerModel(width=32, layers=1, heads=2, hidden=32)
    for mask, same in (("auto", True), (True, True), (False, False)):
        model = config.model_copy(update={"document_mask": mask}).build(features, seed=1)
        for variable in model.trainable_variables:  # outputs of a block begin at zero
            variable.assign(np.random.default_rng(variable.shape[-1]).normal(size=variable.shape) * 0.3)
        in_row = np.asarray(model(row[None]))[0, begin:]
        alone = np.asarray(model(row[None, begin:]))[0]
        assert np.allclose(in_row, alone, atol=1e-3) == same, mask


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> tuple[Path, Path]:
    """Records of questions and answers, eight of which are too long for a row, and their snapshot."""
    path = tmp_path_factory.mktemp("pairs") / "sums.jsonl"
    rows: list[dict[str, Any]] = [
        {"question": f"What is {a} + {b}?", "answer": f" {a + b}, é."} for a in range(12) for b in range(8)
    ]
    rows += [{"question": f"{number} " * 40, "answer": "never seen"} for number in range(8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = JsonlSource.model_validate({"path": str(path), "columns": {"question": "text", "answer": "text"}})
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    made = publish(Records, bench, conversion.build(bench, source, SPLITS))
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    return made.path, publish(Snapshot, bench, snapshots.build(bench, made, PAIRS)).path


def answers(snapshot: SnapshotReader, split: str, codec: Codec) -> list[bytes]:
    """What is scored of each record, in order of record."""
    tokens, scored = (np.asarray(snapshot.arrays(split)[name])[:, 1:] for name in ("tokens", "scored"))
    owners = document_of_targets(snapshot, split)
    count = snapshot.manifest["statistics"]["splits"][split]["documents"]
    return [codec.decode(tokens[(owners == number) & (scored == 1)]) for number in range(count)]


def test_answers_and_their_end_are_scored_and_questions_are_not(pairs: tuple[Path, Path]) -> None:
    reader, snapshot, codec = RecordsReader(pairs[0]), open_snapshot(pairs[1]), Codec.open(pairs[1] / "transform")
    cut = 0
    for split in snapshot.counts:
        contents = [example["answer"][0] for example in reader.iterate(split)]
        too_long = [content == b"never seen" for content in contents]
        expected = [b"" if long else content for content, long in zip(contents, too_long, strict=True)]
        assert answers(snapshot, split, codec) == expected
        tokens, scored = (np.asarray(snapshot.arrays(split)[name]) for name in ("tokens", "scored"))
        ends = (tokens == codec.bos) & (scored == 1)
        assert ends.sum() == len(contents) - sum(too_long), "each answer ends in a BOS that is scored"
        figures = snapshot.manifest["statistics"]["splits"][split]
        assert figures["cut"] == sum(too_long)
        cut += figures["cut"]
        metrics = snapshot.manifest["statistics"]["metrics"]
        assert metrics[f"snapshot/{split}/cut"] == sum(too_long) / len(contents)
        assert 0 < metrics[f"snapshot/{split}/padding"] < 0.5
    assert cut == 8


def test_padding_and_cuts_are_said_where_there_are_any(whole: tuple[Path, Path], pairs: tuple[Path, Path]) -> None:
    for path, of in ((whole[1], ""), (pairs[1], ", 8 of 104 pairs cut")):
        manifest = json.loads((path / "manifest.json").read_bytes())
        splits = manifest["statistics"]["splits"].values()
        rows, padding = (sum(split[name] for split in splits) for name in ("rows", "padding"))
        said = describe(Snapshot("0" * 64, path, "snapshot"))
        assert said.endswith(
            f"vocabulary 300, {100 * padding / (rows * (BLOCK + 1)):.1f}% padding{of}".replace(
                "300", f"{manifest['features']['tokens']['vocabulary']:,}"
            )
        )


def test_loss_and_evaluation_count_the_answers_alone(pairs: tuple[Path, Path]) -> None:
    import tensorflow as tf

    from tasks.training.engines.objectives import LanguageModel

    snapshot = open_snapshot(pairs[1])
    feature, arrays = snapshot.features["tokens"], snapshot.arrays("test")
    batch = {name: tf.constant(np.asarray(array[:4])) for name, array in arrays.items()} | {"weight": tf.ones(4)}
    logits = np.random.default_rng(0).normal(size=(4, BLOCK, feature["vocabulary"])).astype(np.float32)
    sums = LanguageModel("cross_entropy", 0.0, feature["bos"])(batch, tf.constant(logits)).sums()
    scored = np.asarray(arrays["scored"][:4])[:, 1:] == 1
    assert float(sums["seen"]) == scored.sum()

    judge = make_judge("language_model", SnapshotSplit(pairs[1], pairs[0], "test"), EvaluateConfig(), None)
    kept = {"nats": np.ones((snapshot.counts["test"], BLOCK), np.float32)}
    predictions = judge.predictions(kept)
    assert predictions.tokens.sum() == np.asarray(arrays["scored"])[:, 1:].sum()
    asked = [(row["question"][0], row["answer"][0]) for row in RecordsReader(pairs[0]).iterate("test")]
    assert b"never seen" in dict(asked).values(), "a pair whose answer is cut off"
    seen = [(question, b"" if answer == b"never seen" else answer) for question, answer in asked]
    assert predictions.bytes.tolist() == [len(answer) for _, answer in seen]

    counts = np.ones((256, 256))
    for row in RecordsReader(pairs[0]).iterate("train"):
        text = row["question"][0][-1:] + row["answer"][0]
        for before, byte in itertools.pairwise(text):
            counts[before, byte] += 1
    chances = counts / counts.sum(axis=1, keepdims=True)
    bits = [
        -np.log2(chances[before, byte])
        for question, answer in seen
        for before, byte in zip(question[-1:] + answer, answer, strict=False)
    ]
    assert judge.baselines["bigram_bits_per_byte"] == pytest.approx(sum(bits) / len(bits))


def test_a_split_whose_answers_are_all_cut_off_is_no_split(
    tmp_path: Path, workbench_at: Callable, publish: Callable
) -> None:
    (tmp_path / "long.jsonl").write_text(
        "".join(json.dumps({"question": f"{number} " * 60, "answer": "ends"}) + "\n" for number in range(20))
    )
    source = JsonlSource.model_validate(
        {"path": str(tmp_path / "long.jsonl"), "columns": {"question": "text", "answer": "text"}}
    )
    bench = workbench_at(tmp_path / "records")
    made = publish(Records, bench, conversion.build(bench, source, SPLITS))
    bench = workbench_at(tmp_path / "snapshot")
    with pytest.raises(Failed, match="no text within snapshot.block"):
        snapshots.build(bench, made, PAIRS)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValidationError, match="needs packing: best_fit"):
        TokensSnapshot(prompt="question")
    text = {"kind": "text", "dtype": "string", "shape": [], "role": "input"}
    for features in (
        {"question": text},
        {"question": text, "answer": {**text, "kind": "category"}},
        {"a": text, "b": text},
    ):
        with pytest.raises(Refused, match="pairs are made of two inputs of type text"):
            needs.check_snapshot(features, PAIRS)
    needs.check_snapshot({"question": text, "answer": text}, PAIRS)


def test_a_split_without_a_scored_byte_is_refused_and_no_division_by_0(
    pairs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    split = SnapshotSplit(pairs[1], pairs[0], "test")
    documents = split.documents()
    monkeypatch.setattr(split, "documents", lambda: replace(documents, contents=[b""] * len(documents.contents)))
    with pytest.raises(Failed, match="split test: none of .* files has a byte that is scored"):
        make_judge("language_model", split, EvaluateConfig(), None)


def test_files_of_which_nothing_is_scored_are_no_slice_of_their_own(pairs: tuple[Path, Path]) -> None:
    judge = make_judge("language_model", SnapshotSplit(pairs[1], pairs[0], "test"), EvaluateConfig(), None)
    predictions = judge.predictions({"nats": np.ones((open_snapshot(pairs[1]).counts["test"], BLOCK), np.float32)})
    assert (predictions.bytes == 0).any() and judge.slices(predictions)
    assert all(predictions.bytes[mask].sum() > 0 for mask in judge.slices(predictions).values())
