"""A model and its export say which rows they have used, and what they began from; nobody else's rows count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.compression import changed
from tasks.compression.methods.method import Method
from tasks.compression.methods.prune import Prune
from tasks.compression.stored import PreparedModel
from tasks.feed import open_snapshot
from tasks.models.usage import CHOSEN, TRAINED, Usage
from tasks.processes.workbench import Workbench
from tasks.training.fit import fit
from tasks.training.initial import FileInit
from tasks.training.starting import usage_before
from tasks.view.facts import Facts
from tests.support.stand_ins import facts
from tests.support.tiny import CONFIG, MODEL

SHORT = CONFIG.model_copy(update={"steps": 2})


def usage(trained: Any = (), chosen: Any = (), unknown: tuple[str, ...] = ()) -> Usage:
    return Usage({TRAINED: np.array(trained, np.uint64), CHOSEN: np.array(chosen, np.uint64)}, unknown)


def as_lists(used: Usage) -> tuple[list[int], list[int], tuple[str, ...]]:
    return used.rows[TRAINED].tolist(), used.rows[CHOSEN].tolist(), used.unknown


def test_a_model_has_used_the_rows_of_its_splits_and_of_what_it_began_from(
    tiny: Snapshot, bench: Workbench, benches: Callable[[str], Workbench], publish: Callable[..., Any]
) -> None:
    snapshot = open_snapshot(tiny.path)
    own = {split: sorted(snapshot.record_hashes(split).tolist()) for split in ("train", "validation", "test")}
    first: Model = publish(Model, bench, fit(bench, tiny, MODEL, SHORT, seed=3))
    found = Usage.read(first.path)
    assert found is not None and as_lists(found) == (own["train"], own["validation"], ())
    assert found.used(snapshot.record_hashes("train"))[TRAINED].all()
    assert not any(mask.any() for mask in found.used(snapshot.record_hashes("test")).values())

    other = benches("other")
    other.staging.put("model.keras", b"of another snapshot")
    usage([7, 9], [8], ("weights.h5",)).write(other.staging)
    start: Model = publish(Model, other, outcome_of(first))
    began = benches("began")
    publish(Model, began, fit(began, tiny, MODEL, SHORT, seed=3, start=start))
    everything = Usage.read(began.staging.root)
    assert everything is not None
    assert as_lists(everything) == (sorted([7, 9, *own["train"]]), sorted([8, *own["validation"]]), ("weights.h5",))


def outcome_of(model: Model) -> Outcome:
    return Outcome(counts=model.manifest["counts"], also={"steps": 1})


def test_a_model_that_a_method_has_changed_has_used_what_it_had_used(
    tiny: Snapshot, bench: Workbench, benches: Callable[[str], Workbench], publish: Callable[..., Any]
) -> None:
    model: Model = publish(Model, bench, fit(bench, tiny, MODEL, SHORT, seed=3))
    model.__dict__["manifest"] = {**model.manifest, "steps": 2}
    made = benches("changed")
    method: Method = Prune(share=0.5)
    changed.build(made, method, model)
    before, after = Usage.read(model.path), Usage.read(made.staging.root)
    assert before is not None and after is not None and as_lists(before) == as_lists(after)


@pytest.mark.parametrize("said", [True, False])
def test_what_a_training_begins_from_or_learns_from_is_known_or_named(said: bool, tmp_path: Path) -> None:
    folders = {name: tmp_path / (name * 16) for name in ("base", "init", "teach")}
    for number, folder in enumerate(folders.values()):
        folder.mkdir()
        if said:
            write(folder, usage([number]))
    models: list[Any] = [Model(folder.name, folder, "model") for folder in folders.values()]
    teacher = PreparedModel.model_construct(model=MODEL, method=Prune(), task=MODEL.task, teacher=str(models[2].path))
    found = usage_before(SHORT, teacher, models[0], models[1])  # type: ignore[arg-type]
    if said:
        assert [as_lists(each)[0] for each in found] == [[0], [1], [2]]
    else:
        assert [each.unknown for each in found] == [(f"the model {folder.name[:12]}",) for folder in folders.values()]
    of_file = usage_before(SHORT.model_copy(update={"init": FileInit(path="a.keras")}), MODEL, None, None)
    assert [each.unknown for each in of_file] == [("a.keras",)]
    assert usage_before(SHORT, MODEL, None, None) == []


def write(folder: Path, used: Usage) -> None:
    class Folder:
        def put(self, name: str, content: bytes) -> None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)

    used.write(Folder())  # type: ignore[arg-type]


def test_usage_is_sorted_and_has_each_row_once(tmp_path: Path) -> None:
    both = usage([5, 1], [9], ("a",)) | usage([1, 3], [], ("b", "a"))
    assert as_lists(both) == ([1, 3, 5], [9], ("a", "b"))
    write(tmp_path, both)
    again = Usage.read(tmp_path)
    assert again is not None and as_lists(again) == as_lists(both)
    assert (tmp_path / "usage/trained.npy").stat().st_size == 128 + 3 * 8
    assert Usage.read(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, " not seen in training"),
        ({"trained": 1200}, ", of which it, or what it began from, was trained on 1,200"),
        ({"trained": 3, "chosen": 2}, ", of which it, or what it began from, was trained on 3 and chosen on 2"),
        ({"unknown": ["file w.npz"]}, " not seen in its own training, and perhaps in that of file w.npz"),
        (
            {"chosen": 2, "unknown": ["a", "b"]},
            ", of which it, or what it began from, was chosen on 2; not known: what a, b was trained on",
        ),
    ],
)
def test_a_page_says_where_test_examples_were_seen_before(found: dict[str, Any] | None, said: str) -> None:
    one = facts(report={"splits": {"test": {} if found is None else {"seen": found}}})
    assert Facts.seen.fget(one) == said  # type: ignore[attr-defined]
