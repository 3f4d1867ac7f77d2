"""The page shows augmented examples beside the stored ones, as the training's first batch had them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from tasks.artifacts import Model, Snapshot
from tasks.feed import open_snapshot
from tasks.processes.workbench import Workbench
from tasks.view import examples
from tests.support.tiny import CONFIG, write_snapshot


def pages_facts(snapshot: Snapshot, root: Path, augment: list[dict[str, Any]]) -> Any:
    """The artifacts of a run, as the page reads them."""
    train = {**CONFIG.model_dump(mode="json"), "augment": augment}
    root.mkdir()
    (root / "manifest.json").write_text(json.dumps({"inputs": {"config": {"train": train, "seed": 5}}}))
    return SimpleNamespace(model=Model("m", root, "model"), one={"snapshot": snapshot}.get)


def test_a_mirrored_batch_is_shown_below_the_stored_one(bench: Workbench, publish: Callable, tmp_path: Path) -> None:
    snapshot = publish(Snapshot, bench, write_snapshot(bench))
    mirrored = [{"kind": "flip", "share": 1.0}]
    [picture] = examples.augmented(pages_facts(snapshot, tmp_path / "model", mirrored))
    assert picture.title.startswith("image: as stored")
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.uri.partition(",")[2]))))
    assert shown.shape == (2 * 96 + 4, 4 * (96 + 4) - 4, 3), "two rows of the four examples of a batch, enlarged"
    above, below = shown[:96], shown[100:]
    for number in range(4):
        of = slice(number * 100, number * 100 + 96)
        np.testing.assert_array_equal(above[:, of], below[:, of][:, ::-1])
    rows = open_snapshot(snapshot.path).reader("train", 4, seed=5).read(0, 1)
    np.testing.assert_array_equal(above[12:96:24, 12:96:24, 0], rows["image"][0, 0, :, :, 0])
    assert examples.augmented(pages_facts(snapshot, tmp_path / "plain", [])) == []
