"""The text of a preset for what `millrace init` has found: sizes that fit the data, and a comment on each line."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

import yaml

from tasks.errors import one_line
from tasks.guess import Guess
from tasks.guess.splits import Splits
from tasks.guess.tables import deciding, weighted
from tasks.view import kilobytes

BATCH = 64
EPOCHS = 20
STEPS = (200, 4000)
"""Minimum and maximum number of steps."""

PATIENCE = 5
"""Evaluations, of about twenty, without a better validation loss, after which training stops."""

TEXT_BATCH = 8
TEXT_STEPS = (100, 500)
TOKEN_BYTES = 3
"""Approximate bytes per token."""
TEXT_ROWS = 16
"""Minimum number of rows of tokens in the train split; a shorter text has shorter rows."""
TEXT_SIZES: tuple[tuple[float, dict[str, int]], ...] = (
    (1e5, {"vocabulary": 512, "block": 64, "width": 96, "layers": 3, "heads": 4, "hidden": 264}),
    (3e6, {"vocabulary": 1024, "block": 128, "width": 128, "layers": 3, "heads": 4, "hidden": 352}),
    (float("inf"), {"vocabulary": 4096, "block": 256, "width": 256, "layers": 3, "heads": 4, "hidden": 704}),
)
"""Snapshot and model by the bytes of train text, at most.

