"""millrace init: look at raw data, write a preset."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from flows.reply import AsJson, replying
from tasks.display.words import kilobytes
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.data.guess import Guess

BATCH = 64
EPOCHS = 20
STEPS = (200, 4000)
"""The fewest and the most steps of a first try."""

PATIENCE = 5
"""Evaluations, of about twenty, without a better validation loss after which training ends."""

TEXT_BATCH = 8
TEXT_STEPS = (100, 500)
TOKEN_BYTES = 3
"""About so many bytes of text are a token."""
TEXT_ROWS = 16
"""The fewest rows of tokens that a train split is cut into; a shorter text has shorter rows."""
TEXT_SIZES: tuple[tuple[float, dict[str, int]], ...] = (
    (1e5, {"vocabulary": 512, "block": 64, "width": 96, "layers": 3, "heads": 4, "hidden": 264}),
    (3e6, {"vocabulary": 1024, "block": 128, "width": 128, "layers": 3, "heads": 4, "hidden": 352}),
    (float("inf"), {"vocabulary": 4096, "block": 256, "width": 256, "layers": 3, "heads": 4, "hidden": 704}),
)
"""A model that suits so many bytes of train text at most.

LiteRT holds the token table twice in int8, to read and to write by, and once in float: more tokens, or fewer layers
beside them, and int8 misses its size gate. As they stand the ratio is 0.34, 0.33 and 0.34."""

COLUMN = 40
"""The longest line that decides where comments stand."""


def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of raw data, or its dataset_info.json.")],
    as_json: AsJson = False,
) -> None:
    """Look at raw data, guess the source, write a commented preset into this folder."""
    with replying("init", as_json) as reply:
        from tasks.data.guess import guess_source

        found = guess_source(path)
        preset = Path(f"{found.name}.yaml")
        text = preset_of(found, preset)
        try:
            with open(preset, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise Refused(
                str(preset), "it is there already", "init overwrites nothing", "move it or remove it"
            ) from None
        except OSError as error:
            raise Refused(str(preset), error.strerror, "init writes into this folder", "go to another one") from None
        reply.add(preset=str(preset.resolve()), source=found.source, counts=found.counts)
        if not as_json:
            typer.echo(f"{_said(found)}: {_counted(found.counts)}")
            typer.echo(f"wrote {preset}; next: millrace run {preset}")


def preset_of(found: Guess, preset: Path) -> str:
    """The preset's text."""
    body = IMAGES.format(**_images(found)) if found.what == "images" else TEXT.format(**_text(found))
    return _aligned(HEAD.format(**_head(found, preset)) + body)


def _said(found: Guess) -> str:
    return f"{found.description}, {kilobytes(found.bytes)}" if found.what == "text" else found.description


def _head(found: Guess, preset: Path) -> dict[str, Any]:
    about = {**SOURCE, "kind": KINDS[found.source["kind"]]}
    source = "".join(f"  {key}: {_quoted(value)}  # {about[key]}\n" for key, value in found.source.items())
    splits = ", ".join(f"{name}: {share:g}" for name, share in found.splits.items())
    return {
        "said": _said(found),
        "preset": preset,
        "name": _quoted(found.name),
        "source": source,
        "splits": splits,
        "split_seed": found.split_seed,
    }


