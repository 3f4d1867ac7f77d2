"""Logarithms have the same bits on every machine, and of tensors those of arrays."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from tasks.reader.numbers import natural, normal, signed
from tasks.snapshots.transforms.graphs import frexp


def singles() -> np.ndarray:
    """Numbers of float32, subnormal ones and those beside 1 too, as float64."""
    random = np.random.default_rng(0)
    found = random.integers(0, 2**32, 20_000, np.uint32).view(np.float32)
    near = np.ldexp(1 + random.random(20_000), random.integers(-31, 2, 20_000)).astype(np.float32)
    return np.concatenate([found[np.isfinite(found)], near, -near, np.float32([0.0, -0.0, 1e-45, 3.4e38])]).astype("f8")


def ranks() -> np.ndarray:
    random = np.random.default_rng(1)
    small = np.ldexp(random.random(500), random.integers(-24, 0, 500))
    return np.concatenate([random.random(20_000), small, [0.0, 0.5, 1.0]])


CASES = {
    "signed": (signed, singles, "4a9147589ec62177"),
    "natural": (natural, lambda: ranks() + 1e-7, "ea1d531b70e0ec44"),
    "normal": (normal, ranks, "1b30f561c423de46"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_every_processor(name: str) -> None:
    """Their operations are those that IEEE 754 defines to the last bit."""
    function, values, expected = CASES[name]
    assert hashlib.sha256(function(values()).astype("<f8").tobytes()).hexdigest()[:16] == expected


@pytest.mark.parametrize("name", CASES)
def test_tensors_give_the_bits_of_arrays(tf: Any, name: str) -> None:
    """In a compiled function of unknown size, which TensorFlow rewrites."""
    function, values, _ = CASES[name]
    size = tf.TensorSpec([None], tf.float64)
    compiled = tf.function(lambda numbers: function(numbers, tf, frexp), input_signature=[size], autograph=False)
    made, expected = compiled(tf.constant(values())).numpy(), function(values())
    assert made.tobytes() == expected.tobytes(), np.flatnonzero(made.view(np.int64) != expected.view(np.int64))[:5]


def test_logarithms_differ_from_those_of_the_library_by_its_last_digits() -> None:
    numbers = singles()
    np.testing.assert_allclose(signed(numbers), np.sign(numbers) * np.log1p(np.abs(numbers)), rtol=1e-15)
    numbers = ranks()[ranks() > 0]
    np.testing.assert_allclose(natural(numbers), np.log(numbers), rtol=1e-15, atol=0)
    assert np.isnan(signed(np.array([np.nan]))).all()