LiteRT stores the embedding twice in int8 and once in float: with a larger vocabulary or fewer layers int8 fails its
size gate. The ratios are 0.34, 0.33 and 0.34."""

TABLE_EPOCHS = 40
TABLE_STEPS = 20_000
TABLE_BATCHES: tuple[tuple[float, int], ...] = ((2_000, 32), (50_000, 128), (float("inf"), 1024))
"""Batch sizes by the rows of the train split, at most."""

WORDS_BATCHES: tuple[tuple[float, int], ...] = ((2_000, 16), (float("inf"), 32))
"""Batch sizes by the sequences of the train split, at most."""

COLUMN = 40
"""Longest line that is considered for the alignment of comments."""


def preset_of(guess: Guess, preset: Path, rules: Path | None = None) -> str:
    """Return the text of a preset; `rules` is the file with those of its columns."""
    bodies: dict[str, Callable[[Guess], str]] = {
        "images": lambda guess: IMAGES.format(**_images(guess)),
        "text": lambda guess: TEXT.format(**_text(guess)),
        "words": lambda guess: WORDS.format(**_words(guess)),
        "table": lambda guess: TABLE.format(**_table(guess)),
    }
    return _aligned(HEAD.format(**_head(guess, preset, rules)) + bodies[guess.what](guess))


def description(guess: Guess) -> str:
    """Return one line on what was found."""
    return f"{guess.description}, {kilobytes(guess.bytes)}" if guess.what == "text" else guess.description


def _head(guess: Guess, preset: Path, rules: Path | None) -> dict[str, Any]:
    comments = {**SOURCE, "kind": KINDS[guess.source["kind"]]}
    source = ""
    for key, value in guess.source.items():
        if isinstance(value, dict):
            source += f"  {key}:  # {comments[key]}\n"
            source += "".join(f"    {_yaml(name)}: {_yaml(kind)}\n" for name, kind in value.items())
        else:
            source += f"  {key}: {_yaml(value)}  # {comments[key]}\n"
    return {
        "description": description(guess),
        "preset": preset,
        "name": _yaml(guess.name),
        "source": source,
        "splits": _splits(guess.splits),
        "rules": "" if rules is None else f"  schema_file: {rules}  # rules of columns; a row that breaks one is bad\n",
    }


def _splits(splits: Splits) -> str:
    if splits.shares is None:
        names = ", ".join(f"{split}: {json.dumps(names)}" for split, names in splits.official.items())
        official = f"  official: {{{names}}}  # splits of the source by those of the records\n" if names else ""
        text = f"  splits: official  # those of the source\n{official}"
    else:
        shares = ", ".join(f"{name}: {share:g}" for name, share in splits.shares.items())
        text = f"  splits: {{{shares}}}  # shares; a hash of each example decides its split\n"
    return f"{text}  split_seed: {splits.seed}  # keys the hash; with this one no split is empty\n"


def _images(guess: Guess) -> dict[str, Any]:
    height, width, channels = guess.shape
    train = _train_rows(guess)
    classes = _first(guess.classes)
    return {
        "sizes": guess.sizes,
        "height": height,
        "width": width,
        "channels": channels,
        "levels": f"  range: auto  # {guess.levels}\n" if guess.levels else "",
        "task": guess.task,
        "predicted": classes or one_line(", ".join(guess.columns.targets)),
        "weights": BALANCED if weighted(guess.columns.classes) else "",
        "judged": _judged(guess.columns.classes),
        "filters": [32, 64] if min(height, width) < 32 else [32, 64, 128],
        **_fitted(train, max(8, min(BATCH, train // 4))),
    }


def _judged(classes: dict[str, int]) -> str:
    """Return the section `evaluate`, where accuracy would decide and says little."""
    if (decided := deciding(classes)) is None:
        return ""
    metric, positive = decided
    most = max(classes, key=classes.__getitem__)
    share = one_line(f"{classes[most] / sum(classes.values()):.0%} are {most}")
    text = f"evaluate:\n  primary: {metric}  # accuracy says little: {share}\n"
    return text if positive is None else f"{text}  positive: {_yaml(positive)}  # the rare class\n"


def _table(guess: Guess) -> dict[str, Any]:
    """Return the fields of `TABLE`; the fewer rows, the smaller the batches and the more dropout."""
    train = _train_rows(guess)
    transforms = "".join(f"    {_yaml(name)}: {_yaml(each)}\n" for name, each in guess.transforms.items())
    return {
        "transforms": f"  transforms:  # sizes that fit these data\n{transforms}" if transforms else "",
        "task": guess.task,
        "predicted": one_line(guess.columns.label or ", ".join(guess.columns.targets)),
        "dropout": 0.3 if guess.examples < 1000 else 0.1,
        "weights": BALANCED if weighted(guess.columns.classes) else "",
        "judged": _judged(guess.columns.classes),
        **_fitted(train, _batch(TABLE_BATCHES, train), TABLE_EPOCHS, TABLE_STEPS),
    }


def _words(guess: Guess) -> dict[str, Any]:
    words = guess.columns.tagged
    assert words is not None
    train = _train_rows(guess)
    return {
        "name": _yaml(words.words),
        "transform": _yaml(guess.transforms[words.words]),
        "predicted": f"the classes of {words.tags}: {_first(list(words.classes))}",
        **_fitted(train, _batch(WORDS_BATCHES, train)),
    }


def _train_rows(guess: Guess) -> int:
    return int(guess.examples * guess.splits.train_share)


def _batch(sizes: tuple[tuple[float, int], ...], train: int) -> int:
    return next(size for most, size in sizes if train <= most)


def _fitted(train: int, batch: int, epochs: int = EPOCHS, most: int = STEPS[1]) -> dict[str, Any]:
    """Return the end of the section `train`, and the steps, for so many rows."""
    steps = max(STEPS[0], min(most, epochs * train // batch))
    every = max(10, steps // 20)
    return {
        "steps": steps,
        "passes": f"{steps * batch / max(train, 1):.0f} passes",
        "train": f"{train:,}",
        "batch": batch,
        "fitted": (SCHEDULED + CHOSEN).format(warmup=min(50, steps // 20), every=every, patience=PATIENCE),
    }


def _first(names: list[str]) -> str:
    return one_line(", ".join(names[:6])) + (", …" if len(names) > 6 else "")


def _text(guess: Guess) -> dict[str, Any]:
    size = guess.bytes * guess.splits.train_share
    sizes = next(sizes for most, sizes in TEXT_SIZES if size <= most)
    tokens = max(int(size / TOKEN_BYTES), 1)
    block = min(sizes["block"], 2 ** int(log2(max(tokens // TEXT_ROWS, 16))))
    steps = max(TEXT_STEPS[0], min(TEXT_STEPS[1], EPOCHS * tokens // (TEXT_BATCH * block)))
    passes = steps * TEXT_BATCH * block / tokens
    return {
        **sizes,
        "block": block,
        "steps": steps,
        "passes": f"{passes:.0f} passes" if passes >= 1.5 else f"{passes:.1g} of a pass",
        "train": kilobytes(int(size)),
        "batch": TEXT_BATCH,
        "scheduled": SCHEDULED.format(warmup=min(50, steps // 10), every=steps // 4),
    }


def _yaml(value: Any) -> str:
    """Return a value as YAML on a line: mappings in braces, words without quotes, everything else as JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_yaml(inner)}" for name, inner in value.items()) + "}"
    plain = isinstance(value, str) and value.replace("_", "").isalnum() and yaml.safe_load(value) == value
    return value if plain else one_line(json.dumps(value, ensure_ascii=False))


def _aligned(text: str) -> str:
    """Align comments, except after longer lines."""
    rows = [line.rpartition("  # ") for line in text.removesuffix("\n").split("\n")]
    column = max((len(left) for left, mark, _ in rows if mark and len(left) <= COLUMN), default=0)
    return "".join(f"{left:<{column}}  # {comment}\n" if mark else f"{comment}\n" for left, mark, comment in rows)


BALANCED = "  class_weights: balanced  # each class has the same weight in the loss\n"

