"""Text as rows of tokens: lossless, every token a target once, and traceable to its document."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from tasks.artifacts import Records, Snapshot
from tasks.errors import Failed
from tasks.feed import open_snapshot
from tasks.feed.snapshot_reader import SnapshotReader, document_of_targets
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import text, tokens
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TokensSnapshot
from tasks.snapshots.text import Codec, fit, read_layout
from tasks.snapshots.tokens import _sample
from tasks.sources.kinds.folders import TextFilesSource
from tasks.sources.kinds.tables import JsonlSource
from tests.support.benches import contents
from tests.support.homes import CommandHome
from tests.support.raw_data import ODD

SPLITS = RecordsConfig(splits={"train": 0.5, "validation": 0.25, "test": 0.25}, shards=2)
BY_KEY = SPLITS.model_copy(update={"duplicates": "keep"})


def by_key(folder: Path, texts: dict[str, str]) -> JsonlSource:
    """Texts whose key decides their split, and not what they say."""
    lines = (json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items())
    (folder / "texts.jsonl").write_text("".join(lines))
    return JsonlSource(path=str(folder), columns={"id": "category", "text": "text"}, key="id")


LAYOUT = TokensSnapshot(vocabulary=600, block=32, shards=3)


GOLDEN = {
    "text-test.tfrecord-00001-of-00002": "4166decb25618f51ccd3ce8abe99333170e0b36853a7773b1d3cd877dc3c4657",
    "index/text-train.tfrecord-00000-of-00002.npy": "af0228f28ecc3cab184173c7864eb39772c4ea7a1525145f3b27e3a848bedec2",
    "dataset_info.json": "e4634e43a6b289889f394455cf15f906783595dc6acd31cf055c2cd8082b75aa",
    "features.json": "83596130eec1c3e88b3e2849368f934699221c9d845f3f4bedacb11827e704d5",
    "train/tokens-00001-of-00002.npy": "db9527dd5f0a1aedace42b855cad21550453128481c78979994c5b7c4ee1cf15",
    "test/origin-00000-of-00002.npy": "a916e51c39d909c0cdb7fdc533546ee10555d0006f032ed00b91b1a8dc74faba",
    "test/pieces-00001-of-00002.npy": "059eb96ef4a04b30f01aae2170c307d6151128a5fc632d2068af2eeaaa6a0a6c",
    "transform/tokenizer.json": "a72124d04e63d6f1c5fd3e72d3bc6593e670cdfaa240a6dedb21bef8c3e4faea",
    "transform/tokens.json": "06fe8ba806f4608366d2082d27af6d99dbac4a0f3aaa70e1a14a33b58e967628",
}


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Records:
    """Forty modules of the standard library, and what is odd; some documents are shorter than a row, some longer."""
    root = tmp_path_factory.mktemp("texts")
    stdlib = TextFilesSource(path="stdlib:", glob="[a-d]*.py")
    library = stdlib.open()
    for key, _ in library.fingerprint()[:40]:
        (root / f"{key}.txt").write_bytes((Path(sysconfig.get_path("stdlib")) / key).read_bytes())
    for name, content in ODD.items():
        (root / name).write_bytes(content)
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    return publish(Records, bench, conversion.build(bench, TextFilesSource(path=str(root)), SPLITS))


@pytest.fixture(scope="module")
def snapshot(
    parent: Records, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> SnapshotReader:
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    return open_snapshot(publish(Snapshot, bench, snapshots.build(bench, parent, LAYOUT)).path)


def test_targets_spell_every_document_byte_for_byte(parent: Records, snapshot: SnapshotReader) -> None:
    reader, codec = RecordsReader(parent.path), Codec.open(snapshot.path / "transform")
    for split, rows in snapshot.counts.items():
        tokens = np.asarray(snapshot.arrays(split)["tokens"])
        assert tokens.shape == (rows, 33)
        targets, owners = tokens[:, 1:], document_of_targets(snapshot, split)
        scored = targets != codec.bos
        assert (owners[scored] >= 0).all()
        sizes = np.array([len(example["text"][0]) for example in reader.iterate(split)])
        for number in range(reader.counts[split]):
            content = reader.example(split, number)["text"][0]
            assert codec.decode(targets[scored & (owners == number)]) == content
            assert sizes[number] == len(content)


def test_rows_overlap_by_one_token_and_end_in_bos(snapshot: SnapshotReader) -> None:
    bos = snapshot.features["tokens"]["bos"]
    for split in snapshot.counts:
        tokens = np.asarray(snapshot.arrays(split)["tokens"])
        np.testing.assert_array_equal(tokens[:-1, -1], tokens[1:, 0])
        assert tokens[0, 0] == bos
        owners = document_of_targets(snapshot, split)
        padding = owners == -1
        assert not padding[:-1].any()
        assert (tokens[:, 1:][padding] == bos).all()
        documents = int((tokens[:, 1:] == bos).sum() - padding.sum()) + 1
        assert documents == snapshot.manifest["statistics"]["splits"][split]["documents"]


def test_pieces_lead_from_a_row_to_its_records(parent: Records, snapshot: SnapshotReader) -> None:
    reader, codec = RecordsReader(parent.path), Codec.open(snapshot.path / "transform")
    for split in snapshot.counts:
        documents = [
            [codec.bos, *codec.encode([example["text"][0].decode()])[0].tolist()] for example in reader.iterate(split)
        ]
        tokens = snapshot.arrays(split)["tokens"]
        for row in range(snapshot.counts[split]):
            built = np.full(33, codec.bos)
            for record, begin, length, column in snapshot.pieces(split, row):
                built[column : column + length] = documents[record][begin : begin + length]
            np.testing.assert_array_equal(tokens[row], built)


def test_features_and_transform_say_what_a_model_needs(snapshot: SnapshotReader) -> None:
    feature = snapshot.features["tokens"]
    assert feature == {"dtype": "uint16", "shape": [33], "vocabulary": 600, "bos": 599}
    read_back = read_layout(snapshot.path / "transform")
    assert read_back == {
        "kind": "tokens", "tokenizer": "tokenizer.json", "vocabulary": 600, "bos": 599, "block": 32, "dtype": "uint16",
        "packing": "stream", "prompt": None,
    }  # fmt: skip
    assert sorted(path.name for path in (snapshot.path / "transform").iterdir()) == ["tokenizer.json", "tokens.json"]

    from tokenizers import Tokenizer

    alone = Tokenizer.from_file(str(snapshot.path / "transform/tokenizer.json"))
    text = "def f(x):\n\treturn 'naïve' # <bos>\r\n"
    assert alone.decode(alone.encode(text).ids) == text
    assert alone.encode(text).ids == Codec.open(snapshot.path / "transform").encode([text])[0].tolist()


def test_no_text_spells_bos_and_every_text_is_spelt(snapshot: SnapshotReader) -> None:
    codec = Codec.open(snapshot.path / "transform")
    random.seed(0)
    strange = "".join(chr(c) for c in random.sample([*range(0xD800), *range(0xE000, 0x110000)], 3000))
    texts = [
        "",
        "<bos>",
        "Ġ",
        "Ā<|endoftext|>",
        "".join(map(chr, range(0x250))),
        strange,
        *map(bytes.decode, ODD.values()),
    ]
    for each, encoded in zip(texts, codec.encode(texts), strict=True):
        assert codec.bos not in encoded
        assert codec.decode(encoded) == each.encode()


def test_the_tokenizer_is_fitted_on_the_train_split_alone(
    benches: Callable[[str], Workbench], publish: Callable, tmp_path: Path
) -> None:
    """Other texts in the test split make the same tokenizer."""

    def fitted(name: str, tail: str) -> str:
        root = tmp_path / name
        root.mkdir()
        texts = {f"{number}": f"some text {number} that is the same {number}\n" for number in range(40)}
        bench = benches(f"{name}-records")
        made = publish(Records, bench, conversion.build(bench, by_key(root, texts), SPLITS))
        reader = RecordsReader(made.path)
        for row in range(reader.counts["test"]):
            texts[reader.key("test", row)] = f"{row} {tail * 50}"
        bench = benches(f"{name}-again")
        made = publish(Records, bench, conversion.build(bench, by_key(root, texts), SPLITS))
        bench = benches(f"{name}-snapshot")
        snapshots.build(bench, made, TokensSnapshot(vocabulary=300, block=8))
        return (bench.staging.root / "transform/tokenizer.json").read_text()

    assert fitted("one", "aaaa ") == fitted("two", "quite other words ")


def test_the_tokenizer_is_fitted_on_a_bounded_sample_that_is_recorded(
    parent: Records, benches: Callable[[str], Workbench]
) -> None:
    whole = snapshots.build(benches("whole"), parent, LAYOUT).statistics["tokenizer"]
    assert whole["bytes"] == whole["of_bytes"] > 300_000
    reports: list[tuple[int, int, str]] = []
    bench = replace(benches("part"), progress=lambda *words, **figures: reports.append(words))
    bounded = LAYOUT.model_copy(update={"tokenizer_bytes": 120_000})
    part = snapshots.build(bench, parent, bounded)
    assert 119_000 < part.statistics["tokenizer"]["bytes"] <= 120_000
    assert part.statistics["tokenizer"]["of_bytes"] == whole["of_bytes"]
    documents = part.statistics["tokenizer"]["documents"]
    assert (120_000, 120_000, "bytes for the tokenizer") in reports
    assert 1 < documents < part.statistics["splits"]["train"]["documents"] / 2
    assert snapshots.build(bench, parent, bounded) == part, "an adopted tokenizer knows what it was fitted on"
    other = snapshots.build(benches("other"), parent, bounded.model_copy(update={"tokenizer_bytes": 121_000}))
    assert other.statistics["tokenizer"]["bytes"] > part.statistics["tokenizer"]["bytes"]


def test_a_sample_that_ends_within_a_character_leaves_it_out(
    benches: Callable[[str], Workbench], publish: Callable, tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    for number in range(9):
        (tmp_path / "texts" / f"{number}.txt").write_text("\u20ac" * (1100 + number))
    bench = benches("records")
    made = publish(Records, bench, conversion.build(bench, TextFilesSource(path=str(tmp_path / "texts")), BY_KEY))
    bench = benches("snapshot")
    layout = TokensSnapshot(vocabulary=300, block=8, tokenizer_bytes=1000)
    assert snapshots.build(bench, made, layout).statistics["tokenizer"]["bytes"] == 1000, "333 characters and a byte"
    merges = json.loads((bench.staging.root / "transform/tokenizer.json").read_bytes())["model"]["merges"]
    assert merges and "\u00ef" not in json.dumps(merges, ensure_ascii=False), "a byte of U+FFFD"


def test_the_sample_is_drawn_from_everywhere() -> None:
    drawn = _sample(np.full(1000, 50), 10_000)
    assert len(drawn) == 200 and (np.diff(drawn) > 0).all()
    assert all(20 < ((drawn >= low) & (drawn < low + 250)).sum() < 80 for low in range(0, 1000, 250))
    assert _sample(np.array([50, 60]), 110).tolist() == [0, 1]


LONG = {
    "words": "some words and others, " * 900,
    "letters": "\u8fd9\u662f\u4e00\u4e2a\u6ca1\u6709\u7a7a\u683c\u7684\u6587\u672c" * 1800,
    "spaces": ("a" + " " * 700 + "b" + "\n" * 300 + "-" * 500) * 12,
    "contractions": "".join("x" * (number % 7 + 1) + "'re" for number in range(3000)),
    "odd": "".join(map(chr, [*range(32, 0xD800), *range(0xE000, 0x11000)]))[:30_000],
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_is_fitted_and_encoded_in_segments_as_if_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [LONG[kind], "short", "", LONG[kind][5:7000]]
    whole = fit(texts, 300)
    monkeypatch.setattr(text, "SEGMENT", 1000)
    monkeypatch.setattr(text, "BATCH", 3000)
    read: list[int] = []
    assert fit(texts, 300, read.append) == whole
    assert len(read) > 20 and read == sorted(read) and read[-1] == sum(len(each.encode()) for each in texts)
    done: list[int] = []
    codec, alone = Codec(whole), tokenizers.Tokenizer.from_str(whole)
    encoded = codec.encode(texts, done.append)
    assert [tokens.tolist() for tokens in encoded] == [alone.encode(each).ids for each in texts]
    assert len(done) > 5 and done == sorted(done) and done[-1] == read[-1]
    assert b"".join(codec.decode(tokens) for tokens in encoded) == "".join(texts).encode()


def test_no_piece_is_longer_than_its_bound() -> None:
    """Within a piece the time of BPE is quadratic: a million letters without a space took an hour."""
    alone = tokenizers.Tokenizer.from_str(fit([LONG["letters"]], 300))
    for each in LONG.values():
        pieces = [end - start for _, (start, end) in alone.pre_tokenizer.pre_tokenize_str(each)]
        assert max(pieces) <= text.PIECE + 1 and sum(pieces) == len(each)


def test_the_progress_within_one_document_is_in_bytes(
    benches: Callable[[str], Workbench], publish: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, size in ((text, "SEGMENT", 1000), (text, "BATCH", 2000), (tokens, "REPORT_EVERY", 2000)):
        monkeypatch.setattr(module, name, size)
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text(f"{number} some words " * (2000 if number == 3 else 40))
    bench = benches("records")
    made = publish(Records, bench, conversion.build(bench, TextFilesSource(path=str(tmp_path)), SPLITS))
    reports: list[tuple[int, int, str]] = []
    bench = replace(benches("snapshot"), progress=lambda *words, **figures: reports.append(words))
    snapshots.build(bench, made, TokensSnapshot(vocabulary=300, block=8))
    done = [done for done, total, unit in reports if unit == "bytes"]
    assert len(done) > 8 and done == sorted(done) and done[-1] <= reports[-1][1]


def test_few_texts_make_a_small_vocabulary() -> None:
    codec = Codec(fit(["aaaa"], 4096))
    assert codec.bos + 1 == codec.vocabulary < 270
    assert codec.dtype == "uint16"


def test_a_killed_snapshot_goes_on_with_what_was_whole(parent: Records, bench: Workbench) -> None:
    root = bench.staging.root
    first = snapshots.build(bench, parent, LAYOUT)
    before = contents(root)
    born = {name: (root / name).stat().st_ino for name in before}
    assert "train/tokens-00002-of-00003.npy" in before
    assert any(name.startswith("checkpoints/train-") for name in before)
    lost = {"train/tokens-00001-of-00003.npy", "test/origin-00000-of-00003.npy", "validation/pieces-00002-of-00003.npy"}
    for name in lost | {"checkpoints/test-00000.npy"}:
        (root / name).unlink()
    damaged = "test/tokens-00000-of-00003.npy"
    (root / damaged).write_bytes(b"\0" + (root / damaged).read_bytes()[1:])

    assert snapshots.build(bench, parent, LAYOUT) == first
    assert contents(root) == before
    kept = {name for name in before if name.endswith(".npy") and not name.startswith("checkpoints/")} - lost - {damaged}
    assert all((root / name).stat().st_ino == born[name] for name in kept)
    assert not any("checkpoints" in row["path"] for row in bench.staging.rows())


def test_bytes_repeat_in_another_process_with_one_thread(parent: Records, bench: Workbench, tmp_path: Path) -> None:
    snapshots.build(bench, parent, LAYOUT)
    code = f"""
