"""A language model of the standard library needs fewer bits for unseen files than `gzip -9` after a few minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.homes import STDLIB_LM, CommandHome

SHORT = (
    *("--train.steps", "40", "--train.schedule.warmup", "10", "--train.evaluate_every", "40"),
    *("--evaluate.sample_tokens", "0"),
)
PACKAGES = ("--source.glob", "[a-e]*/**/*.py")
SPLITS = ("--records.splits", "{train: 0.94, validation: 0.01, test: 0.05}")


@pytest.mark.slow
def test_the_preset_shortened_to_40_steps_beats_gzip(tmp_path: Path) -> None:
    """The whole preset is below xz, too (`tests/benchmarks/language_model.py`).

    After 40 steps on the packages from a to e that depends on the split.
    """
    answer = CommandHome(tmp_path)("run", "training", STDLIB_LM, *PACKAGES, *SPLITS, *SHORT, "--json", timeout=900)
    assert answer.code == 0, answer.stderr
    metrics = answer.json["metrics"]
    assert 0.5 < metrics["test/bits_per_byte"] < metrics["test/gzip_bits_per_byte"]
    assert 1.0 < metrics["test/xz_bits_per_byte"] < metrics["test/gzip_bits_per_byte"]
