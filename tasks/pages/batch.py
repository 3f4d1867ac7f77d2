"""The picture of augmented examples on a run's page: the first of a training, as stored and as the model saw them."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

from tasks.config.augment import IMAGE, SOUND, AugmentConfig
from tasks.feed import open_snapshot
from tasks.feed.augment import Augmenter, kinds_of
from tasks.pages.facts import Facts
from tasks.pages.judgement import data_uri

SHOWN = 8
"""Examples side by side."""
SIDE = 96
"""Pixels of an example's longer side, about; one is enlarged by a whole number."""
GAP = 4


def augmented(facts: Facts) -> list[dict[str, str]]:
    """Return for each input that `train.augment` changes a title and a picture, as the address of a PNG."""
    model, snapshot = facts.model, facts.one("snapshot")
    made_by = None if model is None else model.trained_by
    if made_by is None or snapshot is None:
        return []
    configs = TypeAdapter(tuple[AugmentConfig, ...]).validate_json(json.dumps(made_by["train"].get("augment", [])))
    if not configs:
        return []
    opened = open_snapshot(snapshot.path)
    order = made_by["train"].get("order", "shuffled")
    reader = opened.reader("train", made_by["train"]["batch_size"], seed=made_by["seed"], order=order)
    before = {name: values[:, :SHOWN] for name, values in reader.read(0, 1).items()}
    epochs = reader.epochs_of(0, 1)[:, :SHOWN]
    after = Augmenter(configs, opened.features, reader.arrays, made_by["seed"])(before, epochs)
    pictures = []
    for name, kind in sorted(kinds_of(opened.features).items()):
        if kind in (IMAGE, SOUND) and not np.array_equal(before[name], after[name]):
            rows = [[_pixels(kind, values) for values in of[name][0]] for of in (before, after)]
            pictures.append({"title": f"{name}: as stored, and below as the model saw it", "uri": _grid(rows)})
    return pictures


def picture(values: NDArray[np.uint8]) -> str:
    """Return an image [height, width, channels] as the address of a PNG."""
    return _grid([[_pixels(IMAGE, values)]])


def _pixels(kind: str, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an example as uint8 [height, width, 3]; a sound with time to the right and high bands above."""
    if kind == SOUND:
        span = float(np.ptp(values)) or 1.0
        values = (255 * (values.T[::-1, :, None] - values.min()) / span).astype(np.uint8)
    return np.broadcast_to(values, (*values.shape[:2], 3)).astype(np.uint8)


def _grid(rows: list[list[NDArray[np.uint8]]]) -> str:
    height, width = rows[0][0].shape[:2]
    scale = max(1, SIDE // max(height, width))
    height, width = height * scale, width * scale
    page = Image.new("RGB", (len(rows[0]) * (width + GAP) - GAP, len(rows) * (height + GAP) - GAP), "white")
    for line, row in enumerate(rows):
        for number, pixels in enumerate(row):
            enlarged = Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)
            page.paste(enlarged, (number * (width + GAP), line * (height + GAP)))
    buffer = io.BytesIO()
    page.save(buffer, "PNG")
    return data_uri(buffer.getvalue())