import sys
import sysconfig
from pathlib import Path
from dataclasses import replace
from tests.support.benches import workbench
from tasks.artifacts import Records
from tasks.snapshots.config import TokensSnapshot
from tasks.snapshots import work as snapshots
bench = replace(workbench(Path({str(tmp_path / "other")!r})), threads=1)
layout = TokensSnapshot.model_validate_json({LAYOUT.model_dump_json()!r})
snapshots.build(bench, Records("0", Path({str(parent.path)!r}), "records"), layout)
assert not {{"tensorflow", "keras"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)
    assert contents(tmp_path / "other") == contents(bench.staging.root)


def test_bytes_are_those_of_this_code_version(
    bench: Workbench, benches: Callable[[str], Workbench], publish: Callable, tmp_path: Path
) -> None:
    """Golden: where these change, RECORDS_VERSION or the version in its section must grow (or a library's has)."""
    (tmp_path / "texts").mkdir()
    for number in range(40):
        (tmp_path / f"texts/{number}.txt").write_text(f"for i in range({number}):\n    print(i, 'is', {number} - i)\n")
    config = TextFilesSource(path=str(tmp_path / "texts"))
    made = publish(Records, bench, conversion.build(bench, config, SPLITS))
    bench = benches("snapshot")
    snapshots.build(bench, made, TokensSnapshot(vocabulary=300, block=16, shards=2))
    all_contents = contents(made.path) | contents(bench.staging.root)
    assert {name: all_contents[name] for name in GOLDEN} == GOLDEN


def test_records_without_text_or_with_an_empty_split_fail(
    bench: Workbench, benches: Callable[[str], Workbench], publish: Callable, tmp_path: Path
) -> None:
    source = by_key(tmp_path, {f"{number}": "" for number in range(40)})
    made = publish(Records, bench, conversion.build(bench, source, BY_KEY))
    with pytest.raises(Failed, match="no text in it"):
        snapshots.build(benches("snapshot"), made, LAYOUT)
    features = json.loads(json.dumps(made.manifest["features"]).replace('"text"', '"words"'))
    (made.path / "manifest.json").write_text(json.dumps({**made.manifest, "features": features}))
    with pytest.raises(Failed, match="tokens are made of one input, a text"):
        snapshots.build(benches("other"), Records("0", made.path, "records"), LAYOUT)


@pytest.mark.slow
def test_the_standard_library_survives_kills(tmp_path: Path) -> None:
    """SIGKILL after the tokenizer, after encoded documents, after packed rows: in the end the bytes are the same."""
    preset = tmp_path / "library.yaml"
    preset.write_text(
        'name: library\nsource: {kind: text_files, path: "stdlib:", glob: "**/*.py"}\n'
        "snapshot: {kind: tokens, vocabulary: 1024, shards: 2}\ntrain: {steps: 1}\n"
    )
    unbroken, killed = CommandHome(tmp_path / "unbroken"), CommandHome(tmp_path / "killed")
    assert unbroken("run", "dataset", preset).code == 0
    staging = ".staging/snapshot/*/"
    for piece in ("transform/tokenizer.json", "checkpoints/train-00001.npy", "test/tokens-00001-of-*.npy"):
        assert killed.kill_when(
            lambda piece=piece: any(killed.root.glob(f"store/{staging}{piece}")), "run", "dataset", preset
        )
    assert killed("run", "dataset", preset).code == 0
    assert killed.artifacts() == unbroken.artifacts()
