"""The digests that the presets lead to. A change here throws away what users have in their stores: it must be meant,
and said in the changelog. The bytes behind them are pinned where they are made: test_snapshot_repeats, _tokens."""

from __future__ import annotations

from pathlib import Path

from flows.commands.why import plan
from tasks.config.load import load
from tasks.store.store import Store
from tests.homes import DIGITS, STDLIB_LM

GOLDEN = {
    "convert/records": "2499f51e32f160a4",
    "snapshot/snapshot": "3c33f88a974bf5e4",
    "train/model": "332d67558ce8e9e0",
    "evaluate/report": "fef590e43a6e6f5c",
    "compress/saved_model": "53ae5ea150d85844",
    "compress/litert": "24b0874f05eff726",
    "compress/int8_dynamic": "67e07a1350ba4a7a",
    "export/export": "75052fde3f68ff7f",
}

GOLDEN_TEXT = {
    "convert/records": "ee98d58a6fc5bd59",
    "snapshot/snapshot": "112333f188c58337",
    "train/model": "5613e4deec051c71",
    "evaluate/report": "3c1ff51502ae8488",
    "compress/saved_model": "e15e6c9653684f27",
    "compress/litert": "ccb729979ca30d3d",
    "compress/int8_dynamic": "ace8155346ec08d8",
    "export/export": "274d6726a33bc072",
}
"""Of the preset stdlib_lm on texts that are the same everywhere: the standard library's own change with Python."""


def digests(store: Path, preset: Path = DIGITS, **flags: str) -> dict[str, str]:
    config = load(preset, [(name.replace("__", "."), value) for name, value in flags.items()])
    found = plan(Store(store), config)
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
