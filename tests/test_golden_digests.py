"""The digests that the presets lead to. A change here throws away what users have in their stores: it must be meant,
and said in the changelog. The bytes behind them are pinned where they are made: test_snapshot_repeats, _tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.artifacts import Model
from tests.support.golden import GOLDEN, digests
from tests.support.homes import STDLIB_LM

GOLDEN_TEXT = {
    "convert/records": "38f3f00e7ada8cac",
    "snapshot/snapshot": "9d7c1da1cef2a24e",
    "train/model": "01727301d6364902",
    "evaluate/report": "1b29bee70d514bb6",
    "compress/saved_model": "575fdefef5180457",
    "compress/litert": "44296db06be45ad6",
    "compress/int8_dynamic": "bc4693dd5b6d0511",
    "export/export": "4a6a5446c0d21ccf",
}
"""Of the preset stdlib_lm on texts that are the same everywhere: the standard library's own change with Python."""


def test_the_digits_presets_digests(tmp_path: Path) -> None:
    assert digests(tmp_path) == GOLDEN


def test_the_language_models_digests(tmp_path: Path) -> None:
    """In any folder."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        for number in range(3):
            (tmp_path / name / f"{number}.py").write_text(f"print({number})\n")
        assert digests(tmp_path / "store", STDLIB_LM, source__path=str(tmp_path / name)) == GOLDEN_TEXT


def test_layout_and_intervals_change_no_digest(tmp_path: Path) -> None:
    flags = {
        "train__accumulate": "4",
        "train__strategy": "{kind: mirrored, devices: 2}",
        "train__checkpoint__every": "7",
        "train__log_every": "3",
        "train__evaluate_every": "9",
        "resources__threads": "1",
        "name": "other",
    }
    assert digests(tmp_path, **flags) == GOLDEN


def test_a_new_field_with_its_default_changes_no_digest_and_with_another_value_does(tmp_path: Path) -> None:
    assert digests(tmp_path, train__label_smoothing="0.0", train__select="last") == GOLDEN
    changed = digests(tmp_path, train__label_smoothing="0.1")
    assert [stage for stage in GOLDEN if changed[stage] == GOLDEN[stage]] == ["convert/records", "snapshot/snapshot"]


def test_evaluations_change_the_digest_where_the_weights_depend_on_them(tmp_path: Path) -> None:
    for deciding in ({"train__select": "best"}, {"train__early_stopping": "{patience: 3}"}):
        often, seldom = (digests(tmp_path, train__evaluate_every=every, **deciding) for every in ("10", "20"))
        changed = [stage for stage in GOLDEN if often[stage] != seldom[stage]]
        assert changed == [stage for stage in GOLDEN if not stage.startswith(("convert", "snapshot"))]


def test_an_export_depends_on_the_report_where_something_is_fitted_for_it(tmp_path: Path) -> None:
    sliced, calibrated = (
        digests(tmp_path, evaluate__slices="[label]"),
        digests(tmp_path, evaluate__calibrate="temperature"),
    )
    assert [stage for stage in GOLDEN if sliced[stage] != GOLDEN[stage]] == ["evaluate/report"]
    assert [stage for stage in GOLDEN if calibrated[stage] != GOLDEN[stage]] == ["evaluate/report", "export/export"]


def test_the_model_that_is_continued_is_part_of_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bases = {None: None, "one": Model("1" * 64, tmp_path, "model"), "two": Model("2" * 64, tmp_path, "model")}
    monkeypatch.setattr("tasks.train.base_model", lambda config, *_: bases[config.continue_from])
    continued = [digests(tmp_path, train__continue_from=given or "null")["train/model"] for given in bases]
    assert continued[0] == GOLDEN["train/model"] and len(set(continued)) == 3