def _images(found: Guess) -> dict[str, Any]:
    height, width, channels = found.shape
    train = int(found.examples * found.splits["train"])
    batch = max(8, min(BATCH, train // 4))
    steps = max(STEPS[0], min(STEPS[1], EPOCHS * train // batch))
    classes = ", ".join(found.classes[:6]) + (", …" if len(found.classes) > 6 else "")
    return {
        "sizes": found.sizes,
        "height": height,
        "width": width,
        "channels": channels,
        "classes": classes,
        "filters": [32, 64] if min(height, width) < 32 else [32, 64, 128],
        "steps": steps,
        "passes": f"{steps * batch / max(train, 1):.0f} passes",
        "train": f"{train:,}",
        "batch": batch,
        "warmup": min(50, steps // 20),
        "every": max(10, steps // 20),
        "patience": PATIENCE,
    }


def _text(found: Guess) -> dict[str, Any]:
    size = found.bytes * found.splits["train"]
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
        "warmup": min(50, steps // 10),
        "every": steps // 4,
    }


def _quoted(value: Any) -> str:
    """A value as YAML: words as they are, all else as JSON, which YAML reads too."""
    plain = isinstance(value, str) and value.replace("_", "").isalnum() and yaml.safe_load(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _counted(counts: dict[str, int]) -> str:
    few = list(counts.items())[:8]
    return ", ".join(f"{name} {count:,}" for name, count in few) + (", …" if len(counts) > len(few) else "")


def _aligned(text: str) -> str:
    """Comments in one column, but for those behind longer lines."""
    rows = [line.rpartition("  # ") for line in text.removesuffix("\n").split("\n")]
    column = max((len(left) for left, mark, _ in rows if mark and len(left) <= COLUMN), default=0)
    return "".join(f"{left:<{column}}  # {comment}\n" if mark else f"{comment}\n" for left, mark, comment in rows)


KINDS = {
    "image_folder": "a folder for each class, with its JPEG and PNG files",
    "text_files": "files of a folder, each a text",
    "tfds": "a data set that tensorflow-datasets prepared",
}
SOURCE = {
    "name": "the files of the records are called by it",
    "path": "where it lies decides nothing, what lies there does",
    "glob": "which files",
    "undecodable": "what is not UTF-8 is left out, counted and named; error: it ends the run",
    "dataset": "NAME, NAME/CONFIG or NAME/CONFIG:VERSION",
    "data_dir": "where it lies",
}

HEAD = """\
# {said}; written by `millrace init`: a first try, meant to be changed.
#
#   command:  millrace run {preset}
#   time:     not measured yet; `--train.steps 50` is a short try
#   expect:   not measured yet
#
# Every key: docs/reference.md. What is left out here has its default.
name: {name}  # of the model in the registry
seed: 1  # decides weights, order and dropout; the same seed gives the same bytes
source:
{source}records:
  splits: {{{splits}}}  # shares; each example's key decides
  split_seed: {split_seed}  # another one splits anew; with this one no split is empty
  bad_budget: 0  # how many unreadable examples are left out, counted and named, before the run fails
"""

IMAGES = """\
snapshot:
  kind: image
  height: {height}  # the images are {sizes}; larger ones are slower and show more
  width: {width}
  channels: {channels}  # 1: grey, 3: colour
model:
  kind: convnet
  task: classification  # {classes}
  filters: {filters}  # one block for each number; every block halves height and width
  dense: 128  # units of the layer before the classes
  dropout: 0.3  # share of its inputs dropped while training; more against learning by heart
train:
  steps: {steps}  # about {passes} over {train} images
  batch_size: {batch}  # examples of a step
  optimizer: {{kind: adamw, weight_decay: 0.01}}  # the decay pulls matrices towards 0
  learning_rate: 0.001  # the highest
  schedule: {{kind: cosine, warmup: {warmup}}}  # rises over `warmup` steps, then falls to 0
  clip_norm: 1.0  # longer gradients are cut to this length
  checkpoint: {{every: {every}, keep: 2}}  # where a killed run goes on
  evaluate_every: {every}  # steps between looks at the validation split
  select: best  # of these looks the one with the lowest validation loss gives the model
  early_stopping: {{metric: loss, patience: {patience}}}  # and so many in a row without a better one end the training
"""

TEXT = """\
snapshot:
  kind: tokens  # of a byte-level BPE that is fitted on the train split
  vocabulary: {vocabulary}  # tokens at most; more of them are longer and want more text
  block: {block}  # tokens that the model sees at once; longer ones are slower and remember more
model:
  kind: transformer
  task: language_model  # says what comes next; judged in bits per byte of texts it never saw
  width: {width}  # numbers that stand for a token
  layers: {layers}  # blocks of attention and feed-forward
  heads: {heads}  # cut the width into even parts
  hidden: {hidden}  # units of the feed-forward layer
train:
  steps: {steps}  # about {passes} over {train} of text
  batch_size: {batch}  # rows of `block` tokens in a step
  optimizer: {{kind: adamw, beta_2: 0.98, weight_decay: 0.1}}  # the decay pulls matrices towards 0
  learning_rate: 0.004  # the highest
  schedule: {{kind: cosine, warmup: {warmup}}}  # rises over `warmup` steps, then falls to 0
  clip_norm: 1.0  # longer gradients are cut to this length
  checkpoint: {{every: {every}, keep: 2}}  # where a killed run goes on
  evaluate_every: {every}  # steps between looks at the validation split
"""
