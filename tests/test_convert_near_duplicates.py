"""Similar texts and images are found, named and handled; an input that is in train and in test is said."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from tasks.artifacts import Artifact, Outcome, Records
from tasks.config.base import Conflict
from tasks.errors import Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion, near
from tasks.records.config import NearDuplicates, RecordsConfig
from tasks.records.near import MEASURES, SIGNATURE, Compared, compared
from tasks.records.near.search import TRIED, Row, _compare, _Joined, _pair, _signatures
from tasks.records.reading import RecordsReader
from tasks.sources.features import Feature
from tasks.sources.hashes import digests, split_numbers
from tasks.sources.kinds.folders import ImageFolderSource
from tasks.sources.kinds.tables import JsonlSource
from tasks.view.sections import data
from tasks.view.words import describe
from tests.support.homes import CommandHome
from tests.support.tables import feature

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}
WORDS = [a + b + c for a in "kmprt" for b in "aeiou" for c in ("n", "la", "sto", "vim")]


def texts(count: int = 90) -> dict[str, str]:
    """Texts of 40 words by key; every third has two more that differ in one word, or one that differs in
    five, which is a little too much; and a chain of four."""
    random = np.random.default_rng(5)
    made: dict[str, str] = {}
    for number in range(count):
        words = random.choice(WORDS, 40).tolist()
        made[f"t{number:03d}"] = " ".join(words)
        for copy in range(2 * (number % 3 == 0)):
            made[f"t{number:03d}.{copy}"] = " ".join([*words[: 7 + copy], "changed", *words[8 + copy :]])
        if number % 3 == 1:
            far = [word if place % 9 else "xyzab" for place, word in enumerate(words)]
            made[f"t{number:03d}.far"] = " ".join(far)
    chain = random.choice(WORDS, 40).tolist()
    for link in range(4):
        chain[9 * link : 9 * link + 3] = ["other"] * 3
        made[f"chain{link}"] = " ".join(chain).upper()
    return made


def jaccard(one: str, other: str) -> float:
    sets = [{plain[n : n + 5] for n in range(len(plain) - 4)} for plain in (one.lower(), other.lower())]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def components(of: dict[str, str], least: float) -> list[list[str]]:
    """The groups, by comparing each text with each."""
    home = {key: {key} for key in of}
    for one, other in combinations(of, 2):
        if home[one] is not home[other] and jaccard(of[one], of[other]) >= least:
            home[one] |= home[other]
            home.update(dict.fromkeys(home[one], home[one]))
    return sorted(sorted(group) for group in {id(group): group for group in home.values()}.values() if len(group) > 1)


def source_of(folder: Path, rows: dict[str, str]) -> JsonlSource:
    """Texts by key, in three files."""
    for number in range(3):
        values = [{"id": key, "body": body, "label": sum(key.encode()) % 2} for key, body in rows.items()]
        lines = [json.dumps(value) for value in values]
        (folder / f"{number}.jsonl").write_text("\n".join(lines[number::3]) + "\n")
    columns: Any = {"id": "category", "body": "text", "label": "category"}
    return JsonlSource(path=str(folder), glob="*.jsonl", columns=columns, key="id", label="label")


@pytest.fixture
def convert(tmp_path: Path, publish: Callable) -> Callable[..., tuple[Outcome, Artifact]]:
    """`convert(bench, rows, **records)`: records of texts by key."""

    def made(bench: Workbench, rows: dict[str, str], **config: Any) -> tuple[Outcome, Artifact]:
        source = source_of(tmp_path, rows)
        outcome = conversion.build(bench, source, RecordsConfig.model_validate({"splits": SHARES, **config}))
        counts = outcome.counts
        assert counts["read"] == counts["examples"] + counts["quarantined"] + counts["filtered"] == len(rows)
        return outcome, publish(Records, bench, outcome)

    return made


def homes(made: Artifact) -> dict[str, str]:
    """The split of each key."""
    reader = RecordsReader(made.path)
    return {reader.key(split, row): split for split, count in reader.counts.items() for row in range(count)}


def test_similar_texts_are_those_that_a_comparison_of_all_finds(bench: Workbench, convert: Callable) -> None:
    rows = texts()
    groups, (plain, _) = components(rows, 0.8), convert(bench, rows)
    assert 0.65 < jaccard(rows["t001"], rows["t001.far"]) < 0.8
    assert len(groups) == 31 and ["chain0", "chain1", "chain2", "chain3"] in groups
    assert jaccard(rows["chain0"], rows["chain3"]) < 0.7, "a chain: its ends are not similar"
    outcome, made = convert(bench, rows, near_duplicates={})
    found, at = outcome.statistics["near_duplicates"], homes(made)
    across = [group for group in groups if len({at[key] for key in group}) > 1]
    assert (found["groups"], found["across_splits"]) == (31, len(across)) and len(across) > 10
    assert outcome.counts["near_duplicates"] == found["examples"] == sum(map(len, groups)) - 31
    assert len(found["pairs"]) == min(len(across), 20)
    for pair in found["pairs"]:
        one, other = pair["keys"]
        assert pair["splits"] == [at[one], at[other]] and at[one] != at[other]
        assert pair["similarity"] == round(jaccard(rows[one], rows[other]), 4) >= 0.8
    mixed = [group for group in groups if len({sum(key.encode()) % 2 for key in group}) > 1]
    assert found["label_conflicts"] == len(mixed) > 10
    assert outcome.statistics["metrics"]["convert/near_label_conflicts"] == len(mixed)
    assert len(found["conflicts"]) == min(len(mixed), 20)
    for conflict, group in zip(found["conflicts"], mixed, strict=False):
        one, other = conflict["keys"]
        assert one == group[0] < other and other in group
        assert conflict["labels"] == [str(sum(key.encode()) % 2) for key in (one, other)]
    assert outcome.counts == {**plain.counts, "near_duplicates": 63}, "a report changes no example"
    assert describe(made).endswith("63 near-duplicates found")
    shown = data(SimpleNamespace(one=lambda kind: made))  # type: ignore[arg-type]
    assert shown and shown.near and shown.near.harmful and "a score on test may be too high" in shown.near.fate


def smallest(group: list[str]) -> str:
    """The key with the smallest hash."""
    return group[int(digests([key.encode() for key in group])[:, 0].argmin())]


def test_a_group_goes_to_the_split_of_its_smallest_hash_and_nothing_else_moves(
    bench: Workbench, benches: Callable, convert: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = texts()
    rows["z"] = rows["t000"]
    groups = components(rows, 0.8)
    before = homes(convert(bench, rows)[1])
    outcome, made = convert(benches("grouped"), rows, near_duplicates={"handling": "group"})
    expected = {**before, **{key: before[smallest(group)] for group in groups for key in group}}
    assert homes(made) == expected != before
    assert outcome.statistics["duplicates"]["across_splits"] == 0, "an exact copy goes with its group"
    counts = [list(expected.values()).count(split) for split in SHARES]
    assert [outcome.counts[split] for split in SHARES] == counts

    monkeypatch.setattr("tasks.records.conversion.ALONE_BYTES", 0)
    monkeypatch.setattr("tasks.records.duplicates.PART", 17)
    again, shared = convert(benches("shared"), rows, near_duplicates={"handling": "group"})
    assert shared.manifest["files"] == made.manifest["files"], "by several processes, and in parts of the hash space"
    assert again == outcome

    [group] = [group for group in groups if "t003" in group]
    keys = [f"new{number}" for number in range(100)]
    later = next(key for key in keys if smallest([*group, key]) != key)
    earlier = next(key for key in keys if smallest([*group, key]) == key)
    [number] = split_numbers(digests([earlier.encode()])[:, 0], SHARES, 0)
    for new, home in ((later, expected["t003"]), (earlier, sorted(SHARES)[number])):
        more = {**rows, new: rows["t003"] + " more"}
        _, grown = convert(benches(new), more, near_duplicates={"handling": "group"})
        assert homes(grown) == {**expected, **dict.fromkeys([*group, new], home)}


def test_moved_rows_of_an_earlier_attempt_are_used_where_they_are_whole(tmp_path: Path, bench: Workbench) -> None:
    source, config = source_of(tmp_path, texts()), {"splits": SHARES, "near_duplicates": {"handling": "group"}}
    first = conversion.build(bench, source, RecordsConfig.model_validate(config))
    moved = sorted(bench.staging.root.rglob("moved/*.arrow"))
    written = [path.stat().st_mtime_ns for path in moved]
    assert moved and conversion.build(bench, source, RecordsConfig.model_validate(config)) == first
    assert [path.stat().st_mtime_ns for path in moved] == written
    moved[0].write_bytes(moved[0].read_bytes()[:-100])
    assert conversion.build(bench, source, RecordsConfig.model_validate(config)) == first


def test_dropped_near_duplicates_leave_the_first_by_key(bench: Workbench, convert: Callable) -> None:
    rows = texts()
    rows |= {"z0": rows["t000"], "z1": rows["t000.1"], "z2": rows["t001"]}
    kept = rows.keys() - {key for group in components(texts(), 0.8) for key in group[1:]} - {"z1"}
    outcome, made = convert(bench, rows, near_duplicates={"handling": "drop"})
    assert homes(made).keys() == kept and "z0" in kept, "copies of what is kept are kept"
    assert (outcome.counts["near_duplicates"], outcome.counts["duplicates"]) == (64, 2)
    outcome, made = convert(bench, rows, near_duplicates={"handling": "drop"}, duplicates="drop")
    assert homes(made).keys() == kept - {"z0", "z2"}
    assert (outcome.counts["near_duplicates"], outcome.counts["duplicates"], outcome.counts["filtered"]) == (64, 2, 66)


def test_a_bucket_of_very_many_is_compared_in_order_of_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that families whose values alternate are found, although each value is compared with two others."""
    family = np.arange(30, dtype="<u8") % 3
    signatures = np.where(family == 0, 0, 2**64 - 1 >> family * 20) ^ (np.arange(30, dtype="<u8") // 3 << 59)
    column = pa.array([value.tobytes() for value in signatures.astype(">u8")], pa.binary(8))
    runs: Any = SimpleNamespace(table=lambda run: {SIGNATURE: column})
    monkeypatch.setattr("tasks.records.near.search.WINDOW", 2)
    joined, rows = _Joined(), np.arange(30)
    _compare(runs, Compared("image", "image", 0.9, "report"), joined, 0 * rows, rows, rows)
    assert [joined.root(row) for row in range(30)] == (rows % 3).tolist()


def test_texts_of_a_bucket_in_order_of_signature_are_read_in_their_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two families, each with a text in either run, beside each other when they are sorted."""
    words = " ".join(WORDS[:20]), " ".join(WORDS[20:40])
    texts = [words[0], words[1], words[1] + "!", words[0] + "!"]
    signatures, _ = MEASURES["text"].signed(pa.array(texts), 0.8)
    columns = [pa.array([row.tobytes() for row in rows], pa.binary(rows.shape[1])) for rows in np.split(signatures, 2)]
    runs: Any = SimpleNamespace(
        table=lambda run: {SIGNATURE: columns[run]}, value=lambda run, name, row: texts[2 * run + row]
    )
    monkeypatch.setattr("tasks.records.near.search.WINDOW", 2)
    joined, numbers = _Joined(), np.arange(4)
    _compare(runs, Compared("body", "text", 0.8, "report"), joined, numbers // 2, numbers % 2, numbers)
    assert [joined.root(number) for number in numbers.tolist()] == [0, 1, 1, 0]


def test_a_pair_is_named_where_a_text_of_very_many_copies_has_another_content_last() -> None:
    """Two inputs, of which the compared one is the same everywhere: `none`."""
    rows = [Row(0, number, f"k{number:05}", 0, content=7, hash=0, value=1, label="") for number in range(TRIED + 1)]
    rows.append(Row(0, TRIED + 1, "k99999", 1, content=8, hash=0, value=1, label=""))
    runs: Any = SimpleNamespace(splits=["test", "train"])
    pair = _pair(runs, rows, _Joined())
    assert pair == {"keys": ["k00000", "k99999"], "splits": ["test", "train"], "similarity": 1.0}


def test_texts_just_at_the_limit_are_found_although_half_of_the_estimates_are_below() -> None:
    random, found = np.random.default_rng(2), 0
    for _ in range(60):
        words = random.choice(WORDS, 40).tolist()
        at = int(random.integers(38))
        pair = [" ".join(words), " ".join([*words[:at], "other", *words[at + 1 :]])]
        signatures, _ = MEASURES["text"].signed(pa.array(pair), 0.8)
        column = pa.array([row.tobytes() for row in signatures], pa.binary(signatures.shape[1]))
        runs: Any = SimpleNamespace(
            table=lambda run, column=column: {SIGNATURE: column}, value=lambda run, name, row, pair=pair: pair[row]
        )
        joined, rows = _Joined(), np.arange(2)
        _compare(runs, Compared("body", "text", jaccard(*pair), "report"), joined, 0 * rows, rows, rows)
        found += joined.root(0) == joined.root(1)
    assert found >= 57


@pytest.mark.parametrize(("kind", "measure"), MEASURES.items())
def test_the_lowest_similarity_that_can_be_looked_for_is_allowed(kind: str, measure: Any) -> None:
    features = {"input": Feature(kind, "string" if kind == "text" else "uint8")}
    lowest = compared(features, NearDuplicates(similarity=measure.LOWEST))
    assert lowest is not None and lowest.similarity == measure.LOWEST
    with pytest.raises(Refused, match=f"at least {measure.LOWEST:g} can be looked for") as refused:
        compared(features, NearDuplicates(similarity=measure.LOWEST - 0.01))
    assert refused.value.field == "records.near_duplicates.similarity"
    usual = compared(features, NearDuplicates())
    assert usual is not None and usual.similarity == measure.SIMILARITY


def test_missing_and_flat_images_are_in_no_band() -> None:
    """Equal bands would make all of them near-duplicates of one another."""
    flat, seen = io.BytesIO(), io.BytesIO()
    Image.new("L", (16, 16), 90).save(flat, "PNG")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8)).save(seen, "PNG")
    payloads = [b"", flat.getvalue(), seen.getvalue(), b""]
    _, bands = MEASURES["image"].signed(pa.array(payloads, pa.large_binary()), 0.9)
    assert not bands[[0, 1, 3]].any() and bands[2].all()


def test_signatures_depend_on_the_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pa.array(
        ["", "ab", "a text of some words", "A  text\nof some WORDS", "名前のない猫である"], pa.large_string()
    )
    signatures, bands = MEASURES["text"].signed(values, 0.8)
    golden = "580c0537ec403d4c"
    assert hashlib.sha256(signatures[2].tobytes() + bands[4].tobytes()).hexdigest()[:16] == golden
    assert (bands[0] == 0).all() and (bands[1:] != 0).all() and bands.shape == (5, 21)
    assert (signatures[2] == signatures[3]).all() and (bands[2] == bands[3]).all()
    monkeypatch.setattr(near, "CHARACTERS", 1)
    again = MEASURES["text"].signed(values, 0.8)
    assert all((ours == theirs).all() for ours, theirs in zip(again, (signatures, bands), strict=True))


@given(st.integers(0, 2**64 - 1), st.sets(st.integers(0, 63), max_size=6))
def test_images_of_six_other_bits_share_a_band(bits: int, differing: set[int]) -> None:
    other = bits ^ sum(1 << bit for bit in differing)
    hashes = iter([bits, other])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "difference_hash", lambda payload: next(hashes))
        signatures, bands = MEASURES["image"].signed(pa.array([b"a", b"b"], pa.large_binary()), 0.9)
    assert (bands[0] == bands[1]).any()
    assert MEASURES["image"].estimates(signatures[0], signatures[1:])[0] == 1 - len(differing) / 64


@pytest.mark.parametrize("unlike", list(combinations(range(8), 6)))
def test_images_of_six_other_bits_share_a_band_wherever_they_are(unlike: tuple[int, ...]) -> None:
    """One in each of six of the eight parts: the two others are the band."""
    hashes = iter([0, sum(1 << 8 * part for part in unlike)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "difference_hash", lambda payload: next(hashes))
        _, bands = MEASURES["image"].signed(pa.array([b"a", b"b"], pa.large_binary()), 0.9)
    assert (bands[0] == bands[1]).sum() == 1


def photo(seed: int, size: int = 96, quality: int | None = None) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
    picture = Image.fromarray(noise).resize((96, 96), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(4))
    payload = io.BytesIO()
    picture.resize((size, size)).save(
        payload, **({"format": "JPEG", "quality": quality} if quality else {"format": "PNG"})
    )
    return payload.getvalue()


def test_an_image_of_another_size_and_quality_is_similar_and_flat_ones_are_not(
    tmp_path: Path, bench: Workbench
) -> None:
    for seed in range(40):
        folder = tmp_path / "ab"[seed % 2]
        folder.mkdir(exist_ok=True)
        (folder / f"{seed:02d}.png").write_bytes(photo(seed))
        if seed % 4 == 0:
            (folder / f"{seed:02d}_small.jpg").write_bytes(photo(seed, 64, 40))
        payload = io.BytesIO()
        Image.new("L", (20, 20), 3 * seed).save(payload, "PNG")
        (folder / f"flat{seed:02d}.png").write_bytes(payload.getvalue())
    config = RecordsConfig.model_validate({"splits": SHARES, "near_duplicates": {}})
    found = conversion.build(bench, ImageFolderSource(path=str(tmp_path)), config).statistics["near_duplicates"]
    assert (found["column"], found["groups"], found["examples"], found["similarity"]) == ("image", 10, 10, 0.9)
    assert all("_small" in pair["keys"][1] or "_small" in pair["keys"][0] for pair in found["pairs"])


def reviews(tmp_path: Path, bench: Workbench, **config: Any) -> Outcome:
    """Texts with a category beside: twenty texts stand in five examples each, and many are missing."""
    lines = [
        {
            "body": f"text number {number % 20} of some" if number < 100 else "",
            "shop": f"s{number}",
            "label": number % 2,
        }
        for number in range(140)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    columns = {"body": "text", "shop": "category", "label": "category"}
    source = JsonlSource(path=str(tmp_path / "rows.jsonl"), columns=columns, label="label")  # type: ignore[arg-type]
    return conversion.build(bench, source, RecordsConfig.model_validate({"splits": SHARES, **config}))


def test_a_text_that_is_in_train_and_in_test_is_a_suspicion(tmp_path: Path, bench: Workbench) -> None:
    outcome = reviews(tmp_path, bench)
    assert "duplicates" not in outcome.statistics, "no example is a copy of another"
    shared = outcome.statistics["shared"]["body"]
    assert 10 <= shared["contents"] <= 20 <= shared["examples"] + 10 and len(shared["keys"]) == shared["contents"]
    [line] = [line for line in outcome.statistics["profile"]["suspicions"] if "with other values beside" in line]
    assert line.startswith(f"body: {shared['contents']} texts are in train")
    assert f"in {shared['examples']} examples of test ({' and '.join(shared['keys'][0])})" in line


def test_texts_of_several_examples_are_grouped(tmp_path: Path, bench: Workbench) -> None:
    outcome = reviews(tmp_path, bench, near_duplicates={"similarity": 1.0, "handling": "group"})
    assert outcome.statistics["near_duplicates"]["groups"] == 20
    assert "shared" not in outcome.statistics, "each is in one split now"


def test_the_page_of_a_run_says_it_in_words(tmp_path: Path) -> None:
    rows = [{"id": key, "body": body, "label": sum(key.encode()) % 2} for key, body in texts().items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    config = {
        "name": "texts",
        "source": {
            "kind": "jsonl",
            "path": "rows.jsonl",
            "key": "id",
            "label": "label",
            "columns": {"id": "category", "body": "text", "label": "category"},
        },
        "records": {"splits": SHARES, "near_duplicates": {}},
        "snapshot": {"kind": "table"},
        "train": {"steps": 1},
    }
    (tmp_path / "texts.yaml").write_text(json.dumps(config))
    answer = CommandHome(tmp_path / "home").here("run", "dataset", tmp_path / "texts.yaml", "--json")
    assert answer.code == 0, answer.stderr
    page = (tmp_path / "home/runs" / answer.json["run_id"] / "page.html").read_text()
    assert "63 have a body similar to that of others, in 31 groups" in page
    assert "are in more than one split: a score on test may be too high" in page
    assert "of these groups have different labels" in page


def test_what_does_not_fit_is_refused(tmp_path: Path, bench: Workbench, convert: Callable) -> None:
    for change, rule in (
        ({"column": "label"}, "must be a text or an image: body"),
        ({"similarity": 0.3}, "at least 0.5"),
    ):
        with pytest.raises(Refused, match=rule):
            convert(bench, texts(4), near_duplicates=change)
    for settings in ({"duplicates": "keep"}, {"splits": "official"}):
        with pytest.raises((Conflict, ValueError), match="near_duplicates.handling"):
            RecordsConfig.model_validate({"near_duplicates": {"handling": "group"}, **settings})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "rows.jsonl").write_text('{"body": "x", "writer": "w", "label": 0}\n')
    columns = {"body": "text", "writer": "category", "label": "category"}
    source = JsonlSource(path=str(tmp_path / "a"), glob="*.jsonl", columns=columns, label="label", group="writer")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="a group must not be divided"):
        conversion.build(bench, source, RecordsConfig.model_validate({"near_duplicates": {"handling": "group"}}))


@pytest.mark.parametrize(
    ("settings", "of", "expected"),
    [
        ({}, ["note", "age"], ("note", "text", 0.8, "report")),
        ({"column": "photo"}, ["note", "photo"], ("photo", "image", 0.9, "report")),
        ({"handling": "drop", "similarity": 0.5}, ["note", "team"], ("note", "text", 0.5, "drop")),
        ({"similarity": 0.8}, ["photo", "team"], ("photo", "image", 0.8, "report")),
        ({"handling": "group"}, ["note"], ("note", "text", 0.8, "group")),
        ({"handling": "group"}, ["note", "team"], "handling"),
        ({}, ["note", "photo"], "column"),
        ({}, ["age"], "column"),
        ({"column": "age"}, ["note", "age"], "column"),
        ({"column": "title"}, ["note", "title"], "column"),
        ({"similarity": 0.49}, ["note"], "similarity"),
        ({"similarity": 0.79}, ["photo"], "similarity"),
    ],
)
def test_what_is_compared_is_the_only_text_or_image_or_the_one_that_is_named(
    settings: dict[str, Any], of: list[str], expected: Any
) -> None:
    features = {
        "note": feature("text"),
        "age": feature("number"),
        "photo": feature("image"),
        "title": feature("text", role="label"),
        "team": feature("category", role="group"),
    }
    chosen = {name: features[name] for name in of}
    if isinstance(expected, str):
        with pytest.raises(Refused) as refused:
            compared(chosen, NearDuplicates(**settings))
        assert refused.value.field == f"records.near_duplicates.{expected}"
        return
    made = compared(chosen, NearDuplicates(**settings))
    assert made is not None and (made.column, made.kind, made.similarity, made.handling) == expected
    assert compared(chosen, None) is None


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (0, 3), (2, 5), (1, 4)])
def test_signatures_are_those_of_the_rows_that_a_column_shows(start: int, stop: int) -> None:
    values = np.arange(5 * 4, dtype=np.uint8).reshape(5, 4)
    column = pa.array([row.tobytes() for row in values], pa.binary(4)).slice(start, stop - start)
    runs: Any = SimpleNamespace(table=lambda run: pa.table({SIGNATURE: column}))
    np.testing.assert_array_equal(_signatures(runs, 0), values[start:stop])
