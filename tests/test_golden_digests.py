"""The digests that the presets lead to. A change here throws away what users have in their stores: it must be meant,
and said in the changelog. The bytes behind them are pinned where they are made: test_snapshot_repeats, _tokens."""

from __future__ import annotations

from pathlib import Path

from flows.commands.why import foresee
from tasks.config.load import load
from tasks.store.store import Store
from tests.homes import DIGITS, STDLIB_LM

GOLDEN = {
    "convert/records": "abd2b7c89e7977eb",
    "snapshot/snapshot": "452bfe280006bc6d",
    "train/model": "032a5337d09d28f1",
    "evaluate/report": "06ac396998832687",
    "compress/saved_model": "f139d52ace3844c3",
    "compress/litert": "4fc9b9e1d3f002bc",
    "compress/int8_dynamic": "d1ffe15e14ff4d93",
    "export/export": "bc6ebb65a1feee33",
}

GOLDEN_TEXT = {
    "convert/records": "320d26f0767f619b",
    "snapshot/snapshot": "b34681a64951fc49",
    "train/model": "b2db10fdd5e954ce",
    "evaluate/report": "a731574217e09e94",
    "compress/saved_model": "9f7010c31b0666a4",
    "compress/litert": "79f40cba67bab95c",
    "compress/int8_dynamic": "57d2e5f47ba2819b",
    "export/export": "c3d206d85c66dc43",
}
"""Of the preset stdlib_lm on texts that are the same everywhere: the standard library's own change with Python."""


def digests(store: Path, preset: Path = DIGITS, **flags: str) -> dict[str, str]:
    config = load(preset, [(name.replace("__", "."), value) for name, value in flags.items()])
    found = foresee(Store(store), config)
    return {f"{stage}/{wanted.name}": wanted.digest[:16] for stage, rows in found.items() for wanted in rows}


def test_the_digits_presets_digests(tmp_path: Path) -> None:
    assert digests(tmp_path) == GOLDEN


def test_the_language_models_digests(tmp_path: Path) -> None:
    """Wherever the texts lie."""
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
