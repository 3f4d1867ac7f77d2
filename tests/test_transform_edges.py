"""Transforms where they are easily wrong: missing values among changed ones, whole blocks of a hash, full rows."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tasks.reader.own_modules import imported
from tasks.snapshots.packing import best_fit
from tasks.snapshots.transforms import graphs
from tasks.snapshots.transforms.categories import Vocabulary, VocabularyFitter
from tasks.snapshots.transforms.numbers import Log, Missing, Standardise
from tests.support.tables import feature

NUMBERS = np.array([1.0, np.nan, 10.0, 100.0, np.nan], np.float32)


@pytest.mark.parametrize(("fill", "value"), [(4.0, 4.0), ("mean", 37.0), ("median", 10.0)])
def test_the_moments_of_logarithms_have_the_logarithm_of_the_fill(fill: Any, value: float) -> None:
    """The model standardises what it is given: the fill, too, goes through the logarithm."""
    fitter = Log(missing=Missing(fill=fill)).fitter("x", feature("number"), Path())
    fitter.add(NUMBERS, np.arange(5))
    made = fitter.fitted()
    filled = np.where(np.isnan(NUMBERS), value, NUMBERS).astype(np.float64)
    after = np.sign(filled) * np.log1p(np.abs(filled))
    assert made.feature["mean"][0] == pytest.approx(after.mean(), rel=1e-5)
    assert made.feature["variance"][0] == pytest.approx(after.var(), rel=1e-4)
    plain = Standardise(missing=Missing(fill=fill)).fitter("x", feature("number"), Path())
    plain.add(NUMBERS, np.arange(5))
    assert plain.fitted().feature["mean"][0] == pytest.approx(filled.mean(), rel=1e-5)


def test_a_missing_category_has_no_place_in_the_vocabulary() -> None:
    fitter = VocabularyFitter("town", Vocabulary(min_count=1))
    fitter.add(["", "b", "a", "", "", "b"], np.arange(6))
    made = fitter.fitted()
    assert made.state["values"] == ["b", "a"]
    assert made.summary["categories"] == 2 and made.feature["sizes"] == [made.summary["size"]]
    few = VocabularyFitter("town", Vocabulary(min_count=2))
    few.add(["", "", "a", "b", "b"], np.arange(5))
    assert few.fitted().state["values"] == ["b"]
    assert few.fitted().summary["rare"] == pytest.approx(1 / 3), "of those that are there"


def test_the_hash_of_the_graph_is_that_of_python_at_every_length() -> None:
    lengths = [0, 1, 7, 8, 127, 128, 129, 255, 256, 257, 384]
    texts = [bytes(np.random.default_rng(n).integers(1, 256, n, np.uint8)) for n in lengths]
    expected = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts]
    assert graphs.digest8(tf.constant(texts)[:, None], 3).numpy()[:, 0].tolist() == expected


@pytest.mark.parametrize("lengths", [[9], [17], [18], [5, 9, 4], [8, 8, 8], [33, 2], [16, 1], [1, 1, 1]])
def test_best_fit_has_every_token_once_and_no_empty_piece(lengths: list[int]) -> None:
    """Documents of exactly one row, of several whole rows, and of one token more."""
    block = 8
    packed = best_fit(np.array(lengths), block)
    record, begin, length, column = packed.pieces.T
    assert (length > 0).all() and (column + length <= block + 1).all()
    for number, size in enumerate(lengths):
        mine = np.flatnonzero(record == number)
        covered = sorted(token for piece in mine for token in range(begin[piece], begin[piece] + length[piece]))
        assert set(covered) == set(range(size))
        targets = [token for piece in mine for token in range(max(begin[piece], 1), begin[piece] + length[piece])]
        assert sorted(targets) == list(range(1, size)), (
            "each is a target once: later rows begin with a BOS of their own"
        )
    assert packed.origin[:, 1].sum() == len(length) and (packed.origin[:, 1] > 0).all()


def test_two_folders_with_a_module_of_one_name_have_each_their_own(tmp_path: Path) -> None:
    """Also its submodules: a process may open two exports."""
    found = []
    try:
        for value in (1, 2, 1):
            folder = tmp_path / f"export-{value}"
            (folder / "twice").mkdir(parents=True, exist_ok=True)
            (folder / "twice/__init__.py").write_text("")
            (folder / "twice/numbers.py").write_text(f"NUMBER = {value}\n")
            (folder / "twice/own.py").write_text("from .numbers import NUMBER\ndef own(values):\n    return NUMBER\n")
            found.append(imported("twice.own:own", folder)([]))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "twice"]:
            del sys.modules[name]
    assert found == [1, 2, 1]
