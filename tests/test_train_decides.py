"""What a training decides by: which weights are the best, what its digest has, what may differ in a longer one."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.config.base import identity
from tasks.environment import user_code
from tasks.errors import Refused
from tasks.models.architectures.mlp import MlpModel
from tasks.training.checkpoints import Writing
from tasks.training.config import TrainConfig
from tasks.training.feeding import Feed
from tasks.training.initial import ChampionInit, FileInit, KerasHubInit, ModelInit
from tasks.training.loop import make_plan
from tasks.training.primary import BestWeights
from tasks.training.sections import CheckpointConfig, EarlyStopping
from tasks.training.starting import _check_equal, init_files, loss_files
from tests.support.refusals import field_of

TRAIN = TrainConfig(steps=40)


def ends(scores: list[float], delta: float = 0.0, patience: int = 2, select: Any = "best") -> tuple[int | None, float]:
    """The evaluation that ends a training (from 1), and that whose weights are selected."""
    stopping = EarlyStopping(patience=patience, delta=delta)
    best = BestWeights(TrainConfig(steps=40, select=select, early_stopping=stopping))
    for number, score in enumerate(scores, 1):
        weights = {"w": np.array(number)}
        if best.update({"loss": score}, lambda weights=weights: weights):
            return number, float(best.best().get("w", 0))
    return None, float(best.best().get("w", 0))


@pytest.mark.parametrize(
    ("scores", "delta", "ended", "selected"),
    [
        ([3, 2, 1, 1, 1], 0.0, 5, 3),  # a plateau is not better
        ([3, 2, 2, 1, 1, 1], 0.0, 6, 4),
        ([3, 2.9, 2.8, 2.7], 0.5, 3, 3),
        ([3, 2.5, 2.5], 0.5, 3, 2),  # better by the delta exactly is not enough
        ([3, 2.4, 1.8], 0.5, None, 3),
        ([float("nan"), 2, float("nan"), float("nan")], 0.0, 4, 2),
        ([float("inf"), float("nan")], 0.0, 2, 0),
    ],
)
def test_a_loss_is_better_where_it_is_lower_by_more_than_delta(
    scores: list[float], delta: float, ended: int | None, selected: int
) -> None:
    assert ends(scores, delta) == (ended, selected)
    assert ends(scores, delta, select="last") == (ended, 0)


def test_a_primary_metric_is_watched_in_its_direction() -> None:
    stopping = EarlyStopping(metric="primary", patience=1)
    for higher, scores in ((True, [0.5, 0.6, 0.6]), (False, [0.5, 0.4, 0.4])):
        best = BestWeights(TrainConfig(steps=40, early_stopping=stopping), ("m", higher))
        ended = [best.update({"loss": 1.0, "m": score}, dict) for score in scores]
        assert ended == [False, False, True]


def test_the_weights_are_those_of_the_best_primary_metric_and_of_equal_ones_of_the_lowest_loss() -> None:
    """Where the loss rises while the primary metric still does, the loss alone would have ended it."""
    scores = [(0.5, 0.4), (0.5, 0.5), (0.6, 0.9), (0.6, 0.8), (0.55, 0.1), (0.6, 0.8)]
    for metric, ends_at in (("primary", 5), ("loss", 3)):
        config = TrainConfig(steps=40, select="best", early_stopping=EarlyStopping(metric=metric, patience=2))
        best, ended = BestWeights(config, ("m", True)), list[int]()
        for number, (primary, loss) in enumerate(scores, 1):
            if best.update({"loss": loss, "m": primary}, lambda number=number: {"w": np.array(number)}):
                ended.append(number)
        assert ended[0] == ends_at
        assert float(best.best()["w"]) == 4, "of the evaluations with 0.6 that with the lower loss"
    assert EarlyStopping().metric == "primary"


def test_an_error_of_a_checkpoints_thread_comes_to_the_one_who_waits_once() -> None:
    writing, written = Writing(), list[int]()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    writing.wait()
    writing.start(fail)
    with pytest.raises(OSError, match="No space left"):
        writing.wait()
    writing.wait()
    writing.start(lambda: written.append(1))
    writing.wait()
    assert written == [1]


@pytest.mark.parametrize(
    ("more", "decides"),
    [
        ({}, False),
        ({"select": "best"}, True),
        ({"early_stopping": EarlyStopping()}, True),
        ({"select": "best", "early_stopping": EarlyStopping()}, True),
    ],
)
def test_the_interval_of_evaluations_is_in_the_digest_where_they_select_or_end(
    more: dict[str, Any], decides: bool
) -> None:
    one, other = (identity(TrainConfig(steps=40, evaluate_every=every, **more)) for every in (5, 10))
    assert (one != other) is decides


def test_intervals_that_decide_nothing_are_in_no_digest() -> None:
    others = [{"log_every": 7}, {"checkpoint": CheckpointConfig(every=7)}, {"restarts": 7}]
    assert all(identity(TRAIN.model_copy(update=other)) == identity(TRAIN) for other in others)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"seed": 6}, "seed"),
        ({"model": {"kind": "mlp", "units": [9]}}, "model.units"),
        ({"train": {"learning_rate": 0.2}}, "train.learning_rate"),
        ({"train": {"order": "blocks"}}, "train.order"),
        ({"train": {"batch_size": 8}}, "train.batch_size"),
        ({"train": {"steps": 80}}, None),
        ({}, None),
    ],
)
def test_a_longer_training_has_the_settings_of_the_one_that_it_goes_on_with(
    changed: dict[str, Any], field: str | None
) -> None:
    base = {"model": identity(MlpModel(units=(8,))), "seed": 5, "train": identity(TRAIN)}
    own = {
        name: {**value, **changed.get(name, {})} if isinstance(value, dict) else changed.get(name, value)
        for name, value in base.items()
    }
    assert field_of(Refused, lambda: _check_equal(own, base)) == field


def test_a_package_that_an_own_loss_imports_is_in_the_digest_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("import sums\nfrom helpers import half\n\ndef loss(t, p):\n    return half(t)\n")
    (tmp_path / "helpers.py").write_text("def half(t):\n    return t\n")
    installed = tmp_path / "installed"
    (installed / "sums").mkdir(parents=True)
    (installed / "sums/__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    monkeypatch.setattr(user_code, "distributions", packages_distributions)  # a process looks for them once
    config, found = TrainConfig(steps=1, loss="mine:loss", folder=str(tmp_path)), []
    for version in ("1.0", "1.1"):
        metadata = installed / f"sums-{version}.dist-info"
        for old in installed.glob("*.dist-info"):
            old.rename(metadata)
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sums\nVersion: {version}\n")
        (metadata / "top_level.txt").write_text("sums\n")
        (metadata / "RECORD").write_text("sums/__init__.py,,\n")
        found.append(dict(loss_files(config)))
    assert {"loss/mine.py", "loss/helpers.py"} <= found[0].keys()
    assert [each["loss/package/sums"] for each in found] == ["1.0", "1.1"]
    assert found[0]["loss/helpers.py"] == found[1]["loss/helpers.py"]
    (tmp_path / "helpers.py").write_text("def half(t):\n    return t / 2\n")
    assert dict(loss_files(config))["loss/helpers.py"] != found[1]["loss/helpers.py"]


def test_every_file_of_first_weights_is_in_the_digest_by_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "backbone"
    (folder / "assets").mkdir(parents=True)
    (folder / "model.weights.h5").write_bytes(b"one")
    (folder / "assets" / "words.txt").write_bytes(b"two")
    preset = KerasHubInit(preset=str(folder))
    found = init_files(preset)
    assert [name for name, _ in found] == ["init/backbone/assets/words.txt", "init/backbone/model.weights.h5"]
    (folder / "assets" / "words.txt").write_bytes(b"three")
    assert [one == other for one, other in zip(found, init_files(preset), strict=True)] == [False, True]
    weights = tmp_path / "net.weights.h5"
    weights.write_bytes(b"one")
    assert init_files(FileInit(path=str(weights))) == [("init/net.weights.h5", sha256(b"one").hexdigest())]
    assert init_files(None) == []


def put(folder: Path, files: dict[str, bytes]) -> KerasHubInit:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return KerasHubInit(preset=str(folder))


BACKBONE = {
    "config.json": b"{}",
    "variables/variables.index": b"one",
    "variables/variables.data-00000-of-00001": b"two",
    "assets/tokenizer/words.txt": b"three",
    ".hidden": b"four",
    "empty": b"",
}


@pytest.mark.parametrize("name", BACKBONE)
@pytest.mark.parametrize("change", ["content", "name", "folder", "gone"])
def test_another_file_at_any_depth_of_a_folder_of_first_weights_is_another_model(
    name: str, change: str, tmp_path: Path
) -> None:
    others = {each: content for each, content in BACKBONE.items() if each != name}
    parent, _, last = name.rpartition("/")
    changed = {
        "content": {name: BACKBONE[name] + b"!"},
        "name": {f"{name}~": BACKBONE[name]},
        "folder": {f"{parent}/deeper/{last}".lstrip("/"): BACKBONE[name]},
        "gone": {},
    }[change]
    before = init_files(put(tmp_path / "one/backbone", BACKBONE))
    assert before != init_files(put(tmp_path / "two/backbone", {**others, **changed}))


def test_the_files_of_a_folder_are_named_from_the_folder_on_in_one_order(tmp_path: Path) -> None:
    """Wherever it is, and in whatever order they were written."""
    found = init_files(put(tmp_path / "here/backbone", BACKBONE))
    assert found == [(f"init/backbone/{name}", sha256(BACKBONE[name]).hexdigest()) for name in sorted(BACKBONE)]
    turned = dict(reversed(BACKBONE.items()))
    assert init_files(put(tmp_path / "there/backbone", turned)) == found
    assert init_files(put(tmp_path / "there/other", turned)) != found


def test_what_is_not_on_this_machine_has_no_files(tmp_path: Path) -> None:
    assert init_files(FileInit(path=str(tmp_path / "none.keras"))) == []
    for name in ("bert_tiny_en_uncased", "hf://google-bert/bert-base-uncased"):
        assert init_files(KerasHubInit(preset=name, download=True)) == []
    assert init_files(ModelInit(model="0" * 64)) == [] == init_files(ChampionInit())


class Reader:
    """A split whose batch of a step has this step's number alone."""

    def __init__(self) -> None:
        self.arrays = {"x": np.zeros((100, 1))}

    def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        steps = np.arange(start, stop)[:, None].repeat(4, 1)
        return {"x": steps, "row": steps, "weight": np.ones_like(steps)}


def test_after_a_jump_the_rest_of_the_prefetched_steps_is_not_fed() -> None:
    """As a rollback does, in the middle of a part of several steps."""
    plan = make_plan(TrainConfig(steps=60, batch_size=4), 100, [20])
    snapshot: Any = SimpleNamespace(reader=lambda *_, **__: Reader(), features={})
    feed = Feed(snapshot, plan, 0)
    feed.seek(0)
    assert feed.take(3)["row"][:, 0].tolist() == [0, 1, 2]  # the thread has read 20
    feed.seek(30)
    assert feed.take(5)["row"][:, 0].tolist() == [30, 31, 32, 33, 34]
    feed.seek(33)
    assert feed.take(12)["row"][:, 0].tolist() == list(range(33, 45))
    feed.close()
