"""Comparison of two runs: data by key, code by commit, and which differences exceed the noise."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records
from tasks.config.compose import load
from tasks.evaluation.metrics import Means, Share, mean
from tasks.evaluation.paired import change, mcnemar
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.runs.differences import keys
from tasks.runs.provenance import between_commits, short
from tasks.view import comparison as comparison_page
from tasks.view.comparison import Comparison
from tests.support.homes import DIGITS, ROOT
from tests.support.pages import run_of

SHARE = Share(lambda answers: answers)
MEAN = Means(lambda answers: answers, mean)


def column(*values: float) -> np.ndarray:
    return np.array(values, float)[:, None]


def test_a_steady_gain_is_more_than_noise_though_the_examples_differ_more_among_each_other() -> None:
    random = np.random.default_rng(0)
    before = random.normal(0, 10, (200, 1))
    after = before + random.normal(0.5, 1, (200, 1))
    difference = change(MEAN, before, after, 1000)
    assert difference.difference.value == pytest.approx((after - before).mean())
    assert 0 < difference.difference.low < difference.difference.value < difference.difference.high < 1
    assert difference.more_than_noise and not difference.same


def test_chance_is_within_noise() -> None:
    random = np.random.default_rng(1)
    before = random.normal(0, 1, (200, 1))
    difference = change(MEAN, before, before + random.normal(0, 1, (200, 1)), 1000)
    assert difference.difference.low < 0 < difference.difference.high
    assert not difference.more_than_noise


def test_few_examples_that_changed_prove_nothing_whatever_a_bootstrap_says() -> None:
    before, after = column(*[0] * 4, *[1] * 496), column(*[1] * 500)
    assert mcnemar(before[:, 0], after[:, 0]) == pytest.approx(0.125)
    difference = change(SHARE, before, after, 1000)
    assert difference.difference.low > 0
    assert not difference.more_than_noise
    assert change(SHARE, column(*[0] * 9, *[1] * 491), after, 1000).more_than_noise


def test_the_same_answers_are_reported_as_the_same() -> None:
    difference = change(SHARE, column(1, 0, 1), column(1, 0, 1), 100)
    assert difference.same and not difference.more_than_noise


def test_keys_are_listed_as_added_removed_and_changed() -> None:
    differing = keys([["a", "1"], ["b", "1"], ["c", "1"]], [["b", "1"], ["c", "2"], ["d", "1"]])
    assert (differing.added, differing.removed, differing.changed, differing.same) == (["d"], ["a"], ["c"], 1)


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((4, 4), value, np.uint8)).save(buffer, format="png")
    return buffer.getvalue()


def test_other_data_is_reported_by_key_and_by_figure(
    rows_source: Callable, benches: Callable, publish: Callable, tmp_path: Path
) -> None:
    config = load(DIGITS)
    plain = {f"{number:02}.png": (png(number), number % 2) for number in range(40)}
    other = {**plain, "03.png": (png(200), 1), "new.png": (png(1), 0)}
    del other["05.png"]
    runs = []
    for name, rows in (("a", plain), ("b", other)):
        bench, source = benches(name), rows_source(rows)
        made = publish(Records, bench, conversion.convert(bench, "digits", source, RecordsConfig(shards=1)))
        listed = source.fingerprint()
        runs.append(run_of(tmp_path / "home", config, listed, convert=made))
    comparison = Comparison(*runs)
    assert (comparison.raw.added, comparison.raw.removed, comparison.raw.changed) == (
        ["new.png"],
        ["05.png"],
        ["03.png"],
    )
    text = "\n".join(comparison.lines())
    for words in ("38 examples are the same", "1 added: new.png", "1 removed: 05.png", "1 changed: 03.png"):
        assert words in text
    assert "image, pixels, 1 channel" in text
    assert "The runs have no common metric." in text
    page = comparison_page.render(comparison)
    assert "new.png" in page and "image, pixels, 1 channel" in page
    assert comparison.as_json()["results"] == [] and comparison.as_json()["examples"] is None


def test_commits_and_files_between_two_commits() -> None:
    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    after, before = ask("rev-parse", "HEAD"), ask("rev-parse", "--verify", "--quiet", "HEAD~1")
    if not before:
        pytest.skip("no checkout with two commits")
    commits = between_commits(before, f"{after}-dirty")
    assert commits is not None
    assert commits.commits[0].startswith("b ") and commits.commits[0].endswith(ask("log", "-1", "--format=%s"))
    assert len(commits.files) == len(ask("diff", "--name-only", "--no-renames", before, after).splitlines())
    back = between_commits(after, before)
    assert back is not None and back.commits[0].startswith("a ")
    assert between_commits(before, "f" * 40) is None
    assert between_commits(before, "--output=x") is None
    assert short(f"{after}-dirty") == f"{after[:12]}-dirty"