KINDS = {
    "csv": "separated values",
    "jsonl": "a JSON object on each line",
    "parquet": "Parquet files",
    "tfrecord": "TFRecord files of tf.train.Example",
    "webdataset": "tar files; those of one name up to the first dot are an example",
    "sql": "a table of a database",
    "image_folder": "a folder per class with images",
    "audio_folder": "a folder per class with WAV, FLAC, Ogg and MP3 files",
    "text_files": "a folder of text files",
    "tfds": "a data set prepared by tensorflow-datasets",
}
SOURCE = {
    "name": "prefix of the record files",
    "path": "only the content decides the digests, not the path",
    "glob": "files to read",
    "undecodable": "skip: files that are not UTF-8 are counted and listed; error: they end the run",
    "dataset": "NAME, NAME/CONFIG or NAME/CONFIG:VERSION",
    "data_dir": "folder of the data set",
    "encoding": "of the text",
    "delimiter": "between cells",
    "header": "names of the columns in their order, as no line has them",
    "url": "of the database; env:NAME or file:PATH where it has a password",
    "query": "a table, or a SELECT",
    "splits": "its splits that are read",
    "split": "column with the split of each row",
    "key": "column that is each row's key",
    "columns": "number, category, text, words, tags, labels, image, audio, time or ignore",
    "formats": "how cells are written that are no plain numbers, times or lists",
    "missing": "cells that mean a missing value",
    "group": "column whose rows of one value stay in one split, no input",
    "files": "path of the file that a cell means, below the source",
    "label": "column that is predicted: a class",
    "split_folders": "class folders are in a folder for each split",
    "targets": "columns that are predicted: numbers",
    "classes": "in the order of their numbers, which they keep when the data grows",
}

HEAD = """\
# {description}; written by `millrace init` as a starting point.
#
#   command:  millrace run {preset}
#   time:     not measured yet; --train.steps 50 is a short test
#   expect:   not measured yet
#
# All keys: docs/reference.md. Keys that are not given have their defaults.
name: {name}  # name of the registered model
seed: 1  # of initial weights, order and dropout
source:
{source}records:
{splits}{rules}  bad_budget: 0  # unreadable examples that are skipped, at most; more end the run
"""

SCHEDULED = """\
  schedule: {{kind: cosine, warmup: {warmup}}}  # linear warm-up, then cosine to 0
  clip_norm: 1.0  # global norm of the gradient
  checkpoint: {{every: {every}, keep: 2}}  # steps between checkpoints, and how many are kept
  evaluate_every: {every}  # steps between evaluations on the validation split
"""
CHOSEN = """\
  select: best  # the weights with the best score on the validation split
  early_stopping: {{patience: {patience}}}  # evaluations without improvement of that score
"""
"""The end of the section `train`, where validation chooses the weights."""

TABLE = """\
snapshot:
  kind: table  # numbers are standardised, categories become ids, texts tokens; see `transforms`
{transforms}model:
  kind: mlp
  task: {task}  # of {predicted}
  units: [256, 128]  # of each hidden layer
  dropout: {dropout}  # share of each layer's outputs; more against overfitting
train:
  steps: {steps}  # about {passes} over {train} rows
  batch_size: {batch}  # examples per step
{weights}  optimizer: {{kind: adamw, weight_decay: 0.01}}
  learning_rate: 0.002  # the maximum of the schedule
{fitted}{judged}"""

WORDS = """\
snapshot:
  kind: table
  transforms:
    {name}: {transform}  # words of a row, and known words, at most
model:
  kind: encoder
  task: tagging  # {predicted}
  width: 128  # size of the residual stream
  layers: 2  # transformer blocks
  dropout: 0.1  # share of each layer's outputs; more against overfitting
train:
  steps: {steps}  # about {passes} over {train} sequences
  batch_size: {batch}  # sequences per step
  order: lengths  # batches of similar length
  optimizer: {{kind: adamw, weight_decay: 0.01}}
  learning_rate: 0.001  # the maximum of the schedule
{fitted}"""

IMAGES = """\
snapshot:
  kind: image
  height: {height}  # the images are {sizes}
  width: {width}
  channels: {channels}  # 1: grey, 3: colour
{levels}model:
  kind: convnet
  task: {task}  # {predicted}
  filters: {filters}  # channels of each block; a block halves height and width
  dense: 128  # units of the last hidden layer
  dropout: 0.3  # share of its inputs; more against overfitting
train:
  steps: {steps}  # about {passes} over {train} images
  batch_size: {batch}  # examples per step
{weights}  optimizer: {{kind: adamw, weight_decay: 0.01}}
  learning_rate: 0.001  # the maximum of the schedule
{fitted}{judged}"""

TEXT = """\
snapshot:
  kind: tokens  # byte-level BPE, fitted on the train split
  vocabulary: {vocabulary}  # maximum number of tokens
  block: {block}  # context length in tokens
model:
  kind: transformer
  task: language_model  # evaluated in bits per byte on the test split
  width: {width}  # size of the residual stream
  layers: {layers}  # transformer blocks
  heads: {heads}  # attention heads; they divide the width
  hidden: {hidden}  # units of the feed-forward layer
train:
  steps: {steps}  # about {passes} over {train} of text
  batch_size: {batch}  # rows of `block` tokens per step
  optimizer: {{kind: adamw, beta_2: 0.98, weight_decay: 0.1}}
  learning_rate: 0.004  # the maximum of the schedule
{scheduled}"""
