"""The digests that the presets lead to. A change here throws away what users have in their stores: it must be meant,
and said in the changelog. The bytes behind them are pinned where they are made: test_snapshot_repeats, _tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.commands.why import plan
from tasks.artifacts import Model, Snapshot
from tasks.config import ConvnetModel
from tasks.config.load import load
from tasks.store.store import Store, digest_of
from tests.homes import DIGITS, STDLIB_LM

GOLDEN = {
    "convert/records": "2499f51e32f160a4",
    "snapshot/snapshot": "3c33f88a974bf5e4",
    "train/model": "bd9e6139af158863",
    "evaluate/report": "cf8d50163977d0c4",
    "compress/saved_model": "960e6e37f09209a8",
    "compress/litert": "6a02c385cb79fd6b",
    "compress/int8_dynamic": "b1e4bca8b4e741fc",
    "export/export": "6e35aa24326a8aa4",
}

GOLDEN_TEXT = {
    "convert/records": "ee98d58a6fc5bd59",
    "snapshot/snapshot": "112333f188c58337",
    "train/model": "0efba160fd76ca3b",
    "evaluate/report": "f5ff38dae280a6cb",
    "compress/saved_model": "fa61af38c3681b41",
    "compress/litert": "d1b8a1d6f249bc07",
    "compress/int8_dynamic": "3a02d6fac8fa241c",
    "export/export": "d3457abf3836b249",
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


def test_evaluations_change_the_digest_where_the_weights_depend_on_them(tmp_path: Path) -> None:
    for deciding in ({"train__select": "best"}, {"train__early_stopping": "{patience: 3}"}):
        often, seldom = (digests(tmp_path, train__evaluate_every=every, **deciding) for every in ("10", "20"))
        changed = [stage for stage in GOLDEN if often[stage] != seldom[stage]]
        assert changed == [stage for stage in GOLDEN if not stage.startswith(("convert", "snapshot"))]


def test_the_model_that_is_continued_is_part_of_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In what `train` asks the store for, and in what `why` expects."""
    from tasks import train

    asked: list[Any] = []
    monkeypatch.setattr(train, "run_stage", lambda stage, kind, identity, **_: asked.append(identity.inputs(kind)))
    monkeypatch.setattr(train, "keep_in_run", lambda *_: None)
    monkeypatch.setattr(train, "base_model", lambda config, *_: bases.get(config.continue_from))
    monkeypatch.setattr("tasks.data.needs.check_task", lambda *_: None)
    config = load(DIGITS).train
    examples = Snapshot("a" * 64, tmp_path, "snapshot")
    (tmp_path / "manifest.json").write_text('{"features": {}}')
    store = Store(tmp_path / "store")
    bases = {}
    for number, given in enumerate((None, "one", "two")):
        if given is not None:
            inputs = {"kind": "model", "config": {}, "number": number}
            bases[given] = Model(digest_of(inputs), store.path("model", digest_of(inputs)), "model")
            bases[given].path.mkdir(parents=True)
            (bases[given].path / "manifest.json").write_text(json.dumps({"inputs": inputs, "created": "today"}))
        train.train.fn.__wrapped__(examples, ConvnetModel(), config.model_copy(update={"continue_from": given}), 0)
    assert [inputs["parents"].get("base") for inputs in asked] == [None, bases["one"].digest, bases["two"].digest]
    continued = {given: digests(store.root, train__continue_from=base.digest) for given, base in bases.items()}
    assert len({found["train/model"] for found in (*continued.values(), GOLDEN)}) == 3
